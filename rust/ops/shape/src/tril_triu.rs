//! tril_triu: the lower or upper triangle of matrices, zeros elsewhere.

use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::infer::{like_first, like_out_grad};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::{ensure, slots};
use oar_kernels::shape::triangle;
use oar_ops_common::by_size;
use oar_ops_common::elements::{words, words_mut};

attrs! {
    pub struct TrilTriuAttrs { diagonal: i32 = 0, lower: bool }
}

slots! {
    mod io { X "X" => OUT "Out" }
    mod io_grad { DOUT "Out@GRAD" => DX "X@GRAD" }
}

// One kernel serves both: the gradient keeps the same elements, in the same slots.
fn run(cx: &mut KernelContext) -> Result<()> {
    let (a, x) = (cx.attrs::<TrilTriuAttrs>(), cx.input(io::X)?);
    let [.., height, width] = *x.dims() else {
        oar_core::bail!(InvalidArgument, "operator {}: X must have 2 dimensions or more, got {x:?}", cx.op.name);
    };
    if x.numel() == 0 {
        return Ok(());
    }
    let (height, width) = (height as usize, width as usize);
    let out = cx.out(io::OUT)?;
    by_size!(x.dtype(), T, {
        let to = words_mut::<T>(out)?;
        triangle::triangle(words::<T>(x), height, width, a.diagonal as i64, a.lower, to);
    });
    Ok(())
}

pub static TRIL_TRIU: Op = Op {
    name: "tril_triu",
    inputs: io::INS,
    outputs: io::OUTS,
    attrs: TrilTriuAttrs::FIELDS,
    infer: |cx| {
        let x = cx.dims(io::X)?;
        ensure!(x.len() > 1, InvalidArgument, "operator tril_triu: X must have 2 dimensions or more, got {x:?}");
        like_first(cx)
    },
    cpu: Kernel::Pure(run),
    grad: Grad::By(&TRIL_TRIU_GRAD),
    ..OP
};
pub static TRIL_TRIU_GRAD: Op = Op {
    name: "tril_triu_grad",
    inputs: io_grad::INS,
    outputs: io_grad::OUTS,
    attrs: TrilTriuAttrs::FIELDS,
    infer: like_out_grad,
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&TRIL_TRIU, &TRIL_TRIU_GRAD];
