"""Twins of rust/ops/loss."""
