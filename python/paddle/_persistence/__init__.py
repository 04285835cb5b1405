"""Persistence: safe unpickling, and atomic replacement of files."""
