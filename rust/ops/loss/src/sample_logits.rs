//! sample_logits: scores of a row's labels and of classes sampled from a log-uniform distribution, minus the logarithms
//! of their expected counts.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::generator::with_engine;
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::loss::sample_logits as kernel;
use oar_ops_common::axis::like;

attrs! {
    pub struct SampleAttrs {
        use_customized_samples: bool = false, uniq: bool = true, remove_accidental_hits: bool = true, num_samples: i32,
        seed: i32 = 0,
    }
}

slots! {
    mod sample {
        LOGITS "Logits", LABELS "Labels", SAMPLES_IN "CustomizedSamples".dispensable(),
        PROBABILITIES_IN "CustomizedProbabilities".dispensable()
        => SAMPLES "Samples".intermediate().kernel_allocated(), PROBABILITIES "Probabilities".intermediate().kernel_allocated(), LOGITS_DIM "LogitsDim".intermediate().kernel_allocated(),
        LABELS_DIM "LabelsDim".intermediate().kernel_allocated(), SAMPLED "SampledLogits".intermediate().kernel_allocated(), SAMPLED_LABELS "SampledLabels"
    }
    /// LogitsDim has the shape of Logits with an appended 0.
    mod sample_grad {
        LOGITS_DIM "LogitsDim", LABELS_DIM "LabelsDim", SAMPLES "Samples", DSAMPLED "SampledLogits@GRAD"
        => DLOGITS "Logits@GRAD"
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<SampleAttrs>());
    let (x, y, dtype) = (cx.dims(sample::LOGITS)?, cx.dims(sample::LABELS)?, cx.dtype(sample::LOGITS)?);
    ensure!(
        x.len() == 2 && y.len() == 2 && (x[0] == y[0] || x[0] < 0 || y[0] < 0),
        InvalidArgument,
        "operator {op}: Logits and Labels must have 2 dimensions and as many rows, got shapes {:?} and {:?}",
        &x[..],
        &y[..]
    );
    // Sampled classes are distinct.
    ensure!(
        a.num_samples >= 0 && (x[1] < 0 || a.use_customized_samples || a.num_samples as i64 <= x[1]),
        InvalidArgument,
        "operator {op}: num_samples must not be negative, nor more than the {} classes, got {}",
        x[1],
        a.num_samples
    );
    let columns = if y[1] < 0 { -1 } else { y[1] + a.num_samples as i64 };
    for (slot, dtype) in [(sample::SAMPLES, DType::I64), (sample::PROBABILITIES, dtype), (sample::SAMPLED, dtype)] {
        cx.set(slot, &[x[0], columns], dtype);
    }
    cx.set(sample::SAMPLED_LABELS, &[x[0], y[1]], DType::I64);
    cx.set(sample::LOGITS_DIM, &[x[0], x[1], 0], dtype);
    cx.set(sample::LABELS_DIM, &[y[0], y[1], 0], dtype);
    Ok(())
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<SampleAttrs>());
    let (logits, labels) = (cx.input(sample::LOGITS)?, cx.input(sample::LABELS)?);
    let (rows, classes, own) = (logits.dims()[0] as usize, logits.dims()[1], labels.dims()[1] as usize);
    let count = a.num_samples as usize;
    let columns = own + count;
    let shape = [rows as i64, columns as i64];
    ensure!(labels.dtype() == DType::I64, InvalidArgument, "operator {op}: Labels must be int64, got {labels:?}");
    let (samples, probabilities) = if a.use_customized_samples {
        let (s, p) = (cx.input(sample::SAMPLES_IN)?, cx.input(sample::PROBABILITIES_IN)?);
        like(cx, s, &shape, DType::I64, "CustomizedSamples")?;
        like(cx, p, &shape, logits.dtype(), "CustomizedProbabilities")?;
        (s.share()?, p.share()?)
    } else {
        let (drawn, tries) = with_engine(a.seed as u32 as u64, |e| kernel::draw(e, classes, count));
        let mut samples = Tensor::empty(DType::I64, &shape)?;
        let mut probabilities = Tensor::empty(logits.dtype(), &shape)?;
        kernel::rows(labels.data::<i64>(), own, &drawn, samples.data_mut::<i64>()?);
        dispatch!(logits.dtype(), T in [f32, f64], {
            let draws = (tries, count);
            kernel::probabilities(samples.data::<i64>(), classes, draws, probabilities.data_mut::<T>()?);
        }, other => return cx.unsupported(other));
        (samples, probabilities)
    };
    if let Some(wrong) = samples.data::<i64>().iter().find(|s| !(0..classes).contains(*s)) {
        oar_core::bail!(InvalidArgument, "operator {op}: labels and samples must be in [0, {classes}), got {wrong}");
    }
    let mut sampled = Tensor::empty(logits.dtype(), &shape)?;
    dispatch!(logits.dtype(), T in [f32, f64], {
        let (x, s, p) = (logits.data::<T>(), samples.data::<i64>(), probabilities.data::<T>());
        let hits = a.remove_accidental_hits;
        kernel::scores((x, classes as usize), s, p, (columns, own), hits, sampled.data_mut::<T>()?);
    }, other => return cx.unsupported(other));
    cx.out_data::<i64>(sample::SAMPLED_LABELS)?.iter_mut().enumerate().for_each(|(i, o)| *o = (i % own) as i64);
    cx.set(sample::LOGITS_DIM, Tensor::empty(logits.dtype(), &[rows as i64, classes, 0])?);
    cx.set(sample::LABELS_DIM, Tensor::empty(logits.dtype(), &[rows as i64, own as i64, 0])?);
    cx.set(sample::SAMPLES, samples);
    cx.set(sample::PROBABILITIES, probabilities);
    cx.set(sample::SAMPLED, sampled);
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    let (op, shape, dtype) = (cx.op.name, cx.dims(sample_grad::LOGITS_DIM)?, cx.dtype(sample_grad::DSAMPLED)?);
    ensure!(
        shape.len() == 3,
        InvalidArgument,
        "operator {op}: LogitsDim must have the 2 dimensions of Logits and a third one of 0, got shape {:?}",
        &shape[..]
    );
    cx.set(sample_grad::DLOGITS, &shape[..2], dtype);
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    let (op, d, samples) = (cx.op.name, cx.input(sample_grad::DSAMPLED)?, cx.input(sample_grad::SAMPLES)?);
    like(cx, samples, d.dims(), DType::I64, "Samples")?;
    let (rows, classes) = (cx.out(sample_grad::DLOGITS)?.dims()[0], cx.out(sample_grad::DLOGITS)?.dims()[1]);
    let fits = d.rank() == 2 && d.dims()[0] == rows && samples.data::<i64>().iter().all(|s| (0..classes).contains(s));
    ensure!(
        fits,
        InvalidArgument,
        "operator {op}: the gradient must have {rows} rows, and Samples classes in [0, {classes}), got {d:?} and \
         {samples:?}"
    );
    let columns = d.dims()[1].max(1) as usize;
    dispatch!(d.dtype(), T in [f32, f64], {
        let to = cx.out_data::<T>(sample_grad::DLOGITS)?;
        to.fill(0.0);
        kernel::scores_grad(samples.data::<i64>(), columns, d.data::<T>(), classes as usize, to);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SAMPLE: Op = Op {
    name: "sample_logits",
    inputs: sample::INS,
    outputs: sample::OUTS,
    attrs: SampleAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Random(forward),
    grad: Grad::By(&SAMPLE_GRAD),
    ..OP
};

pub static SAMPLE_GRAD: Op = Op {
    name: "sample_logits_grad",
    inputs: sample_grad::INS,
    outputs: sample_grad::OUTS,
    attrs: SampleAttrs::FIELDS,
    infer: infer_grad,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&SAMPLE, &SAMPLE_GRAD];
