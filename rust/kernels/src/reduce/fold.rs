//! The operations of reductions: a start value and an associative function.

use crate::types::Number;

/// Elements of one block of a long row, and of a chunk.
pub const BLOCK: usize = 16 * 1024;

pub trait Fold<T: Copy> {
    /// Whether `fold4` is faster than four times `fold`.
    const FOURS: bool = false;
    fn start() -> T;
    fn fold(acc: T, x: T) -> T;
    #[inline(always)]
    fn fold4(acc: [T; 4], x: [T; 4]) -> [T; 4] {
        std::array::from_fn(|i| Self::fold(acc[i], x[i]))
    }
}

/// NEON's maxima are one instruction, LLVM's four: a comparison, a test for NaN, a selection.
const EXTREMES: bool = cfg!(target_arch = "aarch64");

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
    const FOURS: bool = EXTREMES && T::HOT;
    #[inline(always)]
    fn fold4(acc: [T; 4], x: [T; 4]) -> [T; 4] {
        T::max4(acc, x)
    }
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
    const FOURS: bool = EXTREMES && T::HOT;
    #[inline(always)]
    fn fold4(acc: [T; 4], x: [T; 4]) -> [T; 4] {
        T::min4(acc, x)
    }
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
