"""Rewriting of Programs for parameter servers, under its path of 2.0.2."""
