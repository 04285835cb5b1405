"""Twins of rust/ops/optim."""
