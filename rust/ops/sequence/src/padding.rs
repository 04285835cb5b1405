//! sequence_pad and sequence_unpad: LoD sequences to padded tensors and back; sequence_mask.

use crate::levels;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::sequence::padding as kernel;

attrs! {
    pub struct MaskAttrs { maxlen: i32 = -1, out_dtype: i32 }
    pub struct PadAttrs { padded_length: i32 = -1 }
}

slots! {
    mod mask { X "X", MAX_LEN "MaxLenTensor".dispensable() => Y "Y" }
    mod pad { X "X", VALUE "PadValue" => OUT "Out", LENGTH "Length" }
    mod pad_grad { X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
    mod unpad { X "X", LENGTH "Length" => OUT "Out" }
    mod unpad_grad { X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

// sequence_mask

/// The width of the mask; -1 while it depends on unknown values.
fn mask_size(cx: &ShapeContext) -> Result<i64> {
    let most = cx.attrs::<MaskAttrs>().maxlen;
    ensure!(
        most != 0,
        InvalidArgument,
        "operator sequence_mask: attribute 'maxlen' must be below 0 or at least 1, got 0"
    );
    if cx.has(mask::MAX_LEN) {
        let Some(t) = cx.tensor(mask::MAX_LEN) else { return Ok(-1) };
        ensure!(
            t.numel() == 1 && DTypes::INDICES.has(t.dtype()),
            InvalidArgument,
            "operator sequence_mask: MaxLenTensor must be one int32 or int64, got {t:?}"
        );
        let n = t.to_i64s()?[0];
        ensure!(n > 0, InvalidArgument, "operator sequence_mask: MaxLenTensor must be greater than 0, got {n}");
        return Ok(n);
    }
    if most > 0 {
        return Ok(most as i64);
    }
    let Some(x) = cx.tensor(mask::X) else { return Ok(-1) };
    ensure!(x.numel() > 0, InvalidArgument, "operator sequence_mask: without 'maxlen' X must have an element");
    Ok(x.to_i64s()?.into_iter().max().unwrap_or(0).max(0))
}

fn infer_mask(cx: &mut ShapeContext) -> Result<()> {
    let number = cx.attrs::<MaskAttrs>().out_dtype;
    let Some(dtype) = DType::from_proto(number) else {
        bail!(InvalidArgument, "operator sequence_mask: attribute 'out_dtype' is not a data type: {number}")
    };
    let mut dims = cx.dims(mask::X)?;
    dims.push(mask_size(cx)?);
    cx.set(mask::Y, &dims, dtype);
    Ok(())
}

fn run_mask(cx: &mut KernelContext) -> Result<()> {
    let lengths = cx.input(mask::X)?.to_i64s()?;
    let out = cx.out(mask::Y)?;
    let size = out.dims().last().map_or(0, |&n| n as usize);
    if out.numel() == 0 {
        return Ok(());
    }
    if out.dtype() == DType::Bool {
        kernel::mask(&lengths, size, [0, 1], out.bytes_mut()?);
        return Ok(());
    }
    dispatch!(out.dtype(), T in [f32, f64, i8, u8, i16, i32, i64], {
        kernel::mask(&lengths, size, [0 as T, 1 as T], out.data_mut::<T>()?);
    }, other => return cx.unsupported(other));
    Ok(())
}

// sequence_pad

/// The offsets of the sequences, and the padded length.
fn padded<'a>(op: &str, x: &'a Tensor) -> Result<(&'a [usize], usize)> {
    ensure!(levels::count(x) > 0, NotFound, "operator {op}: input 'X' must have LoD");
    let level = levels::first(op, "X", x)?;
    ensure!(level.len() >= 2, InvalidArgument, "operator {op}: X must have a sequence, its LoD is {level:?}");
    Ok((level, levels::lengths(level).max().unwrap_or(0)))
}

fn infer_pad(cx: &mut ShapeContext) -> Result<()> {
    let m = cx.meta(pad::X, 0)?;
    let value = cx.dims(pad::VALUE)?;
    ensure!(
        m.dims.len() >= 2,
        InvalidArgument,
        "operator sequence_pad: X must have two dimensions or more, got shape {:?}",
        &m.dims[..]
    );
    ensure!(
        value[..] == [1] || value[..] == m.dims[1..],
        InvalidArgument,
        "operator sequence_pad: PadValue must have shape [1] or that of a step, {:?}, got {:?}",
        &m.dims[1..],
        &value[..]
    );
    let asked = cx.attrs::<PadAttrs>().padded_length;
    let (sequences, length) = match cx.tensor(pad::X) {
        Some(x) => {
            let (level, longest) = padded(cx.op.name, x)?;
            let length = if asked == -1 { longest as i64 } else { asked as i64 };
            ensure!(
                length >= longest as i64,
                InvalidArgument,
                "operator sequence_pad: attribute 'padded_length' must not be below {longest}, the longest sequence, got {asked}"
            );
            (level.len() as i64 - 1, length)
        }
        None => {
            ensure!(m.lod_level > 0, InvalidArgument, "operator sequence_pad: X must have a LoD level greater than 0");
            (-1, asked as i64)
        }
    };
    let mut dims = Dims::from_slice(&[sequences, length]);
    dims.extend_from_slice(&m.dims[1..]);
    cx.set(pad::OUT, &dims, m.dtype);
    cx.set(pad::LENGTH, &[sequences], DType::I64);
    Ok(())
}

fn run_pad(cx: &mut KernelContext) -> Result<()> {
    let (x, value) = (cx.input(pad::X)?, cx.input(pad::VALUE)?);
    let (level, _) = padded(cx.op.name, x)?;
    ensure!(
        value.dtype() == x.dtype(),
        InvalidArgument,
        "operator sequence_pad: X is of {} but PadValue of {}",
        x.dtype(),
        value.dtype()
    );
    let row = levels::width(x) * x.dtype().size();
    if let Ok(lengths) = cx.out_data::<i64>(pad::LENGTH) {
        lengths.iter_mut().zip(levels::lengths(level)).for_each(|(to, n)| *to = n as i64);
    }
    let out = cx.out(pad::OUT)?;
    let length = out.dims()[1] as usize;
    kernel::pad(level, length, row, value.bytes(), x.bytes(), out.bytes_mut()?);
    Ok(())
}

fn run_pad_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, dout) = (cx.input(pad_grad::X)?, cx.input(pad_grad::DOUT)?);
    let (level, longest) = padded(cx.op.name, x)?;
    let sequences = level.len() - 1;
    let row = levels::width(x);
    let length = dout.dims().get(1).map_or(0, |&n| n as usize);
    ensure!(
        length >= longest && dout.numel() == sequences * length * row && dout.dtype() == x.dtype(),
        InvalidArgument,
        "operator sequence_pad_grad: the gradient of Out must be {} with {sequences} sequences of at least {longest} \
         steps, got {dout:?}",
        x.dtype()
    );
    let size = dout.dtype().size();
    kernel::unpad(level, length, row * size, dout.bytes(), cx.out(pad_grad::DX)?.bytes_mut()?);
    Ok(())
}

