//! Complex numbers: real, imag, conj, and what other families call for complex operands. Sums and products with real
//! numbers run on the parts, as tensors with one more dimension of two.

use oar_core::base::{DType, Result};
use oar_core::ensure;
use oar_core::op::infer::like_first;
use oar_core::op::parts::complex::{conj, join, split};
use oar_core::op::parts::elements::share;
use oar_core::op::{slot, Dst, Grad, GradOp, Infer, Kernel, NoAttrs, Op, Run, Src, OP};
use oar_core::tensor::Tensor;

// abs

// real, imag, conj

fn infer_part(cx: &mut Infer) -> Result<()> {
    let (dims, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    // Paddle finds no kernel for a real number: an error of the run, not of the Program.
    ensure!(
        dtype.is_complex() || !cx.is_run(),
        Unimplemented,
        "operator {} has no CPU kernel for data type {dtype}",
        cx.op.name
    );
    cx.set(0, &dims, dtype.real());
    cx.share_lod(0, 0);
    Ok(())
}

fn infer_part_grad(cx: &mut Infer) -> Result<()> {
    let (dims, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    let Some(dtype) = dtype.complex().filter(|_| !dtype.is_complex()) else {
        return cx.wrong(0, "float32 or float64");
    };
    cx.set(0, &dims, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

fn part(cx: &mut Run, imaginary: bool) -> Result<()> {
    let x = cx.input(0)?;
    let (re, im) = split(x)?;
    cx.set(0, (if imaginary { im } else { re }).with_lod(x.lod.clone()));
    Ok(())
}

fn part_grad(cx: &mut Run, imaginary: bool) -> Result<()> {
    let dout = cx.input(0)?;
    let zero = Tensor::zeros(dout.dtype(), dout.dims())?;
    let dx = if imaginary { join(&zero, dout)? } else { join(dout, &zero)? };
    cx.set(0, dx.with_lod(dout.lod.clone()));
    Ok(())
}

macro_rules! part_ops {
    ($($op:ident $grad:ident $name:literal $grad_name:literal $imaginary:literal;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: &[slot("X")], outputs: &[slot("Out")], attrs: NoAttrs::FIELDS, infer: infer_part,
            cpu: Kernel::Pure(|cx| part(cx, $imaginary)), grad: Grad::By(&$grad), ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name, inputs: &[slot("Out@GRAD")], outputs: &[slot("X@GRAD")], attrs: NoAttrs::FIELDS,
            infer: infer_part_grad, cpu: Kernel::Pure(|cx| part_grad(cx, $imaginary)), ..OP
        };
    )*};
}
part_ops! {
    REAL REAL_GRAD "real" "real_grad" false;
    IMAG IMAG_GRAD "imag" "imag_grad" true;
}

pub static CONJ: Op = Op {
    name: "conj",
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| if cx.is_run() { Ok(()) } else { like_first(cx) },
    cpu: Kernel::Pure(|cx| {
        let x = cx.input(0)?;
        match x.dtype() {
            DType::C64 | DType::C128 => cx.set(0, conj(x)?.with_lod(x.lod.clone())),
            DType::F32 | DType::F64 | DType::I32 | DType::I64 => cx.set(0, share(x)?),
            other => return cx.unsupported(other),
        }
        Ok(())
    }),
    grad: Grad::Fn(|_| {
        Ok(vec![GradOp {
            op: &CONJ,
            attrs: (CONJ.attrs.shared)().clone(),
            ins: vec![vec![Src::GradOut(0, None)]],
            outs: vec![vec![Dst(0, None)]],
        }])
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&REAL, &REAL_GRAD, &IMAG, &IMAG_GRAD, &CONJ];
