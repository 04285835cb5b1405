//! pyramid_hash: a row of weights for every n-gram (n = 2, 3, ..) of a sequence, gathered from one vector at hashed
//! positions.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::sequence::pyramid_hash::{ngrams, Filter, Pyramid};
use oar_ops_common::levels;

attrs! {
    pub struct PyramidAttrs {
        num_emb: i32 = 0, space_len: i32 = 0, pyramid_layer: i32 = 2, rand_len: i32 = 0, drop_out_percent: f32 = 0.0,
        is_training: i32 = 0, use_filter: bool = true, white_list_len: i32 = 0, black_list_len: i32 = 0, seed: i32 = 0,
        lr: f32 = 0.0, distribute_update_vars: String = String::new(),
    }
}

slots! {
    mod fwd {
        X "X", W "W", WHITE "WhiteList", BLACK "BlackList"
        => OUT "Out".kernel_allocated(), DROP "DropPos".kernel_allocated(), TEMP "X_Temp_Out".kernel_allocated().intermediate()
    }
    mod grad { X "X", W "W", DROP "DropPos", TEMP "X_Temp_Out", DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
}

/// Limit of the number of output elements.
const MOST: usize = 1 << 31;

impl PyramidAttrs {
    fn check(&self, op: &str) -> Result<()> {
        ensure!(
            self.pyramid_layer >= 2 && self.space_len > 0 && self.rand_len > 0 && self.num_emb >= 0,
            InvalidArgument,
            "operator {op}: pyramid_layer must be at least 2, space_len and rand_len above 0 and num_emb at least 0, got {}, \
             {}, {} and {}",
            self.pyramid_layer,
            self.space_len,
            self.rand_len,
            self.num_emb
        );
        ensure!(
            self.num_emb % self.rand_len == 0,
            InvalidArgument,
            "operator {op}: num_emb must be a multiple of rand_len, got {} and {}",
            self.num_emb,
            self.rand_len
        );
        Ok(())
    }

    fn pyramid<'a>(&self, level: &'a [usize], words: &'a [u8]) -> Pyramid<'a> {
        let (layers, width, piece) = (self.pyramid_layer as usize, self.num_emb as usize, self.rand_len as usize);
        Pyramid { level, words, layers, width, piece, space: self.space_len as u32 }
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<PyramidAttrs>());
    a.check(op)?;
    let x = cx.dims(fwd::X)?;
    ensure!(x.len() == 2, InvalidArgument, "operator {op}: X must have 2 dimensions, got shape {:?}", &x[..]);
    cx.shaped(fwd::W, &[a.space_len as i64 + a.rand_len as i64, 1])?;
    for (slot, length) in [(fwd::WHITE, a.white_list_len), (fwd::BLACK, a.black_list_len)] {
        if length > 0 {
            cx.shaped(slot, &[length as i64, 1])?;
        }
    }
    let dtype = cx.dtype(fwd::W)?;
    cx.set(fwd::OUT, &[-1, a.num_emb as i64], dtype);
    cx.share_lod(fwd::OUT, fwd::X);
    cx.set(fwd::DROP, &[-1, 1], DType::I32);
    cx.set(fwd::TEMP, &x, DType::F32);
    Ok(())
}

fn read_filter<'a>(op: &str, name: &str, t: &'a Tensor) -> Result<Filter<'a>> {
    Filter::read(t.bytes()).map_err(|e| {
        err!(
            PreconditionNotMet,
            "operator {op}: {name} is not a Bloom filter: its header has {}, {} bits and {} hashes, and there are {} bytes of bits",
            e.magic,
            e.count,
            e.hashes,
            e.bytes
        )
    })
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (op, a, x, w) = (cx.op.name, cx.attrs::<PyramidAttrs>(), cx.input(fwd::X)?, cx.input(fwd::W)?);
    ensure!(x.dtype() == DType::I32, InvalidArgument, "operator {op}: X must be int32, got {}", x.dtype());
    let (offsets, rows, columns) = (levels::first(op, "X", x)?, x.dims()[0] as usize, x.dims()[1] as usize);
    let places = rows.saturating_mul(columns).saturating_mul(a.pyramid_layer as usize);
    ensure!(
        places <= MOST && (columns > 0 || rows == 0),
        InvalidArgument,
        "operator {op}: X of shape {:?} with {} layers has no or too many n-grams",
        x.dims(),
        a.pyramid_layer
    );
    let mut temp = Tensor::zeros(DType::F32, x.dims())?;
    temp.data_mut::<f32>()?.iter_mut().zip(&x.data::<i32>()[..rows]).for_each(|(to, &from)| *to = from as f32);
    let pyramid = a.pyramid(offsets, temp.bytes());
    let filter = |slot, name, length: i32| match a.use_filter && length != 0 {
        true => read_filter(op, name, cx.input(slot)?).map(Some),
        false => Ok(None),
    };
    let white = filter(fwd::WHITE, "WhiteList", a.white_list_len)?;
    let black = filter(fwd::BLACK, "BlackList", a.black_list_len)?;
    let wanted = |key: &[u8]| white.as_ref().is_none_or(|f| f.has(key)) && black.as_ref().is_none_or(|f| !f.has(key));
    let mut drop = Tensor::zeros(DType::I32, &[places as i64, 1])?;
    let dropping = (a.is_training != 0).then_some(a.drop_out_percent);
    let taken = pyramid.mark(wanted, dropping, a.seed as u32, drop.data_mut::<i32>()?);
    let tops = levels::offsets(taken.iter().map(|&n| n.max(1)));
    let (height, width) = (tops.last().copied().unwrap_or(0), a.num_emb as usize);
    ensure!(
        height.saturating_mul(width) <= MOST,
        ResourceExhausted,
        "operator {op}: a result of {height} rows with {width} elements is too large"
    );
    // As in Paddle, which scales by drop_out_percent in inference.
    let factor = (a.is_training == 0).then_some(a.drop_out_percent);
    let mut out = Tensor::zeros(w.dtype(), &[height as i64, width as i64])?;
    dispatch!(w.dtype(), T in [f32, i8], {
        pyramid.gather(drop.data::<i32>(), w.data::<T>(), out.data_mut::<T>()?);
    }, other => return cx.unsupported(other));
    if let (Some(factor), DType::F32) = (factor, w.dtype()) {
        out.data_mut::<f32>()?.iter_mut().for_each(|v| *v *= factor);
    }
    cx.set(fwd::OUT, out.with_lod(levels::one(tops)));
    cx.set(fwd::DROP, drop.with_lod(levels::one(levels::offsets(taken))));
    cx.set(fwd::TEMP, temp);
    Ok(())
}

