//! Binary elementwise operators with Paddle's broadcasting, their gradients and second gradients.

use oar_ops_common::broadcast::{binary, binary_into, broadcast_dims, cast, expand_to, reduce_to};
use oar_ops_common::complex::conj;
mod attrs;
pub mod second;

pub use attrs::ElementwiseAttrs;
use attrs::{negated, NUMBERS, REAL};

use half::{bf16, f16};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::VarKind;
use oar_core::op::pointwise::{Operand, PointwiseCall};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::elementwise::Binary;
use oar_kernels::formula::rows;
use oar_kernels::formula::Row;
use second::{ADD_GRAD_GRAD, DIV_GRAD_GRAD, DIV_SECOND, MUL_GRAD_GRAD, POW_GRAD_GRAD, SECOND, SUB_GRAD_GRAD};

slots! {
    mod forward { X "X", Y "Y" => OUT "Out" }
    // Gradients read the values of X and Y, or only their shapes. They share the bytes of `Out@GRAD` where possible.
    mod of_values { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated(), DY "Y@GRAD".kernel_allocated() }
    mod of_shapes {
        X "X".meta_only(), Y "Y".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated(), DY "Y@GRAD".kernel_allocated()
    }
    mod of_quotient {
        X "X".meta_only(), Y "Y", OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated(), DY "Y@GRAD".kernel_allocated()
    }
}

/// Output: the broadcast shape, the promoted data type, the LoD of X; SelectedRows if X is.
pub fn infer(cx: &mut ShapeContext) -> Result<()> {
    if let (Some(x), Some(y)) = (cx.tensor(forward::X), cx.tensor(forward::Y)) {
        if x.dims() == y.dims() {
            cx.set(forward::OUT, x.dims(), x.dtype().meet(y.dtype())?);
            cx.share_lod(forward::OUT, forward::X);
            return Ok(());
        }
    }
    let m = cx.meta(forward::X, 0)?;
    if m.kind == VarKind::Rows {
        cx.set_meta(forward::OUT, 0, m);
        return Ok(());
    }
    let (x, y) = (cx.dims(forward::X)?, cx.dims(forward::Y)?);
    let dtype = cx.dtype(forward::X)?.meet(cx.dtype(forward::Y)?)?;
    let axis = cx.attrs::<ElementwiseAttrs>().axis;
    let dims = broadcast_dims(cx.op.name, &x, &y, axis)?;
    cx.set(forward::OUT, &dims, dtype);
    cx.share_lod(forward::OUT, forward::X);
    Ok(())
}

/// Eager fast path for operands of one shape and data type.
fn alike(name: &str, op: Binary, ins: &[&Tensor]) -> Option<Tensor> {
    let &[x, y] = ins else { return None };
    if x.dims() != y.dims() || x.dtype() != y.dtype() || x.dtype().is_complex() {
        return None;
    }
    let mut out = x.empty_like().ok()?;
    binary_into(name, op, x, y, -1, &mut out).ok()?;
    Some(out.with_lod(x.lod.clone()))
}

/// SelectedRows times a one-element tensor (used to clip sparse gradients); the rows are unchanged.
fn rows_by_number(cx: &mut KernelContext) -> Result<()> {
    let y = cx.input(forward::Y)?;
    let Some(r) = cx.rows(forward::X) else { return run(cx, Binary::Mul) };
    ensure!(
        y.dims() == [1] && y.dtype() == r.value.dtype(),
        InvalidArgument,
        "operator {}: with SelectedRows of {} as X, Y must be one number of that type, got {y:?}",
        cx.op.name,
        r.value.dtype()
    );
    let mut value = Tensor::empty(r.value.dtype(), r.value.dims())?;
    binary_into(cx.op.name, Binary::Mul, &r.value, y, -1, &mut value)?;
    cx.set(forward::OUT, SelectedRows { value, ..r.clone() });
    Ok(())
}

fn run(cx: &mut KernelContext, op: Binary) -> Result<()> {
    let (x, y) = (cx.input(forward::X)?, cx.input(forward::Y)?);
    let axis = cx.attrs::<ElementwiseAttrs>().axis;
    binary_into(cx.op.name, op, x, y, axis, cx.out(forward::OUT)?)
}

macro_rules! binary_ops {
    ($($static:ident $name:literal $op:ident $dtypes:ident, $grad:expr, $pointwise:expr, $sparse_kernel:expr;)*) => {$(
        pub static $static: Op = Op {
            name: $name, inputs: forward::INS, outputs: forward::OUTS, attrs: ElementwiseAttrs::FIELDS, dtypes: $dtypes,
            infer, grad: $grad, pointwise: $pointwise, sparse_kernel: $sparse_kernel, cpu: Kernel::Pure(|cx| run(cx, Binary::$op)),
            fast_path: Some(|_, ins| alike($name, Binary::$op, ins)), ..OP
        };
    )*};
}

