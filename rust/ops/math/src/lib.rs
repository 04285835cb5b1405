//! Operators: elementwise operators, reductions, products, order.

pub mod activation;
pub mod basic;
pub mod clip_by_norm;
pub mod comparison;
pub mod complex;
pub mod decompose;
pub mod elementwise;
pub mod equality;
pub mod finite;
pub mod histogram;
pub mod kron;
pub mod matmul;
pub mod minus;
pub mod norms;
pub mod order;
pub mod products;
pub mod reduction;
pub mod scalar;
pub mod similarity;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    basic::TABLE,               // scale, sum, cast, assign
    elementwise::TABLE,         // binary operators with broadcasting
    elementwise::second::TABLE, // their second gradients
    activation::TABLE,          // unary formulas
    scalar::TABLE,              // pow, clip
    comparison::TABLE,          // comparisons and logic
    reduction::TABLE,           // reductions over axes, mean
    reduction::logs::TABLE,     // logsumexp, frobenius_norm
    norms::TABLE,               // p_norm, dist
    products::TABLE,            // bmm, mv, dot, addmm
    kron::TABLE,                // kron, cross
    decompose::TABLE,           // cholesky, inverse
    finite::TABLE,              // isfinite, isinf, isnan
    equality::TABLE,            // allclose, equal_all
    histogram::TABLE,           // histogram
    matmul::TABLE,              // matrix products
    complex::TABLE,             // parts and conjugates of complex numbers
    order::TABLE,               // cumsum, argmax, sorting, top-k
    clip_by_norm::TABLE,        // clip_by_norm
    similarity::TABLE,          // cos_sim
    minus::TABLE,               // minus
];
