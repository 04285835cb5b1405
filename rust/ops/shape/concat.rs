//! concat and split.

use oar_core::attrs;
use oar_core::base::shape::axis;
use oar_core::base::{Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::parts::elements::share;
use oar_core::op::parts::given::{axis_given, given, Way};
use oar_core::op::parts::join::{cut, join, same_dtype};
use oar_core::op::InSlot;
use oar_core::op::{slot, Dst, Fwd, Grad, GradOp, Infer, Kernel, Op, Run, Src, OP};
use oar_core::tensor::{Lod, Tensor};
use oar_core::{bail, ensure};
use std::sync::Arc;

attrs! {
    pub struct ConcatAttrs {
        use_mkldnn: bool = false, axis: i32 = 0, use_quantizer: bool = false,
        mkldnn_data_type: Text = "float32".into(),
    }
    pub struct SplitAttrs { sections: Vec<i32> = vec![], num: i32 = 0, axis: i32 = 0 }
}

/// The shape of the joined tensors; sizes may be unknown while a Program is built.
fn joined(op: &str, shapes: &[Dims], at: i64) -> Result<(Dims, usize)> {
    let mut out = shapes[0].clone();
    let at = axis(op, at, out.len())?;
    for (i, s) in shapes.iter().enumerate().skip(1) {
        ensure!(
            s.len() == out.len(),
            InvalidArgument,
            "operator {op}: all inputs must have as many dimensions, input 0 has shape {:?}, input {i} {s:?}",
            shapes[0]
        );
        for j in 0..out.len() {
            if j == at {
                out[j] = if out[j] < 0 || s[j] < 0 { -1 } else { out[j] + s[j] };
            } else if out[j] < 0 {
                out[j] = s[j];
            } else {
                ensure!(
                    s[j] < 0 || s[j] == out[j],
                    InvalidArgument,
                    "operator {op}: dimension {j} of all inputs must be equal, input 0 has shape {:?}, input {i} {s:?}",
                    shapes[0]
                );
            }
        }
    }
    Ok((out, at))
}

fn infer_concat(cx: &mut Infer) -> Result<()> {
    let n = cx.count(0);
    ensure!(n > 0, InvalidArgument, "operator concat needs at least one input");
    if cx.is_run() {
        return Ok(());
    }
    let dtype = cx.dtype(0)?;
    let shapes = (0..n).map(|i| Ok(cx.meta(0, i)?.dims)).collect::<Result<Vec<_>>>()?;
    let out = if cx.has(1) {
        Dims::from_elem(-1, shapes[0].len())
    } else {
        joined(cx.op.name, &shapes, cx.attrs::<ConcatAttrs>().axis as i64)?.0
    };
    cx.set(0, &out, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

fn concat(cx: &mut Run) -> Result<()> {
    let parts = cx.inputs(0)?;
    ensure!(!parts.is_empty(), InvalidArgument, "operator concat needs at least one input");
    same_dtype(cx.op.name, &parts)?;
    let at = axis_given(cx, 1, cx.attrs::<ConcatAttrs>().axis as i64)?;
    let shapes: Vec<Dims> = parts.iter().map(|t| Dims::from_slice(t.dims())).collect();
    let (dims, at) = joined(cx.op.name, &shapes, at)?;
    let mut out = if parts.len() == 1 { share(parts[0])? } else { join(&parts, &dims, at)? };
    out.lod = parts[0].lod.clone();
    if at == 0 {
        out.lod = append_lods(&parts)?.or(out.lod);
    }
    cx.set(0, out);
    Ok(())
}

/// Sequences of all parts one after the other, when every part has LoD.
fn append_lods(parts: &[&Tensor]) -> Result<Option<Arc<Lod>>> {
    let Some(first) = &parts[0].lod else { return Ok(None) };
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

fn concat_grad(cx: &mut Run) -> Result<()> {
    let d = cx.input(2)?;
    let at = axis(cx.op.name, axis_given(cx, 1, cx.attrs::<ConcatAttrs>().axis as i64)?, d.rank())?;
    let parts = cx.inputs(0)?;
    let lens: Vec<i64> = parts.iter().map(|t| t.dims().get(at).copied().unwrap_or(0)).collect();
    let beside = |dims: &[i64]| dims.len() == d.rank() && (0..dims.len()).all(|i| i == at || dims[i] == d.dims()[i]);
    ensure!(
        parts.iter().all(|t| beside(t.dims())),
        InvalidArgument,
        "operator concat_grad: the inputs {parts:?} are no parts of the gradient's shape {:?} along axis {at}",
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
        if cx.wants_nth(0, i) {
            cx.set_nth(0, i, cut(d, at, from, len)?.with_lod(parts[i].lod.clone()));
        }
        from += len;
    }
    Ok(())
}

const AGAIN: &[(&str, &str)] = &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];

pub static CONCAT: Op = Op {
    name: "concat",
    inputs: &[slot("X").many(), slot("AxisTensor").opt()],
    outputs: &[slot("Out")],
    attrs: ConcatAttrs::FIELDS,
    infer: infer_concat,
    cpu: Kernel::Pure(concat),
    grad: Grad::By(&CONCAT_GRAD),
    ..OP
};
pub static CONCAT_GRAD: Op = Op {
    name: "concat_grad",
    inputs: &[slot("X").many().meta_only(), slot("AxisTensor").opt(), slot("Out@GRAD")],
    outputs: &[slot("X@GRAD").many()],
    attrs: ConcatAttrs::FIELDS,
    infer: |cx| if cx.is_run() { Ok(()) } else { grads_like_inputs(cx) },
    cpu: Kernel::Pure(concat_grad),
    grad: Grad::Map(&CONCAT, AGAIN),
    ..OP
};

// split

/// Sizes of the parts along an axis of size `len` (-1 while unknown); one of them may be -1: what is left.
fn section_sizes(op: &str, len: i64, num: i32, sections: &[i64]) -> Result<Vec<i64>> {
    ensure!(num >= 0, InvalidArgument, "operator {op}: num must not be negative, got {num}");
    if num > 0 {
        let n = num as i64;
        ensure!(
            len < 0 || len % n == 0,
            InvalidArgument,
            "operator {op}: the size {len} of the axis cannot be divided evenly in {num} parts"
        );
        return Ok(vec![if len < 0 { -1 } else { len / n }; num as usize]);
    }
    let mut sizes = sections.to_vec();
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

fn sections_attr(a: &SplitAttrs) -> Vec<i64> {
    a.sections.iter().map(|&s| s as i64).collect()
}

fn infer_split(cx: &mut Infer) -> Result<()> {
    let a = cx.attrs::<SplitAttrs>();
    let n = if a.num > 0 {
        a.num as usize
    } else if cx.has(2) {
        cx.count(2)
    } else {
        a.sections.len()
    };
    ensure!(n > 0, InvalidArgument, "operator split: either num or sections must be given");
    cx.set_outs(0, n)?;
    let x = cx.dims(0)?;
    if cx.is_run() {
        return Ok(());
    }
    let dtype = cx.dtype(0)?;
    if cx.has(1) {
        let dims = Dims::from_elem(-1, x.len());
        (0..n).for_each(|i| cx.set_nth(0, i, &dims, dtype));
        cx.share_lod(0, 0);
        return Ok(());
    }
    let at = axis(cx.op.name, a.axis as i64, x.len())?;
    let sections = if cx.has(2) { vec![-1; n] } else { sections_attr(a) };
    let sizes = if cx.has(2) { sections } else { section_sizes(cx.op.name, x[at], a.num, &sections)? };
    for (i, &size) in sizes.iter().enumerate() {
        let mut dims = x.clone();
        dims[at] = size;
        cx.set_nth(0, i, &dims, dtype);
    }
    if at != 0 {
        cx.share_lod(0, 0);
    }
    Ok(())
}

fn split(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<SplitAttrs>();
    let x = cx.input(0)?;
    let at = axis(cx.op.name, axis_given(cx, 1, a.axis as i64)?, x.rank())?;
    let sections = match given(cx, &[Way::List(InSlot(2))])?.values() {
        Some(s) => s,
        None => sections_attr(a),
    };
    let mut from = 0;
    for (i, len) in section_sizes(cx.op.name, x.dims()[at], a.num, &sections)?.into_iter().enumerate() {
        if cx.wants_nth(0, i) {
            let lod = x.lod.clone().filter(|_| at != 0);
            cx.set_nth(0, i, cut(x, at, from, len)?.with_lod(lod));
        }
        from += len;
    }
    Ok(())
}

/// The gradients of the parts, joined.
fn split_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let mut ins = vec![vec![Src::GradOut(0, None)]];
    if f.ins.get(1).is_some_and(|&n| n > 0) {
        ins.push(vec![Src::In(1, None)]);
    }
    let attrs = CONCAT.attrs.convert("concat", f.attrs)?;
    Ok(vec![GradOp { op: &CONCAT, attrs, ins, outs: vec![vec![Dst(0, None)]] }])
}

pub static SPLIT: Op = Op {
    name: "split",
    inputs: &[slot("X"), slot("AxisTensor").opt(), slot("SectionsTensorList").many().opt()],
    outputs: &[slot("Out").many()],
    attrs: SplitAttrs::FIELDS,
    infer: infer_split,
    cpu: Kernel::Pure(split),
    grad: Grad::Fn(split_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&CONCAT, &CONCAT_GRAD, &SPLIT];
