//! Simulated quantization: numbers are rounded to quantization levels but stay floating point.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::ensure;
use oar_core::op::infer::like_out_grad;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{err, slots};
use oar_kernels::quant::fake_quantize::{abs_max, channel_abs_max, Grid};
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct WholeAttrs { bit_length: i32 = 8 }
    pub struct ChannelAttrs { quant_axis: i32 = 0, bit_length: i32 = 8, is_test: bool = false }
    pub struct ChannelBackAttrs { quant_axis: i32 = 0, bit_length: i32 = 8 }
    pub struct RangeAttrs { window_size: i32 = 10000, bit_length: i32 = 8, is_test: bool = false }
    pub struct MovingAttrs { moving_rate: f32 = 0.9, bit_length: i32 = 8, is_test: bool = false }
    pub struct ObserverAttrs { moving_rate: f32 = 0.9, is_test: bool = false }
}

slots! {
    mod whole { X "X" => OUT "Out", OUT_SCALE "OutScale" }
    mod channel { X "X" => OUT "Out", OUT_SCALE "OutScale".in_place().kernel_allocated() }
    mod range {
        X "X", IN_SCALE "InScale", ITER "Iter".dispensable()
        => OUT "Out", OUT_SCALE "OutScale", OUT_SCALES "OutScales".dispensable().in_place().kernel_allocated()
    }
    mod moving {
        X "X", IN_SCALE "InScale", IN_ACCUM "InAccum".dispensable(), IN_STATE "InState".dispensable()
        => OUT "Out", OUT_SCALE "OutScale".kernel_allocated(), OUT_STATE "OutState".dispensable().kernel_allocated(), OUT_ACCUM "OutAccum".dispensable().kernel_allocated()
    }
    mod observer {
        X "X", IN_ACCUM "InAccum".dispensable(), IN_STATE "InState".dispensable()
        => OUT_SCALE "OutScale".in_place().kernel_allocated(), OUT_STATE "OutState".dispensable().kernel_allocated(), OUT_ACCUM "OutAccum".dispensable().kernel_allocated()
    }
    mod through { DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
}

/// The largest level of a signed integer of `bit_length` bits.
fn levels(op: &str, bit_length: i32) -> Result<f32> {
    ensure!(
        (1..=16).contains(&bit_length),
        InvalidArgument,
        "operator {op}: bit_length must be in [1, 16], got {bit_length}"
    );
    Ok(((1 << (bit_length - 1)) - 1) as f32)
}

fn infer_whole(cx: &mut ShapeContext) -> Result<()> {
    levels(cx.op.name, cx.attrs::<WholeAttrs>().bit_length)?;
    same_shape(cx)?;
    let dtype = cx.dtype(whole::X)?;
    cx.set(whole::OUT_SCALE, &[1], dtype);
    Ok(())
}

/// The first output has the meta of the first input.
fn same_shape(cx: &mut ShapeContext) -> Result<()> {
    cx.like(OutSlot(0), InSlot(0))?;
    cx.share_lod(OutSlot(0), InSlot(0));
    Ok(())
}

fn quantize_whole(cx: &mut KernelContext, back: bool) -> Result<()> {
    let x = cx.input(whole::X)?.data::<f32>();
    let bins = levels(cx.op.name, cx.attrs::<WholeAttrs>().bit_length)?;
    let scale = abs_max(x);
    Grid { bins, back, away: false }.fill(scale, x, cx.out_data::<f32>(whole::OUT)?);
    cx.out_data::<f32>(whole::OUT_SCALE)?[0] = scale;
    Ok(())
}

/// quant_axis, bit_length, and whether the scales are OutScale's earlier values (is_test).
fn channel_attrs(attrs: &dyn std::any::Any) -> (i32, i32, bool) {
    match attrs.downcast_ref::<ChannelAttrs>() {
        Some(a) => (a.quant_axis, a.bit_length, a.is_test),
        None => {
            let a: &ChannelBackAttrs = attrs.downcast_ref().expect("attributes of another operator");
            (a.quant_axis, a.bit_length, false)
        }
    }
}

fn infer_channel(cx: &mut ShapeContext) -> Result<()> {
    let (axis, bits, _) = channel_attrs(cx.attrs.as_any());
    levels(cx.op.name, bits)?;
    let x = cx.dims(channel::X)?;
    ensure!(
        (0..=1).contains(&axis) && (axis as usize) < x.len(),
        InvalidArgument,
        "operator {}: quant_axis must be 0 or 1 and an axis of X (shape {:?}), got {axis}",
        cx.op.name,
        &x[..]
    );
    same_shape(cx)?;
    let dtype = cx.dtype(channel::X)?;
    cx.set(channel::OUT_SCALE, &[x[axis as usize]], dtype);
    Ok(())
}

fn quantize_channels(cx: &mut KernelContext, back: bool) -> Result<()> {
    let (axis, bits, given) = channel_attrs(cx.attrs.as_any());
    let t = cx.input(channel::X)?;
    let bins = levels(cx.op.name, bits)?;
    let channels = t.dims()[axis as usize] as usize;
    let inner = t.dims()[axis as usize + 1..].iter().product::<i64>() as usize;
    let x = t.data::<f32>();
    let scales: Vec<f32> = if given {
        previous_value(cx, channel::OUT_SCALE, channels)
            .ok_or_else(|| {
                err!(
                    PreconditionNotMet,
                    "operator {}: with is_test OutScale must hold the {channels} scales of the channels",
                    cx.op.name
                )
            })?
            .to_vec()
    } else {
        channel_abs_max(x, channels, inner)
    };
    let grid = Grid { bins, back, away: axis == 1 };
    grid.fill_channels(&scales, inner, x, cx.out_data::<f32>(channel::OUT)?);
    if !given {
        cx.set(channel::OUT_SCALE, Tensor::from_slice(&scales, &[channels as i64])?);
    }
    Ok(())
}

/// The earlier value of an output variable, if it has `count` elements.
fn previous_value<'a>(cx: &'a KernelContext, slot: OutSlot, count: usize) -> Option<&'a [f32]> {
    match &cx.outs.slot(slot.0).first()?.value {
        Value::Dense(t) if t.dtype() == DType::F32 && t.numel() == count => Some(t.data::<f32>()),
        _ => None,
    }
}

