//! Second gradients of the binary elementwise operators. DDX and DDY may be absent: then they are zero.

use super::{negated, ElementwiseAttrs};
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::op::parts::broadcast::{binary, cast, expand_to, reduce_to};
use oar_core::op::parts::complex::conj;
use oar_core::op::{slot, Kernel, Op, Run, Slot, OP};
use oar_core::tensor::Tensor;
use oar_kernels::elementwise::Binary;

pub(super) const SECOND: &[(&str, &str)] =
    &[("DOut", "Out@GRAD"), ("DDX", "X@GRAD@GRAD"), ("DDY", "Y@GRAD@GRAD"), ("DDOut", "Out@GRAD@GRAD")];
pub(super) const DIV_SECOND: &[(&str, &str)] = &[
    ("DX", "X@GRAD"),
    ("DDX", "X@GRAD@GRAD"),
    ("DDY", "Y@GRAD@GRAD"),
    ("DOut", "Out@GRAD"),
    ("DDOut", "Out@GRAD@GRAD"),
];
const DD: [Slot; 2] = [slot("DDX").opt(), slot("DDY").opt()];

/// `a (op) b`, where an absent operand is zero; `None` if both are.
fn optional(op: Binary, a: Option<Tensor>, b: Option<Tensor>, axis: i32) -> Result<Option<Tensor>> {
    Ok(match (a, b) {
        (Some(a), Some(b)) => Some(binary("second gradient", op, &a, &b, axis)?),
        (Some(a), None) => Some(a),
        (None, Some(b)) if op == Binary::Sub => Some(negated(&b)?),
        (None, b) => b,
    })
}

fn times(a: Option<&Tensor>, b: &Tensor, axis: i32) -> Result<Option<Tensor>> {
    a.map(|a| binary("second gradient", Binary::Mul, a, b, axis)).transpose()
}

/// `conj(a) b`: what came through a conjugate on the way to the first gradient.
fn times_conj(a: Option<&Tensor>, b: &Tensor, axis: i32) -> Result<Option<Tensor>> {
    times(a.map(conj).transpose()?.as_ref(), b, axis)
}

/// Writes a second gradient, zeros where nothing came; it has the shape of `like`.
fn give_second(cx: &mut Run, slot: usize, t: Option<Tensor>, like: &Tensor, axis: i32) -> Result<()> {
    if !cx.wants(slot) {
        return Ok(());
    }
    // The second gradient of a real variable is the real part.
    let t = t.map(|t| if t.dtype().is_complex() { cast(&t, like.dtype()) } else { Ok(t) }).transpose()?;
    let t = match t {
        // Broadcasting may have stopped short of the full shape, or gone beyond it.
        Some(t) if t.numel() < like.numel() => expand_to(&t, like.dims(), axis)?,
        Some(t) => reduce_to(t, like.dims(), axis)?,
        None => Tensor::zeros(like.dtype(), like.dims())?,
    };
    cx.set(slot, t);
    Ok(())
}

fn add_grad_grad(cx: &mut Run, op: Binary) -> Result<()> {
    let axis = cx.attrs::<ElementwiseAttrs>().axis;
    let ddout = optional(op, cx.opt(2).cloned(), cx.opt(3).cloned(), axis)?;
    give_second(cx, 0, ddout, cx.input(1)?, axis)
}

fn mul_grad_grad(cx: &mut Run) -> Result<()> {
    let axis = cx.attrs::<ElementwiseAttrs>().axis;
    let (x, y, dout) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let (ddx, ddy) = (cx.opt(3), cx.opt(4));
    if cx.wants(0) {
        let ddout = optional(Binary::Add, times(ddx, y, axis)?, times(ddy, x, axis)?, axis)?;
        give_second(cx, 0, ddout, dout, axis)?;
    }
    if cx.wants(1) {
        give_second(cx, 1, times_conj(ddy, dout, axis)?, x, axis)?;
    }
    if cx.wants(2) {
        give_second(cx, 2, times_conj(ddx, dout, axis)?, y, axis)?;
    }
    Ok(())
}

