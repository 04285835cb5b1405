//! Math operators: elementwise, reductions, matrix products, sorting.

pub mod activation;
pub mod addmm;
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
pub mod pow;
pub mod reduction;
pub mod scale;
pub mod sort;
pub mod sum;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    scale::TABLE,               // scale
    sum::TABLE,                 // sum
    cast::TABLE,                // cast
    assign::TABLE,              // assign
    elementwise::TABLE,         // binary operators with broadcasting
    elementwise::second::TABLE, // their second gradients
    activation::TABLE,          // unary formulas
    pow::TABLE,                 // pow
    clip::TABLE,                // clip
    comparison::TABLE,          // comparisons and logic
    reduction::TABLE,           // reductions over axes, mean
    reduction::logs::TABLE,     // logsumexp, frobenius_norm
    norms::TABLE,               // p_norm, dist
    bmm::TABLE,                 // bmm
    mv::TABLE,                  // mv
    dot::TABLE,                 // dot
    addmm::TABLE,               // addmm
    kron::TABLE,                // kron
    cross::TABLE,               // cross
    decompose::TABLE,           // cholesky, inverse
    isfinite::TABLE,            // isfinite, isinf, isnan
    equality::TABLE,            // allclose, equal_all
    histogram::TABLE,           // histogram
    matmul::TABLE,              // matrix products
    complex::TABLE,             // parts and conjugates of complex numbers
    cumsum::TABLE,              // cumsum
    arg_max::TABLE,             // arg_max and arg_min
    sort::TABLE,                // argsort, top_k and top_k_v2
    clip_by_norm::TABLE,        // clip_by_norm
    cos_sim::TABLE,             // cos_sim
    minus::TABLE,               // minus
];
