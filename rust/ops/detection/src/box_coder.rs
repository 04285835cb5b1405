//! box_coder (boxes relative to other boxes), box_clip, box_decoder_and_assign.

use super::boxes::BoxFloat;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::like_first;
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::detection::box_coder::{
    clip as clip_image, decode, decode_and_assign as assign_boxes, encode, Priors,
};
use oar_ops_common::{axis, levels};

attrs! {
    pub struct CoderAttrs {
        code_type: Text = "encode_center_size".into(), box_normalized: bool = true, axis: i32 = 0,
        variance: Vec<f32> = vec![],
    }
    pub struct AssignAttrs { box_clip: f32 = 4.135 }
}

slots! {
    mod coder { PRIOR "PriorBox", VARIANCE "PriorBoxVar".dispensable(), TARGET "TargetBox" => OUT "OutputBox" }
    mod clip { INPUT "Input", INFO "ImInfo" => OUT "Output" }
    mod assign {
        PRIOR "PriorBox", VARIANCE "PriorBoxVar".dispensable(), TARGET "TargetBox", SCORE "BoxScore"
        => BOX "DecodeBox", ASSIGNED "OutputAssignBox"
    }
}

/// An input of the data type of `other`; the shape rule has checked its shape.
fn alike<'a>(cx: &KernelContext<'a>, slot: InSlot, other: &Tensor) -> Result<&'a Tensor> {
    let t = cx.input(slot)?;
    axis::like(cx, t, t.dims(), other.dtype(), cx.op.inputs[slot.0].name)?;
    Ok(t)
}

fn encodes(op: &str, a: &CoderAttrs) -> Result<bool> {
    Ok(match a.code_type.as_str() {
        "encode_center_size" => true,
        "decode_center_size" => false,
        other => bail!(
            InvalidArgument,
            "operator {op}: code_type must be encode_center_size or decode_center_size, got '{other}'"
        ),
    })
}

fn infer_coder(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<CoderAttrs>());
    cx.shaped_in_run(coder::PRIOR, &[-1, 4])?;
    let count = cx.dims(coder::PRIOR)?.first().copied().unwrap_or(-1);
    if cx.has(coder::VARIANCE) {
        cx.shaped_in_run(coder::VARIANCE, &[count, 4])?;
        ensure!(
            a.variance.is_empty(),
            InvalidArgument,
            "operator {op}: input 'PriorBoxVar' and attribute variance cannot both be given"
        );
    }
    ensure!(
        matches!(a.variance.len(), 0 | 4),
        InvalidArgument,
        "operator {op}: variance must be 4 numbers or none, got {:?}",
        a.variance
    );
    let dtype = cx.dtype(coder::TARGET)?;
    let mut from = coder::TARGET;
    if encodes(op, a)? {
        cx.shaped(coder::TARGET, &[-1, 4])?;
        let rows = cx.dims(coder::TARGET)?[0];
        cx.set(coder::OUT, &[rows, count, 4], dtype);
    } else {
        ensure!(matches!(a.axis, 0 | 1), InvalidArgument, "operator {op}: axis must be 0 or 1, got {}", a.axis);
        let dims = if a.axis == 0 { [-1, count, 4] } else { [count, -1, 4] };
        cx.shaped(coder::TARGET, &[-1, -1, -1])?;
        cx.shaped_in_run(coder::TARGET, &dims)?;
        from = if a.axis == 0 { coder::TARGET } else { coder::PRIOR };
        cx.like(coder::OUT, coder::TARGET)?;
    }
    cx.share_lod(coder::OUT, from);
    Ok(())
}

fn code<T: BoxFloat>(cx: &mut KernelContext, a: &CoderAttrs) -> Result<()> {
    let target = cx.input(coder::TARGET)?;
    let levels = levels::count(target);
    ensure!(
        levels <= 1,
        InvalidArgument,
        "operator box_coder: the LoD of TargetBox must have one level, got {levels} levels"
    );
    let prior = alike(cx, coder::PRIOR, target)?.data::<T>();
    let each = match cx.opt(coder::VARIANCE) {
        Some(_) => Some(alike(cx, coder::VARIANCE, target)?.data::<T>()),
        None => None,
    };
    let variance = match a.variance[..] {
        [x, y, w, h] => [x, y, w, h].map(|v| T::from_f64(v.into())),
        _ => [T::ONE; 4],
    };
    let priors = Priors { boxes: prior, variances: each, variance, normalized: a.box_normalized };
    let (encodes, data) = (encodes(cx.op.name, a)?, target.data::<T>());
    let out = cx.out(coder::OUT)?;
    let columns = out.dims()[1] as usize;
    if encodes {
        encode(&priors, data, out.data_mut::<T>()?);
    } else {
        decode(&priors, data, columns, a.axis == 1, out.data_mut::<T>()?);
    }
    Ok(())
}

