//! The operations of reductions: a start value and an associative function.

use crate::types::Number;

/// Elements of one block of a long row, and of a chunk.
pub const BLOCK: usize = 16 * 1024;

pub trait Fold<T> {
    fn start() -> T;
    fn fold(acc: T, x: T) -> T;
}

pub struct Sum;
pub struct Prod;
pub struct Max;
pub struct Min;

impl<T: Number> Fold<T> for Sum {
    #[inline(always)]
    fn start() -> T {
        T::ZERO
    }
    #[inline(always)]
    fn fold(acc: T, x: T) -> T {
        acc.add(x)
    }
}
impl<T: Number> Fold<T> for Prod {
    #[inline(always)]
    fn start() -> T {
        T::ONE
    }
    #[inline(always)]
    fn fold(acc: T, x: T) -> T {
        acc.mul(x)
    }
}
// NaN propagates: it replaces the accumulator, and no comparison with it is true afterwards.
impl<T: Number> Fold<T> for Max {
    #[inline(always)]
    fn start() -> T {
        T::lowest()
    }
    #[inline(always)]
    fn fold(acc: T, x: T) -> T {
        if x > acc || x.is_nan() {
            x
        } else {
            acc
        }
    }
}
impl<T: Number> Fold<T> for Min {
    #[inline(always)]
    fn start() -> T {
        T::highest()
    }
    #[inline(always)]
    fn fold(acc: T, x: T) -> T {
        if x < acc || x.is_nan() {
            x
        } else {
            acc
        }
    }
}
