"""Utilities of scripts with fleet of 1.x."""
