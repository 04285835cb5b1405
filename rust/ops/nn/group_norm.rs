//! group_norm: normalisation over groups of channels of each image.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::parts::window::split_images;
use oar_core::op::{Grad, InSlot, Infer, Kernel, Op, Run, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};

attrs! {
    pub struct GroupNormAttrs { epsilon: f32 = 1e-5, groups: i32, data_layout: String = "NCHW".into() }
}

slots! {
    mod group_norm { X "X", SCALE "Scale".opt(), BIAS "Bias".opt() => Y "Y", MEAN "Mean".mid(), VARIANCE "Variance".mid() }
    mod group_norm_grad {
        SCALE "Scale".opt(), BIAS "Bias".opt(), DY "Y@GRAD", Y "Y", VARIANCE "Variance"
        => DX "X@GRAD", DBIAS "Bias@GRAD", DSCALE "Scale@GRAD"
    }
}

impl GroupNormAttrs {
    fn last(&self) -> bool {
        self.data_layout == "NHWC"
    }
}

/// Refuses what cannot be cut into groups of channels; sizes may be -1 while a Program is built.
fn check(op: &str, a: &GroupNormAttrs, x: &[i64]) -> Result<()> {
    ensure!(x.len() >= 2, InvalidArgument, "operator {op}: X must have at least 2 dimensions, got {x:?}");
    let (_, channels, _) = split_images(x, a.last());
    ensure!(
        a.groups > 0 && (channels < 0 || channels % a.groups as i64 == 0),
        InvalidArgument,
        "operator {op}: attribute 'groups' must divide the number of channels, got {} and {channels}",
        a.groups
    );
    Ok(())
}

/// Where the elements of a group lie.
struct Groups {
    images: usize,
    groups: usize,
    /// Channels of a group.
    width: usize,
    pixels: usize,
    last: bool,
}

impl Groups {
    fn of(op: &str, a: &GroupNormAttrs, x: &[i64]) -> Result<Groups> {
        check(op, a, x)?;
        let (images, channels, axes) = split_images(x, a.last());
        Ok(Groups {
            images: images as usize,
            groups: a.groups as usize,
            width: (channels / a.groups as i64) as usize,
            pixels: axes.iter().product::<i64>() as usize,
            last: a.last(),
        })
    }

    fn channels(&self) -> usize {
        self.groups * self.width
    }

    /// (channel, place) of every element of one group.
    fn places(&self, image: usize, group: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        (group * self.width..(group + 1) * self.width).flat_map(move |c| {
            (0..self.pixels).map(move |p| match self.last {
                true => (c, (image * self.pixels + p) * self.channels() + c),
                false => (c, (image * self.channels() + c) * self.pixels + p),
            })
        })
    }
}

/// One value a channel as f64, `or` where the slot is absent.
fn per_channel<T: Element + oar_kernels::types::Number>(
    cx: &Run,
    slot: InSlot,
    channels: usize,
    or: f64,
) -> Result<Vec<f64>> {
    let Some(t) = cx.opt(slot) else {
        let mut all = Vec::new();
        let there = all.try_reserve_exact(channels).is_ok();
        ensure!(there, ResourceExhausted, "operator {}: {channels} channels are too many", cx.op.name);
        all.resize(channels, or);
        return Ok(all);
    };
    ensure!(
        t.numel() == channels && t.dtype() == T::DTYPE,
        InvalidArgument,
        "operator {}: {} must have {channels} elements of {}, got {t:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name,
        T::DTYPE
    );
    Ok(t.data::<T>().iter().map(|v| v.to_f64()).collect())
}

fn forward<T: Element + oar_kernels::types::Number>(cx: &mut Run, x: &Tensor) -> Result<()> {
    use group_norm::{BIAS, MEAN, SCALE, VARIANCE, Y};
    let a = cx.attrs::<GroupNormAttrs>();
    let g = Groups::of(cx.op.name, a, x.dims())?;
    let (scale, bias) =
        (per_channel::<T>(cx, SCALE, g.channels(), 1.0)?, per_channel::<T>(cx, BIAS, g.channels(), 0.0)?);
    let (data, count) = (x.data::<T>(), (g.width * g.pixels) as f64);
    let (mut means, mut vars) = (Vec::new(), Vec::new());
    let y = cx.out_data::<T>(Y)?;
    for (image, group) in (0..g.images).flat_map(|i| (0..g.groups).map(move |k| (i, k))) {
        let mean = g.places(image, group).map(|(_, i)| data[i].to_f64()).sum::<f64>() / count;
        let var = g.places(image, group).map(|(_, i)| (data[i].to_f64() - mean).powi(2)).sum::<f64>() / count;
        let inv = 1.0 / (var + a.epsilon as f64).sqrt();
        for (c, i) in g.places(image, group) {
            y[i] = T::from_f64((data[i].to_f64() - mean) * inv * scale[c] + bias[c]);
        }
        means.push(T::from_f64(mean));
        vars.push(T::from_f64(var));
    }
    for (slot, values) in [(MEAN, means), (VARIANCE, vars)] {
        if cx.wants(slot) {
            cx.out_data::<T>(slot)?.copy_from_slice(&values);
        }
    }
    Ok(())
}

