//! conv2d_fusion (convolution, bias, residual, activation) and conv2d_inception_fusion (the four branches of an
//! Inception block), of optimized inference Programs.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::Meta;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::conv::Convolve;
use oar_kernels::elementwise::{update, update_by};
use oar_kernels::pooling::{avg_pool, max_pool, Pool};
use oar_kernels::types::Number;
use oar_ops_common::conv::{ConvPlan, Convolution};
use oar_ops_common::elements::{same_types, strided, strides_of};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct FusionAttrs {
        is_test: bool = false, strides: Vec<i32> = vec![1, 1], paddings: Vec<i32> = vec![0, 0],
        padding_algorithm: Text = "EXPLICIT".into(), groups: i32 = 1, dilations: Vec<i32> = vec![1, 1],
        use_cudnn: bool = false, fuse_relu_before_depthwise_conv: bool = false, use_mkldnn: bool = false,
        use_quantizer: bool = false, mkldnn_data_type: Text = "float32".into(), fuse_relu: bool = false,
        fuse_brelu: bool = false, fuse_brelu_threshold: f32 = 6.0, fuse_activation: Text = "".into(),
        fuse_alpha: f32 = 0.0, fuse_beta: f32 = 0.0, use_addto: bool = false, fuse_residual_connection: bool = false,
        Scale_in: f32 = 1.0, Scale_out: f32 = 1.0, Scale_in_eltwise: f32 = 1.0, Scale_weights: Vec<f32> = vec![1.0],
        force_fp32_output: bool = false, data_format: Text = "NCHW".into(), workspace_size_MB: i32 = 512,
        exhaustive_search: bool = false, activation: Text = "relu".into(), split_channels: Vec<i32> = vec![],
        search_times: i32 = -1,
    }
    pub struct InceptionAttrs {
        pooling_type: String, exclusive: bool = true, activation: Text = "relu".into(), workspace_size_MB: i32 = 512,
    }
}

slots! {
    /// PANELS holds the filters as panels for the matrix unit, packed when a predictor loads its model.
    mod fusion {
        INPUT "Input", FILTER "Filter", BIAS "Bias".dispensable(), RESIDUAL "ResidualData".dispensable(),
        CACHE "AlgoCache".dispensable(), PANELS "Panels".dispensable().extra()
        => OUTPUT "Output", OUTPUTS "Outputs".duplicable().dispensable()
    }
    mod inception {
        INPUT "Input", FILTER "Filter".duplicable(), BIAS "Bias".duplicable() => OUTPUT "Output", TEMP "TempOutput".duplicable()
    }
}

/// Applies the named activation in place.
fn activate<T: Convolve>(op: &str, name: &str, y: &mut [T]) -> Result<()> {
    let (zero, one, six) = (T::ZERO, T::ONE, T::from_f64(6.0));
    match name {
        "identity" => {}
        "relu" | "relux" => update(y, |v| if v > zero { v } else { zero }),
        "relu6" => update(y, |v| {
            let v = if v > zero { v } else { zero };
            if v > six {
                six
            } else {
                v
            }
        }),
        "sigmoid" => update(y, |v| one / (one + (zero - v).exp_::<false>())),
        "tanh" => update(y, |v| v.tanh_::<false>()),
        _ => bail!(
            InvalidArgument,
            "operator {op}: activation must be identity, relu, relux, relu6, sigmoid or tanh, got '{name}'"
        ),
    }
    Ok(())
}

fn convolution<'a>(op: &'a str, a: &'a FusionAttrs) -> Convolution<'a> {
    Convolution {
        op,
        data_format: &a.data_format,
        groups: a.groups,
        strides: &a.strides,
        dilations: &a.dilations,
        paddings: &a.paddings,
        padding_algorithm: &a.padding_algorithm,
        transposed: None,
    }
}

