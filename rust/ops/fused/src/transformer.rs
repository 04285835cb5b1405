//! multihead_matmul, skip_layernorm, fused_embedding_eltwise_layernorm, fused_fc_elementwise_layernorm: fused
//! transformer parts of optimized inference Programs. 2.0.2 has them on GPUs only.

use super::compose::{add, out, reshaped, run, Outputs};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::ir::Attr;
use oar_core::op::attrs::Text;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::gemm::{batched, gemm, Epilogue, View};
use oar_kernels::softmax::softmax;
use oar_ops_common::elements::same_types;

attrs! {
    pub struct AttentionAttrs {
        transpose_Q: bool = false, transpose_K: bool = true, transpose_V: bool = false, alpha: f32 = 1.0,
        head_number: i32 = 1, mkldnn_data_type: Text = "float32".into(),
    }
    pub struct SkipAttrs { epsilon: f32, begin_norm_axis: i32 }
    pub struct EmbeddingAttrs { epsilon: f32 = 1e-5 }
    pub struct FcAttrs {
        x_num_col_dims: i32 = 1, activation_type: Text = "".into(), epsilon: f32 = 1e-5, begin_norm_axis: i32 = 1,
    }
}

slots! {
    /// Input [batch, length, hidden], W [hidden, 3, width], Bias [3, width], BiasQK [batch, heads, length, length] or of
    /// a shape that broadcasts to it. PANELS holds W as panels for the matrix unit, packed when a predictor loads its model.
    mod attention {
        INPUT "Input", W "W", BIAS "Bias", BIAS_QK "BiasQK",
        PANELS "Panels".dispensable().extra()
        => OUT "Out".kernel_allocated()
    }
    mod skip { X "X", Y "Y", SCALE "Scale", BIAS "Bias" => OUT "Out".kernel_allocated() }
    mod embedding { IDS "Ids".duplicable(), EMBS "Embs".duplicable(), BIAS "Bias", SCALE "Scale" => OUT "Out".kernel_allocated() }
    mod fc {
        X "X", W "W", BIAS0 "Bias0".dispensable(), Y "Y", SCALE "Scale".dispensable(), BIAS1 "Bias1".dispensable()
        => OUT "Out".kernel_allocated(), MEAN "Mean".dispensable().kernel_allocated(), VARIANCE "Variance".dispensable().kernel_allocated()
    }
}

fn layer_norm(x: &Tensor, scale: Option<&Tensor>, bias: Option<&Tensor>, axis: i32, epsilon: f32) -> Result<Outputs> {
    let mut ins = vec![("X", x)];
    ins.extend(scale.map(|t| ("Scale", t)));
    ins.extend(bias.map(|t| ("Bias", t)));
    run("layer_norm", &ins, &[("epsilon", Attr::Float(epsilon)), ("begin_norm_axis", Attr::Int(axis))])
}

/// Whether two sizes agree; unknown sizes (-1) agree with any.
fn alike(a: i64, b: i64) -> bool {
    a == b || a < 0 || b < 0
}

fn infer_attention(cx: &mut ShapeContext) -> Result<()> {
    use attention::{BIAS, BIAS_QK, INPUT, OUT, W};
    let (op, a) = (cx.op.name, cx.attrs::<AttentionAttrs>());
    let (x, w, b, qk, dtype) = (cx.dims(INPUT)?, cx.dims(W)?, cx.dims(BIAS)?, cx.dims(BIAS_QK)?, cx.dtype(INPUT)?);
    let fits = x.len() == 3 && w.len() == 3 && alike(w[0], x[2]) && alike(w[1], 3) && b.len() == 2 && alike(b[0], 3);
    ensure!(
        fits && alike(b[1], w[2]) && qk.len() == 4,
        InvalidArgument,
        "operator {op}: Input must have shape [batch, length, hidden], W [hidden, 3, width], Bias [3, width] and BiasQK \
         4 dimensions, got {:?}, {:?}, {:?} and {:?}",
        &x[..],
        &w[..],
        &b[..],
        &qk[..]
    );
    ensure!(
        a.head_number > 0 && (w[2] < 0 || w[2] % a.head_number as i64 == 0),
        InvalidArgument,
        "operator {op}: head_number must be positive and divide the width {}, got {}",
        w[2],
        a.head_number
    );
    cx.set(OUT, &[x[0], x[1], w[2]], dtype);
    cx.share_lod(OUT, INPUT);
    Ok(())
}

