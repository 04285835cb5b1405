"""CUDA launchers of the operators in rust/ops/sequence."""