fn infer_range(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<RangeAttrs>();
    levels(cx.op.name, a.bit_length)?;
    ensure!(
        a.window_size > 0,
        InvalidArgument,
        "operator {}: window_size must be positive, got {}",
        cx.op.name,
        a.window_size
    );
    same_shape(cx)?;
    let dtype = cx.dtype(range::X)?;
    cx.set(range::OUT_SCALE, &[1], dtype);
    cx.set(range::OUT_SCALES, &[a.window_size as i64], dtype);
    Ok(())
}

/// The scale is the largest magnitude of the last `window_size` calls.
fn quantize_range(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<RangeAttrs>());
    let x = cx.input(range::X)?.data::<f32>();
    let last = scalar(cx, range::IN_SCALE)? as f32;
    let window = a.window_size as usize;
    let mut scale = last;
    let before = previous_value(cx, range::OUT_SCALES, window);
    if !a.is_test {
        let size = [window as i64];
        let mut scales = match before {
            Some(before) => Tensor::from_slice(before, &size)?,
            None => Tensor::zeros(DType::F32, &size)?,
        };
        let iter = cx.input(range::ITER)?.to_i64s()?;
        ensure!(
            iter.len() == 1 && iter[0] >= 0,
            InvalidArgument,
            "operator {op}: Iter must be one number that is not negative, got {iter:?}"
        );
        let (iter, current) = (iter[0] as usize, abs_max(x));
        let window_scales = scales.data_mut::<f32>()?;
        let removed = std::mem::replace(&mut window_scales[iter % window], current);
        if scale < current {
            scale = current;
        } else if (removed - scale).abs() < 1e-6 {
            scale = abs_max(&window_scales[..iter.clamp(1, window)]);
        }
        cx.set(range::OUT_SCALES, scales);
    } else if before.is_none() {
        cx.set(range::OUT_SCALES, Value::None);
    }
    let bins = levels(op, a.bit_length)?;
    Grid { bins, back: false, away: false }.fill(scale, x, cx.out_data::<f32>(range::OUT)?);
    cx.out_data::<f32>(range::OUT_SCALE)?[0] = scale;
    Ok(())
}

fn infer_moving(cx: &mut ShapeContext) -> Result<()> {
    levels(cx.op.name, cx.attrs::<MovingAttrs>().bit_length)?;
    same_shape(cx)?;
    let dtype = cx.dtype(moving::X)?;
    cx.set_each(&[moving::OUT_SCALE, moving::OUT_STATE, moving::OUT_ACCUM], &[1], dtype);
    Ok(())
}

/// (state, accum, scale) after a call: decayed number of calls, decayed sum of their scales, mean.
fn average(cx: &KernelContext, accum: InSlot, state: InSlot, rate: f32, x: &[f32]) -> Result<[f32; 3]> {
    let state = rate * scalar(cx, state)? as f32 + 1.0;
    let accum = rate * scalar(cx, accum)? as f32 + abs_max(x);
    Ok([state, accum, accum / state])
}

fn quantize_moving(cx: &mut KernelContext, back: bool) -> Result<()> {
    let a = cx.attrs::<MovingAttrs>();
    let x = cx.input(moving::X)?.data::<f32>();
    let bins = levels(cx.op.name, a.bit_length)?;
    let scale = if a.is_test {
        // In inference the state is unchanged.
        for (out, from) in [
            (moving::OUT_SCALE, moving::IN_SCALE),
            (moving::OUT_STATE, moving::IN_STATE),
            (moving::OUT_ACCUM, moving::IN_ACCUM),
        ] {
            if let Some(t) = cx.opt(from) {
                cx.set(out, t.share()?);
            }
        }
        scalar(cx, moving::IN_SCALE)? as f32
    } else {
        let [state, accum, scale] = average(cx, moving::IN_ACCUM, moving::IN_STATE, a.moving_rate, x)?;
        cx.set(moving::OUT_STATE, Tensor::scalar(state)?);
        cx.set(moving::OUT_ACCUM, Tensor::scalar(accum)?);
        cx.set(moving::OUT_SCALE, Tensor::scalar(scale)?);
        scale
    };
    Grid { bins, back, away: false }.fill(scale, x, cx.out_data::<f32>(moving::OUT)?);
    Ok(())
}

