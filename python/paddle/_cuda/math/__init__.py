"""Twins of rust/ops/math."""