fn run_attention(cx: &mut KernelContext) -> Result<()> {
    use attention::{BIAS, BIAS_QK, INPUT, OUT, PANELS, W};
    let (op, a) = (cx.op.name, cx.attrs::<AttentionAttrs>());
    let (x, w, b, mask) = (cx.input(INPUT)?, cx.input(W)?, cx.input(BIAS)?, cx.input(BIAS_QK)?);
    same_types(op, x, &[w, b, mask])?;
    let [batch, length, hidden, width] =
        [x.dims()[0], x.dims()[1], x.dims()[2], w.dims()[2]].map(|d| usize::try_from(d).unwrap_or(0));
    let heads = a.head_number as usize;
    let (size, rows, row) = (width / heads, batch * length, 3 * width);
    let dtype = x.dtype();
    let mut all = Tensor::empty(dtype, &[rows as i64, row as i64])?;
    let mut scores = Tensor::empty(dtype, &[batch, heads, length, length].map(|d| d as i64))?;
    let mut mixed = Tensor::empty(dtype, &[batch, length, width].map(|d| d as i64))?;
    // The start of a head's queries in `all` (its keys and values follow at distances of `width`), of its scores, and of
    // its part of the result. No operand is transposed or copied: the products read rows at a distance.
    let starts = |i: usize| (i / heads * length, i % heads * size);
    let squares = length * length;
    let to_scores: Vec<_> = (0..batch * heads)
        .map(|i| {
            let (first, column) = starts(i);
            (first * row + column, first * row + column + width, i * squares)
        })
        .collect();
    let to_mixed: Vec<_> = (0..batch * heads)
        .map(|i| {
            let (first, column) = starts(i);
            (i * squares, first * row + column + 2 * width, first * width + column)
        })
        .collect();
    dispatch!(dtype, T in [f32, f64], {
        let (mut weights, bias) = (View::rows(w.data::<T>(), row, false), b.data::<T>());
        weights.panels = cx.opt(PANELS).filter(|p| p.dtype() == DType::U8).map(|p| p.data::<u8>());
        let bf16 = a.mkldnn_data_type == "bfloat16";
        let epilogue = Epilogue { col_bias: Some(bias), bf16, ..Epilogue::NONE };
        let input = View::rows(x.data::<T>(), hidden, false);
        gemm((rows, row, hidden), 1.0, input, weights, 0.0, all.data_mut::<T>()?, row, epilogue);
        let (parts, none) = (all.data::<T>(), Epilogue { bf16, ..Epilogue::NONE });
        let (queries, keys) = (View::new(parts, row, 1), View::new(parts, 1, row));
        let (alpha, square) = (a.alpha as T, (length, length, size));
        batched(square, alpha, queries, keys, 0.0, scores.data_mut::<T>()?, length, none, &to_scores);
        scores = add(&scores, mask)?;
        ensure!(
            scores.numel() == batch * heads * squares,
            InvalidArgument,
            "operator {op}: BiasQK of shape {:?} must broadcast to the scores [{batch}, {heads}, {length}, {length}]",
            mask.dims()
        );
        let mut weights = Tensor::empty(dtype, scores.dims())?;
        softmax((batch * heads * length, length, 1), scores.data::<T>(), weights.data_mut::<T>()?);
        let (values, weights) = (View::new(all.data::<T>(), row, 1), View::new(weights.data::<T>(), length, 1));
        let narrow = (length, size, length);
        batched(narrow, 1.0, weights, values, 0.0, mixed.data_mut::<T>()?, width, none, &to_mixed);
    }, other => return cx.unsupported(other));
    cx.set(OUT, mixed.with_lod(x.lod.clone()));
    Ok(())
}