fn infer_observer(cx: &mut ShapeContext) -> Result<()> {
    let dtype = cx.dtype(observer::X)?;
    cx.set_each(&[observer::OUT_SCALE, observer::OUT_STATE, observer::OUT_ACCUM], &[1], dtype);
    Ok(())
}

/// Updates only the moving average. With is_test OutScale keeps its value.
fn observe(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ObserverAttrs>();
    if a.is_test {
        for (out, from) in [(observer::OUT_STATE, observer::IN_STATE), (observer::OUT_ACCUM, observer::IN_ACCUM)] {
            if let Some(t) = cx.opt(from) {
                cx.set(out, t.share()?);
            }
        }
        return Ok(());
    }
    let x = cx.input(observer::X)?.data::<f32>();
    let [state, accum, scale] = average(cx, observer::IN_ACCUM, observer::IN_STATE, a.moving_rate, x)?;
    cx.set(observer::OUT_STATE, Tensor::scalar(state)?);
    cx.set(observer::OUT_ACCUM, Tensor::scalar(accum)?);
    cx.set(observer::OUT_SCALE, Tensor::scalar(scale)?);
    Ok(())
}

const F32: DTypes = DTypes::of(&[DType::F32]);

pub static ABS_MAX: Op = Op {
    name: "fake_quantize_abs_max",
    inputs: whole::INS,
    outputs: whole::OUTS,
    attrs: WholeAttrs::FIELDS,
    dtypes: F32,
    infer: infer_whole,
    cpu: Kernel::Pure(|cx| quantize_whole(cx, false)),
    ..OP
};

pub static ABS_MAX_BACK: Op = Op {
    name: "fake_quantize_dequantize_abs_max",
    inputs: whole::INS,
    outputs: whole::OUTS,
    attrs: WholeAttrs::FIELDS,
    dtypes: F32,
    infer: infer_whole,
    cpu: Kernel::Pure(|cx| quantize_whole(cx, true)),
    grad: Grad::By(&THROUGH),
    ..OP
};

pub static CHANNELS: Op = Op {
    name: "fake_channel_wise_quantize_abs_max",
    inputs: channel::INS,
    outputs: channel::OUTS,
    attrs: ChannelAttrs::FIELDS,
    dtypes: F32,
    infer: infer_channel,
    cpu: Kernel::Pure(|cx| quantize_channels(cx, false)),
    ..OP
};

pub static CHANNELS_BACK: Op = Op {
    name: "fake_channel_wise_quantize_dequantize_abs_max",
    inputs: channel::INS,
    outputs: channel::OUTS,
    attrs: ChannelBackAttrs::FIELDS,
    dtypes: F32,
    infer: infer_channel,
    cpu: Kernel::Pure(|cx| quantize_channels(cx, true)),
    grad: Grad::By(&THROUGH),
    ..OP
};

pub static RANGE: Op = Op {
    name: "fake_quantize_range_abs_max",
    inputs: range::INS,
    outputs: range::OUTS,
    attrs: RangeAttrs::FIELDS,
    dtypes: F32,
    infer: infer_range,
    cpu: Kernel::Pure(quantize_range),
    ..OP
};

pub static MOVING: Op = Op {
    name: "fake_quantize_moving_average_abs_max",
    inputs: moving::INS,
    outputs: moving::OUTS,
    attrs: MovingAttrs::FIELDS,
    dtypes: F32,
    infer: infer_moving,
    cpu: Kernel::Pure(|cx| quantize_moving(cx, false)),
    ..OP
};

pub static MOVING_BACK: Op = Op {
    name: "fake_quantize_dequantize_moving_average_abs_max",
    inputs: moving::INS,
    outputs: moving::OUTS,
    attrs: MovingAttrs::FIELDS,
    dtypes: F32,
    infer: infer_moving,
    cpu: Kernel::Pure(|cx| quantize_moving(cx, true)),
    grad: Grad::By(&THROUGH),
    ..OP
};

pub static OBSERVER: Op = Op {
    name: "moving_average_abs_max_scale",
    inputs: observer::INS,
    outputs: observer::OUTS,
    attrs: ObserverAttrs::FIELDS,
    dtypes: F32,
    infer: infer_observer,
    cpu: Kernel::Pure(observe),
    ..OP
};

/// Straight-through estimator: the gradient of rounding is 1.
pub static THROUGH: Op = Op {
    name: "fake_quantize_dequantize_grad",
    inputs: through::INS,
    outputs: through::OUTS,
    dtypes: F32,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| {
        let dx = cx.input(through::DOUT)?.share()?;
        cx.set(through::DX, dx);
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] =
    &[&ABS_MAX, &ABS_MAX_BACK, &CHANNELS, &CHANNELS_BACK, &RANGE, &MOVING, &MOVING_BACK, &OBSERVER, &THROUGH];
