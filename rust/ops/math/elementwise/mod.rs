//! Binary elementwise operators with Paddle's broadcasting, their gradients and second gradients.

use oar_core::op::parts::broadcast::{binary, binary_into, broadcast_dims, cast, expand_to, reduce_to};
use oar_core::op::parts::complex::conj;
pub mod second;

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::attrs::Text;
use oar_core::op::infer::{grads_like_inputs, VarKind};
use oar_core::op::point::{Operand, Points};
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, Slot, OP};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{bail, dispatch, ensure};
use oar_kernels::elementwise::Binary;
use oar_kernels::formula::Row;
use oar_kernels::formula_rows as rows;
use second::{ADD_GRAD_GRAD, DIV_GRAD_GRAD, DIV_SECOND, MUL_GRAD_GRAD, SECOND, SUB_GRAD_GRAD};

attrs! {
    pub struct ElementwiseAttrs {
        axis: i32 = -1, use_mkldnn: bool = false, x_data_format: Text = "".into(), y_data_format: Text = "".into(),
        use_quantizer: bool = false, mkldnn_data_type: Text = "float32".into(), Scale_x: f32 = 1.0,
        Scale_y: f32 = 1.0, Scale_out: f32 = 1.0,
    }
}

const XY: &[Slot] = &[slot("X"), slot("Y")];
const OUT: &[Slot] = &[slot("Out")];
const XY_GRAD: &[Slot] = &[slot("X@GRAD"), slot("Y@GRAD")];
/// The gradient needs the values of X and Y, or their shapes alone.
const VALUES: &[Slot] = &[slot("X"), slot("Y"), slot("Out@GRAD")];
const SHAPES: &[Slot] = &[slot("X").meta_only(), slot("Y").meta_only(), slot("Out@GRAD")];

