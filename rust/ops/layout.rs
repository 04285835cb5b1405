//! Operators that rearrange elements: transpose, concat, split, stack, expand.

use super::common::reduce_to;
use super::raw::{axis_given, given, part, reshaped, share, strided, strides_of, words, words_mut};
use crate::attrs;
use crate::base::shape::{axis, numel};
use crate::base::{Dims, Result};
use crate::op::attrs::Text;
use crate::op::infer::grads_like_inputs;
use crate::op::infer::shape_of_first;
use crate::op::{slot, Dst, Fwd, Grad, GradOp, Infer, Kernel, Op, Run, Slot, Src, OP};
use crate::tensor::{Lod, Tensor};
use crate::{bail, by_size, ensure};
use std::sync::Arc;

attrs! {
    pub struct TransposeAttrs {
        axis: Vec<i32>, use_mkldnn: bool = false, data_format: Text = "AnyLayout".into(),
        use_quantizer: bool = false, mkldnn_data_type: Text = "float32".into(),
    }
    pub struct ConcatAttrs {
        use_mkldnn: bool = false, axis: i32 = 0, use_quantizer: bool = false,
        mkldnn_data_type: Text = "float32".into(),
    }
    pub struct SplitAttrs { sections: Vec<i32> = vec![], num: i32 = 0, axis: i32 = 0 }
    pub struct StackAttrs { axis: i32 = 0 }
    pub struct UnstackAttrs { axis: i32 = 0, num: i32 }
    pub struct ExpandV2Attrs { shape: Vec<i32> = vec![] }
}

type Perm = smallvec::SmallVec<[usize; 6]>;

// transpose: out's axis i is x's axis perm[i].

fn permutation(op: &str, perm: &[i32], rank: usize) -> Result<Perm> {
    let mut seen = Perm::from_elem(0, rank);
    ensure!(
        perm.len() == rank,
        InvalidArgument,
        "operator {op}: attribute 'axis' must name each of X's {rank} dimensions, got {perm:?}"
    );
    perm.iter()
        .map(|&p| {
            ensure!(
                0 <= p && (p as usize) < rank && seen[p as usize] == 0,
                InvalidArgument,
                "operator {op}: attribute 'axis' must name each of X's {rank} dimensions once, got {perm:?}"
            );
            seen[p as usize] = 1;
            Ok(p as usize)
        })
        .collect()
}

fn inverse(perm: &[usize]) -> Perm {
    let mut inverse = Perm::from_elem(0, perm.len());
    perm.iter().enumerate().for_each(|(i, &p)| inverse[p] = i);
    inverse
}

fn permuted(x: &Tensor, perm: &[usize]) -> Result<Tensor> {
    let dims: Dims = perm.iter().map(|&p| x.dims()[p]).collect();
    // Only dimensions of size 1 move: the order of the elements stays.
    let mut moving = perm.iter().filter(|&&p| x.dims()[p] != 1);
    if moving.clone().zip(moving.by_ref().skip(1)).all(|(a, b)| a < b) {
        return reshaped(x, &dims);
    }
    let own = strides_of(x.dims());
    let strides: smallvec::SmallVec<[isize; 6]> = perm.iter().map(|&p| own[p]).collect();
    strided(x, &dims, &strides, 0)
}

fn infer_transpose(cx: &mut Infer) -> Result<()> {
    let x = cx.dims(0)?;
    let perm = permutation(cx.op.name, &cx.attrs::<TransposeAttrs>().axis, x.len())?;
    if cx.is_run() {
        return Ok(());
    }
    let dtype = cx.dtype(0)?;
    let out: Dims = perm.iter().map(|&p| x[p]).collect();
    cx.set(0, &out, dtype);
    cx.set(1, &shape_of_first(&x), dtype);
    cx.share_lod(1, 0);
    Ok(())
}

fn transpose(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    let perm = permutation(cx.op.name, &cx.attrs::<TransposeAttrs>().axis, x.rank())?;
    cx.set(0, permuted(x, &perm)?);
    if cx.op.outputs.len() > 1 && cx.wants(1) {
        cx.set(1, Tensor::empty(x.dtype(), &shape_of_first(x.dims()))?.with_lod(x.lod.clone()));
    }
    Ok(())
}