fn infer_skip(cx: &mut ShapeContext) -> Result<()> {
    let (op, x) = (cx.op.name, cx.dims(skip::X)?);
    ensure!(
        x.len() == 3,
        InvalidArgument,
        "operator {op}: X must have 3 dimensions, the last one being normalized, got shape {:?}",
        &x[..]
    );
    cx.like(skip::OUT, skip::X)?;
    cx.share_lod(skip::OUT, skip::X);
    Ok(())
}

fn run_skip(cx: &mut KernelContext) -> Result<()> {
    let (a, x, y) = (cx.attrs::<SkipAttrs>(), cx.input(skip::X)?, cx.input(skip::Y)?);
    same_types(cx.op.name, x, &[y])?;
    let sum = add(x, y)?;
    let outputs =
        layer_norm(&sum, Some(cx.input(skip::SCALE)?), Some(cx.input(skip::BIAS)?), 2, a.epsilon)?.take("Y")?;
    cx.set(skip::OUT, outputs.with_lod(x.lod.clone()));
    Ok(())
}

fn infer_embedding(cx: &mut ShapeContext) -> Result<()> {
    use embedding::{BIAS, EMBS, IDS, OUT};
    let (op, count) = (cx.op.name, cx.count(IDS));
    ensure!(
        count >= 2 && count == cx.count(EMBS),
        InvalidArgument,
        "operator {op}: there must be at least two Ids and as many Embs, got {count} and {}",
        cx.count(EMBS)
    );
    let (ids, dtype, bias) = (cx.meta(IDS, 0)?.dims, cx.meta(EMBS, 0)?.dtype, cx.dims(BIAS)?);
    ensure!(
        ids.len() >= 2 && bias.len() == 1,
        InvalidArgument,
        "operator {op}: Ids must have shape [batch, length, 1] and Bias 1 dimension, got {:?} and {:?}",
        &ids[..],
        &bias[..]
    );
    let mut hidden = -1;
    for i in 0..count {
        let table = cx.meta(EMBS, i)?;
        ensure!(
            table.dims.len() == 2 && alike(table.dims[1], hidden) && alike(table.dims[1], bias[0]),
            InvalidArgument,
            "operator {op}: Embs must be matrices with as many columns as Bias has numbers, {}, got shape {:?}",
            bias[0],
            &table.dims[..]
        );
        hidden = hidden.max(table.dims[1]);
    }
    cx.set(OUT, &[ids[0], ids[1], hidden], dtype);
    cx.share_lod(OUT, IDS);
    Ok(())
}

fn run_embedding(cx: &mut KernelContext) -> Result<()> {
    use embedding::{BIAS, EMBS, IDS, OUT, SCALE};
    let (op, a) = (cx.op.name, cx.attrs::<EmbeddingAttrs>());
    let (ids, tables) = (cx.inputs(IDS)?, cx.inputs(EMBS)?);
    same_types(op, tables[0], &tables)?;
    let dims = Dims::from_slice(&ids[0].dims()[..2]);
    let mut sum: Option<Tensor> = None;
    for (ids, table) in ids.iter().zip(&tables) {
        let rows = out("lookup_table_v2", &[("W", *table), ("Ids", &reshaped(op, ids, &dims)?)], &[])?;
        sum = Some(match sum {
            Some(sum) => add(&sum, &rows)?,
            None => rows,
        });
    }
    if let Some(sum) = sum {
        let y = layer_norm(&sum, Some(cx.input(SCALE)?), Some(cx.input(BIAS)?), 2, a.epsilon)?.take("Y")?;
        cx.set(OUT, y.with_lod(ids[0].lod.clone()));
    }
    Ok(())
}

