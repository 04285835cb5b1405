//! ctc_align: the labels of an alignment: repetitions merged, blanks removed.

use super::lod::{lengths, offsets};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::rnn::ctc::{align_padded, align_sequences};
use std::sync::Arc;

attrs! {
    pub struct CtcAlignAttrs { blank: i32 = 0, merge_repeated: bool = true, padding_value: i32 = 0 }
}

slots! {
    /// Input [steps of all sequences, 1] with LoD, or [batch, steps] with lengths.
    mod ctc_align {
        INPUT "Input", LENGTH "InputLength".dispensable() => OUTPUT "Output".kernel_allocated(), OUT_LENGTH "OutputLength".dispensable()
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(ctc_align::INPUT)?, cx.dtype(ctc_align::INPUT)?);
    if x.len() != 2 {
        return cx.wrong(ctc_align::INPUT, "of two dimensions");
    }
    let mut out = x.clone();
    if cx.has(ctc_align::LENGTH) {
        cx.set(ctc_align::OUT_LENGTH, &[x[0], 1], dtype);
    } else {
        out[0] = -1;
    }
    cx.set(ctc_align::OUTPUT, &out, dtype);
    cx.share_lod(ctc_align::OUTPUT, ctc_align::INPUT);
    Ok(())
}

fn kernel(cx: &mut KernelContext) -> Result<()> {
    let (x, op, a) = (cx.input(ctc_align::INPUT)?, cx.op.name, cx.attrs::<CtcAlignAttrs>());
    let (rows, width) = (x.dims()[0] as usize, x.dims()[1] as usize);
    let by_length = cx.opt(ctc_align::LENGTH).filter(|_| x.lod.as_ref().is_none_or(|l| l.is_empty()));
    dispatch!(x.dtype(), T in [i32, i64], {
        let data = x.data::<T>();
        // Ids are not negative: a negative blank matches none.
        let blank = (a.blank >= 0).then_some(a.blank as T);
        if let Some(t) = by_length {
            let lengths = lengths(op, "InputLength", t, rows, width)?;
            let mut out = Tensor::empty(x.dtype(), x.dims())?;
            let x = (data, width, &lengths[..]);
            let counts = align_padded(x, blank, a.merge_repeated, a.padding_value as T, out.data_mut::<T>()?);
            cx.set(ctc_align::OUTPUT, out);
            if cx.wants(ctc_align::OUT_LENGTH) {
                let counts: Vec<T> = counts.into_iter().map(|n| n as T).collect();
                cx.out_data::<T>(ctc_align::OUT_LENGTH)?.copy_from_slice(&counts);
            }
        } else {
            let at = offsets(op, "Input", x)?;
            ensure!(
                width == 1,
                InvalidArgument,
                "operator {op}: Input with LoD must have the shape [steps, 1], got {:?}",
                x.dims()
            );
            let (labels, level) = align_sequences(&at, data, blank, a.merge_repeated);
            // As in Paddle an empty result is one -1.
            let shown = if labels.is_empty() { vec![-1] } else { labels };
            let out = Tensor::from_slice(&shown, &[shown.len() as i64, 1])?;
            cx.set(ctc_align::OUTPUT, out.with_lod(Some(Arc::new(vec![level]))));
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static CTC_ALIGN: Op = Op {
    name: "ctc_align",
    layer: "ctc_greedy_decoder",
    inputs: ctc_align::INS,
    outputs: ctc_align::OUTS,
    attrs: CtcAlignAttrs::FIELDS,
    dtypes: DTypes::INDICES,
    infer,
    cpu: Kernel::Pure(kernel),
    ..OP
};

pub static TABLE: &[&Op] = &[&CTC_ALIGN];
