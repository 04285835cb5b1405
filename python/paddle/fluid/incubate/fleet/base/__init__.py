"""What fleet of 1.x is made of."""