pub fn infer(cx: &mut Infer) -> Result<()> {
    if let (Some(x), Some(y)) = (cx.tensor(0), cx.tensor(1)) {
        if x.dims() == y.dims() {
            cx.set(0, x.dims(), x.dtype().meet(y.dtype())?);
            cx.share_lod(0, 0);
            return Ok(());
        }
    }
    let m = cx.meta(0, 0)?;
    if m.kind == VarKind::Rows {
        cx.set_meta(0, 0, m);
        return Ok(());
    }
    let (x, y) = (cx.dims(0)?, cx.dims(1)?);
    let dtype = cx.dtype(0)?.meet(cx.dtype(1)?)?;
    let axis = cx.attrs::<ElementwiseAttrs>().axis;
    let dims = broadcast_dims(cx.op.name, &x, &y, axis)?;
    cx.set(0, &dims, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

/// The short way: operands of one shape and type.
fn alike(name: &str, op: Binary, ins: &[&Tensor]) -> Option<Tensor> {
    let &[x, y] = ins else { return None };
    if x.dims() != y.dims() || x.dtype() != y.dtype() || x.dtype().is_complex() {
        return None;
    }
    let mut out = x.empty_like().ok()?;
    binary_into(name, op, x, y, -1, &mut out).ok()?;
    Some(out.with_lod(x.lod.clone()))
}

/// SelectedRows times one number (how clips shrink sparse gradients): the rows stay as they are.
fn rows_by_number(cx: &mut Run, r: &SelectedRows) -> Result<()> {
    let y = cx.input(1)?;
    ensure!(
        y.dims() == [1] && y.dtype() == r.value.dtype(),
        InvalidArgument,
        "operator {}: with SelectedRows of {} as X, Y must be one number of that type, got {y:?}",
        cx.op.name,
        r.value.dtype()
    );
    let mut value = Tensor::empty(r.value.dtype(), r.value.dims())?;
    binary_into(cx.op.name, Binary::Mul, &r.value, y, -1, &mut value)?;
    cx.set(0, SelectedRows { value, ..r.clone() });
    Ok(())
}

macro_rules! binary_ops {
    ($($static:ident $name:literal $op:ident, $grad:expr, $point:expr;)*) => {$(
        pub static $static: Op = Op {
            name: $name, inputs: XY, outputs: OUT, attrs: ElementwiseAttrs::FIELDS, infer, grad: $grad, point: $point,
            cpu: Kernel::Pure(|cx| {
                if let (Some(r), Binary::Mul) = (cx.rows(0), Binary::$op) {
                    return rows_by_number(cx, r);
                }
                let (x, y) = (cx.input(0)?, cx.input(1)?);
                let axis = cx.attrs::<ElementwiseAttrs>().axis;
                binary_into($name, Binary::$op, x, y, axis, cx.out(0)?)
            }),
            quick: Some(|_, ins| alike($name, Binary::$op, ins)), ..OP
        };
    )*};
}

binary_ops! {
    ADD "elementwise_add" Add, Grad::By(&ADD_GRAD), Some(|p| point(p, Binary::Add));
    SUB "elementwise_sub" Sub, Grad::By(&SUB_GRAD), Some(|p| point(p, Binary::Sub));
    MUL "elementwise_mul" Mul, Grad::By(&MUL_GRAD), Some(|p| point(p, Binary::Mul));
    DIV "elementwise_div" Div, Grad::By(&DIV_GRAD), Some(|p| point(p, Binary::Div));
    MAX "elementwise_max" Max, Grad::By(&MAX_GRAD), Some(|p| point(p, Binary::Max));
    MIN "elementwise_min" Min, Grad::By(&MIN_GRAD), Some(|p| point(p, Binary::Min));
    POW "elementwise_pow" Pow, Grad::By(&POW_GRAD), Some(|p| point(p, Binary::Pow));
    MOD "elementwise_mod" Mod, Grad::None, None;
    FLOORDIV "elementwise_floordiv" FloorDiv, Grad::None, None;
}

fn point(p: &mut Points, op: Binary) -> Option<()> {
    let axis = p.attrs::<ElementwiseAttrs>().axis;
    let out = p.binary(op, p.input(0)?, p.input(1)?, Some(axis));
    p.give(0, out);
    Some(())
}

/// The call of a gradient kernel: `x`, `y`, `dout` stand for the slots of that name.
struct Pair<'a> {
    x: &'a Tensor,
    y: &'a Tensor,
    dout: &'a Tensor,
    axis: i32,
}

fn pair<'a>(cx: &Run<'a>) -> Result<Pair<'a>> {
    let slot = |name| cx.op.input(name).expect("gradients of binary operators have X, Y and Out@GRAD");
    Ok(Pair {
        x: cx.input(slot("X"))?,
        y: cx.input(slot("Y"))?,
        dout: cx.input(slot("Out@GRAD"))?,
        axis: cx.attrs::<ElementwiseAttrs>().axis,
    })
}

/// Writes `t`, summed over broadcast axes, as the gradient in that slot; a real variable's is the real part.
fn give(cx: &mut Run, slot: usize, mut t: Tensor, like: &Tensor, axis: i32) -> Result<()> {
    if t.dtype().is_complex() {
        t = cast(&t, like.dtype())?;
    }
    let grad = reduce_to(t, like.dims(), axis)?.with_lod(like.lod.clone());
    cx.set(slot, grad);
    Ok(())
}

fn add_grad(cx: &mut Run) -> Result<()> {
    let Pair { x, y, dout, axis } = pair(cx)?;
    if cx.wants(0) {
        give(cx, 0, dout.clone(), x, axis)?;
    }
    if cx.wants(1) {
        give(cx, 1, dout.clone(), y, axis)?;
    }
    Ok(())
}

pub(super) fn negated(t: &Tensor) -> Result<Tensor> {
    let zero = Tensor::zeros(t.dtype(), &[1])?;
    binary("negation", Binary::Sub, &zero, t, -1)
}

fn sub_grad(cx: &mut Run) -> Result<()> {
    let Pair { x, y, dout, axis } = pair(cx)?;
    if cx.wants(0) {
        give(cx, 0, dout.clone(), x, axis)?;
    }
    if cx.wants(1) {
        // Summed first: the sum is the smaller tensor.
        let sum = reduce_to(dout.clone(), y.dims(), axis)?;
        give(cx, 1, negated(&sum)?, y, axis)?;
    }
    Ok(())
}

