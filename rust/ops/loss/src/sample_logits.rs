//! sample_logits: scores of a row's labels and of classes sampled from a log-uniform distribution, minus the logarithms
//! of their expected counts.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::generator::with_engine;
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::random::uniform;
use oar_ops_common::axis::like;
use std::collections::HashSet;

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

/// Draws distinct classes; returns them and the number of draws.
fn draw(seed: i32, classes: i64, count: usize) -> (Vec<i64>, usize) {
    let range = ((classes + 1) as f64).ln() as f32;
    let (mut drawn, mut seen, mut tries) = (Vec::with_capacity(count), HashSet::new(), 0);
    with_engine(seed as u32 as u64, |engine| {
        while drawn.len() < count {
            tries += 1;
            let mut unit = [0f64];
            uniform(engine, 0.0, 1.0, &mut unit);
            let class = ((unit[0] * range as f64).exp() as i64 - 1).max(0) % classes;
            if seen.insert(class) {
                drawn.push(class);
            }
        }
    });
    (drawn, tries)
}

/// The probability of a class in one draw.
fn probability(class: i64, classes: i64) -> f32 {
    (((class as f64 + 2.0) / (class as f64 + 1.0)).ln() / ((classes + 1) as f64).ln() as f32 as f64) as f32
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<SampleAttrs>());
    let (logits, labels) = (cx.input(sample::LOGITS)?, cx.input(sample::LABELS)?);
    let (rows, classes, own) = (logits.dims()[0] as usize, logits.dims()[1], labels.dims()[1] as usize);
    let columns = own + a.num_samples as usize;
    let shape = [rows as i64, columns as i64];
    ensure!(labels.dtype() == DType::I64, InvalidArgument, "operator {op}: Labels must be int64, got {labels:?}");
    let (samples, probabilities) = if a.use_customized_samples {
        let (s, p) = (cx.input(sample::SAMPLES_IN)?, cx.input(sample::PROBABILITIES_IN)?);
        like(cx, s, &shape, DType::I64, "CustomizedSamples")?;
        like(cx, p, &shape, logits.dtype(), "CustomizedProbabilities")?;
        (s.share()?, p.share()?)
    } else {
        let (drawn, tries) = draw(a.seed, classes, a.num_samples as usize);
        let mut samples = Tensor::empty(DType::I64, &shape)?;
        let mut probabilities = Tensor::empty(logits.dtype(), &shape)?;
        let to = samples.data_mut::<i64>()?;
        for (i, row) in to.chunks_exact_mut(columns.max(1)).enumerate() {
            row[..own].copy_from_slice(&labels.data::<i64>()[i * own..][..own]);
            row[own..].copy_from_slice(&drawn);
        }
        dispatch!(logits.dtype(), T in [f32, f64], {
            for (p, &class) in probabilities.data_mut::<T>()?.iter_mut().zip(samples.data::<i64>()) {
                let once = probability(class, classes) as T;
                // The probability over all draws that were made.
                *p = if tries == a.num_samples as usize {
                    once * a.num_samples as T
                } else {
                    -(tries as T * (-once).ln_1p()).exp_m1()
                };
            }
        }, other => return cx.unsupported(other));
        (samples, probabilities)
    };
    if let Some(wrong) = samples.data::<i64>().iter().find(|s| !(0..classes).contains(*s)) {
        oar_core::bail!(InvalidArgument, "operator {op}: labels and samples must be in [0, {classes}), got {wrong}");
    }
    let mut sampled = Tensor::empty(logits.dtype(), &shape)?;
    dispatch!(logits.dtype(), T in [f32, f64], {
        let finite = |v: T| v.clamp(-1e20, 1e20);
        let (x, s, p) = (logits.data::<T>(), samples.data::<i64>(), probabilities.data::<T>());
        let to = sampled.data_mut::<T>()?;
        for i in 0..rows {
            let row = &s[i * columns..][..columns];
            for (j, &class) in row.iter().enumerate() {
                let mut v = x[i * classes as usize + class as usize];
                if a.remove_accidental_hits && j >= own && row[..own].contains(&class) {
                    v -= 1e20;
                }
                let log = p[i * columns + j].ln();
                let less = v - if log.is_infinite() { finite(log) } else { log };
                to[i * columns + j] = if less.is_infinite() { finite(less) } else { less };
            }
        }
    }, other => return cx.unsupported(other));
    for (i, o) in cx.out_data::<i64>(sample::SAMPLED_LABELS)?.iter_mut().enumerate() {
        *o = (i % own) as i64;
    }
    cx.set(sample::LOGITS_DIM, Tensor::empty(logits.dtype(), &[rows as i64, classes, 0])?);
    cx.set(sample::LABELS_DIM, Tensor::empty(logits.dtype(), &[rows as i64, own as i64, 0])?);
    for (slot, t) in [(sample::SAMPLES, samples), (sample::PROBABILITIES, probabilities), (sample::SAMPLED, sampled)] {
        cx.set(slot, t);
    }
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
        for (i, (&class, &v)) in samples.data::<i64>().iter().zip(d.data::<T>()).enumerate() {
            to[i / columns * classes as usize + class as usize] += v;
        }
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
