//! Math operators: elementwise, reductions, matrix products, sorting; and, each a group in a folder, quantization and random
//! numbers.

pub mod activation;
pub mod addmm;
mod along_axis;
pub mod arg_max;
pub mod assign;
mod batched_gemm;
pub mod bmm;
pub mod cast;
pub mod clip;
pub mod clip_by_norm;
pub mod comparison;
pub mod complex;
pub mod cos_sim;
pub mod cross;
pub mod cumsum;
pub mod decompose;
pub mod dot;
pub mod elementwise;
pub mod equality;
pub mod histogram;
pub mod isfinite;
pub mod kron;
pub mod matmul;
pub mod minus;
pub mod mv;
pub mod norms;
mod parameter;
pub mod pow;
pub mod quant;
pub mod random;
pub mod reduction;
pub mod scale;
pub mod sort;
pub mod sum;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    scale::TABLE,
    sum::TABLE,
    cast::TABLE,
    assign::TABLE,
    elementwise::TABLE,         // binary operators with broadcasting
    elementwise::second::TABLE, // their second gradients
    activation::TABLE,          // unary formulas
    pow::TABLE,
    clip::TABLE,
    comparison::TABLE,      // comparisons and logic
    reduction::TABLE,       // reductions over axes, mean
    reduction::logs::TABLE, // logsumexp, frobenius_norm
    norms::TABLE,           // p_norm, dist
    bmm::TABLE,
    mv::TABLE,
    dot::TABLE,
    addmm::TABLE,
    kron::TABLE,
    cross::TABLE,
    decompose::TABLE, // cholesky, inverse
    isfinite::TABLE,  // isfinite, isinf, isnan
    equality::TABLE,  // allclose, equal_all
    histogram::TABLE,
    matmul::TABLE,  // matrix products
    complex::TABLE, // parts and conjugates of complex numbers
    cumsum::TABLE,
    arg_max::TABLE, // arg_max and arg_min
    sort::TABLE,    // argsort, top_k and top_k_v2
    clip_by_norm::TABLE,
    cos_sim::TABLE,
    minus::TABLE,
];
