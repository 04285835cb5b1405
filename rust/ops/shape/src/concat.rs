//! concat and split.

use oar_core::attrs;
use oar_core::base::shape::axis;
use oar_core::base::{Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Dst, Fwd, Grad, GradOp, Kernel, KernelContext, Op, ShapeContext, Src, OP};
use oar_core::tensor::{Lod, Tensor};
use oar_core::{bail, ensure, slots};
use oar_ops_common::concat::{concat_into, same_dtype, slice_axis};
use oar_ops_common::elements::parts;
use oar_ops_common::tensor_attr::{int_attr, int_or_unknown, tensor_attr, AttrSource, TensorAttr};
use smallvec::SmallVec;
use std::sync::Arc;

attrs! {
    pub struct ConcatAttrs {
        use_mkldnn: bool = false, axis: i32 = 0, use_quantizer: bool = false,
        mkldnn_data_type: Text = "float32".into(),
    }
    pub struct SplitAttrs { sections: Vec<i32> = vec![], num: i32 = 0, axis: i32 = 0 }
}

slots! {
    mod concat { X "X".duplicable(), AXIS "AxisTensor".dispensable() => OUT "Out" }
    mod concat_grad { X "X".duplicable().meta_only(), AXIS "AxisTensor".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD".duplicable().kernel_allocated() }
    // Outputs may share the bytes of X.
    mod split { X "X", AXIS "AxisTensor".dispensable(), SECTIONS "SectionsTensorList".duplicable().dispensable() => OUT "Out".duplicable().kernel_allocated() }
}

/// Extends the concatenated shape by input `i` of shape `s`; sizes may be unknown while a Program is built.
fn add_shape(op: &str, out: &mut Dims, at: usize, i: usize, s: &[i64]) -> Result<()> {
    ensure!(
        s.len() == out.len(),
        InvalidArgument,
        "operator {op}: all inputs must have as many dimensions, input 0 has {}, input {i} has shape {s:?}",
        out.len()
    );
    for (j, (o, &d)) in out.iter_mut().zip(s).enumerate() {
        if j == at {
            *o = if *o < 0 || d < 0 { -1 } else { *o + d };
        } else if *o < 0 {
            *o = d;
        } else {
            ensure!(
                d < 0 || d == *o,
                InvalidArgument,
                "operator {op}: dimension {j} of all inputs must be equal, of the inputs before it is {o}, input {i} \
                 has shape {s:?}"
            );
        }
    }
    Ok(())
}

fn infer_concat(cx: &mut ShapeContext) -> Result<()> {
    let n = cx.count(concat::X);
    ensure!(n > 0, InvalidArgument, "operator concat needs at least one input");
    let (op, dtype, mut out) = (cx.op.name, cx.dtype(concat::X)?, cx.dims(concat::X)?);
    cx.share_lod(concat::OUT, concat::X);
    let Some(at) = int_or_unknown(cx, concat::AXIS, cx.attrs::<ConcatAttrs>().axis as i64)? else {
        cx.set(concat::OUT, &Dims::from_elem(-1, out.len()), dtype);
        return Ok(());
    };
    let at = axis(op, at, out.len())?;
    for i in 1..n {
        add_shape(op, &mut out, at, i, &cx.meta(concat::X, i)?.dims)?;
    }
    cx.set(concat::OUT, &out, dtype);
    if at == 0 && cx.tensor(concat::X).is_some_and(|t| t.lod.is_some()) {
        if let Some(all) = append_lods(&cx.tensors(concat::X).unwrap_or_default())? {
            cx.outs.slot_mut(concat::OUT.0).iter_mut().for_each(|m| m.lod = Some(all.clone()));
        }
    }
    Ok(())
}

fn concat(cx: &mut KernelContext) -> Result<()> {
    let parts = cx.inputs(concat::X)?;
    same_dtype(cx.op.name, &parts)?;
    let at = int_attr(cx, concat::AXIS, cx.attrs::<ConcatAttrs>().axis as i64)?;
    let at = axis(cx.op.name, at, parts[0].rank())?;
    let lens: Vec<usize> = parts.iter().map(|t| t.dims()[at] as usize).collect();
    concat_into(&parts, &lens, at, cx.out(concat::OUT)?)
}

/// Concatenates the LoDs of the parts, if every part has one.
fn append_lods(parts: &[&Tensor]) -> Result<Option<Arc<Lod>>> {
    let Some(first) = parts.first().and_then(|t| t.lod.as_ref()) else { return Ok(None) };
    let mut all: Lod = (**first).clone();
    for (i, t) in parts.iter().enumerate().skip(1) {
        let Some(lod) = &t.lod else { return Ok(None) };
        ensure!(
            lod.len() == all.len(),
            Unimplemented,
            "operator concat: all inputs must have as many levels of LoD, input 0 has {}, input {i} has {}",
            all.len(),
            lod.len()
        );
        for (to, from) in all.iter_mut().zip(lod.iter()) {
            let base = to.last().copied().unwrap_or(0);
            to.extend(from.iter().skip(1).map(|&o| base + o));
        }
    }
    Ok(Some(Arc::new(all)))
}

fn concat_grad(cx: &mut KernelContext) -> Result<()> {
    let d = cx.input(concat_grad::DOUT)?;
    let at = int_attr(cx, concat_grad::AXIS, cx.attrs::<ConcatAttrs>().axis as i64)?;
    let at = axis(cx.op.name, at, d.rank())?;
    let parts = cx.inputs(concat_grad::X)?;
    let lens: Vec<i64> = parts.iter().map(|t| t.dims().get(at).copied().unwrap_or(0)).collect();
    let same_sizes =
        |dims: &[i64]| dims.len() == d.rank() && (0..dims.len()).all(|i| i == at || dims[i] == d.dims()[i]);
    ensure!(
        parts.iter().all(|t| same_sizes(t.dims())),
        InvalidArgument,
        "operator concat_grad: the inputs {parts:?} do not fit the gradient's shape {:?} along axis {at}",
        d.dims()
    );
    ensure!(
        lens.iter().sum::<i64>() == d.dims()[at],
        InvalidArgument,
        "operator concat_grad: the inputs' sizes {lens:?} at axis {at} do not add up to the gradient's shape {:?}",
        d.dims()
    );
    let mut from = 0;
    for (i, &len) in lens.iter().enumerate() {
        if cx.wants_nth(concat_grad::DX, i) {
            cx.set_nth(concat_grad::DX, i, slice_axis(d, at, from, len)?.with_lod(parts[i].lod.clone()));
        }
        from += len;
    }
    Ok(())
}

const AGAIN: &[(&str, &str)] = &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];

