"""What scripts of fleet 1.x need beside training."""