/// Updates the weights in place, as in Paddle; they have no gradient.
fn backward(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<PyramidAttrs>());
    a.check(op)?;
    let (x, drop, temp, dout) =
        (cx.input(grad::X)?, cx.input(grad::DROP)?, cx.input(grad::TEMP)?, cx.input(grad::DOUT)?);
    let offsets = levels::first(op, "X", x)?;
    let (width, rows) = (a.num_emb as usize, x.dims()[0] as usize);
    let counts = drop.lod.as_ref().and_then(|l| l.first()).filter(|l| l.len() == offsets.len() && l.is_sorted());
    let counts: Vec<usize> = counts.map(|l| levels::lengths(l).collect()).unwrap_or_default();
    let marked = || drop.data::<i32>().iter().filter(|&&m| m != 0).count();
    ensure!(
        counts.len() + 1 == offsets.len()
            && temp.dtype() == DType::F32
            && temp.numel() >= rows
            && drop.dtype() == DType::I32
            && drop.numel() >= levels::lengths(offsets).map(|n| ngrams(a.pyramid_layer as usize, n).count()).sum()
            && marked() == counts.iter().sum::<usize>()
            && dout.dtype() == DType::F32
            && dout.dims() == [counts.iter().map(|&n| n.max(1)).sum::<usize>() as i64, width as i64],
        InvalidArgument,
        "operator {op}: DropPos, X_Temp_Out and Out@GRAD must belong to X, got {drop:?}, {temp:?} and {dout:?} for {x:?}"
    );
    let cell = cx.env.cell("W", 0);
    let cell =
        cell.ok_or_else(|| err!(PreconditionNotMet, "operator {op} updates W in place and runs only in Programs"))?;
    let mut held = cell.write()?;
    let result = match &mut held {
        Value::Dense(w) if w.dtype() == DType::F32 && w.numel() == (a.space_len + a.rand_len) as usize => {
            let pyramid = a.pyramid(offsets, temp.bytes());
            pyramid.descend(drop.data::<i32>(), dout.data::<f32>(), a.lr, w.data_mut::<f32>()?);
            Ok(())
        }
        other => Err(err!(InvalidArgument, "operator {op}: W must be float32 of its shape, got {}", other.what())),
    };
    cell.finish(held);
    result
}

pub static PYRAMID_HASH: Op = Op {
    name: "pyramid_hash",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: PyramidAttrs::FIELDS,
    dtypes: DTypes::of(&[DType::I32, DType::F32, DType::I8]),
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&PYRAMID_HASH_GRAD),
    ..OP
};

pub static PYRAMID_HASH_GRAD: Op = Op {
    name: "pyramid_hash_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: PyramidAttrs::FIELDS,
    cpu: Kernel::Host(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&PYRAMID_HASH, &PYRAMID_HASH_GRAD];
