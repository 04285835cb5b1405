"""Learning rate decays of 1.x: formulas for both modes, and objects for dygraph mode."""