binary_ops! {
    ADD "elementwise_add" Add NUMBERS, Grad::By(&ADD_GRAD), Some(|p| pointwise(p, Binary::Add)), SparseKernel::None;
    // Accumulates gradients in Programs; it has no gradient itself.
    GRAD_ADD "grad_add" Add NUMBERS, Grad::None, None, SparseKernel::None;
    SUB "elementwise_sub" Sub NUMBERS, Grad::By(&SUB_GRAD), Some(|p| pointwise(p, Binary::Sub)), SparseKernel::None;
    MUL "elementwise_mul" Mul NUMBERS, Grad::By(&MUL_GRAD), Some(|p| pointwise(p, Binary::Mul)), SparseKernel::Own(rows_by_number);
    DIV "elementwise_div" Div NUMBERS, Grad::By(&DIV_GRAD), Some(|p| pointwise(p, Binary::Div)), SparseKernel::None;
    MAX "elementwise_max" Max REAL, Grad::By(&MAX_GRAD), Some(|p| pointwise(p, Binary::Max)), SparseKernel::None;
    MIN "elementwise_min" Min REAL, Grad::By(&MIN_GRAD), Some(|p| pointwise(p, Binary::Min)), SparseKernel::None;
    POW "elementwise_pow" Pow REAL, Grad::By(&POW_GRAD), Some(|p| pointwise(p, Binary::Pow)), SparseKernel::None;
    MOD "elementwise_mod" Mod REAL, Grad::None, None, SparseKernel::None;
    FLOORDIV "elementwise_floordiv" FloorDiv REAL, Grad::None, None, SparseKernel::None;
}

fn pointwise(p: &mut PointwiseCall, op: Binary) -> Option<()> {
    let axis = p.attrs::<ElementwiseAttrs>().axis;
    let out = p.binary(op, p.input(forward::X)?, p.input(forward::Y)?, Some(axis));
    p.give(forward::OUT, out);
    Some(())
}

/// Inputs of a gradient kernel. X and Y are the first slots of all of them, `Out@GRAD` the last.
struct Pair<'a> {
    x: &'a Tensor,
    y: &'a Tensor,
    dout: &'a Tensor,
    axis: i32,
}

fn pair<'a>(cx: &KernelContext<'a>) -> Result<Pair<'a>> {
    Ok(Pair {
        x: cx.input(of_values::X)?,
        y: cx.input(of_values::Y)?,
        dout: cx.input(InSlot(cx.op.inputs.len() - 1))?,
        axis: cx.attrs::<ElementwiseAttrs>().axis,
    })
}

/// Writes `t`, summed over broadcast axes, as the gradient in `slot`. Real variables get the real part.
fn set_grad(cx: &mut KernelContext, slot: OutSlot, mut t: Tensor, like: &Tensor, axis: i32) -> Result<()> {
    if t.dtype().is_complex() {
        t = cast(&t, like.dtype())?;
    }
    let grad = reduce_to(t, like.dims(), axis)?.with_lod(like.lod.clone());
    cx.set(slot, grad);
    Ok(())
}

fn add_grad(cx: &mut KernelContext) -> Result<()> {
    let Pair { x, y, dout, axis } = pair(cx)?;
    if cx.wants(of_values::DX) {
        set_grad(cx, of_values::DX, dout.clone(), x, axis)?;
    }
    if cx.wants(of_values::DY) {
        set_grad(cx, of_values::DY, dout.clone(), y, axis)?;
    }
    Ok(())
}

fn sub_grad(cx: &mut KernelContext) -> Result<()> {
    let Pair { x, y, dout, axis } = pair(cx)?;
    if cx.wants(of_values::DX) {
        set_grad(cx, of_values::DX, dout.clone(), x, axis)?;
    }
    if cx.wants(of_values::DY) {
        // Reduce first: the sum is the smaller tensor.
        let sum = reduce_to(dout.clone(), y.dims(), axis)?;
        set_grad(cx, of_values::DY, negated(&sum)?, y, axis)?;
    }
    Ok(())
}

fn mul_grad(cx: &mut KernelContext) -> Result<()> {
    let Pair { x, y, dout, axis } = pair(cx)?;
    if cx.wants(of_values::DX) {
        set_grad(cx, of_values::DX, binary(cx.op.name, Binary::Mul, dout, &conj(y)?, axis)?, x, axis)?;
    }
    if cx.wants(of_values::DY) {
        set_grad(cx, of_values::DY, binary(cx.op.name, Binary::Mul, dout, &conj(x)?, axis)?, y, axis)?;
    }
    Ok(())
}

