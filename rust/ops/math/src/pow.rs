//! pow: x to the power of a number, an attribute or a tensor attribute.

use super::parameter::{alike, parameter};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::like_first;
use oar_core::op::pointwise::{self, PointwiseCall};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OP};
use oar_core::{dispatch, slots};
use oar_kernels::elementwise::{map, zip};
use oar_kernels::formula::rows;
use oar_kernels::formula::Row;
use oar_kernels::types::Number;
use oar_ops_common::formula::by_row;

attrs! {
    pub struct PowAttrs { factor: f32 = 1.0 }
}

slots! {
    mod pow { X "X", FACTOR "FactorTensor".dispensable() => OUT "Out" }
    mod pow_grad { X "X", DOUT "Out@GRAD", FACTOR "FactorTensor".dispensable() => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// Formulas for the powers 2, 3 and any other.
type Powers = [&'static Row; 3];

const POWERS: Powers = [&rows::square, &rows::cube, &rows::pow];

const GRADIENTS: Powers = [&rows::square_grad, &rows::cube_grad, &rows::pow_grad];

/// The formula of a power, and its parameters.
fn power_row([square, cube, general]: Powers, factor: &f64) -> (&'static Row, &[f64]) {
    match *factor {
        2.0 => (square, &[]),
        3.0 => (cube, &[]),
        _ => (general, std::slice::from_ref(factor)),
    }
}

fn run_pow(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(pow::X)?;
    let factor = parameter(cx, pow::FACTOR, cx.attrs::<PowAttrs>().factor)?;
    dispatch!(x.dtype(), T in [i32, i64, i16, i8, u8], {
        let f = factor as T;
        map(x.data::<T>(), cx.out_data::<T>(pow::OUT)?, |v| Number::pow(v, f));
        Ok(())
    }, _float => {
        let (row, parameters) = power_row(POWERS, &factor);
        by_row(cx, row, &[x], parameters, pow::OUT)
    })
}

fn run_pow_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, d) = (cx.input(pow_grad::X)?, cx.input(pow_grad::DOUT)?);
    let factor = parameter(cx, pow_grad::FACTOR, cx.attrs::<PowAttrs>().factor)?;
    alike(cx, x, d)?;
    dispatch!(x.dtype(), T in [i32, i64, i16, i8, u8], {
        let f = factor as T;
        let less = f.wrapping_sub(1);
        zip(x.data::<T>(), d.data::<T>(), cx.out_data::<T>(pow_grad::DX)?, |x, d| {
            d.wrapping_mul(f).wrapping_mul(Number::pow(x, less))
        });
        Ok(())
    }, _float => {
        let (row, parameters) = power_row(GRADIENTS, &factor);
        by_row(cx, row, &[x, d], parameters, pow_grad::DX)
    })
}

fn pow_pointwise(p: &mut PointwiseCall, tensor: InSlot, powers: Powers) -> Option<()> {
    if p.has(tensor) {
        return None;
    }
    let factor = p.attrs::<PowAttrs>().factor as f64;
    let (row, parameters) = power_row(powers, &factor);
    pointwise::by_row(p, row, parameters)
}

pub static POW: Op = Op {
    name: "pow",
    inputs: pow::INS,
    outputs: pow::OUTS,
    attrs: PowAttrs::FIELDS,
    dtypes: FLOATS.union(DTypes::INTEGERS),
    infer: like_first,
    cpu: Kernel::Pure(run_pow),
    grad: Grad::By(&POW_GRAD),
    pointwise: Some(|p| pow_pointwise(p, pow::FACTOR, POWERS)),
    ..OP
};

pub static POW_GRAD: Op = Op {
    name: "pow_grad",
    inputs: pow_grad::INS,
    outputs: pow_grad::OUTS,
    attrs: PowAttrs::FIELDS,
    dtypes: FLOATS.union(DTypes::INTEGERS),
    infer: like_first,
    cpu: Kernel::Pure(run_pow_grad),
    pointwise: Some(|p| pow_pointwise(p, pow_grad::FACTOR, GRADIENTS)),
    ..OP
};

pub static TABLE: &[&Op] = &[&POW, &POW_GRAD];
