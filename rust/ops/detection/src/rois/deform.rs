//! deformable_psroi_pooling: the mean of bilinear samples in each bin of a RoI, where a bin is displaced by a learned
//! part of the RoI's size and may read its own plane.

use crate::rois;
use oar_core::attrs;
use oar_core::base::{DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::rois::deform::{DeformableRois, DeformedBins};
use oar_kernels::detection::rois::{Pooling, RoiGrid};

attrs! {
    pub struct DeformRoiAttrs {
        no_trans: bool, spatial_scale: f32, output_dim: i32, group_size: Vec<i32>, pooled_height: i32,
        pooled_width: i32, part_size: Vec<i32>, sample_per_part: i32, trans_std: f32,
    }
}

slots! {
    mod fwd { INPUT "Input", ROIS "ROIs", TRANS "Trans" => COUNT "TopCount", OUTPUT "Output" }
    mod grad {
        INPUT "Input", TRANS "Trans", ROIS "ROIs", COUNT "TopCount", DOUTPUT "Output@GRAD"
        => DINPUT "Input@GRAD", DTRANS "Trans@GRAD"
    }
}

/// Limit of samples along one side of a RoI.
const MOST_SAMPLES: i64 = 1 << 16;

/// The number of classes; channels of a class have one displacement.
fn classes(op: &str, a: &DeformRoiAttrs, trans: i64) -> Result<usize> {
    let classes = if a.no_trans { 1 } else { trans / 2 };
    let each = (a.output_dim as i64).checked_div(classes).unwrap_or(0);
    ensure!(
        each >= 1 && (a.output_dim as i64 - 1) / each < classes,
        InvalidArgument,
        "operator {op}: output_dim {} channels must be divisible by {classes} classes, half the {trans} channels of \
         Trans",
        a.output_dim
    );
    Ok(classes as usize)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<DeformRoiAttrs>());
    let sizes = (a.pooled_height, a.pooled_width, a.spatial_scale);
    let channels = a.output_dim as i64;
    let out = rois::shape(cx, (fwd::INPUT, fwd::ROIS, None), 4, Some(channels), sizes, ErrorKind::InvalidArgument)?;
    let (x, trans, dtype) = (cx.dims(fwd::INPUT)?, cx.dims(fwd::TRANS)?, cx.dtype(fwd::INPUT)?);
    ensure!(
        trans.len() == 4,
        InvalidArgument,
        "operator {op}: input 'Trans' must have 4 dimensions, [N, 2, H, W], got shape {:?}",
        &trans[..]
    );
    ensure!(a.trans_std >= 0.0, InvalidArgument, "operator {op}: trans_std must not be below 0, got {}", a.trans_std);
    for (name, pair) in [("group_size", &a.group_size), ("part_size", &a.part_size)] {
        ensure!(
            pair.len() == 2 && pair.iter().all(|&n| n > 0),
            InvalidArgument,
            "operator {op}: attribute '{name}' must be 2 numbers above 0, got {pair:?}"
        );
    }
    let wanted = a.group_size.iter().try_fold(channels, |n, &g| n.checked_mul(g as i64));
    ensure!(
        channels >= 1 && (x[1] < 0 || wanted.is_some_and(|n| n <= x[1])),
        InvalidArgument,
        "operator {op}: output_dim {channels} in groups of {:?} reads more than the {} channels of Input",
        a.group_size,
        x[1]
    );
    let fits = (2..4).all(|i| trans[i] < 0 || a.part_size[i - 2] as i64 <= trans[i]);
    ensure!(
        fits,
        InvalidArgument,
        "operator {op}: part_size {:?} must not exceed the sizes of Trans, got shape {:?}",
        a.part_size,
        &trans[..]
    );
    let samples = a.sample_per_part as i64;
    ensure!(samples > 0, InvalidArgument, "operator {op}: sample_per_part must be above 0, got {samples}");
    ensure!(
        samples * a.pooled_height.max(a.pooled_width) as i64 <= MOST_SAMPLES,
        ResourceExhausted,
        "operator {op}: sample_per_part {samples} makes too many samples of bins {} x {}",
        a.pooled_height,
        a.pooled_width
    );
    if !a.no_trans {
        ensure!(
            trans[0] >= out[0] || trans[0] < 0,
            InvalidArgument,
            "operator {op}: Trans must have a row for each of the {} RoIs, got shape {:?}",
            out[0],
            &trans[..]
        );
        if trans[1] >= 0 {
            classes(op, a, trans[1])?;
        }
    }
    for slot in [fwd::COUNT, fwd::OUTPUT] {
        cx.set(slot, &out, dtype);
    }
    Ok(())
}