fn div_grad(cx: &mut KernelContext) -> Result<()> {
    let Pair { x, y, dout, axis } = pair(cx)?;
    let out = cx.input(of_quotient::OUT)?;
    let dx = binary(cx.op.name, Binary::Div, dout, &conj(y)?, axis)?;
    if cx.wants(of_values::DY) {
        let t = binary(cx.op.name, Binary::Mul, &dx, &conj(out)?, axis)?;
        set_grad(cx, of_values::DY, negated(&t)?, y, axis)?;
    }
    if cx.wants(of_values::DX) {
        set_grad(cx, of_values::DX, dx, x, axis)?;
    }
    Ok(())
}

/// Computes the gradients by formulas of (x, y, dout) on operands expanded to one shape.
fn by_rows(cx: &mut KernelContext, rows: [&'static Row; 2]) -> Result<()> {
    let Pair { x, y, dout, axis } = pair(cx)?;
    ensure!(
        [x, y, dout].iter().all(|t| !t.dtype().is_complex()),
        Unimplemented,
        "operator {} has no CPU kernel for X {x:?}, Y {y:?} and Out@GRAD {dout:?}",
        cx.op.name
    );
    // Operands of different data types are cast to the result's.
    let like_result = |t| cast(&expand_to(t, dout.dims(), axis)?, dout.dtype());
    let (xs, ys) = (like_result(x)?, like_result(y)?);
    for (slot, row, like) in [(of_values::DX, rows[0], x), (of_values::DY, rows[1], y)] {
        if !cx.wants(slot) {
            continue;
        }
        let mut t = Tensor::empty(dout.dtype(), dout.dims())?;
        dispatch!(dout.dtype(), T in [f32, f64, f16, bf16], {
            row.run(&[xs.data::<T>(), ys.data::<T>(), dout.data::<T>()], &[], t.data_mut::<T>()?);
        }, other => {
            // Integers are computed in f64, which is exact up to 2^53.
            return integer_rows(cx, rows, &xs, &ys, dout, [x, y], axis, other);
        });
        set_grad(cx, slot, t, like, axis)?;
    }
    Ok(())
}

fn integer_rows(
    cx: &mut KernelContext,
    rows: [&'static Row; 2],
    xs: &Tensor,
    ys: &Tensor,
    dout: &Tensor,
    [x, y]: [&Tensor; 2],
    axis: i32,
    dtype: oar_core::base::DType,
) -> Result<()> {
    let (a, b, d) = (xs.to_f64s(), ys.to_f64s(), dout.to_f64s());
    for (slot, row, like) in [(of_values::DX, rows[0], x), (of_values::DY, rows[1], y)] {
        if !cx.wants(slot) {
            continue;
        }
        let mut wide = vec![0f64; d.len()];
        row.run(&[&a, &b, &d], &[], &mut wide);
        let mut t = Tensor::empty(dtype, dout.dims())?;
        dispatch!(dtype, T in [i32, i64, i16, i8, u8], {
            t.data_mut::<T>()?.iter_mut().zip(&wide).for_each(|(o, &v)| *o = v as T);
        }, other => bail!(Unimplemented, "operator {} has no CPU kernel for data type {other}", cx.op.name));
        set_grad(cx, slot, t, like, axis)?;
    }
    Ok(())
}

macro_rules! grad_ops {
    ($($static:ident $name:literal $slots:ident $dtypes:expr, $kernel:expr, $grad:expr, $pointwise:expr;)*) => {$(
        pub static $static: Op = Op {
            name: $name, inputs: $slots::INS, outputs: $slots::OUTS, attrs: ElementwiseAttrs::FIELDS, dtypes: $dtypes,
            infer: infer_grads, grad: $grad, cpu: Kernel::Pure($kernel), pointwise: Some($pointwise), ..OP
        };
    )*};
}

/// The gradients have the shapes and data types of X and Y.
fn infer_grads(cx: &mut ShapeContext) -> Result<()> {
    for (grad, variable) in [(of_values::DX, of_values::X), (of_values::DY, of_values::Y)] {
        if let Some(t) = cx.tensor(variable) {
            cx.set(grad, t.dims(), t.dtype());
            cx.share_lod(grad, variable);
        } else {
            let m = cx.meta(variable, 0)?;
            cx.set_meta(grad, 0, m);
        }
    }
    Ok(())
}

grad_ops! {
    ADD_GRAD "elementwise_add_grad" of_shapes DTypes::ALL, add_grad, Grad::Map(&ADD_GRAD_GRAD, SECOND), add_pointwise;
    SUB_GRAD "elementwise_sub_grad" of_shapes NUMBERS, sub_grad, Grad::Map(&SUB_GRAD_GRAD, SECOND), sub_pointwise;
    MUL_GRAD "elementwise_mul_grad" of_values NUMBERS, mul_grad, Grad::Map(&MUL_GRAD_GRAD, SECOND), mul_pointwise;
    DIV_GRAD "elementwise_div_grad" of_quotient NUMBERS, div_grad, Grad::Map(&DIV_GRAD_GRAD, DIV_SECOND), div_pointwise;
    MAX_GRAD "elementwise_max_grad" of_values REAL, |cx| by_rows(cx, [&rows::max_grad_x, &rows::max_grad_y]),
        Grad::None, |p| row_pointwise(p, [&rows::max_grad_x, &rows::max_grad_y]);
    MIN_GRAD "elementwise_min_grad" of_values REAL, |cx| by_rows(cx, [&rows::min_grad_x, &rows::min_grad_y]),
        Grad::None, |p| row_pointwise(p, [&rows::min_grad_x, &rows::min_grad_y]);
    POW_GRAD "elementwise_pow_grad" of_values REAL,
        |cx| by_rows(cx, [&rows::elementwise_pow_grad_x, &rows::elementwise_pow_grad_y]), Grad::Map(&POW_GRAD_GRAD, SECOND),
        |p| row_pointwise(p, [&rows::elementwise_pow_grad_x, &rows::elementwise_pow_grad_y]);
}

// Elementwise (fusible) form, for operands whose gradient has the shape of `Out@GRAD`.

fn add_pointwise(p: &mut PointwiseCall) -> Option<()> {
    let dout = p.input(of_shapes::DOUT)?;
    p.give_like(of_shapes::DX, dout, p.input(of_shapes::X));
    p.give_like(of_shapes::DY, dout, p.input(of_shapes::Y));
    Some(())
}

fn sub_pointwise(p: &mut PointwiseCall) -> Option<()> {
    let dout = p.input(of_shapes::DOUT)?;
    p.give_like(of_shapes::DX, dout, p.input(of_shapes::X));
    if p.wants(of_shapes::DY) {
        let negative = p.binary(Binary::Sub, Operand::Zero, dout, None);
        p.give_like(of_shapes::DY, negative, p.input(of_shapes::Y));
    }
    Some(())
}

fn mul_pointwise(p: &mut PointwiseCall) -> Option<()> {
    let axis = Some(p.attrs::<ElementwiseAttrs>().axis);
    let (x, y, dout) = (p.input(of_values::X)?, p.input(of_values::Y)?, p.input(of_values::DOUT)?);
    for (slot, variable, other) in [(of_values::DX, x, y), (of_values::DY, y, x)] {
        if p.wants(slot) {
            let grad = p.binary(Binary::Mul, dout, other, axis);
            p.give_like(slot, grad, Some(variable));
        }
    }
    Some(())
}

fn div_pointwise(p: &mut PointwiseCall) -> Option<()> {
    let axis = Some(p.attrs::<ElementwiseAttrs>().axis);
    let (y, out, dout) = (p.input(of_quotient::Y)?, p.input(of_quotient::OUT)?, p.input(of_quotient::DOUT)?);
    let dx = p.binary(Binary::Div, dout, y, axis);
    if p.wants(of_quotient::DY) {
        let t = p.binary(Binary::Mul, dx, out, None);
        let dy = p.binary(Binary::Sub, Operand::Zero, t, None);
        p.give_like(of_quotient::DY, dy, Some(y));
    }
    p.give_like(of_quotient::DX, dx, p.input(of_quotient::X));
    Some(())
}

fn row_pointwise(p: &mut PointwiseCall, rows: [&'static Row; 2]) -> Option<()> {
    let (x, y, dout) = (p.input(of_values::X)?, p.input(of_values::Y)?, p.input(of_values::DOUT)?);
    for (slot, row, variable) in [(of_values::DX, rows[0], x), (of_values::DY, rows[1], y)] {
        if p.wants(slot) {
            let grad = p.row(row, &[x, y, dout], &[]);
            p.give_like(slot, grad, Some(variable));
        }
    }
    Some(())
}

pub static TABLE: &[&Op] = &[
    &ADD, &GRAD_ADD, &SUB, &MUL, &DIV, &MAX, &MIN, &POW, &MOD, &FLOORDIV, &ADD_GRAD, &SUB_GRAD, &MUL_GRAD, &DIV_GRAD,
    &MAX_GRAD, &MIN_GRAD, &POW_GRAD,
];
