//! expand_v2: sizes of 1 grow, new dimensions come in front; -1 keeps a size.

use oar_core::attrs;
use oar_core::base::shape::numel;
use oar_core::base::{Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::parts::broadcast::reduce_to;
use oar_core::op::parts::elements::{share, strided, strides_of};
use oar_core::op::parts::given::{given, Way};
use oar_core::op::InSlot;
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, Slot, OP};
use oar_core::{bail, ensure};

attrs! {
    pub struct ExpandV2Attrs { shape: Vec<i32> = vec![] }
}

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
    let shape = match given(cx, &[Way::One(InSlot(1)), Way::List(InSlot(2))])?.values() {
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
        if let Some(shape) = given(cx, &[Way::One(InSlot(3)), Way::List(InSlot(2))])?.values() {
            let dims = expanded(cx.op.name, x.dims(), &shape)?;
            ensure!(
                d.dims() == &dims[..],
                InvalidArgument,
                "operator expand_v2_grad: Out@GRAD must have the shape {dims:?}, got {:?}",
                d.dims()
            );
        }
        let dx = reduce_to(share(d)?, x.dims(), -1)?;
        cx.set(0, dx.with_lod(x.lod.clone()));
        Ok(())
    }),
    grad: Grad::Map(&EXPAND_V2, &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")]),
    ..OP
};

pub static TABLE: &[&Op] = &[&EXPAND_V2, &EXPAND_V2_GRAD];
