//! Shared by the recurrent operators of 1.x: LoD sequences, activations, argument checks.

use oar_core::base::dtype::Element;
use oar_core::base::{DType, Result};
use oar_core::op::{InSlot, ShapeContext};
use oar_core::tensor::Tensor;
use oar_core::{bail, ensure, err};
use oar_kernels::gemm::GemmFloat;
use oar_kernels::rnn::activation::Activation;
use oar_kernels::rnn::lod::batches::Batches;

/// The row offsets of the first level's sequences, which must ascend from 0 to the first size.
pub fn offsets(op: &str, name: &str, t: &Tensor) -> Result<Vec<usize>> {
    let wrong = || {
        err!(
            InvalidArgument,
            "operator {op}: {name} must have LoD that ascends from 0 to its first size, got {t:?} with LoD {:?}",
            t.lod
        )
    };
    let levels = t.lod.as_deref().filter(|levels| !levels.is_empty()).ok_or_else(|| {
        err!(InvalidArgument, "operator {op}: {name} must have LoD, which defines the sequences, got {t:?} without")
    })?;
    let mut at = levels[0].clone();
    for level in &levels[1..] {
        at = at.iter().map(|&i| level.get(i).copied().ok_or_else(wrong)).collect::<Result<_>>()?;
    }
    let rows = t.dims().first().copied().unwrap_or(0) as usize;
    ensure!(at.first() == Some(&0) && at.last() == Some(&rows) && at.is_sorted(), InvalidArgument, "{}", wrong());
    Ok(at)
}

/// The lengths of `count` padded sequences, each at most `most`.
pub fn lengths(op: &str, name: &str, t: &Tensor, count: usize, most: usize) -> Result<Vec<usize>> {
    let values = oar_ops_common::tensor_attr::ints(op, t)?;
    let fits = |&n: &i64| n >= 0 && n <= most as i64;
    ensure!(
        values.len() == count && values.iter().all(fits),
        InvalidArgument,
        "operator {op}: {name} must have {count} lengths between 0 and {most}, got {:?}",
        &values[..values.len().min(16)]
    );
    Ok(values.into_iter().map(|n| n as usize).collect())
}

/// The activation of the given name.
pub fn activation(op: &str, attr: &str, name: &str) -> Result<Activation> {
    Ok(match name {
        "identity" | "" => Activation::Identity,
        "sigmoid" => Activation::Sigmoid,
        "tanh" => Activation::Tanh,
        "relu" => Activation::Relu,
        other => {
            bail!(InvalidArgument, "operator {op}: {attr} must be sigmoid, tanh, relu or identity, got '{other}'")
        }
    })
}

/// Fails unless the input has this shape (-1: unknown) and data type.
pub fn check(cx: &ShapeContext, slot: InSlot, dims: &[i64], dtype: DType) -> Result<()> {
    let (got, kind) = (cx.dims(slot)?, cx.dtype(slot)?);
    let agrees = |(&a, &b): (&i64, &i64)| a == b || a < 0 || b < 0;
    ensure!(
        got.len() == dims.len() && got.iter().zip(dims).all(agrees) && kind == dtype,
        InvalidArgument,
        "operator {}: {} must be {dtype} of shape {dims:?}, got {kind} of shape {:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name,
        &got[..]
    );
    Ok(())
}

/// An initial state [sequences, width], in the batch order of the sequences.
pub fn initial_state<T: Element + Default>(
    op: &str,
    b: &Batches,
    t: Option<&Tensor>,
    width: usize,
) -> Result<Option<Vec<T>>> {
    let Some(t) = t else { return Ok(None) };
    let n = b.order.len();
    ensure!(
        t.dims() == [n as i64, width as i64] && t.dtype() == T::DTYPE,
        InvalidArgument,
        "operator {op}: first states must be {} of shape [{n}, {width}], got {t:?}",
        T::DTYPE
    );
    let mut to = vec![T::default(); n * width];
    b.gather_first(t.data::<T>(), width, &mut to);
    Ok(Some(to))
}

/// `x + bias` in step order.
pub fn sums<T: GemmFloat>(b: &Batches, x: &[T], bias: Option<&[T]>, width: usize, to: &mut [T]) {
    b.gather(x, width, to);
    if let Some(bias) = bias {
        to.chunks_exact_mut(width).for_each(|row| row.iter_mut().zip(bias).for_each(|(x, &b)| *x += b));
    }
}

/// A negative limit is 0.
pub fn limit(v: f32) -> f64 {
    f64::from(v.max(0.0))
}
