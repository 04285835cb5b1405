//! transpose: Out's axis i is X's axis perm[i].

use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::ensure;
use oar_core::op::attrs::Text;
use oar_core::op::infer::shape_of_first;
use oar_core::op::parts::elements::{reshaped, strided, strides_of};
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, OP};
use oar_core::tensor::Tensor;

attrs! {
    pub struct TransposeAttrs {
        axis: Vec<i32>, use_mkldnn: bool = false, data_format: Text = "AnyLayout".into(),
        use_quantizer: bool = false, mkldnn_data_type: Text = "float32".into(),
    }
}

type Perm = smallvec::SmallVec<[usize; 6]>;

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
    cannot_fail: true,
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

pub static TABLE: &[&Op] = &[&TRANSPOSE2, &TRANSPOSE2_GRAD, &TRANSPOSE, &TRANSPOSE_GRAD];
