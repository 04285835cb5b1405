"""The base of fleets of 1.x."""
