//! Losses and metrics, and their gradients.

pub mod accuracy;
pub mod auc;
pub mod bpr;
pub mod center;
pub mod cross_entropy;
pub mod focal;
pub mod hierarchical_sigmoid;
pub mod huber;
pub mod mean_iou;
pub mod nce;
pub mod nll;
pub mod positive_negative_pair;
pub mod precision_recall;
pub mod sample_logits;
pub mod squared_l2_distance;

use crate::types::Float;

/// The scalar product of two vectors.
fn dot<T: Float>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).map(|(&a, &b)| a * b).sum()
}

/// `to += by * from`.
fn add_scaled<T: Float>(by: T, from: &[T], to: &mut [T]) {
    to.iter_mut().zip(from).for_each(|(to, &v)| *to += by * v);
}
