//! Stubs for architectures without AMX: `suits` is always false.

use crate::gemm::operands::{Finish, LeftSide, RightSide, Target};

pub fn enable(_on: bool) {}

pub fn enabled() -> bool {
    false
}

pub fn suits<T>(_m: usize, _n: usize, _k: usize) -> bool {
    false
}

/// # Safety
/// Never called, as `suits` is always false.
pub unsafe fn product<T>(
    _m: usize,
    _n: usize,
    _k: usize,
    _a: &impl LeftSide<T>,
    _b: &impl RightSide<T>,
    _c: &impl Target<T>,
    _finish: &Finish<T>,
    _on_pool: bool,
) {
    unreachable!("there is no matrix unit")
}
