//! transpose: Out's axis i is X's axis perm[i].

use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::shape_of_first;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_ops_common::elements::{reshaped, strided, strides_of};

attrs! {
    pub struct TransposeAttrs {
        axis: Vec<i32>, use_mkldnn: bool = false, data_format: Text = "AnyLayout".into(),
        use_quantizer: bool = false, mkldnn_data_type: Text = "float32".into(),
    }
}

slots! {
    // Bytes are shared if the order of the elements stays.
    mod transpose { X "X" => OUT "Out".kernel_allocated() }
    mod transpose2 { X "X" => OUT "Out".kernel_allocated(), XSHAPE "XShape".shape_of_first() }
    mod transpose_grad { X "X".meta_only(), OUT "Out".dispensable().meta_only(), DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
    mod transpose2_grad { XSHAPE "XShape", DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
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
    // If only dimensions of size 1 move, the order of the elements stays.
    let mut moving = perm.iter().filter(|&&p| x.dims()[p] != 1);
    if moving.clone().zip(moving.by_ref().skip(1)).all(|(a, b)| a < b) {
        return reshaped(x, &dims);
    }
    let own = strides_of(x.dims());
    let strides: smallvec::SmallVec<[isize; 6]> = perm.iter().map(|&p| own[p]).collect();
    strided(x, &dims, &strides, 0)
}

fn infer_transpose(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(transpose2::X)?, cx.dtype(transpose2::X)?);
    let perm = permutation(cx.op.name, &cx.attrs::<TransposeAttrs>().axis, x.len())?;
    let out: Dims = perm.iter().map(|&p| x[p]).collect();
    cx.set(transpose2::OUT, &out, dtype);
    cx.set(transpose2::XSHAPE, &shape_of_first(&x), dtype);
    cx.share_lod(transpose2::XSHAPE, transpose2::X);
    Ok(())
}

fn transpose(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(transpose2::X)?;
    let perm = permutation(cx.op.name, &cx.attrs::<TransposeAttrs>().axis, x.rank())?;
    cx.set(transpose2::OUT, permuted(x, &perm)?);
    Ok(())
}

/// `Out@GRAD` follows XShape (transpose2) or X (transpose).
fn dout_slot(op: &Op) -> InSlot {
    if op.inputs.len() == transpose2_grad::INS.len() {
        transpose2_grad::DOUT
    } else {
        transpose_grad::DOUT
    }
}

fn infer_transpose_grad(cx: &mut ShapeContext) -> Result<()> {
    let dout = dout_slot(cx.op);
    let (d, dtype) = (cx.dims(dout)?, cx.dtype(dout)?);
    let perm = permutation(cx.op.name, &cx.attrs::<TransposeAttrs>().axis, d.len())?;
    let dx: Dims = inverse(&perm).iter().map(|&p| d[p]).collect();
    cx.set(transpose2_grad::DX, &dx, dtype);
    cx.share_lod(transpose2_grad::DX, transpose2_grad::XSHAPE);
    Ok(())
}

fn transpose_grad(cx: &mut KernelContext) -> Result<()> {
    let d = cx.input(dout_slot(cx.op))?;
    let perm = permutation(cx.op.name, &cx.attrs::<TransposeAttrs>().axis, d.rank())?;
    let lod = cx.opt(transpose2_grad::XSHAPE).and_then(|x| x.lod.clone());
    cx.set(transpose2_grad::DX, permuted(d, &inverse(&perm))?.with_lod(lod));
    Ok(())
}

const AGAIN: &[(&str, &str)] = &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];

pub static TRANSPOSE2: Op = Op {
    name: "transpose2",
    layer: "transpose",
    cannot_fail: true,
    inputs: transpose2::INS,
    outputs: transpose2::OUTS,
    attrs: TransposeAttrs::FIELDS,
    infer: infer_transpose,
    cpu: Kernel::Pure(transpose),
    grad: Grad::By(&TRANSPOSE2_GRAD),
    ..OP
};
pub static TRANSPOSE2_GRAD: Op = Op {
    name: "transpose2_grad",
    inputs: transpose2_grad::INS,
    outputs: transpose2_grad::OUTS,
    attrs: TransposeAttrs::FIELDS,
    infer: infer_transpose_grad,
    cpu: Kernel::Pure(transpose_grad),
    grad: Grad::Map(&TRANSPOSE2, AGAIN),
    ..OP
};
pub static TRANSPOSE: Op = Op {
    name: "transpose",
    inputs: transpose::INS,
    outputs: transpose::OUTS,
    attrs: TransposeAttrs::FIELDS,
    infer: infer_transpose,
    cpu: Kernel::Pure(transpose),
    grad: Grad::By(&TRANSPOSE_GRAD),
    ..OP
};
pub static TRANSPOSE_GRAD: Op = Op {
    name: "transpose_grad",
    inputs: transpose_grad::INS,
    outputs: transpose_grad::OUTS,
    attrs: TransposeAttrs::FIELDS,
    infer: infer_transpose_grad,
    cpu: Kernel::Pure(transpose_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&TRANSPOSE2, &TRANSPOSE2_GRAD, &TRANSPOSE, &TRANSPOSE_GRAD];