fn div_grad_grad(cx: &mut Run) -> Result<()> {
    let axis = cx.attrs::<ElementwiseAttrs>().axis;
    let (y, out, dx) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let (ddx, ddy) = (cx.opt(3), cx.opt(4));
    let name = cx.op.name;
    ensure!(
        dx.dtype() == out.dtype() || !(cx.wants(0) || cx.wants(1)),
        Unimplemented,
        "operator {name}: the gradient of a real X has lost what the second gradients by a complex Y need"
    );
    // Paddle hands over DX, not DOut: summed to the shape of X, where that was broadcast, it has lost what is needed here.
    ensure!(
        dx.numel() == out.numel() || !(cx.wants(0) || cx.wants(1)),
        Unimplemented,
        "operator {name}: X of shape {:?} was broadcast to {:?}: its gradient is a sum, from which the second gradients \
         cannot be told; expand X first",
        dx.dims(),
        out.dims()
    );
    let wide_dx = expand_to(dx, out.dims(), axis)?;
    let inner = optional(Binary::Sub, ddx.cloned(), times(ddy, out, axis)?, axis)?;
    if cx.wants(0) {
        // dY = -(dX / Y) * (ddX - Out * ddY), where Y and the bracket are conjugated
        let dx_div_y = binary(name, Binary::Div, &wide_dx, &conj(y)?, axis)?;
        let t = times_conj(inner.as_ref(), &dx_div_y, axis)?;
        give_second(cx, 0, t.map(|t| negated(&t)).transpose()?, y, axis)?;
    }
    if cx.wants(1) {
        // dOut = -dX * conj(ddY)
        let t = times_conj(ddy, &wide_dx, axis)?;
        give_second(cx, 1, t.map(|t| negated(&t)).transpose()?, out, axis)?;
    }
    if cx.wants(2) {
        // ddOut = (ddX - Out * ddY) / Y
        let t = inner.map(|t| binary(name, Binary::Div, &t, y, axis)).transpose()?;
        give_second(cx, 2, t, out, axis)?;
    }
    Ok(())
}

const ADD2: &[Slot] = &[slot("Y").meta_only(), slot("DOut").meta_only(), DD[0], DD[1]];
const DDOUT: &[Slot] = &[slot("DDOut")];
const fn second_of_add(name: &'static str, kernel: fn(&mut Run) -> Result<()>) -> Op {
    Op {
        name,
        inputs: ADD2,
        outputs: DDOUT,
        attrs: ElementwiseAttrs::FIELDS,
        infer: |cx| if cx.is_run() { Ok(()) } else { cx.like(0, 1) },
        cpu: Kernel::Pure(kernel),
        ..OP
    }
}
pub static ADD_GRAD_GRAD: Op = second_of_add("elementwise_add_grad_grad", |cx| add_grad_grad(cx, Binary::Add));
pub static SUB_GRAD_GRAD: Op = second_of_add("elementwise_sub_grad_grad", |cx| add_grad_grad(cx, Binary::Sub));
pub static MUL_GRAD_GRAD: Op = Op {
    name: "elementwise_mul_grad_grad",
    inputs: &[slot("X"), slot("Y"), slot("DOut"), DD[0], DD[1]],
    outputs: &[slot("DDOut"), slot("X@GRAD"), slot("Y@GRAD")],
    attrs: ElementwiseAttrs::FIELDS,
    infer: |cx| {
        if cx.is_run() {
            return Ok(());
        }
        cx.like(0, 2)?;
        cx.like(1, 0)?;
        cx.like(2, 1)
    },
    cpu: Kernel::Pure(mul_grad_grad),
    ..OP
};
pub static DIV_GRAD_GRAD: Op = Op {
    name: "elementwise_div_grad_grad",
    inputs: &[slot("Y"), slot("Out"), slot("DX"), DD[0], DD[1]],
    outputs: &[slot("Y@GRAD"), slot("DOut"), slot("DDOut")],
    attrs: ElementwiseAttrs::FIELDS,
    infer: |cx| {
        if cx.is_run() {
            return Ok(());
        }
        cx.like(0, 0)?;
        cx.like(1, 1)?;
        cx.like(2, 1)
    },
    cpu: Kernel::Pure(div_grad_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&ADD_GRAD_GRAD, &SUB_GRAD_GRAD, &MUL_GRAD_GRAD, &DIV_GRAD_GRAD];
