//! Shared by the optimizers: shape rules, dense and sparse gradients, dispatch by data type.

use half::{bf16, f16};
use oar_core::base::dtype::Element;
use oar_core::base::Result;
use oar_core::op::infer::VarKind;
use oar_core::op::{InSlot, KernelContext, OutSlot, ShapeContext};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, dispatch, ensure};
use oar_kernels::optimizer::{self as kernel, Rule, Stored};
use oar_kernels::types::Float;
use oar_ops_common::selected_rows::ascending;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// Mutable references to several dense outputs, which hold the values of the inputs they alias.
pub(crate) fn outs<'r, const N: usize>(cx: &'r mut KernelContext, slots: [OutSlot; N]) -> Result<[&'r mut Tensor; N]> {
    let op = cx.op;
    let found = cx.each_out(slots);
    if let Some(k) = found.iter().position(Option::is_none) {
        bail!(NotFound, "operator {}: output '{}' is missing", op.name, op.outputs[slots[k].0].name);
    }
    Ok(found.map(|t| t.expect("looked at above")))
}

/// Checks that these inputs have the parameter's shape, unless they or it are SelectedRows (whose metas have only the
/// height).
pub(crate) fn like_param(cx: &ShapeContext, param: InSlot, slots: &[InSlot]) -> Result<()> {
    let p = cx.meta(param, 0)?;
    for &slot in slots {
        let m = cx.meta(slot, 0)?;
        let same = m.dims.len() == p.dims.len() && m.dims.iter().zip(&p.dims).all(|(&a, &b)| a == b || a < 0 || b < 0);
        ensure!(
            same || m.kind == VarKind::Rows || p.kind == VarKind::Rows,
            InvalidArgument,
            "operator {}: {} and {} must have the same shape, got {:?} and {:?}",
            cx.op.name,
            cx.op.inputs[param.0].name,
            cx.op.inputs[slot.0].name,
            &p.dims[..],
            &m.dims[..]
        );
    }
    Ok(())
}

/// Every output has the shape and data type of the input that it aliases.
pub(crate) fn infer_aliases(cx: &mut ShapeContext) -> Result<()> {
    for (o, s) in cx.op.outputs.iter().enumerate() {
        let Some(i) = s.alias.and_then(|name| cx.op.input(name)).map(InSlot) else { continue };
        if cx.has(i) {
            let m = cx.meta(i, 0)?;
            cx.set_meta(OutSlot(o), 0, m);
        }
    }
    Ok(())
}

/// The gradient of an update.
pub(crate) struct Gradient<'a> {
    elements: Cow<'a, Tensor>,
    /// The rows with a gradient, ascending; `None`: all rows.
    rows: Option<Arc<Vec<i64>>>,
    height: i64,
}

impl<'a> Gradient<'a> {
    pub(crate) fn dense(cx: &KernelContext<'a>, slot: InSlot) -> Result<Gradient<'a>> {
        Ok(Gradient { elements: Cow::Borrowed(cx.input(slot)?), rows: None, height: 0 })
    }

    /// The elements, which must have the parameter's data type.
    pub(crate) fn data<G: Element>(&self, op: &str) -> Result<&[G]> {
        ensure!(
            self.elements.dtype() == G::DTYPE,
            InvalidArgument,
            "operator {op}: Grad must have data type {}, as Param has, got {}",
            G::DTYPE,
            self.elements.dtype()
        );
        Ok(self.elements.data::<G>())
    }

    /// Returns `None` for SelectedRows without rows, which change nothing.
    pub(crate) fn of_rows(cx: &KernelContext<'a>, slot: InSlot) -> Result<Option<Gradient<'a>>> {
        let r = grad_rows(cx, slot)?;
        if r.rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(match ascending(cx.op.name, r)? {
            Cow::Borrowed(r) => {
                Gradient { elements: Cow::Borrowed(&r.value), rows: Some(r.rows.clone()), height: r.height }
            }
            Cow::Owned(r) => Gradient { elements: Cow::Owned(r.value), rows: Some(r.rows), height: r.height },
        }))
    }
}

/// The gradient as SelectedRows.
pub(crate) fn grad_rows<'a>(cx: &KernelContext<'a>, slot: InSlot) -> Result<&'a SelectedRows> {
    match cx.value(slot)? {
        Value::Rows(r) => Ok(r),
        other => bail!(
            InvalidArgument,
            "operator {}: a Param of SelectedRows needs a Grad of SelectedRows, got {}",
            cx.op.name,
            other.what()
        ),
    }
}

/// The outputs that a rule updates: the parameter and the states.
pub(crate) struct Places<const N: usize> {
    pub(crate) param_and_states: [OutSlot; N],
    /// Rows without a gradient are unchanged.
    pub(crate) lazy: bool,
}