pub static BOX_CODER: Op = Op {
    name: "box_coder",
    inputs: coder::INS,
    outputs: coder::OUTS,
    attrs: CoderAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_coder,
    cpu: Kernel::Pure(|cx| {
        let (a, dtype) = (cx.attrs::<CoderAttrs>(), cx.input(coder::TARGET)?.dtype());
        dispatch!(dtype, T in [f32, f64], code::<T>(cx, a), other => cx.unsupported(other))
    }),
    ..OP
};

// box_clip. ImInfo holds height, width and scale of each image.

fn clip_boxes<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let input = cx.input(clip::INPUT)?;
    let info = alike(cx, clip::INFO, input)?;
    let level = levels::only("box_clip", "Input", input)?;
    let images = level.len() - 1;
    ensure!(
        info.dims()[0] as usize >= images,
        InvalidArgument,
        "operator box_clip: ImInfo must have a row for each of {images} images, got {info:?}"
    );
    let (x, info, width) = (input.data::<T>(), info.data::<T>(), levels::width(input));
    let out = cx.out_data::<T>(clip::OUT)?;
    for (image, ends) in info.chunks_exact(3).zip(level.windows(2)) {
        let own = ends[0] * width..ends[1] * width;
        clip_image(image, &x[own.clone()], &mut out[own]);
    }
    Ok(())
}

pub static BOX_CLIP: Op = Op {
    name: "box_clip",
    inputs: clip::INS,
    outputs: clip::OUTS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        let dims = cx.dims(clip::INPUT)?;
        if cx.tensor(clip::INPUT).is_some() && dims.last() != Some(&4) {
            return cx.wrong(clip::INPUT, "boxes, of 4 in the last dimension");
        }
        cx.shaped_in_run(clip::INFO, &[-1, 3])?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(clip::INPUT)?.dtype();
        dispatch!(dtype, T in [f32, f64], clip_boxes::<T>(cx), other => cx.unsupported(other))
    }),
    ..OP
};

fn infer_assign(cx: &mut ShapeContext) -> Result<()> {
    cx.shaped(assign::PRIOR, &[-1, 4])?;
    cx.shaped(assign::VARIANCE, &[4])?;
    let rows = cx.dims(assign::PRIOR)?[0];
    cx.shaped(assign::SCORE, &[-1, -1])?;
    cx.shaped(assign::TARGET, &[-1, -1])?;
    cx.shaped_in_run(assign::SCORE, &[rows, -1])?;
    let classes = cx.dims(assign::SCORE)?[1];
    cx.shaped_in_run(assign::TARGET, &[rows, classes.saturating_mul(4)])?;
    let dims = cx.dims(assign::TARGET)?;
    let dtype = cx.dtype(assign::TARGET)?;
    cx.set(assign::BOX, &dims, dtype);
    cx.set(assign::ASSIGNED, &[rows, 4], dtype);
    cx.share_lod(assign::BOX, assign::TARGET);
    cx.share_lod(assign::ASSIGNED, assign::PRIOR);
    Ok(())
}

fn decode_and_assign<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let target = cx.input(assign::TARGET)?;
    let prior = alike(cx, assign::PRIOR, target)?.data::<T>();
    let v = alike(cx, assign::VARIANCE, target)?.data::<T>();
    let score = alike(cx, assign::SCORE, target)?;
    let (classes, score) = (score.dims()[1] as usize, score.data::<T>());
    let most = T::from_f64(cx.attrs::<AssignAttrs>().box_clip.into());
    let data = target.data::<T>();
    let [boxes, assigned] = cx.each_out([assign::BOX, assign::ASSIGNED]);
    let boxes = boxes.map(|t| t.data_mut::<T>()).transpose()?;
    let assigned = assigned.map(|t| t.data_mut::<T>()).transpose()?;
    assign_boxes((prior, v), (data, score), classes, most, boxes, assigned);
    Ok(())
}

pub static BOX_DECODER_AND_ASSIGN: Op = Op {
    name: "box_decoder_and_assign",
    inputs: assign::INS,
    outputs: assign::OUTS,
    attrs: AssignAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_assign,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(assign::TARGET)?.dtype();
        dispatch!(dtype, T in [f32, f64], decode_and_assign::<T>(cx), other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&BOX_CODER, &BOX_CLIP, &BOX_DECODER_AND_ASSIGN];
