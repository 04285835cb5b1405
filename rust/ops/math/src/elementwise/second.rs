//! Second gradients of the binary elementwise operators. An absent DDX or DDY is zero.

use super::attrs::{negated, ElementwiseAttrs, NUMBERS};
use half::{bf16, f16};
use oar_core::base::{DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::elementwise::Binary;
use oar_kernels::formula::{rows, Row};
use oar_ops_common::broadcast::{binary, cast, expand_to, reduce_to};
use oar_ops_common::complex::conj;

pub(super) const SECOND: &[(&str, &str)] =
    &[("DOut", "Out@GRAD"), ("DDX", "X@GRAD@GRAD"), ("DDY", "Y@GRAD@GRAD"), ("DDOut", "Out@GRAD@GRAD")];
pub(super) const DIV_SECOND: &[(&str, &str)] = &[
    ("DX", "X@GRAD"),
    ("DDX", "X@GRAD@GRAD"),
    ("DDY", "Y@GRAD@GRAD"),
    ("DOut", "Out@GRAD"),
    ("DDOut", "Out@GRAD@GRAD"),
];

slots! {
    mod of_sum {
        Y "Y".meta_only(), DOUT "DOut".meta_only(), DDX "DDX".dispensable(), DDY "DDY".dispensable() => DDOUT "DDOut".kernel_allocated()
    }
    mod of_product {
        X "X", Y "Y", DOUT "DOut", DDX "DDX".dispensable(), DDY "DDY".dispensable()
        => DDOUT "DDOut".kernel_allocated(), DX "X@GRAD".kernel_allocated(), DY "Y@GRAD".kernel_allocated()
    }
    mod of_quotient {
        Y "Y", OUT "Out", DX "DX", DDX "DDX".dispensable(), DDY "DDY".dispensable()
        => DY "Y@GRAD".kernel_allocated(), DOUT "DOut".kernel_allocated(), DDOUT "DDOut".kernel_allocated()
    }
}

/// Each output has the shape, data type and LoD of the paired input.
fn like(cx: &mut ShapeContext, pairs: &[(OutSlot, InSlot)]) -> Result<()> {
    for &(out, input) in pairs {
        cx.like(out, input)?;
        cx.share_lod(out, input);
    }
    Ok(())
}

/// `a (op) b`; an absent operand is zero. `None` if both are absent.
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

/// `conj(a) b`: the adjoint of the conjugation in the first gradient.
fn times_conj(a: Option<&Tensor>, b: &Tensor, axis: i32) -> Result<Option<Tensor>> {
    times(a.map(conj).transpose()?.as_ref(), b, axis)
}

/// Writes a second gradient (zeros if `t` is `None`) with the shape and LoD of `like`.
fn set_second_grad(cx: &mut KernelContext, slot: OutSlot, t: Option<Tensor>, like: &Tensor, axis: i32) -> Result<()> {
    if !cx.wants(slot) {
        return Ok(());
    }
    // The second gradient of a real variable is the real part.
    let t = t.map(|t| if t.dtype().is_complex() { cast(&t, like.dtype()) } else { Ok(t) }).transpose()?;
    let t = match t {
        // The shape of `t` may be smaller or larger than `like` through broadcasting.
        Some(t) if t.numel() < like.numel() => expand_to(&t, like.dims(), axis)?,
        Some(t) => reduce_to(t, like.dims(), axis)?,
        None => Tensor::zeros(like.dtype(), like.dims())?,
    };
    cx.set(slot, t.with_lod(like.lod.clone()));
    Ok(())
}

fn add_grad_grad(cx: &mut KernelContext, op: Binary) -> Result<()> {
    let axis = cx.attrs::<ElementwiseAttrs>().axis;
    let ddout = optional(op, cx.opt(of_sum::DDX).cloned(), cx.opt(of_sum::DDY).cloned(), axis)?;
    set_second_grad(cx, of_sum::DDOUT, ddout, cx.input(of_sum::DOUT)?, axis)
}

fn mul_grad_grad(cx: &mut KernelContext) -> Result<()> {
    let axis = cx.attrs::<ElementwiseAttrs>().axis;
    let (x, y, dout) = (cx.input(of_product::X)?, cx.input(of_product::Y)?, cx.input(of_product::DOUT)?);
    let (ddx, ddy) = (cx.opt(of_product::DDX), cx.opt(of_product::DDY));
    if cx.wants(of_product::DDOUT) {
        let ddout = optional(Binary::Add, times(ddx, y, axis)?, times(ddy, x, axis)?, axis)?;
        set_second_grad(cx, of_product::DDOUT, ddout, dout, axis)?;
    }
    if cx.wants(of_product::DX) {
        set_second_grad(cx, of_product::DX, times_conj(ddy, dout, axis)?, x, axis)?;
    }
    if cx.wants(of_product::DY) {
        set_second_grad(cx, of_product::DY, times_conj(ddx, dout, axis)?, y, axis)?;
    }
    Ok(())
}

fn div_grad_grad(cx: &mut KernelContext) -> Result<()> {
    let axis = cx.attrs::<ElementwiseAttrs>().axis;
    let (y, out, dx) = (cx.input(of_quotient::Y)?, cx.input(of_quotient::OUT)?, cx.input(of_quotient::DX)?);
    let (ddx, ddy) = (cx.opt(of_quotient::DDX), cx.opt(of_quotient::DDY));
    let needs_dout = cx.wants(of_quotient::DY) || cx.wants(of_quotient::DOUT);
    let name = cx.op.name;
    ensure!(
        dx.dtype() == out.dtype() || !needs_dout,
        Unimplemented,
        "operator {name}: second gradients are not available for a real X and a complex Y: the gradient of X holds only the real part"
    );
    // Paddle passes DX instead of DOut. If X was broadcast, DX is already summed and cannot be used here.
    ensure!(
        dx.numel() == out.numel() || !needs_dout,
        Unimplemented,
        "operator {name}: X of shape {:?} was broadcast to {:?}: its gradient is already summed, so second gradients cannot be computed; expand X \
         first",
        dx.dims(),
        out.dims()
    );
    let wide_dx = expand_to(dx, out.dims(), axis)?;
    let inner = optional(Binary::Sub, ddx.cloned(), times(ddy, out, axis)?, axis)?;
    if cx.wants(of_quotient::DY) {
        // dY = -(dX / Y) * (ddX - Out * ddY), where Y and the bracket are conjugated
        let dx_div_y = binary(name, Binary::Div, &wide_dx, &conj(y)?, axis)?;
        let t = times_conj(inner.as_ref(), &dx_div_y, axis)?;
        set_second_grad(cx, of_quotient::DY, t.map(|t| negated(&t)).transpose()?, y, axis)?;
    }
    if cx.wants(of_quotient::DOUT) {
        // dOut = -dX * conj(ddY)
        let t = times_conj(ddy, &wide_dx, axis)?;
        set_second_grad(cx, of_quotient::DOUT, t.map(|t| negated(&t)).transpose()?, out, axis)?;
    }
    if cx.wants(of_quotient::DDOUT) {
        // ddOut = (ddX - Out * ddY) / Y
        let t = inner.map(|t| binary(name, Binary::Div, &t, y, axis)).transpose()?;
        set_second_grad(cx, of_quotient::DDOUT, t, out, axis)?;
    }
    Ok(())
}

/// Second gradients of `x^y`, whose terms are formulas of (x, y, d) on operands expanded to one shape.
fn pow_grad_grad(cx: &mut KernelContext) -> Result<()> {
    let axis = cx.attrs::<ElementwiseAttrs>().axis;
    let (x, y, dout) = (cx.input(of_product::X)?, cx.input(of_product::Y)?, cx.input(of_product::DOUT)?);
    let like_result = |t| cast(&expand_to(t, dout.dims(), axis)?, dout.dtype());
    let (xs, ys) = (like_result(x)?, like_result(y)?);
    let ddx = cx.opt(of_product::DDX).map(like_result).transpose()?;
    let ddy = cx.opt(of_product::DDY).map(like_result).transpose()?;
    let term = |row: &Row, d: &Option<Tensor>| -> Result<Option<Tensor>> {
        let Some(d) = d else { return Ok(None) };
        let mut t = Tensor::empty(dout.dtype(), dout.dims())?;
        dispatch!(dout.dtype(), T in [f32, f64, f16, bf16], {
            row.run(&[xs.data::<T>(), ys.data::<T>(), d.data::<T>()], &[], t.data_mut::<T>()?);
        }, other => return cx.unsupported(other));
        Ok(Some(t))
    };
    let sum = |a, b| optional(Binary::Add, a, b, -1);
    let (wants_x, wants_y) = (cx.wants(of_product::DX), cx.wants(of_product::DY));
    let weighted = |d: &Option<Tensor>| match wants_x || wants_y {
        true => times(d.as_ref(), dout, -1),
        false => Ok(None),
    };
    let (dx, dy) = (weighted(&ddx)?, weighted(&ddy)?);
    let mixed = &rows::elementwise_pow_grad_xy;
    let ddout = match cx.wants(of_product::DDOUT) {
        true => sum(term(&rows::elementwise_pow_grad_x, &ddx)?, term(&rows::elementwise_pow_grad_y, &ddy)?)?,
        false => None,
    };
    let of_x = if wants_x { sum(term(&rows::elementwise_pow_grad_xx, &dx)?, term(mixed, &dy)?)? } else { None };
    let of_y = if wants_y { sum(term(mixed, &dx)?, term(&rows::elementwise_pow_grad_yy, &dy)?)? } else { None };
    set_second_grad(cx, of_product::DDOUT, ddout, dout, axis)?;
    set_second_grad(cx, of_product::DX, of_x, x, axis)?;
    set_second_grad(cx, of_product::DY, of_y, y, axis)
}

const fn second_of_sum(name: &'static str, dtypes: DTypes, kernel: fn(&mut KernelContext) -> Result<()>) -> Op {
    Op {
        name,
        inputs: of_sum::INS,
        outputs: of_sum::OUTS,
        attrs: ElementwiseAttrs::FIELDS,
        dtypes,
        infer: |cx| like(cx, &[(of_sum::DDOUT, of_sum::DOUT)]),
        cpu: Kernel::Pure(kernel),
        ..OP
    }
}
pub static ADD_GRAD_GRAD: Op =
    second_of_sum("elementwise_add_grad_grad", DTypes::ALL, |cx| add_grad_grad(cx, Binary::Add));
pub static SUB_GRAD_GRAD: Op = second_of_sum("elementwise_sub_grad_grad", NUMBERS, |cx| add_grad_grad(cx, Binary::Sub));
const fn second_of_product(name: &'static str, dtypes: DTypes, kernel: fn(&mut KernelContext) -> Result<()>) -> Op {
    Op {
        name,
        inputs: of_product::INS,
        outputs: of_product::OUTS,
        attrs: ElementwiseAttrs::FIELDS,
        dtypes,
        infer: |cx| {
            use of_product::*;
            like(cx, &[(DDOUT, DOUT), (DX, X), (DY, Y)])
        },
        cpu: Kernel::Pure(kernel),
        ..OP
    }
}
pub static MUL_GRAD_GRAD: Op = second_of_product("elementwise_mul_grad_grad", NUMBERS, mul_grad_grad);
pub static POW_GRAD_GRAD: Op =
    second_of_product("elementwise_pow_grad_grad", DTypes::FLOATS.union(DTypes::HALVES), pow_grad_grad);
pub static DIV_GRAD_GRAD: Op = Op {
    name: "elementwise_div_grad_grad",
    inputs: of_quotient::INS,
    outputs: of_quotient::OUTS,
    attrs: ElementwiseAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: |cx| {
        use of_quotient::{DDOUT, DOUT, DY, OUT, Y};
        like(cx, &[(DY, Y), (DOUT, OUT), (DDOUT, OUT)])
    },
    cpu: Kernel::Pure(div_grad_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&ADD_GRAD_GRAD, &SUB_GRAD_GRAD, &MUL_GRAD_GRAD, &DIV_GRAD_GRAD, &POW_GRAD_GRAD];