fn infer_fusion(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<FusionAttrs>());
    let (x, w, dtype) = (cx.dims(fusion::INPUT)?, cx.dims(fusion::FILTER)?, cx.dtype(fusion::INPUT)?);
    ensure!(x.len() == 4, InvalidArgument, "operator {op}: Input must have 4 dimensions, got shape {:?}", &x[..]);
    ensure!(
        a.data_format != "NHWC",
        PermissionDenied,
        "operator {op}: the channels must be the second dimension (NCHW), got data_format '{}'",
        a.data_format
    );
    let out = convolution(op, a).out(&x, &w)?;
    let bias = cx.dims(fusion::BIAS)?;
    let count = bias.iter().product::<i64>();
    ensure!(
        count == w[0] || w[0] < 0 || bias.iter().any(|&d| d < 0),
        InvalidArgument,
        "operator {op}: Bias must have one number per filter, got shape {:?} for {} filters",
        &bias[..],
        w[0]
    );
    cx.set(fusion::OUTPUT, &out, dtype);
    cx.share_lod(fusion::OUTPUT, fusion::INPUT);
    let parts = &a.split_channels;
    cx.set_outs(fusion::OUTPUTS, parts.len())?;
    let sum = parts.iter().map(|&c| c as i64).sum::<i64>();
    ensure!(
        parts.is_empty() || (parts.iter().all(|&c| c > 0) && (sum == out[1] || out[1] < 0)),
        InvalidArgument,
        "operator {op}: split_channels must be positive and add up to the {} channels of the output, got {parts:?}",
        out[1]
    );
    for (i, &channels) in parts.iter().enumerate() {
        cx.set_nth(fusion::OUTPUTS, i, &[out[0], channels as i64, out[2], out[3]], dtype);
    }
    Ok(())
}

