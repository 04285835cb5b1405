//! fusion_seqpool_concat, fusion_seqpool_cvm_concat, fusion_seqexpand_concat_fc, fusion_seqconv_eltadd_relu: fused
//! sequence operators. Inference only.

use super::lod::{activation, check, offsets};
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Kernel, KernelContext, Meta, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::gemm::{gemm, Epilogue, View};
use oar_kernels::sequence::pool::{add_to_sequences, place_columns, pool, show_and_click, Pooling};
use oar_kernels::sequence::windows::Windows;
use std::sync::Arc;

attrs! {
    pub struct PoolAttrs { pooltype: Text = "SUM".into(), axis: i32 = 1 }
    pub struct PoolCvmAttrs { pooltype: Text = "SUM".into(), use_cvm: bool = true, axis: i32 = 1 }
    pub struct ExpandFcAttrs { fc_activation: Text = "identity".into() }
    pub struct ConvAttrs { contextLength: i32, contextStart: i32 = 0, contextStride: i32 = 1 }
}

slots! {
    mod pool_concat { X "X".duplicable() => OUT "Out".kernel_allocated() }
    mod pool_cvm { X "X".duplicable(), CVM "CVM".meta_only() => OUT "Out".kernel_allocated() }
    /// X[0] [rows, width] with LoD, the others one row per sequence; FCWeight [sum of widths, out].
    mod expand_fc { X "X".duplicable(), W "FCWeight", BIAS "FCBias".dispensable() => OUT "Out", FC_OUT "FCOut".intermediate().not_returned().kernel_allocated() }
    /// X [rows, width] with LoD, Filter [contextLength * width, out], Bias [1, out].
    mod conv { X "X", FILTER "Filter", BIAS "Bias" => OUT "Out", COLUMNS "ColMat".intermediate().not_returned().kernel_allocated() }
}

fn pooling(op: &str, name: &str) -> Result<Pooling> {
    Ok(match name {
        "SUM" => Pooling::Sum,
        "AVERAGE" => Pooling::Average,
        "SQRT" => Pooling::Sqrt,
        other => bail!(InvalidArgument, "operator {op}: pooltype must be SUM, AVERAGE or SQRT, got '{other}'"),
    })
}

/// Both operators have the same slot numbers of X and Out.
fn infer_pool(cx: &mut ShapeContext, pooltype: &str, axis: i32) -> Result<()> {
    let op = cx.op.name;
    pooling(op, pooltype)?;
    ensure!(axis == 1, InvalidArgument, "operator {op}: axis must be 1, got {axis}");
    let (n, dtype) = (cx.count(pool_concat::X), cx.dtype(pool_concat::X)?);
    let mut width = -1;
    for i in 0..n {
        let x = cx.meta(pool_concat::X, i)?;
        let fits = x.dims.len() == 2 && (width < 0 || x.dims[1] < 0 || x.dims[1] == width) && x.dtype == dtype;
        ensure!(
            fits,
            InvalidArgument,
            "operator {op}: the tensors of X must be {dtype} matrices of one width, got {} of shape {:?}",
            x.dtype,
            &x.dims[..]
        );
        width = width.max(x.dims[1]);
    }
    let dims = Dims::from_slice(&[-1, if width < 0 { -1 } else { width.saturating_mul(n as i64) }]);
    // A level with one row per sequence, as in Paddle.
    cx.set_meta(pool_concat::OUT, 0, Meta { dims, dtype, lod_level: 1, ..Meta::default() });
    Ok(())
}

/// Concatenates the pooled sequences of the tensors along columns, optionally with the cvm transform.
fn pool_all(cx: &mut KernelContext, kind: Pooling, cvm: bool) -> Result<()> {
    let (parts, op) = (cx.inputs(pool_concat::X)?, cx.op.name);
    let (dtype, width) = (parts[0].dtype(), parts[0].dims()[1] as usize);
    ensure!(
        !cvm || width >= 2,
        InvalidArgument,
        "operator {op}: the rows of X must begin with show and click, got the width {width}"
    );
    let count = offsets(op, "X", parts[0])?.len() - 1;
    let mut out = Tensor::empty(dtype, &[count as i64, (parts.len() * width) as i64])?;
    dispatch!(dtype, T in [f32, f64], {
        let to = out.data_mut::<T>()?;
        let mut rows = vec![0.0 as T; count * width];
        for (k, x) in parts.iter().enumerate() {
            let at = offsets(op, "X", x)?;
            ensure!(
                at.len() == count + 1,
                InvalidArgument,
                "operator {op}: the tensors of X must have as many sequences, got {count} and {}",
                at.len() - 1
            );
            pool(kind, &at, width, 0.0, x.data::<T>(), &mut rows, None);
            if cvm {
                show_and_click(&mut rows, width);
            }
            place_columns(&rows, width, k * width, parts.len() * width, to);
        }
    }, other => return cx.unsupported(other));
    cx.set(pool_concat::OUT, out.with_lod(Some(Arc::new(vec![(0..=count).collect()]))));
    Ok(())
}

