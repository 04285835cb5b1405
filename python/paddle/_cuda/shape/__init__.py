"""Twins of rust/ops/shape."""
