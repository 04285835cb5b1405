//! Stubs for architectures without AMX: `suits` is always false.

use crate::gemm::operands::{Finish, LeftSide, RightSide, Target};

pub fn enable(_on: bool) {}

pub fn enabled() -> bool {
    false
}

pub fn suits<T>(_m: usize, _n: usize, _k: usize, _packed: bool) -> bool {
    false
}

pub fn right_len(_k: usize, _n: usize) -> usize {
    0
}

pub fn pack_right(_b: &[f32], _k: usize, _n: usize, _to: &mut [u8]) {}

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

/// Stubs of products of bf16 numbers.
pub mod bf16 {
    use crate::gemm::operands::{Finish, LeftSide, RightSide, Target};
    use crate::gemm::View;
    use half::bf16;

    pub fn suits(_m: usize, _n: usize, _k: usize) -> bool {
        false
    }

    pub fn present() -> bool {
        false
    }

    pub fn right_len(_k: usize, _n: usize) -> usize {
        0
    }

    pub fn pack_right(_b: &[f32], _k: usize, _n: usize, _to: &mut [u8]) {}

    /// # Safety
    /// Never called, as `suits` is always false.
    pub unsafe fn rounded<T>(
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

    /// # Safety
    /// None: it does nothing.
    pub unsafe fn halves(
        _size: (usize, usize, usize),
        _a: View<bf16>,
        _b: View<bf16>,
        _c: (*mut bf16, usize),
        _finish: &Finish<f32>,
        _on_pool: bool,
    ) -> bool {
        false
    }
}
