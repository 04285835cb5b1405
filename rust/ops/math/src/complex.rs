//! real, imag and conj: parts and conjugates of complex tensors. Complex arithmetic of other families is in
//! `oar_ops_common::complex`.

use oar_core::base::{DTypes, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{Grad, GradOp, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::slots;
use oar_core::tensor::Tensor;
use oar_ops_common::complex::{conj, join, split};
use oar_ops_common::elements::share;

slots! {
    mod unary { X "X" => OUT "Out".kernel_allocated() }
    mod unary_grad { DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
}

fn infer_part(cx: &mut ShapeContext) -> Result<()> {
    let (dims, dtype) = (cx.dims(unary::X)?, cx.dtype(unary::X)?);
    cx.set(unary::OUT, &dims, dtype.real());
    cx.share_lod(unary::OUT, unary::X);
    Ok(())
}

fn infer_part_grad(cx: &mut ShapeContext) -> Result<()> {
    let (dims, dtype) = (cx.dims(unary_grad::DOUT)?, cx.dtype(unary_grad::DOUT)?);
    let Some(dtype) = dtype.complex().filter(|_| !dtype.is_complex()) else {
        return cx.wrong(unary_grad::DOUT, "float32 or float64");
    };
    cx.set(unary_grad::DX, &dims, dtype);
    cx.share_lod(unary_grad::DX, unary_grad::DOUT);
    Ok(())
}

fn part(cx: &mut KernelContext, imaginary: bool) -> Result<()> {
    let x = cx.input(unary::X)?;
    let (re, im) = split(x)?;
    cx.set(unary::OUT, (if imaginary { im } else { re }).with_lod(x.lod.clone()));
    Ok(())
}

fn part_grad(cx: &mut KernelContext, imaginary: bool) -> Result<()> {
    let dout = cx.input(unary_grad::DOUT)?;
    let zero = Tensor::zeros(dout.dtype(), dout.dims())?;
    let dx = if imaginary { join(&zero, dout)? } else { join(dout, &zero)? };
    cx.set(unary_grad::DX, dx.with_lod(dout.lod.clone()));
    Ok(())
}

macro_rules! part_ops {
    ($($op:ident $grad:ident $name:literal $grad_name:literal $imaginary:literal;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: unary::INS, outputs: unary::OUTS, attrs: NoAttrs::FIELDS, dtypes: DTypes::COMPLEX,
            infer: infer_part, cpu: Kernel::Pure(|cx| part(cx, $imaginary)), grad: Grad::By(&$grad), ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name, inputs: unary_grad::INS, outputs: unary_grad::OUTS, attrs: NoAttrs::FIELDS,
            dtypes: DTypes::FLOATS, infer: infer_part_grad, cpu: Kernel::Pure(|cx| part_grad(cx, $imaginary)), ..OP
        };
    )*};
}
part_ops! {
    REAL REAL_GRAD "real" "real_grad" false;
    IMAG IMAG_GRAD "imag" "imag_grad" true;
}

/// The complex conjugate. A real tensor is returned as it is, sharing its bytes.
pub static CONJ: Op = Op {
    name: "conj",
    inputs: unary::INS,
    outputs: unary::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::COMPLEX.union(DTypes::FLOATS).union(DTypes::INDICES),
    infer: like_first,
    cpu: Kernel::Pure(|cx| {
        let x = cx.input(unary::X)?;
        let out = if x.dtype().is_complex() { conj(x)?.with_lod(x.lod.clone()) } else { share(x)? };
        cx.set(unary::OUT, out);
        Ok(())
    }),
    grad: Grad::Fn(|_| Ok(vec![GradOp::of_first(&CONJ, (CONJ.attrs.shared)().clone())])),
    ..OP
};

pub static TABLE: &[&Op] = &[&REAL, &REAL_GRAD, &IMAG, &IMAG_GRAD, &CONJ];
