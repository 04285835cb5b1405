"""Rewriting of Programs for parameter servers, where 2.0.2 has it."""