// sequence_unpad

/// The offsets of sequences with the given lengths.
fn unpad_level(op: &str, x: &[i64], lengths: &Tensor) -> Result<Vec<usize>> {
    let most = x.get(1).copied().unwrap_or(0);
    ensure!(
        lengths.dtype() == DType::I64,
        InvalidArgument,
        "operator {op}: Length must be int64, got {}",
        lengths.dtype()
    );
    let lengths = lengths.data::<i64>();
    if let Some(n) = lengths.iter().find(|n| !(0..=most).contains(*n)) {
        bail!(InvalidArgument, "operator {op}: a length must be from 0 to {most}, the padded length, got {n}");
    }
    Ok(levels::offsets(lengths.iter().map(|&n| n as usize)))
}

fn infer_unpad(cx: &mut ShapeContext) -> Result<()> {
    let (x, lengths) = (cx.dims(unpad::X)?, cx.dims(unpad::LENGTH)?);
    ensure!(
        x.len() >= 2,
        InvalidArgument,
        "operator sequence_unpad: X must have two dimensions or more, got shape {:?}",
        &x[..]
    );
    ensure!(
        lengths.len() == 1,
        InvalidArgument,
        "operator sequence_unpad: Length must have one dimension, got shape {:?}",
        &lengths[..]
    );
    ensure!(
        lengths[0] == x[0] || lengths[0] < 0 || x[0] < 0,
        InvalidArgument,
        "operator sequence_unpad: Length must have a value for each of the {} rows of X, got {}",
        x[0],
        lengths[0]
    );
    let mut m = cx.meta(unpad::X, 0)?;
    (m.lod, m.lod_level) = (None, 1);
    let level = cx.tensor(unpad::LENGTH).map(|t| unpad_level(cx.op.name, &x, t)).transpose()?;
    let rows = level.as_ref().map_or(-1, |l| l.last().map_or(0, |&n| n as i64));
    m.dims = Dims::from_slice(&[rows]);
    m.dims.extend_from_slice(if x.len() == 2 { &[1] } else { &x[2..] });
    m.lod = level.and_then(levels::one);
    cx.set_meta(unpad::OUT, 0, m);
    Ok(())
}

