"""What everything stands on: element types, places, the mode, flags, checks, names, the table of operators."""
