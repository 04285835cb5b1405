"""fluid.incubate: fleet of 1.x, so far its role makers."""
