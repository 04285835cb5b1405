//! CPU kernels on slices and shapes, and the thread pool that runs them. Kernels know nothing of operators or tensors.
//!
//! `pool`, `simd` and `types` are the foundation; each other module is a family of kernels.

pub mod pages;
pub mod pool;
pub mod simd;
pub mod types;

pub mod conv;
pub mod decompose;
pub mod detection;
pub mod elementwise;
pub mod formula;
pub mod functions;
pub mod gemm;
pub mod hash;
pub mod loss;
pub mod nn;
pub mod norm;
pub mod optimizer;
pub mod order;
pub mod pooling;
pub mod quant;
pub mod random;
pub mod ranking;
pub mod reduce;
pub mod resample;
pub mod rnn;
pub mod scan;
pub mod sequence;
pub mod shape;
pub mod softmax;
