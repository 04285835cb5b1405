//! Class labels: dispatch on their integer type, and the error for a label out of range.

use oar_core::err;
use oar_kernels::loss::cross_entropy::BadLabel;

pub fn bad(op: &str, e: BadLabel) -> oar_core::base::Error {
    err!(OutOfRange, "operator {op}: {e}")
}

/// Dispatches on the data type of class labels.
macro_rules! by_label {
    ($cx:ident, $label:expr, |$l:ident| $body:expr) => {
        dispatch!($label.dtype(), L in [i64, i32, i16, u8, i8], {
            let $l = $label.data::<L>();
            $body
        }, other => oar_core::bail!(
            InvalidArgument, "operator {}: Label must hold integers when soft_label is false, got {other}", $cx.op.name
        ))
    };
}
pub(crate) use by_label;
