//! tril_triu: the lower or upper triangle of matrices, zeros elsewhere.

use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::infer::{like_first, like_out_grad};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::{ensure, slots};
use oar_kernels::pool;
use oar_ops_common::by_size;
use oar_ops_common::elements::{words, words_mut};

attrs! {
    pub struct TrilTriuAttrs { diagonal: i32 = 0, lower: bool }
}

slots! {
    mod triangle { X "X" => OUT "Out" }
    mod triangle_grad { DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// Elements per chunk of rows.
const GRAIN: usize = 16 * 1024;

// One kernel serves both: the gradient keeps the same elements, in the same slots.
fn run(cx: &mut KernelContext) -> Result<()> {
    let (a, x) = (cx.attrs::<TrilTriuAttrs>(), cx.input(triangle::X)?);
    let [.., height, width] = *x.dims() else {
        oar_core::bail!(InvalidArgument, "operator {}: X must have 2 dimensions or more, got {x:?}", cx.op.name);
    };
    if x.numel() == 0 {
        return Ok(());
    }
    let (height, width) = (height as usize, width as usize);
    let out = cx.out(triangle::OUT)?;
    by_size!(x.dtype(), T, {
        let from = words::<T>(x);
        pool::parts(words_mut::<T>(out)?, (GRAIN / width).max(1) * width, |start, part| {
            for (i, row) in part.chunks_exact_mut(width).enumerate() {
                let at = start / width + i;
                // Columns before `edge` are kept by tril and zeroed by triu.
                let edge = (at % height) as i64 + a.diagonal as i64 + a.lower as i64;
                let cut = edge.clamp(0, width as i64) as usize;
                row.copy_from_slice(&from[at * width..(at + 1) * width]);
                if a.lower { &mut row[cut..] } else { &mut row[..cut] }.fill(T::default());
            }
        });
    });
    Ok(())
}

pub static TRIL_TRIU: Op = Op {
    name: "tril_triu",
    inputs: triangle::INS,
    outputs: triangle::OUTS,
    attrs: TrilTriuAttrs::FIELDS,
    infer: |cx| {
        let x = cx.dims(triangle::X)?;
        ensure!(x.len() > 1, InvalidArgument, "operator tril_triu: X must have 2 dimensions or more, got {x:?}");
        like_first(cx)
    },
    cpu: Kernel::Pure(run),
    grad: Grad::By(&TRIL_TRIU_GRAD),
    ..OP
};
pub static TRIL_TRIU_GRAD: Op = Op {
    name: "tril_triu_grad",
    inputs: triangle_grad::INS,
    outputs: triangle_grad::OUTS,
    attrs: TrilTriuAttrs::FIELDS,
    infer: like_out_grad,
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&TRIL_TRIU, &TRIL_TRIU_GRAD];