/// Computes the output from the filters themselves.
fn unpacked(cx: &KernelContext, p: &ConvPlan, residual: Option<&Tensor>, relu: bool, out: &mut Tensor) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<FusionAttrs>());
    let (x, w, bias) = (cx.input(fusion::INPUT)?, cx.input(fusion::FILTER)?, cx.input(fusion::BIAS)?);
    dispatch!(x.dtype(), T in [f32, f64], {
        let y = out.data_mut::<T>()?;
        let fused = relu && residual.is_none();
        p.forward_relu(x.data::<T>(), w.data::<T>(), Some(bias.data::<T>()), fused, y);
        match residual {
            Some(z) if relu => {
                let relu = |y: T, z: T| if y + z > T::ZERO { y + z } else { T::ZERO };
                update_by(y, z.data::<T>(), relu);
            }
            Some(z) => {
                update_by(y, z.data::<T>(), |y, z| y + z);
                activate(op, &a.activation, y)?;
            }
            None if relu => {}
            None => activate(op, &a.activation, y)?,
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_fusion(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<FusionAttrs>());
    let (x, w, bias) = (cx.input(fusion::INPUT)?, cx.input(fusion::FILTER)?, cx.input(fusion::BIAS)?);
    let residual = cx.opt(fusion::RESIDUAL);
    let (mut p, dims) = convolution(op, a).plan(x.dims(), w.dims())?;
    p.conv.bf16 = a.mkldnn_data_type == "bfloat16";
    same_types(op, x, &[w, bias])?;
    if let Some(z) = residual {
        same_types(op, x, &[z])?;
        ensure!(
            z.dims() == &dims[..],
            InvalidArgument,
            "operator {op}: ResidualData must have the output's shape {:?}, got {:?}",
            &dims[..],
            z.dims()
        );
    }
    let mut out = cx.take_out(fusion::OUTPUT)?;
    let relu = a.activation == "relu";
    if p.forward_packed([x, w], cx.opt(fusion::PANELS), Some(bias), residual, relu, &mut out)? {
        if !relu {
            activate(op, &a.activation, out.data_mut::<f32>()?)?;
        }
    } else {
        unpacked(cx, &p, residual, relu, &mut out)?;
    }
    let (strides, mut first) = (strides_of(&dims), 0);
    for (i, &channels) in a.split_channels.iter().enumerate() {
        let part = [dims[0], channels as i64, dims[2], dims[3]];
        cx.set_nth(fusion::OUTPUTS, i, strided(&out, &part, &strides, first * strides[1] as usize)?);
        first += channels as usize;
    }
    cx.set(fusion::OUTPUT, out);
    Ok(())
}

/// The geometry of an Inception block: channels of its branches, and the convolutions of one image.
struct Block {
    plans: [ConvPlan; 4],
    /// Output channels of branches 0 to 3.
    channels: [usize; 4],
    out: Dims,
}

impl Block {
    /// Checks the filters [k, c, ..] of the four convolutions of `x`; sizes must be known.
    fn new(op: &str, x: &[i64], filters: &[&[i64]]) -> Result<Block> {
        ensure!(
            x.len() == 4 && filters.len() == 4 && filters.iter().all(|f| f.len() == 4),
            InvalidArgument,
            "operator {op}: Input and the four filters must have 4 dimensions, got {x:?} and {filters:?}"
        );
        let f = |i: usize, d: usize| filters[i][d];
        // Two 1x1 convolutions of all channels, and 3x3 convolutions of the channels that the previous branch passes
        // on.
        let inputs = [x[1], x[1], f(2, 1).saturating_mul(2), f(3, 1)];
        let mut plans = Vec::new();
        for i in 0..4 {
            let (pad, groups) = ([i32::from(i > 1); 2], if i == 2 { 2 } else { 1 });
            let c = Convolution {
                op,
                data_format: "NCHW",
                groups,
                strides: &[1, 1],
                dilations: &[1, 1],
                paddings: &pad,
                padding_algorithm: "EXPLICIT",
                transposed: None,
            };
            let (plan, out) = c.plan(&[1, inputs[i], x[2], x[3]], filters[i])?;
            ensure!(
                out[2..] == x[2..],
                InvalidArgument,
                "operator {op}: filter {i} of shape {:?} must keep the size of the image {x:?}",
                filters[i]
            );
            plans.push(plan);
        }
        let channels = [f(0, 0), f(1, 0) - 2 * f(2, 1), f(2, 0) - f(3, 1), f(3, 0)];
        ensure!(
            channels.iter().all(|&c| c >= 0),
            InvalidArgument,
            "operator {op}: a branch has fewer channels than the next one reads, filters {filters:?}"
        );
        let out = Dims::from_slice(&[x[0], channels.iter().sum(), x[2], x[3]]);
        let plans = [plans[0], plans[1], plans[2], plans[3]];
        Ok(Block { plans, channels: channels.map(|c| c as usize), out })
    }

    /// Computes one image: branch 0 is pooled and convolved; branch 1 passes part of its result to branch 2, branch 2
    /// to branch 3.
    fn run<T: Convolve>(
        &self,
        x: &[T],
        pooled: &[T],
        w: &[&[T]],
        bias: &[&[T]],
        finish: impl Fn(&mut [T]) -> Result<()>,
        y: &mut [T],
        temp: &mut [T],
    ) -> Result<()> {
        let plane = x.len() / self.plans[1].conv.in_channels.max(1);
        let ends: Vec<usize> = (0..4).map(|i| self.channels[..=i].iter().sum::<usize>() * plane).collect();
        let make = |i: usize, from: &[T], to: &mut [T]| {
            self.plans[i].forward(from, w[i], Some(bias[i]), to);
            finish(to)
        };
        make(0, pooled, &mut y[..ends[0]])?;
        let mut wide = vec![T::ZERO; self.plans[1].channels() * plane];
        make(1, x, &mut wide)?;
        let (own, next) = wide.split_at(ends[1] - ends[0]);
        y[ends[0]..ends[1]].copy_from_slice(own);
        make(2, next, temp)?;
        let (own, next) = temp.split_at(ends[2] - ends[1]);
        y[ends[1]..ends[2]].copy_from_slice(own);
        make(3, next, &mut y[ends[2]..ends[3]])
    }
}

fn infer_inception(cx: &mut ShapeContext) -> Result<()> {
    let (op, x, dtype) = (cx.op.name, cx.dims(inception::INPUT)?, cx.dtype(inception::INPUT)?);
    let filters = (0..cx.count(inception::FILTER))
        .map(|i| Ok(cx.meta(inception::FILTER, i)?.dims))
        .collect::<Result<Vec<Dims>>>()?;
    let known = filters.iter().flatten().chain(&x).all(|&d| d >= 0);
    let out = if known {
        Block::new(op, &x, &filters.iter().map(|f| &f[..]).collect::<Vec<_>>())?.out
    } else {
        ensure!(x.len() == 4, InvalidArgument, "operator {op}: Input must have 4 dimensions, got {:?}", &x[..]);
        Dims::from_slice(&[x[0], -1, x[2], x[3]])
    };
    cx.set(inception::OUTPUT, &out, dtype);
    cx.set_outs(inception::TEMP, 2)?;
    // Scratch outputs: the pooled image and the results of branches 1 and 2; callers may omit them.
    let temps = [x.clone(), Dims::from_slice(&[x[0], filters.get(2).map_or(-1, |f| f[0]), x[2], x[3]])];
    for (i, dims) in temps.into_iter().enumerate() {
        cx.set_meta(inception::TEMP, i, Meta { dims, dtype, ..Meta::default() });
    }
    Ok(())
}

fn run_inception(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<InceptionAttrs>());
    let (x, filters, biases) =
        (cx.input(inception::INPUT)?, cx.inputs(inception::FILTER)?, cx.inputs(inception::BIAS)?);
    ensure!(
        matches!(&a.pooling_type[..], "max" | "avg"),
        InvalidArgument,
        "operator {op}: pooling_type must be max or avg, got '{}'",
        a.pooling_type
    );
    let block = Block::new(op, x.dims(), &filters.iter().map(|f| f.dims()).collect::<Vec<_>>())?;
    same_types(op, x, &filters)?;
    same_types(op, x, &biases)?;
    ensure!(
        biases.len() == 4 && biases.iter().zip(&filters).all(|(b, f)| b.numel() as i64 == f.dims()[0]),
        InvalidArgument,
        "operator {op}: there must be 4 Biases with one number per filter, got {biases:?}"
    );
    let [n, c, h, w] = [0, 1, 2, 3].map(|i| x.dims()[i] as usize);
    let windows = Pool::planes((n, c), (h, w), (h, w), (3, 3), (1, 1), (1, 1));
    let windows = Pool { exclusive: a.exclusive, ..windows };
    let mut pooled = Tensor::empty(x.dtype(), x.dims())?;
    let mut temp = Tensor::empty(x.dtype(), &[x.dims()[0], filters[2].dims()[0], x.dims()[2], x.dims()[3]])?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let pool = if a.pooling_type == "max" { max_pool::<T> } else { avg_pool::<T> };
        pool(&windows, x.data::<T>(), pooled.data_mut::<T>()?);
        let ws: Vec<&[T]> = filters.iter().map(|t| t.data::<T>()).collect();
        let bs: Vec<&[T]> = biases.iter().map(|t| t.data::<T>()).collect();
        let (x, from, y, temp) =
            (x.data::<T>(), pooled.data::<T>(), cx.out_data::<T>(inception::OUTPUT)?, temp.data_mut::<T>()?);
        let [own, out, next] = [x.len(), y.len(), temp.len()].map(|l| l / n.max(1));
        for i in 0..n {
            let (y, temp) = (&mut y[i * out..][..out], &mut temp[i * next..][..next]);
            let finish = |y: &mut [T]| activate(op, &a.activation, y);
            block.run(&x[i * own..][..own], &from[i * own..][..own], &ws, &bs, finish, y, temp)?;
        }
    }, other => return cx.unsupported(other));
    for (i, t) in [pooled, temp].into_iter().enumerate().take(cx.n_outs(inception::TEMP)) {
        cx.set_nth(inception::TEMP, i, t);
    }
    Ok(())
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

pub static FUSION: Op = Op {
    name: "conv2d_fusion",
    inputs: fusion::INS,
    outputs: fusion::OUTS,
    attrs: FusionAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_fusion,
    cpu: Kernel::Pure(|cx| in_f32(cx, fusion::INPUT, run_fusion)),
    ..OP
};

pub static INCEPTION: Op = Op {
    name: "conv2d_inception_fusion",
    inputs: inception::INS,
    outputs: inception::OUTS,
    attrs: InceptionAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_inception,
    cpu: Kernel::Pure(|cx| in_f32(cx, inception::INPUT, run_inception)),
    ..OP
};

pub static TABLE: &[&Op] = &[&FUSION, &INCEPTION];