fn geometry(a: &DeformRoiAttrs) -> DeformableRois {
    let pair = |v: &[i32]| [v[0] as usize, v[1] as usize];
    DeformableRois {
        grid: RoiGrid { scale: a.spatial_scale, rows: a.pooled_height as usize, cols: a.pooled_width as usize },
        groups: pair(&a.group_size),
        parts: pair(&a.part_size),
        samples: a.sample_per_part as usize,
        std: a.trans_std,
    }
}

/// The pooling geometry and the number of classes.
fn pooling(cx: &KernelContext, [x, rois, trans]: [InSlot; 3]) -> Result<(Pooling, usize)> {
    let a = cx.attrs::<DeformRoiAttrs>();
    let (input, moves) = (cx.input(x)?, cx.input(trans)?);
    rois::same_type(cx, input.dtype(), if a.no_trans { &[] } else { std::slice::from_ref(&trans) })?;
    let classes = classes(cx.op.name, a, moves.dims()[1])?;
    let channels = a.output_dim as usize;
    let p = rois::pooling(cx, (x, rois, None), (a.pooled_height, a.pooled_width))?;
    let reads = (a.group_size[0] * a.group_size[1]) as usize;
    Ok((Pooling { channels, reads, alike: (channels / classes).max(1), ..p }, classes))
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, trans) = (cx.input(fwd::INPUT)?, cx.input(fwd::ROIS)?, cx.input(fwd::TRANS)?);
    let a = cx.attrs::<DeformRoiAttrs>();
    let (p, classes) = pooling(cx, [fwd::INPUT, fwd::ROIS, fwd::TRANS])?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let trans = (!a.no_trans).then(|| trans.data::<T>());
        let call = DeformedBins { a: &geometry(a), p: &p, rois: rois.data::<T>(), trans, classes };
        p.forward(x.data::<T>(), cx.out_data::<T>(fwd::OUTPUT)?, |n, class, to| call.bins(n, class, to));
        if cx.wants(fwd::COUNT) {
            call.counts(cx.out_data::<T>(fwd::COUNT)?);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, trans) = (cx.input(grad::INPUT)?, cx.input(grad::ROIS)?, cx.input(grad::TRANS)?);
    let a = cx.attrs::<DeformRoiAttrs>();
    let (p, classes) = pooling(cx, [grad::INPUT, grad::ROIS, grad::TRANS])?;
    let out = [rois.dims()[0], a.output_dim as i64, a.pooled_height as i64, a.pooled_width as i64];
    let dout = rois::grad_of(cx, grad::DOUTPUT, &out, x.dtype())?;
    let [dx, dtrans] = cx.each_out([grad::DINPUT, grad::DTRANS]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let trans = (!a.no_trans).then(|| trans.data::<T>());
        let call = DeformedBins { a: &geometry(a), p: &p, rois: rois.data::<T>(), trans, classes };
        if let Some(dx) = dx {
            p.backward(dout.data::<T>(), dx.data_mut::<T>()?, |n, class, to| call.bins(n, class, to));
        }
        match dtrans {
            Some(dtrans) if a.no_trans => dtrans.bytes_mut()?.fill(0),
            Some(dtrans) => call.of_trans(x.data::<T>(), dout.data::<T>(), dtrans.data_mut::<T>()?),
            None => {}
        }
        Ok(())
    }, other => cx.unsupported(other))
}

pub static DEFORMABLE_PSROI: Op = Op {
    name: "deformable_psroi_pooling",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: DeformRoiAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&DEFORMABLE_PSROI_GRAD),
    ..OP
};

pub static DEFORMABLE_PSROI_GRAD: Op = Op {
    name: "deformable_psroi_pooling_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: DeformRoiAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&DEFORMABLE_PSROI, &DEFORMABLE_PSROI_GRAD];
