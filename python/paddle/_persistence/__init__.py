"""State in files: pickles that are read safely, files that are written whole."""