fn infer_fc(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<FcAttrs>());
    let (x, w, y, dtype) = (cx.dims(fc::X)?, cx.dims(fc::W)?, cx.dims(fc::Y)?, cx.dtype(fc::X)?);
    let (n, axis) = (a.x_num_col_dims, a.begin_norm_axis);
    ensure!(
        w.len() == 2 && n > 0 && (n as usize) < x.len() && axis > 0 && (axis as usize) < y.len(),
        InvalidArgument,
        "operator {op}: W must have 2 dimensions, x_num_col_dims and begin_norm_axis must be positive and less than the \
         dimensions of X and Y, got shapes {:?}, {:?}, {:?} and {n}, {axis}",
        &x[..],
        &w[..],
        &y[..]
    );
    let fits = x[..n as usize].iter().chain([&w[1]]).zip(&y).all(|(&a, &b)| alike(a, b));
    ensure!(
        fits && y.len() == n as usize + 1,
        InvalidArgument,
        "operator {op}: Y must have the shape of the product of X {:?} and W {:?}, got {:?}",
        &x[..],
        &w[..],
        &y[..]
    );
    let left = &y[..axis as usize];
    let rows = if left.iter().any(|&d| d < 0) { -1 } else { left.iter().product() };
    cx.set(fc::OUT, &y, dtype);
    cx.set(fc::MEAN, &[rows], dtype);
    cx.set(fc::VARIANCE, &[rows], dtype);
    cx.share_lod(fc::OUT, fc::X);
    Ok(())
}

fn run_fc(cx: &mut KernelContext) -> Result<()> {
    let (a, x, y) = (cx.attrs::<FcAttrs>(), cx.input(fc::X)?, cx.input(fc::Y)?);
    let mut ins = vec![("Input", x), ("W", cx.input(fc::W)?)];
    ins.extend(cx.opt(fc::BIAS0).map(|t| ("Bias", t)));
    let attrs = [
        ("in_num_col_dims", Attr::Int(a.x_num_col_dims)),
        ("activation_type", Attr::String(a.activation_type.to_string())),
    ];
    let sum = add(&out("fc", &ins, &attrs)?, y)?;
    let mut outputs = layer_norm(&sum, cx.opt(fc::SCALE), cx.opt(fc::BIAS1), a.begin_norm_axis, a.epsilon)?;
    cx.set(fc::OUT, outputs.take("Y")?.with_lod(x.lod.clone()));
    cx.set(fc::MEAN, outputs.take("Mean")?);
    cx.set(fc::VARIANCE, outputs.take("Variance")?);
    Ok(())
}

pub static ATTENTION: Op = Op {
    name: "multihead_matmul",
    inputs: attention::INS,
    outputs: attention::OUTS,
    attrs: AttentionAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_attention,
    cpu: Kernel::Pure(run_attention),
    ..OP
};

pub static SKIP: Op = Op {
    name: "skip_layernorm",
    inputs: skip::INS,
    outputs: skip::OUTS,
    attrs: SkipAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_skip,
    cpu: Kernel::Pure(run_skip),
    ..OP
};

pub static EMBEDDING: Op = Op {
    name: "fused_embedding_eltwise_layernorm",
    inputs: embedding::INS,
    outputs: embedding::OUTS,
    attrs: EmbeddingAttrs::FIELDS,
    infer: infer_embedding,
    cpu: Kernel::Pure(run_embedding),
    ..OP
};

pub static FC: Op = Op {
    name: "fused_fc_elementwise_layernorm",
    inputs: fc::INS,
    outputs: fc::OUTS,
    attrs: FcAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_fc,
    cpu: Kernel::Pure(run_fc),
    ..OP
};

pub static TABLE: &[&Op] = &[&ATTENTION, &SKIP, &EMBEDDING, &FC];
