//! allclose and equal_all: equality of two tensors as one bool.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, err, slots};

attrs! {
    pub struct AllcloseAttrs { rtol: Text = "1e-5".into(), atol: Text = "1e-8".into(), equal_nan: bool = false }
}

slots! {
    mod allclose { INPUT "Input", OTHER "Other", RTOL "Rtol".dispensable(), ATOL "Atol".dispensable() => OUT "Out" }
    mod equal_all { X "X", Y "Y" => OUT "Out" }
}

/// A tolerance: a string attribute, or a tensor of one float64.
fn tolerance(cx: &KernelContext, slot: InSlot, text: &str) -> Result<f64> {
    let (op, name) = (cx.op.name, cx.op.inputs[slot.0].name);
    let Some(t) = cx.opt(slot) else {
        return text
            .trim()
            .parse()
            .map_err(|_| err!(InvalidArgument, "operator {op}: tolerance '{text}' is not a number"));
    };
    ensure!(
        t.numel() == 1 && t.dtype() == DType::F64,
        InvalidArgument,
        "operator {op}: {name} must hold one float64, got {t:?}"
    );
    Ok(t.data::<f64>()[0])
}

fn infer_allclose(cx: &mut ShapeContext) -> Result<()> {
    let (a, b) = (cx.dims(allclose::INPUT)?, cx.dims(allclose::OTHER)?);
    ensure!(
        a.len() == b.len() && a.iter().zip(&b).all(|(&a, &b)| a == b || a < 0 || b < 0),
        PreconditionNotMet,
        "operator {}: Input and Other must have one shape, got {a:?} and {b:?}",
        cx.op.name
    );
    same_types(cx, [allclose::INPUT, allclose::OTHER])?;
    cx.set(allclose::OUT, &[1], DType::Bool);
    Ok(())
}

fn same_types(cx: &ShapeContext, slots: [InSlot; 2]) -> Result<()> {
    let [a, b] = slots;
    let (a, b) = (cx.dtype(a)?, cx.dtype(b)?);
    ensure!(a == b, InvalidArgument, "operator {}: its inputs must have one data type, got {a} and {b}", cx.op.name);
    Ok(())
}

#[allow(clippy::useless_conversion)] // one of the types is f64
fn run_allclose(cx: &mut KernelContext) -> Result<()> {
    let attrs = cx.attrs::<AllcloseAttrs>();
    let (rtol, atol) = (tolerance(cx, allclose::RTOL, &attrs.rtol)?, tolerance(cx, allclose::ATOL, &attrs.atol)?);
    let (x, y) = (cx.input(allclose::INPUT)?, cx.input(allclose::OTHER)?);
    let close = dispatch!(x.dtype(), T in [f32, f64], {
        x.data::<T>().iter().zip(y.data::<T>()).all(|(&a, &b)| {
            if a.is_nan() || b.is_nan() {
                return attrs.equal_nan && a.is_nan() == b.is_nan();
            }
            // As in Paddle the difference, computed in the elements' precision, may exceed the tolerance by 1e-15.
            let (left, right) = ((a - b).abs(), (atol + rtol * f64::from(b.abs())) as T);
            a == b || left <= right || f64::from((left - right).abs()) <= 1e-15
        })
    }, other => return cx.unsupported(other));
    cx.out_data::<bool>(allclose::OUT)?[0] = close;
    Ok(())
}

pub static ALLCLOSE: Op = Op {
    name: "allclose",
    inputs: allclose::INS,
    outputs: allclose::OUTS,
    attrs: AllcloseAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_allclose,
    cpu: Kernel::Pure(run_allclose),
    ..OP
};

// equal_all

/// Floating-point numbers that differ by less compare equal.
const NEARLY: f64 = 1e-8;

fn run_equal_all(cx: &mut KernelContext) -> Result<()> {
    let (x, y) = (cx.input(equal_all::X)?, cx.input(equal_all::Y)?);
    let same = x.dims() == y.dims()
        && match x.dtype() {
            DType::F32 => x.data::<f32>().iter().zip(y.data::<f32>()).all(|(&a, &b)| f64::from((a - b).abs()) < NEARLY),
            DType::F64 => x.data::<f64>().iter().zip(y.data::<f64>()).all(|(&a, &b)| (a - b).abs() < NEARLY),
            _ => x.bytes() == y.bytes(),
        };
    cx.out_data::<bool>(equal_all::OUT)?[0] = same;
    Ok(())
}

pub static EQUAL_ALL: Op = Op {
    name: "equal_all",
    inputs: equal_all::INS,
    outputs: equal_all::OUTS,
    dtypes: DTypes::FLOATS.union(DTypes::INTEGERS).union(DTypes::BOOL),
    infer: |cx| {
        let (x, y) = (cx.dims(equal_all::X)?, cx.dims(equal_all::Y)?);
        ensure!(
            x.len() >= y.len(),
            InvalidArgument,
            "operator equal_all: Y must not have more dimensions than X, got shapes {y:?} and {x:?}"
        );
        same_types(cx, [equal_all::X, equal_all::Y])?;
        cx.set(equal_all::OUT, &[1], DType::Bool);
        cx.share_lod(equal_all::OUT, equal_all::X);
        Ok(())
    },
    cpu: Kernel::Pure(run_equal_all),
    ..OP
};

pub static TABLE: &[&Op] = &[&ALLCLOSE, &EQUAL_ALL];
