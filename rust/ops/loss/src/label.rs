//! Class labels: dispatch on their integer type, checks of their shape and range.

use super::elements::agree;
use oar_core::base::{Error, Result};
use oar_core::op::{InSlot, KernelContext, ShapeContext};
use oar_core::tensor::Tensor;
use oar_core::{ensure, err};
use oar_kernels::loss::cross_entropy::BadLabel;
use oar_kernels::loss::mean_iou::BadClass;

pub fn bad(op: &str, e: BadLabel) -> Error {
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

/// Label must have the shape of X with a last size of 1.
pub(crate) fn one_label_a_row(cx: &ShapeContext, x: InSlot, label: InSlot) -> Result<()> {
    let (x, label) = (cx.dims(x)?, cx.dims(label)?);
    let fits = !x.is_empty()
        && x.len() == label.len()
        && x[..x.len() - 1].iter().zip(&label).all(|(&a, &b)| agree(a, b))
        && agree(label[x.len() - 1], 1);
    ensure!(
        fits,
        InvalidArgument,
        "operator {}: Label must have the shape of X {:?}, but 1 in the last dimension, got {:?}",
        cx.op.name,
        &x[..],
        &label[..]
    );
    Ok(())
}

/// The labels of the rows of X, and the row length.
pub(crate) fn labels(cx: &KernelContext, x: &Tensor, slot: InSlot) -> Result<(Vec<i64>, usize)> {
    let width = *x.dims().last().unwrap_or(&0) as usize;
    let labels = cx.input(slot)?.to_i64s()?;
    ensure!(
        labels.len() * width == x.numel(),
        InvalidArgument,
        "operator {}: Label must have one class for each row of X {x:?}, got {}",
        cx.op.name,
        labels.len()
    );
    Ok((labels, width))
}

/// Limit of the number of classes.
const MOST: i64 = 1 << 24;

/// The number of classes that an attribute gives.
pub(crate) fn classes(op: &str, n: i32) -> Result<i64> {
    ensure!(
        (1..=MOST).contains(&(n as i64)),
        InvalidArgument,
        "operator {op}: the number of classes must be from 1 to {MOST}, got {n}"
    );
    Ok(n as i64)
}

/// The error of a number that is none of `n` classes, in Labels or in the input `predictions`.
pub(crate) fn bad_class(op: &str, predictions: &str, e: BadClass, n: i64) -> Error {
    let (name, class) = match e {
        BadClass::Prediction(class) => (predictions, class),
        BadClass::Label(class) => ("Labels", class),
    };
    err!(InvalidArgument, "operator {op}: {name} must hold classes from 0 to below {n}, got {class}")
}