fn mul_grad(cx: &mut Run) -> Result<()> {
    let Pair { x, y, dout, axis } = pair(cx)?;
    if cx.wants(0) {
        give(cx, 0, binary(cx.op.name, Binary::Mul, dout, &conj(y)?, axis)?, x, axis)?;
    }
    if cx.wants(1) {
        give(cx, 1, binary(cx.op.name, Binary::Mul, dout, &conj(x)?, axis)?, y, axis)?;
    }
    Ok(())
}

fn div_grad(cx: &mut Run) -> Result<()> {
    let Pair { x, y, dout, axis } = pair(cx)?;
    let out = cx.input(2)?;
    let dx = binary(cx.op.name, Binary::Div, dout, &conj(y)?, axis)?;
    if cx.wants(1) {
        let t = binary(cx.op.name, Binary::Mul, &dx, &conj(out)?, axis)?;
        give(cx, 1, negated(&t)?, y, axis)?;
    }
    if cx.wants(0) {
        give(cx, 0, dx, x, axis)?;
    }
    Ok(())
}

/// Gradients by a formula of (x, y, dout), on operands brought to one shape.
fn by_rows(cx: &mut Run, rows: [&'static Row; 2]) -> Result<()> {
    let Pair { x, y, dout, axis } = pair(cx)?;
    ensure!(
        [x, y, dout].iter().all(|t| !t.dtype().is_complex()),
        Unimplemented,
        "operator {} has no CPU kernel for X {x:?}, Y {y:?} and Out@GRAD {dout:?}",
        cx.op.name
    );
    // Operands of several types meet in the result's.
    let like_result = |t| cast(&expand_to(t, dout.dims(), axis)?, dout.dtype());
    let (xs, ys) = (like_result(x)?, like_result(y)?);
    for (slot, (row, like)) in rows.into_iter().zip([x, y]).enumerate() {
        if !cx.wants(slot) {
            continue;
        }
        let mut t = Tensor::empty(dout.dtype(), dout.dims())?;
        dispatch!(dout.dtype(), T in [f32, f64, f16, bf16], {
            row.run(&[xs.data::<T>(), ys.data::<T>(), dout.data::<T>()], &[], t.data_mut::<T>()?);
        }, other => {
            // Integers: exact in f64 up to 2^53, as Paddle's kernels are for the sizes tests use.
            return integer_rows(cx, rows, &xs, &ys, dout, [x, y], axis, other);
        });
        give(cx, slot, t, like, axis)?;
    }
    Ok(())
}

fn integer_rows(
    cx: &mut Run,
    rows: [&'static Row; 2],
    xs: &Tensor,
    ys: &Tensor,
    dout: &Tensor,
    like: [&Tensor; 2],
    axis: i32,
    dtype: oar_core::base::DType,
) -> Result<()> {
    let (a, b, d) = (xs.to_f64s(), ys.to_f64s(), dout.to_f64s());
    for (slot, (row, like)) in rows.into_iter().zip(like).enumerate() {
        if !cx.wants(slot) {
            continue;
        }
        let mut wide = vec![0f64; d.len()];
        row.run(&[&a, &b, &d], &[], &mut wide);
        let mut t = Tensor::empty(dtype, dout.dims())?;
        dispatch!(dtype, T in [i32, i64, i16, i8, u8], {
            t.data_mut::<T>()?.iter_mut().zip(&wide).for_each(|(o, &v)| *o = v as T);
        }, other => bail!(Unimplemented, "operator {} has no CPU kernel for data type {other}", cx.op.name));
        give(cx, slot, t, like, axis)?;
    }
    Ok(())
}

macro_rules! grad_ops {
    ($($static:ident $name:literal $inputs:expr, $kernel:expr, $grad:expr, $point:expr;)*) => {$(
        pub static $static: Op = Op {
            name: $name, inputs: $inputs, outputs: XY_GRAD, attrs: ElementwiseAttrs::FIELDS, infer: shapes_of_grads,
            grad: $grad, cpu: Kernel::Pure($kernel), point: Some($point), ..OP
        };
    )*};
}

/// While a Program is built the gradients are like X and Y; in a run the kernels make them (often by sharing).
fn shapes_of_grads(cx: &mut Infer) -> Result<()> {
    if cx.is_run() {
        return Ok(());
    }
    grads_like_inputs(cx)
}

grad_ops! {
    ADD_GRAD "elementwise_add_grad" SHAPES, add_grad, Grad::Map(&ADD_GRAD_GRAD, SECOND), add_points;
    SUB_GRAD "elementwise_sub_grad" SHAPES, sub_grad, Grad::Map(&SUB_GRAD_GRAD, SECOND), sub_points;
    MUL_GRAD "elementwise_mul_grad" VALUES, mul_grad, Grad::Map(&MUL_GRAD_GRAD, SECOND), mul_points;
    DIV_GRAD "elementwise_div_grad" &[slot("X").meta_only(), slot("Y"), slot("Out"), slot("Out@GRAD")], div_grad,
        Grad::Map(&DIV_GRAD_GRAD, DIV_SECOND), div_points;
    MAX_GRAD "elementwise_max_grad" VALUES, |cx| by_rows(cx, [&rows::max_grad_x, &rows::max_grad_y]), Grad::None,
        |p| row_points(p, [&rows::max_grad_x, &rows::max_grad_y]);
    MIN_GRAD "elementwise_min_grad" VALUES, |cx| by_rows(cx, [&rows::min_grad_x, &rows::min_grad_y]), Grad::None,
        |p| row_points(p, [&rows::min_grad_x, &rows::min_grad_y]);
    POW_GRAD "elementwise_pow_grad" VALUES,
        |cx| by_rows(cx, [&rows::elementwise_pow_grad_x, &rows::elementwise_pow_grad_y]), Grad::None,
        |p| row_points(p, [&rows::elementwise_pow_grad_x, &rows::elementwise_pow_grad_y]);
}

// The same element by element, for operands whose gradient has the shape of the one that comes in.

fn add_points(p: &mut Points) -> Option<()> {
    let dout = p.input(2)?;
    p.give_like(0, dout, p.input(0));
    p.give_like(1, dout, p.input(1));
    Some(())
}

fn sub_points(p: &mut Points) -> Option<()> {
    let dout = p.input(2)?;
    p.give_like(0, dout, p.input(0));
    if p.wants(1) {
        let negative = p.binary(Binary::Sub, Operand::Zero, dout, None);
        p.give_like(1, negative, p.input(1));
    }
    Some(())
}

fn mul_points(p: &mut Points) -> Option<()> {
    let axis = Some(p.attrs::<ElementwiseAttrs>().axis);
    let (x, y, dout) = (p.input(0)?, p.input(1)?, p.input(2)?);
    for (slot, other) in [(0, y), (1, x)] {
        if p.wants(slot) {
            let grad = p.binary(Binary::Mul, dout, other, axis);
            p.give_like(slot, grad, p.input(slot));
        }
    }
    Some(())
}

fn div_points(p: &mut Points) -> Option<()> {
    let axis = Some(p.attrs::<ElementwiseAttrs>().axis);
    let (y, out, dout) = (p.input(1)?, p.input(2)?, p.input(3)?);
    let dx = p.binary(Binary::Div, dout, y, axis);
    if p.wants(1) {
        let t = p.binary(Binary::Mul, dx, out, None);
        let dy = p.binary(Binary::Sub, Operand::Zero, t, None);
        p.give_like(1, dy, Some(y));
    }
    p.give_like(0, dx, p.input(0));
    Some(())
}

fn row_points(p: &mut Points, rows: [&'static Row; 2]) -> Option<()> {
    let args = [p.input(0)?, p.input(1)?, p.input(2)?];
    for (slot, row) in rows.into_iter().enumerate() {
        if p.wants(slot) {
            let grad = p.row(row, &args, &[]);
            p.give_like(slot, grad, Some(args[slot]));
        }
    }
    Some(())
}

pub static TABLE: &[&Op] = &[
    &ADD, &SUB, &MUL, &DIV, &MAX, &MIN, &POW, &MOD, &FLOORDIV, &ADD_GRAD, &SUB_GRAD, &MUL_GRAD, &DIV_GRAD, &MAX_GRAD,
    &MIN_GRAD, &POW_GRAD,
];