/// Applies a rule to parameters and states stored as `M` with a gradient of type `G`.
pub(crate) fn update<
    T: Float,
    M: Stored<T> + Element,
    G: Stored<T> + Element + std::ops::AddAssign,
    R: Rule<T>,
    const N: usize,
>(
    cx: &mut KernelContext,
    at: &Places<N>,
    grad: &Gradient,
    rule: R,
) -> Result<()> {
    let name = cx.op.name;
    let dense = &*grad.elements;
    let elements = grad.data::<G>(name)?;
    let names = at.param_and_states.map(|s| cx.op.outputs[s.0].name);
    let outs = outs(cx, at.param_and_states)?;
    let n = outs[0].numel();
    let dims = outs[0].dims();
    for (t, name) in outs.iter().zip(names) {
        ensure!(
            t.dtype() == M::DTYPE && t.numel() == n,
            InvalidArgument,
            "{name} must hold {n} elements of data type {}, got {} of {}",
            M::DTYPE,
            t.numel(),
            t.dtype()
        );
    }
    match &grad.rows {
        None => ensure!(
            dense.numel() == n,
            InvalidArgument,
            "operator {name}: Param and Grad must have the same shape, got {dims:?} and {:?}",
            dense.dims()
        ),
        Some(rows) => ensure!(
            dims.first() == Some(&grad.height) && dense.numel() / rows.len() * grad.height as usize == n,
            InvalidArgument,
            "operator {name}: SelectedRows of height {} and shape {:?} do not fit a Param of shape {dims:?}",
            grad.height,
            dense.dims()
        ),
    }
    let mut slices: SmallVec<[&mut [M]; 4]> = SmallVec::new();
    for t in outs {
        slices.push(t.data_mut::<M>()?);
    }
    let (param, states) = slices.split_first_mut().expect("one parameter");
    match &grad.rows {
        None => kernel::dense::<T, M, G, R>(rule, elements, param, states),
        Some(rows) => kernel::sparse::<T, M, G, R>(rule, rows, elements, at.lazy, param, states),
    }
    Ok(())
}

/// Runs an expression with the types of a parameter: compute type, storage type, gradient type. With a master parameter
/// (half precision only) the states are stored in f32.
macro_rules! by_types {
    ($cx:ident, $dtype:expr, $master:expr, |$t:ident, $m:ident, $g:ident| $body:expr) => {{
        macro_rules! with {
            ($a:ty, $b:ty, $c:ty) => {{
                #[allow(dead_code)]
                type $t = $a;
                #[allow(dead_code)]
                type $m = $b;
                #[allow(dead_code)]
                type $g = $c;
                $body
            }};
        }
        match ($dtype, $master) {
            (oar_core::base::DType::F32, _) => with!(f32, f32, f32),
            (oar_core::base::DType::F64, _) => with!(f64, f64, f64),
            (oar_core::base::DType::F16, false) => with!(f32, half::f16, half::f16),
            (oar_core::base::DType::BF16, false) => with!(f32, half::bf16, half::bf16),
            (oar_core::base::DType::F16, true) => with!(f32, f32, half::f16),
            (oar_core::base::DType::BF16, true) => with!(f32, f32, half::bf16),
            (other, _) => return $cx.unsupported(other),
        }
    }};
}
pub(crate) use by_types;

/// Updates the parameter and its states by a rule, an expression over the compute type `$t`. Does nothing without a
/// gradient.
macro_rules! apply {
    ($cx:ident, $grad:expr, [$param:expr $(, $state:expr)*], lazy: $lazy:expr, |$t:ident| $rule:expr) => {{
        if let Some(grad) = &$grad {
            let dtype = $cx.out($param)?.dtype();
            let at = $crate::update::Places { param_and_states: [$param $(, $state)*], lazy: $lazy };
            $crate::update::by_types!($cx, dtype, false, |$t, M, G| {
                $crate::update::update::<$t, M, G, _, _>($cx, &at, grad, $rule)?;
            });
        }
        Ok(())
    }};
}
pub(crate) use apply;

/// Advances a stored power of `beta` by one step.
pub(crate) fn next_power(cx: &mut KernelContext, slot: OutSlot, factor: f64) -> Result<()> {
    let op = cx.op.name;
    let t = cx.out(slot)?;
    ensure!(t.numel() == 1, InvalidArgument, "operator {op}: a power must have one element, got {:?}", t.dims());
    dispatch!(t.dtype(), T in [f32, f64], {
        t.data_mut::<T>()?[0] *= factor as T;
    }, _other => dispatch!(t.dtype(), T in [f16, bf16], {
        let p = &mut t.data_mut::<T>()?[0];
        *p = T::from_f64(p.to_f64() * factor);
    }, other => return cx.unsupported(other)));
    Ok(())
}