fn backward<T: Element + oar_kernels::types::Number>(cx: &mut Run, y: &Tensor) -> Result<()> {
    use group_norm_grad::{BIAS, DBIAS, DSCALE, DX, DY, SCALE, VARIANCE};
    let a = cx.attrs::<GroupNormAttrs>();
    let g = Groups::of(cx.op.name, a, y.dims())?;
    let (scale, bias) =
        (per_channel::<T>(cx, SCALE, g.channels(), 1.0)?, per_channel::<T>(cx, BIAS, g.channels(), 0.0)?);
    let (dy, var) = (cx.input(DY)?, cx.input(VARIANCE)?);
    ensure!(
        dy.dims() == y.dims() && dy.dtype() == y.dtype() && var.dtype() == y.dtype(),
        InvalidArgument,
        "operator {}: Y@GRAD and Variance must fit Y {y:?}, got {dy:?} and {var:?}",
        cx.op.name
    );
    ensure!(
        var.numel() == g.images * g.groups,
        InvalidArgument,
        "operator {}: Variance must have shape [{}, {}], got {var:?}",
        cx.op.name,
        g.images,
        g.groups
    );
    let (y, dy, var, count) = (y.data::<T>(), dy.data::<T>(), var.data::<T>(), (g.width * g.pixels) as f64);
    let (mut dscale, mut dbias) = (vec![0.0; g.channels()], vec![0.0; g.channels()]);
    let mut dx = vec![0.0f64; y.len()];
    for (image, group) in (0..g.images).flat_map(|i| (0..g.groups).map(move |k| (i, k))) {
        let inv = 1.0 / (var[image * g.groups + group].to_f64() + a.epsilon as f64).sqrt();
        // What was normalised is read back from Y, as in 2.0.2: a scale of 0 has lost it.
        let normal = |c: usize, i: usize| match scale[c] {
            0.0 => 0.0,
            s => (y[i].to_f64() - bias[c]) / s,
        };
        let (mut sum, mut along) = (0.0, 0.0);
        for (c, i) in g.places(image, group) {
            let (d, n) = (dy[i].to_f64(), normal(c, i));
            dscale[c] += d * n;
            dbias[c] += d;
            sum += d * scale[c];
            along += d * scale[c] * n;
        }
        for (c, i) in g.places(image, group) {
            dx[i] = inv * (dy[i].to_f64() * scale[c] - sum / count - normal(c, i) * along / count);
        }
    }
    for (slot, values) in [(DX, dx), (DBIAS, dbias), (DSCALE, dscale)] {
        if cx.wants(slot) {
            let out = cx.out_data::<T>(slot)?;
            out.iter_mut().zip(values).for_each(|(o, v)| *o = T::from_f64(v));
        }
    }
    Ok(())
}

fn infer(cx: &mut Infer) -> Result<()> {
    use group_norm::{MEAN, VARIANCE, X, Y};
    let (x, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    let a = cx.attrs::<GroupNormAttrs>();
    check(cx.op.name, a, &x)?;
    cx.set(Y, &x, dtype);
    cx.set(MEAN, &[x[0], a.groups as i64], dtype);
    cx.set(VARIANCE, &[x[0], a.groups as i64], dtype);
    cx.share_lod(Y, X);
    Ok(())
}

fn infer_grad(cx: &mut Infer) -> Result<()> {
    use group_norm_grad::{DBIAS, DSCALE, DX, Y};
    let (y, dtype) = (cx.dims(Y)?, cx.dtype(Y)?);
    let a = cx.attrs::<GroupNormAttrs>();
    check(cx.op.name, a, &y)?;
    let (_, channels, _) = split_images(&y, a.last());
    cx.set(DX, &y, dtype);
    cx.set(DBIAS, &[channels], dtype);
    cx.set(DSCALE, &[channels], dtype);
    Ok(())
}

pub static GROUP_NORM: Op = Op {
    name: "group_norm",
    inputs: group_norm::INS,
    outputs: group_norm::OUTS,
    attrs: GroupNormAttrs::FIELDS,
    takes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(|cx| {
        let x = cx.input(group_norm::X)?;
        dispatch!(x.dtype(), T in [f32, f64], forward::<T>(cx, x), other => cx.unsupported(other))
    }),
    grad: Grad::By(&GROUP_NORM_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};
pub static GROUP_NORM_GRAD: Op = Op {
    name: "group_norm_grad",
    inputs: group_norm_grad::INS,
    outputs: group_norm_grad::OUTS,
    attrs: GroupNormAttrs::FIELDS,
    takes: DTypes::FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(|cx| {
        let y = cx.input(group_norm_grad::Y)?;
        dispatch!(y.dtype(), T in [f32, f64], backward::<T>(cx, y), other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&GROUP_NORM, &GROUP_NORM_GRAD];
