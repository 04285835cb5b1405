//! quantize, requantize, dequantize: int8 conversions of optimized inference Programs.

use half::bf16;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};

attrs! {
    pub struct QuantizeAttrs {
        is_negative_input: bool = false, Scale: f32 = 1.0, Shift: f32 = 0.0, output_format: Text = "NHWC".into(),
        bfloat16: bool = false,
    }
    pub struct RequantizeAttrs { Scale_in: f32 = 1.0, Scale_out: f32 = 1.0, Shift_in: f32 = 1.0, Shift_out: f32 = 1.0 }
    pub struct DequantizeAttrs { Scale: f32 = 1.0, Shift: f32 = 0.0 }
}

slots! { mod io { INPUT "Input" => OUTPUT "Output" } }

fn check(op: &str, scale: f32, shift: f32) -> Result<()> {
    ensure!(scale != 0.0, InvalidArgument, "operator {op}: Scale must not be 0");
    ensure!((0.0..=255.0).contains(&shift), Unimplemented, "operator {op}: Shift must be in [0, 255], got {shift}");
    Ok(())
}

fn set(cx: &mut ShapeContext, dtype: DType) -> Result<()> {
    let dims = cx.dims(io::INPUT)?;
    cx.set(io::OUTPUT, &dims, dtype);
    cx.share_lod(io::OUTPUT, io::INPUT);
    Ok(())
}

fn infer_quantize(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<QuantizeAttrs>();
    check(cx.op.name, a.Scale, a.Shift)?;
    let dtype = match (a.bfloat16, a.is_negative_input && a.Shift == 0.0) {
        (true, _) => DType::BF16,
        (false, true) => DType::I8,
        (false, false) => DType::U8,
    };
    set(cx, dtype)
}

/// Rounds to nearest, ties to even, and saturates to the byte's range.
fn quantize(cx: &mut KernelContext) -> Result<()> {
    let (a, x) = (cx.attrs::<QuantizeAttrs>(), cx.input(io::INPUT)?.data::<f32>());
    let (scale, shift) = (a.Scale, a.Shift.trunc());
    let y = cx.out(io::OUTPUT)?;
    match y.dtype() {
        DType::BF16 => {
            y.data_mut::<bf16>()?.iter_mut().zip(x).for_each(|(y, &x)| *y = bf16::from_f32(x * scale + shift))
        }
        DType::I8 => y.data_mut::<i8>()?.iter_mut().zip(x).for_each(|(y, &x)| *y = (x * scale).round_ties_even() as i8),
        _ => y.data_mut::<u8>()?.iter_mut().zip(x).for_each(|(y, &x)| *y = (x * scale + shift).round_ties_even() as u8),
    }
    Ok(())
}

fn infer_dequantize(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<DequantizeAttrs>();
    check(cx.op.name, a.Scale, a.Shift)?;
    set(cx, DType::F32)
}

fn dequantize(cx: &mut KernelContext) -> Result<()> {
    let (a, x) = (cx.attrs::<DequantizeAttrs>(), cx.input(io::INPUT)?);
    let (factor, shift) = (1.0 / a.Scale, -a.Shift / a.Scale);
    dispatch!(x.dtype(), T in [u8, i8, bf16], {
        let y = cx.out_data::<f32>(io::OUTPUT)?;
        y.iter_mut().zip(x.data::<T>()).for_each(|(y, &x)| *y = factor * f32::from(x) + shift);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer_requantize(cx: &mut ShapeContext) -> Result<()> {
    let (op, a, dtype) = (cx.op.name, cx.attrs::<RequantizeAttrs>(), cx.dtype(io::INPUT)?);
    ensure!(
        a.Scale_in != 0.0 && a.Scale_out != 0.0,
        InvalidArgument,
        "operator {op}: Scale_in and Scale_out must not be 0, got {} and {}",
        a.Scale_in,
        a.Scale_out
    );
    ensure!(
        a.Shift_in == 0.0 || dtype == DType::U8,
        Unimplemented,
        "operator {op}: Input with a Shift_in (here {}) must be uint8, got {dtype}",
        a.Shift_in
    );
    let shifted = a.Shift_in != 0.0 || a.Shift_out != 0.0;
    set(cx, if shifted { DType::U8 } else { dtype })
}

fn requantize(cx: &mut KernelContext) -> Result<()> {
    let (a, x) = (cx.attrs::<RequantizeAttrs>(), cx.input(io::INPUT)?);
    let factor = a.Scale_out / a.Scale_in;
    // The shift is a byte, too; `as` saturates.
    let shift = f32::from((a.Shift_out - factor * a.Shift_in).round() as u8);
    let shifted = a.Shift_in != 0.0 || a.Shift_out != 0.0;
    dispatch!(x.dtype(), T in [i8, u8], {
        let x = x.data::<T>().iter().map(|&v| factor * f32::from(v));
        if shifted {
            let y = cx.out_data::<u8>(io::OUTPUT)?;
            y.iter_mut().zip(x).for_each(|(y, v)| *y = (v + shift).round_ties_even() as u8);
        } else {
            let y = cx.out_data::<T>(io::OUTPUT)?;
            y.iter_mut().zip(x).for_each(|(y, v)| *y = v.round_ties_even() as T);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static QUANTIZE: Op = Op {
    name: "quantize",
    inputs: io::INS,
    outputs: io::OUTS,
    attrs: QuantizeAttrs::FIELDS,
    dtypes: DTypes::of(&[DType::F32]),
    infer: infer_quantize,
    cpu: Kernel::Pure(quantize),
    ..OP
};

pub static DEQUANTIZE: Op = Op {
    name: "dequantize",
    inputs: io::INS,
    outputs: io::OUTS,
    attrs: DequantizeAttrs::FIELDS,
    dtypes: DTypes::of(&[DType::U8, DType::I8, DType::BF16]),
    infer: infer_dequantize,
    cpu: Kernel::Pure(dequantize),
    ..OP
};

pub static REQUANTIZE: Op = Op {
    name: "requantize",
    inputs: io::INS,
    outputs: io::OUTS,
    attrs: RequantizeAttrs::FIELDS,
    dtypes: DTypes::of(&[DType::I8, DType::U8]),
    infer: infer_requantize,
    cpu: Kernel::Pure(requantize),
    ..OP
};

pub static TABLE: &[&Op] = &[&QUANTIZE, &DEQUANTIZE, &REQUANTIZE];
