"""The lowest layer of the package: element types, places, the mode, flags, checks, names, the operator table."""