fn infer_transpose_grad(cx: &mut Infer) -> Result<()> {
    let dout = cx.op.inputs.len() - 1;
    let d = cx.dims(dout)?;
    let perm = permutation(cx.op.name, &cx.attrs::<TransposeAttrs>().axis, d.len())?;
    if cx.is_run() {
        return Ok(());
    }
    let dtype = cx.dtype(dout)?;
    let dx: Dims = inverse(&perm).iter().map(|&p| d[p]).collect();
    cx.set(0, &dx, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

fn transpose_grad(cx: &mut Run) -> Result<()> {
    let d = cx.input(cx.op.inputs.len() - 1)?;
    let perm = permutation(cx.op.name, &cx.attrs::<TransposeAttrs>().axis, d.rank())?;
    let lod = cx.opt(0).and_then(|x| x.lod.clone());
    cx.set(0, permuted(d, &inverse(&perm))?.with_lod(lod));
    Ok(())
}

const AGAIN: &[(&str, &str)] = &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];

pub static TRANSPOSE2: Op = Op {
    name: "transpose2",
    inputs: &[slot("X")],
    outputs: &[slot("Out"), slot("XShape").shape_of_first()],
    attrs: TransposeAttrs::FIELDS,
    infer: infer_transpose,
    cpu: Kernel::Pure(transpose),
    grad: Grad::By(&TRANSPOSE2_GRAD),
    ..OP
};
pub static TRANSPOSE2_GRAD: Op = Op {
    name: "transpose2_grad",
    inputs: &[slot("XShape"), slot("Out@GRAD")],
    outputs: &[slot("X@GRAD")],
    attrs: TransposeAttrs::FIELDS,
    infer: infer_transpose_grad,
    cpu: Kernel::Pure(transpose_grad),
    grad: Grad::Map(&TRANSPOSE2, AGAIN),
    ..OP
};
pub static TRANSPOSE: Op = Op {
    name: "transpose",
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: TransposeAttrs::FIELDS,
    infer: infer_transpose,
    cpu: Kernel::Pure(transpose),
    grad: Grad::By(&TRANSPOSE_GRAD),
    ..OP
};
pub static TRANSPOSE_GRAD: Op = Op {
    name: "transpose_grad",
    inputs: &[slot("X").meta_only(), slot("Out").opt().meta_only(), slot("Out@GRAD")],
    outputs: &[slot("X@GRAD")],
    attrs: TransposeAttrs::FIELDS,
    infer: infer_transpose_grad,
    cpu: Kernel::Pure(transpose_grad),
    ..OP
};

// concat

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

/// Joins tensors of one dtype along an axis, all dimensions of which have been checked.
fn join(parts: &[&Tensor], dims: &[i64], at: usize) -> Result<Tensor> {
    let mut out = Tensor::empty(parts[0].dtype(), dims)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let (outer, inner) = (numel(&dims[..at]), numel(&dims[at + 1..]));
    let lens: Vec<usize> = parts.iter().map(|t| t.dims()[at] as usize).collect();
    by_size!(out.dtype(), T, {
        let data: Vec<&[T]> = parts.iter().map(|t| words::<T>(t)).collect();
        oar_kernels::copy::concat(&data, &lens, outer, inner, words_mut::<T>(&mut out)?);
    });
    Ok(out)
}

fn same_dtype(op: &str, parts: &[&Tensor]) -> Result<()> {
    for (i, t) in parts.iter().enumerate() {
        ensure!(
            t.dtype() == parts[0].dtype(),
            InvalidArgument,
            "operator {op}: all inputs must have one data type, input 0 is {}, input {i} is {}",
            parts[0].dtype(),
            t.dtype()
        );
    }
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

/// `len` indices of an axis from `from` on.
fn cut(x: &Tensor, at: usize, from: i64, len: i64) -> Result<Tensor> {
    let mut dims = Dims::from_slice(x.dims());
    dims[at] = len;
    let strides = strides_of(x.dims());
    let offset = from as usize * strides[at] as usize;
    if x.dims()[..at].iter().all(|&d| d == 1) {
        return part(x, if numel(&dims) == 0 { 0 } else { offset }, &dims);
    }
    strided(x, &dims, &strides, offset)
}

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
    ensure!(n <= u16::MAX as usize, InvalidArgument, "operator split: {n} parts are too many");
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
    let sections = match given(cx, usize::MAX, 2)? {
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

// stack and unstack: join and cut along an axis that is new.

fn stack_all(cx: &mut Run, at: i32) -> Result<()> {
    let parts = cx.inputs(0)?;
    let (dims, at) = stacked(cx.op.name, parts[0].dims(), parts.len(), at)?;
    same_dtype(cx.op.name, &parts)?;
    for (i, t) in parts.iter().enumerate() {
        ensure!(
            t.dims() == parts[0].dims(),
            InvalidArgument,
            "operator {}: all inputs must have one shape, input 0 has {:?}, input {i} has {:?}",
            cx.op.name,
            parts[0].dims(),
            t.dims()
        );
    }
    let mut flat = Dims::from_slice(&dims);
    flat[at] = 1;
    let parts: Vec<Tensor> = parts.iter().map(|t| t.reshaped(&flat)).collect();
    let out = join(&parts.iter().collect::<Vec<_>>(), &dims, at)?;
    cx.set(0, out);
    Ok(())
}

fn stacked(op: &str, x: &[i64], n: usize, at: i32) -> Result<(Dims, usize)> {
    let at = axis(op, at as i64, x.len() + 1)?;
    let mut dims = Dims::from_slice(x);
    dims.insert(at, n as i64);
    Ok((dims, at))
}

fn infer_stack_all(cx: &mut Infer, at: i32) -> Result<()> {
    let n = cx.count(0);
    ensure!(n > 0, InvalidArgument, "operator {} needs at least one input", cx.op.name);
    if cx.is_run() {
        return Ok(());
    }
    let (dims, _) = stacked(cx.op.name, &cx.dims(0)?, n, at)?;
    let dtype = cx.dtype(0)?;
    cx.set(0, &dims, dtype);
    Ok(())
}

fn unstack_all(cx: &mut Run, at: i32) -> Result<()> {
    let x = cx.input(0)?;
    let at = axis(cx.op.name, at as i64, x.rank())?;
    let mut dims = Dims::from_slice(x.dims());
    dims.remove(at);
    for i in 0..cx.n_outs(0) {
        ensure!(
            (i as i64) < x.dims()[at],
            InvalidArgument,
            "operator {}: axis {at} of shape {:?} has fewer than {} parts",
            cx.op.name,
            x.dims(),
            i + 1
        );
        if cx.wants_nth(0, i) {
            let t = cut(x, at, i as i64, 1)?;
            cx.set_nth(0, i, t.reshaped(&dims));
        }
    }
    Ok(())
}

/// `n`: how many parts there must be, where an attribute says it.
fn infer_unstack_all(cx: &mut Infer, at: i32, n: Option<i32>) -> Result<()> {
    let x = cx.dims(0)?;
    let at = axis(cx.op.name, at as i64, x.len())?;
    if let Some(n) = n {
        ensure!(
            n > 0 && (x[at] < 0 || x[at] == n as i64),
            InvalidArgument,
            "operator {}: num must be the size of axis {at} of shape {x:?}, got {n}",
            cx.op.name
        );
        ensure!(n <= u16::MAX as i32, InvalidArgument, "operator {}: {n} parts are too many", cx.op.name);
        cx.set_outs(0, n as usize)?;
    }
    if cx.is_run() {
        return Ok(());
    }
    let dtype = cx.dtype(0)?;
    let mut dims = x.clone();
    dims.remove(at);
    (0..cx.outs(0)).for_each(|i| cx.set_nth(0, i, &dims, dtype));
    Ok(())
}

macro_rules! stacks {
    ($op:ident $name:literal $in:literal $out:literal $attrs:ident $grad:expr) => {
        pub static $op: Op = Op {
            name: $name,
            inputs: &[slot($in).many()],
            outputs: &[slot($out)],
            attrs: $attrs::FIELDS,
            infer: |cx| infer_stack_all(cx, cx.attrs::<$attrs>().axis),
            cpu: Kernel::Pure(|cx| stack_all(cx, cx.attrs::<$attrs>().axis)),
            grad: $grad,
            ..OP
        };
    };
}
macro_rules! unstacks {
    ($op:ident $name:literal $in:literal $out:literal $attrs:ident $n:expr, $grad:expr) => {
        pub static $op: Op = Op {
            name: $name,
            inputs: &[slot($in)],
            outputs: &[slot($out).many()],
            attrs: $attrs::FIELDS,
            infer: |cx| {
                let n: fn(&$attrs) -> Option<i32> = $n;
                let a = cx.attrs::<$attrs>();
                infer_unstack_all(cx, a.axis, n(a))
            },
            cpu: Kernel::Pure(|cx| unstack_all(cx, cx.attrs::<$attrs>().axis)),
            grad: $grad,
            ..OP
        };
    };
}
stacks!(STACK "stack" "X" "Y" StackAttrs Grad::By(&STACK_GRAD));
unstacks!(STACK_GRAD "stack_grad" "Y@GRAD" "X@GRAD" StackAttrs |_| None, Grad::None);
unstacks!(UNSTACK "unstack" "X" "Y" UnstackAttrs |a| Some(a.num), Grad::By(&UNSTACK_GRAD));
stacks!(UNSTACK_GRAD "unstack_grad" "Y@GRAD" "X@GRAD" UnstackAttrs Grad::None);

// expand_v2: sizes of 1 grow, new dimensions come in front; -1 keeps a size.

fn expanded(op: &str, x: &[i64], shape: &[i64]) -> Result<Dims> {
    ensure!(
        x.len() <= shape.len() && (1..=6).contains(&shape.len()),
        InvalidArgument,
        "operator {op}: 'shape' must have between {} and 6 sizes for X of shape {x:?}, got {shape:?}",
        x.len().max(1)
    );
    let new = shape.len() - x.len();
    let mut out = Dims::from_slice(shape);
    for (i, o) in out.iter_mut().enumerate() {
        let have = if i < new { 1 } else { x[i - new] };
        match *o {
            -1 if i >= new => *o = have,
            want if want > 0 && (have == 1 || have == want) => {}
            // Unknown while a Program is built.
            want if want > 0 && have < 0 => *o = -1,
            _ => bail!(InvalidArgument, "operator {op}: X of shape {x:?} cannot be expanded to {shape:?}"),
        }
    }
    Ok(out)
}

fn shape_attr(a: &ExpandV2Attrs) -> Vec<i64> {
    a.shape.iter().map(|&d| d as i64).collect()
}

fn infer_expand(cx: &mut Infer) -> Result<()> {
    if cx.is_run() {
        return Ok(());
    }
    let (x, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    let mut shape = shape_attr(cx.attrs::<ExpandV2Attrs>());
    if shape.is_empty() {
        let n = if cx.has(2) { cx.count(2) } else { numel(&cx.dims(1)?).max(x.len()).min(6) };
        shape = vec![-1; n];
    }
    let out = if cx.has(1) || cx.has(2) { Dims::from_vec(shape) } else { expanded(cx.op.name, &x, &shape)? };
    cx.set(0, &out, dtype);
    if out.first() == x.first() {
        cx.share_lod(0, 0);
    }
    Ok(())
}

fn expand(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    let shape = match given(cx, 1, 2)? {
        Some(s) => s,
        None => shape_attr(cx.attrs::<ExpandV2Attrs>()),
    };
    let dims = expanded(cx.op.name, x.dims(), &shape)?;
    let mut out = if dims[..] == *x.dims() {
        share(x)?
    } else {
        let own = strides_of(x.dims());
        let new = dims.len() - x.rank();
        let strides: Vec<isize> =
            (0..dims.len()).map(|i| if i < new || x.dims()[i - new] == 1 { 0 } else { own[i - new] }).collect();
        strided(x, &dims, &strides, 0)?
    };
    out.lod = x.lod.clone().filter(|_| x.dims().first() == dims.first());
    cx.set(0, out);
    Ok(())
}

const EXPAND_TENSORS: [Slot; 2] = [slot("expand_shapes_tensor").many().opt(), slot("Shape").opt()];

pub static EXPAND_V2: Op = Op {
    name: "expand_v2",
    inputs: &[slot("X"), EXPAND_TENSORS[1], EXPAND_TENSORS[0]],
    outputs: &[slot("Out")],
    attrs: ExpandV2Attrs::FIELDS,
    infer: infer_expand,
    cpu: Kernel::Pure(expand),
    grad: Grad::By(&EXPAND_V2_GRAD),
    ..OP
};
pub static EXPAND_V2_GRAD: Op = Op {
    name: "expand_v2_grad",
    inputs: &[slot("X").meta_only(), slot("Out@GRAD"), EXPAND_TENSORS[0], EXPAND_TENSORS[1]],
    outputs: &[slot("X@GRAD")],
    attrs: ExpandV2Attrs::FIELDS,
    infer: |cx| if cx.is_run() { Ok(()) } else { grads_like_inputs(cx) },
    cpu: Kernel::Pure(|cx| {
        let (x, d) = (cx.input(0)?, cx.input(1)?);
        let dx = reduce_to(share(d)?, x.dims(), -1)?;
        cx.set(0, dx.with_lod(x.lod.clone()));
        Ok(())
    }),
    grad: Grad::Map(&EXPAND_V2, AGAIN),
    ..OP
};

pub static TABLE: &[&Op] = &[
    &TRANSPOSE2,
    &TRANSPOSE2_GRAD,
    &TRANSPOSE,
    &TRANSPOSE_GRAD,
    &CONCAT,
    &CONCAT_GRAD,
    &SPLIT,
    &STACK,
    &STACK_GRAD,
    &UNSTACK,
    &UNSTACK_GRAD,
    &EXPAND_V2,
    &EXPAND_V2_GRAD,
];
