//! Shapes of operands while a Program is built, when sizes may be unknown (-1).

use oar_core::base::Result;
use oar_core::op::{InSlot, Meta, ShapeContext};

/// True if two sizes agree; an unknown one agrees with any.
pub(crate) fn alike(a: i64, b: i64) -> bool {
    a == b || a < 0 || b < 0
}

/// The metas of every variable of a duplicable input.
pub(crate) fn metas(cx: &ShapeContext, slot: InSlot) -> Result<Vec<Meta>> {
    (0..cx.count(slot)).map(|i| cx.meta(slot, i)).collect()
}
