"""Fleets of 1.x with parameter servers."""