pub static CONCAT: Op = Op {
    name: "concat",
    inputs: concat::INS,
    outputs: concat::OUTS,
    attrs: ConcatAttrs::FIELDS,
    infer: infer_concat,
    cpu: Kernel::Pure(concat),
    grad: Grad::By(&CONCAT_GRAD),
    ..OP
};
pub static CONCAT_GRAD: Op = Op {
    name: "concat_grad",
    inputs: concat_grad::INS,
    outputs: concat_grad::OUTS,
    attrs: ConcatAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(concat_grad),
    grad: Grad::Map(&CONCAT, AGAIN),
    ..OP
};

// split

type Sizes = SmallVec<[i64; 8]>;

/// Sizes of the outputs along an axis of size `len` (-1: unknown). One section may be -1: the rest.
fn section_sizes(op: &str, len: i64, num: i32, sections: &[i64]) -> Result<Sizes> {
    let count = parts(op, num)?;
    if count > 0 {
        let n = count as i64;
        ensure!(
            len < 0 || len % n == 0,
            InvalidArgument,
            "operator {op}: the size {len} of the axis cannot be divided evenly in {num} parts"
        );
        return Ok(Sizes::from_elem(if len < 0 { -1 } else { len / n }, count));
    }
    let mut sizes = Sizes::from_slice(sections);
    ensure!(!sizes.is_empty(), InvalidArgument, "operator {op}: either num or sections must be given");
    ensure!(
        sizes.iter().all(|&s| s >= -1) && sizes.iter().filter(|&&s| s == -1).count() <= 1,
        InvalidArgument,
        "operator {op}: sections must be sizes, of which one can be -1, got {sections:?}"
    );
    if len < 0 {
        return Ok(sizes);
    }
    let known: i64 = sizes.iter().filter(|&&s| s >= 0).fold(0i64, |a, &s| a.saturating_add(s));
    match sizes.iter_mut().find(|s| **s == -1) {
        Some(rest) if known < len => *rest = len - known,
        None if known == len => {}
        _ => bail!(InvalidArgument, "operator {op}: sections {sections:?} do not add up to the size {len} of the axis"),
    }
    Ok(sizes)
}

