//! group_norm: normalisation over groups of channels of each image.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::Result;
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure};

attrs! {
    pub struct GroupNormAttrs { epsilon: f32 = 1e-5, groups: i32, data_layout: String = "NCHW".into() }
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
        ensure!(x.len() >= 2, InvalidArgument, "operator {op}: X must have at least 2 dimensions, got {x:?}");
        let last = a.data_layout == "NHWC";
        let channels = if last { x[x.len() - 1] } else { x[1] };
        ensure!(
            a.groups > 0 && channels % a.groups as i64 == 0,
            InvalidArgument,
            "operator {op}: attribute 'groups' must divide the number of channels, got {} and {channels}",
            a.groups
        );
        let spatial = if last { &x[1..x.len() - 1] } else { &x[2..] };
        Ok(Groups {
            images: x[0] as usize,
            groups: a.groups as usize,
            width: (channels / a.groups as i64) as usize,
            pixels: spatial.iter().product::<i64>() as usize,
            last,
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
    slot: usize,
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
        cx.op.inputs[slot].name,
        T::DTYPE
    );
    Ok(t.data::<T>().iter().map(|v| v.to_f64()).collect())
}

fn forward<T: Element + oar_kernels::types::Number>(cx: &mut Run, x: &Tensor) -> Result<()> {
    let a = cx.attrs::<GroupNormAttrs>();
    let g = Groups::of(cx.op.name, a, x.dims())?;
    let (scale, bias) = (per_channel::<T>(cx, 1, g.channels(), 1.0)?, per_channel::<T>(cx, 2, g.channels(), 0.0)?);
    let (data, count) = (x.data::<T>(), (g.width * g.pixels) as f64);
    let (mut means, mut vars) = (Vec::new(), Vec::new());
    let y = cx.out_data::<T>(0)?;
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
    for (slot, values) in [(1, means), (2, vars)] {
        if cx.wants(slot) {
            cx.out_data::<T>(slot)?.copy_from_slice(&values);
        }
    }
    Ok(())
}

fn backward<T: Element + oar_kernels::types::Number>(cx: &mut Run, y: &Tensor) -> Result<()> {
    let a = cx.attrs::<GroupNormAttrs>();
    let g = Groups::of(cx.op.name, a, y.dims())?;
    let (scale, bias) = (per_channel::<T>(cx, 0, g.channels(), 1.0)?, per_channel::<T>(cx, 1, g.channels(), 0.0)?);
    let (dy, var) = (cx.input(2)?, cx.input(4)?);
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
    for (slot, values) in [(0, dx), (1, dbias), (2, dscale)] {
        if cx.wants(slot) {
            let out = cx.out_data::<T>(slot)?;
            out.iter_mut().zip(values).for_each(|(o, v)| *o = T::from_f64(v));
        }
    }
    Ok(())
}

fn infer(cx: &mut Infer) -> Result<()> {
    let (x, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    let groups = cx.attrs::<GroupNormAttrs>().groups as i64;
    if cx.is_run() {
        Groups::of(cx.op.name, cx.attrs::<GroupNormAttrs>(), &x)?;
    }
    cx.set(0, &x, dtype);
    let images = x.first().copied().unwrap_or(-1);
    cx.set(1, &[images, groups], dtype);
    cx.set(2, &[images, groups], dtype);
    cx.share_lod(0, 0);
    Ok(())
}

fn infer_grad(cx: &mut Infer) -> Result<()> {
    let (y, dtype) = (cx.dims(3)?, cx.dtype(3)?);
    let last = cx.attrs::<GroupNormAttrs>().data_layout == "NHWC";
    let channels = if last { y.last() } else { y.get(1) }.copied().unwrap_or(-1);
    cx.set(0, &y, dtype);
    cx.set(1, &[channels], dtype);
    cx.set(2, &[channels], dtype);
    Ok(())
}

pub static GROUP_NORM: Op = Op {
    name: "group_norm",
    inputs: &[slot("X"), slot("Scale").opt(), slot("Bias").opt()],
    outputs: &[slot("Y"), slot("Mean").mid(), slot("Variance").mid()],
    attrs: GroupNormAttrs::FIELDS,
    infer,
    cpu: Kernel::Pure(|cx| {
        let x = cx.input(0)?;
        dispatch!(x.dtype(), T in [f32, f64], forward::<T>(cx, x), other => cx.unsupported(other))
    }),
    grad: Grad::By(&GROUP_NORM_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};
pub static GROUP_NORM_GRAD: Op = Op {
    name: "group_norm_grad",
    inputs: &[slot("Scale").opt(), slot("Bias").opt(), slot("Y@GRAD"), slot("Y"), slot("Variance")],
    outputs: &[slot("X@GRAD"), slot("Bias@GRAD"), slot("Scale@GRAD")],
    attrs: GroupNormAttrs::FIELDS,
    infer: infer_grad,
    cpu: Kernel::Pure(|cx| {
        let y = cx.input(3)?;
        dispatch!(y.dtype(), T in [f32, f64], backward::<T>(cx, y), other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&GROUP_NORM, &GROUP_NORM_GRAD];
