"""Twins of rust/ops/comm."""