fn sections_attr(a: &SplitAttrs) -> Sizes {
    a.sections.iter().map(|&s| s as i64).collect()
}

/// Tensor attribute of the sections.
const SECTIONS: [AttrSource; 1] = [AttrSource::List(split::SECTIONS)];

fn infer_split(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<SplitAttrs>();
    // Sections are unknown while a Program is built.
    let sections = match tensor_attr(cx, &SECTIONS)? {
        TensorAttr::Known(v) => Some(Sizes::from_vec(v)),
        TensorAttr::Length(n) if a.num <= 0 => {
            cx.set_outs(split::OUT, n)?;
            None
        }
        _ => Some(sections_attr(a)),
    };
    if let Some(sections) = &sections {
        let n = if a.num > 0 { parts(cx.op.name, a.num)? } else { sections.len() };
        ensure!(n > 0, InvalidArgument, "operator split: either num or sections must be given");
        cx.set_outs(split::OUT, n)?;
    }
    let (x, dtype) = (cx.dims(split::X)?, cx.dtype(split::X)?);
    let Some(at) = int_or_unknown(cx, split::AXIS, a.axis as i64)? else {
        let dims = Dims::from_elem(-1, x.len());
        (0..cx.outs(split::OUT)).for_each(|i| cx.set_nth(split::OUT, i, &dims, dtype));
        cx.share_lod(split::OUT, split::X);
        return Ok(());
    };
    let at = axis(cx.op.name, at, x.len())?;
    let sizes = match sections {
        Some(sections) => section_sizes(cx.op.name, x[at], a.num, &sections)?,
        None => Sizes::from_elem(-1, cx.outs(split::OUT)),
    };
    let mut dims = x;
    for (i, &size) in sizes.iter().enumerate() {
        dims[at] = size;
        cx.set_nth(split::OUT, i, &dims, dtype);
    }
    if at != 0 {
        cx.share_lod(split::OUT, split::X);
    }
    Ok(())
}

fn split(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<SplitAttrs>();
    let x = cx.input(split::X)?;
    let at = axis(cx.op.name, int_attr(cx, split::AXIS, a.axis as i64)?, x.rank())?;
    let sections = tensor_attr(cx, &SECTIONS)?.values().map_or_else(|| sections_attr(a), Sizes::from_vec);
    let mut from = 0;
    for (i, len) in section_sizes(cx.op.name, x.dims()[at], a.num, &sections)?.into_iter().enumerate() {
        if cx.wants_nth(split::OUT, i) {
            let lod = x.lod.clone().filter(|_| at != 0);
            cx.set_nth(split::OUT, i, slice_axis(x, at, from, len)?.with_lod(lod));
        }
        from += len;
    }
    Ok(())
}

/// The gradient concatenates the gradients of the outputs.
fn split_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let mut ins = vec![vec![Src::GradOut(split::OUT.0, None)]];
    if f.ins.get(split::AXIS.0).is_some_and(|&n| n > 0) {
        ins.push(vec![Src::In(split::AXIS.0, None)]);
    }
    let attrs = CONCAT.attrs.convert("concat", f.attrs)?;
    Ok(vec![GradOp { op: &CONCAT, attrs, ins, outs: vec![vec![Dst(split::X.0, None)]] }])
}

pub static SPLIT: Op = Op {
    name: "split",
    inputs: split::INS,
    outputs: split::OUTS,
    attrs: SplitAttrs::FIELDS,
    infer: infer_split,
    cpu: Kernel::Pure(split),
    grad: Grad::Fn(split_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&CONCAT, &CONCAT_GRAD, &SPLIT];
