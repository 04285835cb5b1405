"""Twins of rust/ops/nn."""
