"""Learning rates of 1.x: the formulas of both modes, and the objects of dygraph mode."""