fn run_unpad(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(unpad::X)?;
    let level = unpad_level(cx.op.name, x.dims(), cx.input(unpad::LENGTH)?)?;
    let out = cx.out(unpad::OUT)?;
    let row = levels::width(out) * x.dtype().size();
    kernel::unpad(&level, x.dims()[1] as usize, row, x.bytes(), out.bytes_mut()?);
    Ok(())
}

/// The sequences are given by the LoD of `Out@GRAD`.
fn run_unpad_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, dout) = (cx.input(unpad_grad::X)?, cx.input(unpad_grad::DOUT)?);
    ensure!(
        x.rank() >= 2,
        InvalidArgument,
        "operator sequence_unpad_grad: X must have two dimensions or more, got {x:?}"
    );
    let level = levels::first(cx.op.name, "Out@GRAD", dout)?;
    let (sequences, length) = (x.dims()[0] as usize, x.dims()[1] as usize);
    let row = x.dims()[2..].iter().product::<i64>() as usize;
    let longest = levels::lengths(level).max().unwrap_or(0);
    ensure!(
        level.len() == sequences + 1 && longest <= length && levels::width(dout) == row && dout.dtype() == x.dtype(),
        InvalidArgument,
        "operator sequence_unpad_grad: the gradient of Out must be {} with {sequences} sequences of at most {length} \
         steps, got {dout:?} with LoD {level:?}",
        x.dtype()
    );
    let row = row * dout.dtype().size();
    kernel::unpad_grad(level, length, row, dout.bytes(), cx.out(unpad_grad::DX)?.bytes_mut()?);
    Ok(())
}

pub static SEQUENCE_MASK: Op = Op {
    name: "sequence_mask",
    inputs: mask::INS,
    outputs: mask::OUTS,
    attrs: MaskAttrs::FIELDS,
    dtypes: DTypes::INDICES,
    infer: infer_mask,
    cpu: Kernel::Pure(run_mask),
    ..OP
};

pub static SEQUENCE_PAD: Op = Op {
    name: "sequence_pad",
    inputs: pad::INS,
    outputs: pad::OUTS,
    attrs: PadAttrs::FIELDS,
    infer: infer_pad,
    cpu: Kernel::Pure(run_pad),
    grad: Grad::By(&SEQUENCE_PAD_GRAD),
    ..OP
};

pub static SEQUENCE_PAD_GRAD: Op = Op {
    name: "sequence_pad_grad",
    inputs: pad_grad::INS,
    outputs: pad_grad::OUTS,
    attrs: PadAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_pad_grad),
    ..OP
};

pub static SEQUENCE_UNPAD: Op = Op {
    name: "sequence_unpad",
    inputs: unpad::INS,
    outputs: unpad::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_unpad,
    cpu: Kernel::Pure(run_unpad),
    grad: Grad::By(&SEQUENCE_UNPAD_GRAD),
    ..OP
};

pub static SEQUENCE_UNPAD_GRAD: Op = Op {
    name: "sequence_unpad_grad",
    inputs: unpad_grad::INS,
    outputs: unpad_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_unpad_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_MASK, &SEQUENCE_PAD, &SEQUENCE_PAD_GRAD, &SEQUENCE_UNPAD, &SEQUENCE_UNPAD_GRAD];
