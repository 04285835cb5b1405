"""CUDA launchers of the operators in rust/ops/math/src/quant."""