fn infer_expand_fc(cx: &mut ShapeContext) -> Result<()> {
    let (op, n, dtype) = (cx.op.name, cx.count(expand_fc::X), cx.dtype(expand_fc::X)?);
    activation(op, "fc_activation", &cx.attrs::<ExpandFcAttrs>().fc_activation)?;
    ensure!(n > 1, InvalidArgument, "operator {op}: X must have two tensors or more, got {n}");
    let mut sum = 0;
    for i in 0..n {
        let x = cx.meta(expand_fc::X, i)?;
        ensure!(
            x.dims.len() == 2 && x.dtype == dtype,
            InvalidArgument,
            "operator {op}: the tensors of X must be {dtype} matrices, got {} of shape {:?}",
            x.dtype,
            &x.dims[..]
        );
        sum = if sum < 0 || x.dims[1] < 0 { -1 } else { sum + x.dims[1] };
    }
    let out = cx.dims(expand_fc::W)?.get(1).copied().unwrap_or(-1);
    check(cx, expand_fc::W, &[sum, out], dtype)?;
    if cx.has(expand_fc::BIAS) {
        let own = cx.dims(expand_fc::BIAS)?;
        check(cx, expand_fc::BIAS, &[1, out][usize::from(own.len() == 1)..], dtype)?;
    }
    let rows = cx.dims(expand_fc::X)?[0];
    cx.set(expand_fc::OUT, &[rows, out], dtype);
    cx.share_lod(expand_fc::OUT, expand_fc::X);
    cx.set(expand_fc::FC_OUT, &[-1, out], dtype);
    Ok(())
}

fn expand_and_fc(cx: &mut KernelContext) -> Result<()> {
    let (parts, w, bias, op) = (cx.inputs(expand_fc::X)?, cx.input(expand_fc::W)?, cx.opt(expand_fc::BIAS), cx.op.name);
    let act = activation(op, "fc_activation", &cx.attrs::<ExpandFcAttrs>().fc_activation)?;
    let (at, cols, dtype) = (offsets(op, "X[0]", parts[0])?, w.dims()[1] as usize, w.dtype());
    let count = at.len() - 1;
    for x in &parts[1..] {
        ensure!(
            x.dims()[0] == count as i64,
            InvalidArgument,
            "operator {op}: the tensors of X after the first must have a row for each of its {count} sequences, got {x:?}"
        );
    }
    let rows = parts[0].dims()[0] as usize;
    let mut once = Tensor::zeros(dtype, &[count as i64, cols as i64])?;
    dispatch!(dtype, T in [f32, f64], {
        let (weights, out) = (w.data::<T>(), cx.out_data::<T>(expand_fc::OUT)?);
        let sums = once.data_mut::<T>()?;
        let mut from = 0;
        for (i, x) in parts.iter().enumerate() {
            let k = x.dims()[1] as usize;
            let b = View::rows(&weights[from * cols..], cols, false);
            let a = View::rows(x.data::<T>(), k, false);
            from += k;
            if i == 0 {
                let epilogue = Epilogue { col_bias: bias.map(|b| b.data::<T>()), ..Epilogue::NONE };
                gemm((rows, cols, k), 1.0, a, b, 0.0, out, cols, epilogue);
            } else {
                gemm((count, cols, k), 1.0, a, b, 1.0, sums, cols, Epilogue::NONE);
            }
        }
        add_to_sequences(&at, cols, sums, out);
        act.apply(out);
    }, other => return cx.unsupported(other));
    if cx.wants(expand_fc::FC_OUT) {
        cx.set(expand_fc::FC_OUT, once);
    }
    Ok(())
}

