//! fc: matrix product, bias and relu, of optimized inference Programs.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::gemm::{gemm, Epilogue, View};
use oar_ops_common::elements::same_types;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct FcAttrs {
        in_num_col_dims: i32 = 1, activation_type: Text = "".into(), use_mkldnn: bool = false,
        padding_weights: bool = false,
        use_quantizer: bool = false, mkldnn_data_type: Text = "float32".into(), Scale_in: f32 = 1.0,
        Scale_weights: Vec<f32> = vec![1.0], Scale_out: f32 = 1.0, force_fp32_output: bool = false,
    }
}

slots! {
    /// PANELS holds W as panels for the matrix unit, packed when a predictor loads its model.
    mod fc {
        INPUT "Input", W "W", BIAS "Bias".dispensable(),
        PANELS "Panels".dispensable().extra()
        => OUT "Out"
    }
}

/// Padding rows and columns of padded weights.
const PADDING: i64 = 4;

/// Checks the operands; returns the output shape, and the rows and columns of the weights without padding.
fn out_shape(op: &str, a: &FcAttrs, x: &[i64], w: &[i64], bias: Option<&[i64]>) -> Result<(Dims, [i64; 2])> {
    let beyond = if a.padding_weights { PADDING } else { 0 };
    ensure!(
        w.len() == 2 && w.iter().all(|&d| d < 0 || d >= beyond),
        InvalidArgument,
        "operator {op}: W must have 2 dimensions (with {beyond} rows and columns of padding), got shape {w:?}"
    );
    let matrix = [0, 1].map(|i| if w[i] < 0 { -1 } else { w[i] - beyond });
    let n = a.in_num_col_dims;
    ensure!(
        n > 0 && (n as usize) < x.len(),
        InvalidArgument,
        "operator {op}: in_num_col_dims must be positive and less than the dimensions of Input (shape {x:?}), got {n}"
    );
    let (lead, columns) = x.split_at(n as usize);
    let unknown = columns.iter().any(|&d| d < 0) || matrix[0] < 0;
    ensure!(
        unknown || columns.iter().product::<i64>() == matrix[0],
        InvalidArgument,
        "operator {op}: Input of shape {x:?} flattened after its first {n} dimensions must have as many columns as W has \
         rows, {}",
        matrix[0]
    );
    if let Some(b) = bias {
        let last = b.last().copied().unwrap_or(0);
        ensure!(
            (1..=2).contains(&b.len())
                && (last == matrix[1] || last < 0 || matrix[1] < 0)
                && (b.len() == 1 || b[0] == 1),
            InvalidArgument,
            "operator {op}: Bias must have shape [{0}] or [1, {0}], got {b:?}",
            matrix[1]
        );
    }
    let activation = &a.activation_type[..];
    ensure!(
        activation.is_empty() || activation == "relu",
        InvalidArgument,
        "operator {op}: activation_type must be empty or relu, got '{activation}'"
    );
    let mut out = Dims::from_slice(lead);
    out.push(matrix[1]);
    Ok((out, matrix))
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, w, dtype) = (cx.dims(fc::INPUT)?, cx.dims(fc::W)?, cx.dtype(fc::INPUT)?);
    let bias = if cx.has(fc::BIAS) { Some(cx.dims(fc::BIAS)?) } else { None };
    let (out, _) = out_shape(cx.op.name, cx.attrs(), &x, &w, bias.as_deref())?;
    cx.set(fc::OUT, &out, dtype);
    cx.share_lod(fc::OUT, fc::INPUT);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (a, x, w, bias) = (cx.attrs::<FcAttrs>(), cx.input(fc::INPUT)?, cx.input(fc::W)?, cx.opt(fc::BIAS));
    let (out, [k, n]) = out_shape(cx.op.name, a, x.dims(), w.dims(), bias.map(|b| b.dims()))?;
    for t in [Some(w), bias].into_iter().flatten() {
        same_types(cx.op.name, x, &[t])?;
    }
    let relu = a.activation_type == "relu";
    ensure!(
        bias.is_some() || !relu,
        PermissionDenied,
        "operator {}: activation_type relu needs Bias, which is not given",
        cx.op.name
    );
    let m = out[..out.len() - 1].iter().product::<i64>() as usize;
    let (k, n, row) = (k as usize, n as usize, w.dims()[1] as usize);
    dispatch!(x.dtype(), T in [f32, f64], {
        let epilogue = Epilogue { col_bias: bias.map(|b| b.data::<T>()), relu, bf16: a.mkldnn_data_type == "bfloat16", ..Epilogue::NONE };
        let (a, mut b) = (View::rows(x.data::<T>(), k, false), View::new(w.data::<T>(), row, 1));
        b.panels = cx.opt(fc::PANELS).filter(|p| p.dtype() == DType::U8).map(|p| p.data::<u8>());
        gemm((m, n, k), 1.0, a, b, 0.0, cx.out_data::<T>(fc::OUT)?, n, epilogue);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static FC: Op = Op {
    name: "fc",
    inputs: fc::INS,
    outputs: fc::OUTS,
    attrs: FcAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, fc::INPUT, run)),
    ..OP
};

pub static TABLE: &[&Op] = &[&FC];
