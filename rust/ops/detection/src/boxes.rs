//! Boxes [xmin, ymin, xmax, ymax] of the operators of this crate.

pub use super::real::BoxFloat;
use oar_core::base::{DType, Dims};
use oar_core::op::infer::Meta;
use oar_core::op::{OutSlot, ShapeContext};

/// Sets an output of rows with LoD, whose number depends on values.
pub fn set_rows(cx: &mut ShapeContext, slot: OutSlot, width: i64, dtype: DType, lod_level: i32) {
    cx.set_meta(slot, 0, Meta { dims: Dims::from_slice(&[-1, width]), dtype, lod_level, ..Meta::default() });
}