fn infer_conv(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype, op) = (cx.dims(conv::X)?, cx.dtype(conv::X)?, cx.op.name);
    let a = cx.attrs::<ConvAttrs>();
    if x.len() != 2 {
        return cx.wrong(conv::X, "a matrix [rows, width] with LoD");
    }
    ensure!(a.contextStride == 1, InvalidArgument, "operator {op}: contextStride must be 1, got {}", a.contextStride);
    ensure!(
        a.contextLength > 0 && i64::from(a.contextLength) + i64::from(a.contextStart) > 0,
        InvalidArgument,
        "operator {op}: contextLength and contextLength + contextStart must be greater than 0, got {} and {}",
        a.contextLength,
        a.contextStart
    );
    let rows = if x[1] < 0 { -1 } else { x[1].saturating_mul(i64::from(a.contextLength)) };
    let out = cx.dims(conv::FILTER)?.get(1).copied().unwrap_or(-1);
    check(cx, conv::FILTER, &[rows, out], dtype)?;
    let bias = cx.dims(conv::BIAS)?;
    let held = if bias.iter().any(|&d| d < 0) { -1 } else { bias.iter().product::<i64>() };
    ensure!(
        (held == out || held < 0 || out < 0) && cx.dtype(conv::BIAS)? == dtype,
        InvalidArgument,
        "operator {op}: Bias must have a {dtype} for each of {out} columns, got shape {:?}",
        &bias[..]
    );
    cx.set(conv::OUT, &[x[0], out], dtype);
    cx.share_lod(conv::OUT, conv::X);
    cx.set(conv::COLUMNS, &[-1, rows], dtype);
    Ok(())
}

fn convolve(cx: &mut KernelContext) -> Result<()> {
    let (x, w, bias, op) = (cx.input(conv::X)?, cx.input(conv::FILTER)?, cx.input(conv::BIAS)?, cx.op.name);
    let a = cx.attrs::<ConvAttrs>();
    let (at, width) = (offsets(op, "X", x)?, x.dims()[1] as usize);
    let (rows, k, cols) = (x.dims()[0] as usize, w.dims()[0] as usize, w.dims()[1] as usize);
    let mut columns = Tensor::zeros(x.dtype(), &[rows as i64, k as i64])?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (from, to) = (x.data::<T>(), columns.data_mut::<T>()?);
        // Steps outside of a sequence are zeros.
        let windows =
            Windows { level: &at, start: i64::from(a.contextStart), count: a.contextLength as usize, up: 0 };
        windows.gather(from, None, width, to);
        let epilogue = Epilogue { col_bias: Some(bias.data::<T>()), relu: true, ..Epilogue::NONE };
        let (a, b) = (View::rows(&*to, k, false), View::rows(w.data::<T>(), cols, false));
        gemm((rows, cols, k), 1.0, a, b, 0.0, cx.out_data::<T>(conv::OUT)?, cols, epilogue);
    }, other => return cx.unsupported(other));
    if cx.wants(conv::COLUMNS) {
        cx.set(conv::COLUMNS, columns);
    }
    Ok(())
}

pub static FUSION_SEQPOOL_CONCAT: Op = Op {
    name: "fusion_seqpool_concat",
    inputs: pool_concat::INS,
    outputs: pool_concat::OUTS,
    attrs: PoolAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        let a = cx.attrs::<PoolAttrs>();
        infer_pool(cx, &a.pooltype, a.axis)
    },
    cpu: Kernel::Pure(|cx| {
        let kind = pooling(cx.op.name, &cx.attrs::<PoolAttrs>().pooltype)?;
        pool_all(cx, kind, false)
    }),
    ..OP
};

pub static FUSION_SEQPOOL_CVM_CONCAT: Op = Op {
    name: "fusion_seqpool_cvm_concat",
    inputs: pool_cvm::INS,
    outputs: pool_cvm::OUTS,
    attrs: PoolCvmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        let a = cx.attrs::<PoolCvmAttrs>();
        ensure!(a.use_cvm, InvalidArgument, "operator {}: use_cvm must be true", cx.op.name);
        infer_pool(cx, &a.pooltype, a.axis)
    },
    cpu: Kernel::Pure(|cx| {
        let kind = pooling(cx.op.name, &cx.attrs::<PoolCvmAttrs>().pooltype)?;
        pool_all(cx, kind, true)
    }),
    ..OP
};

pub static FUSION_SEQEXPAND_CONCAT_FC: Op = Op {
    name: "fusion_seqexpand_concat_fc",
    inputs: expand_fc::INS,
    outputs: expand_fc::OUTS,
    attrs: ExpandFcAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_expand_fc,
    cpu: Kernel::Pure(expand_and_fc),
    ..OP
};

pub static FUSION_SEQCONV_ELTADD_RELU: Op = Op {
    name: "fusion_seqconv_eltadd_relu",
    inputs: conv::INS,
    outputs: conv::OUTS,
    attrs: ConvAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_conv,
    cpu: Kernel::Pure(convolve),
    ..OP
};

pub static TABLE: &[&Op] =
    &[&FUSION_SEQPOOL_CONCAT, &FUSION_SEQPOOL_CVM_CONCAT, &FUSION_SEQEXPAND_CONCAT_FC, &FUSION_SEQCONV_ELTADD_RELU];
