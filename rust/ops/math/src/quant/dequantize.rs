//! Dequantization: by scales (fake_dequantize_max_abs), by a dictionary (dequantize_log), and of table rows stored as
//! bytes (lookup_table_dequant).

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::quant::dequantize as kernel;
use oar_ops_common::index::index_of;

attrs! {
    pub struct MaxAbsAttrs { max_range: f32 }
    pub struct ChannelAttrs { quant_bits: Vec<i32> = vec![8], quant_axis: i32 = 0 }
    pub struct TableAttrs { padding_idx: i64 = -1 }
}

slots! {
    mod max_abs { X "X", SCALE "Scale" => OUT "Out" }
    mod channel { X "X", SCALES "Scales".duplicable() => OUT "Out" }
    mod log { X "X", DICT "Dict" => OUT "Out" }
    mod table { W "W", IDS "Ids" => OUT "Out" }
}

/// A nonempty input of this data type.
fn numbers<'a>(cx: &KernelContext<'a>, slot: InSlot, dtype: DType) -> Result<&'a Tensor> {
    let t = cx.input(slot)?;
    ensure!(
        t.dtype() == dtype && t.numel() > 0,
        InvalidArgument,
        "operator {}: input '{}' must hold numbers of type {dtype}, got {t:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name
    );
    Ok(t)
}

fn max_abs(cx: &mut KernelContext) -> Result<()> {
    let (x, range) = (cx.input(max_abs::X)?, cx.attrs::<MaxAbsAttrs>().max_range);
    let scale = numbers(cx, max_abs::SCALE, x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (scale, range) = (scale.data::<T>()[0], range as T);
        let y = cx.out_data::<T>(max_abs::OUT)?;
        y.iter_mut().zip(x.data::<T>()).for_each(|(y, &x)| *y = x * scale / range);
    }, other => return cx.unsupported(other));
    Ok(())
}

/// The channel axis, and the divisor of the scales' products.
fn channel_plan(op: &str, a: &ChannelAttrs, x: &[i64], scales: &[&[i64]]) -> Result<(usize, f64)> {
    ensure!(
        (0..=1).contains(&a.quant_axis),
        InvalidArgument,
        "operator {op}: quant_axis must be 0 or 1, got {}",
        a.quant_axis
    );
    // With two scales, the first is of weights whose output channels are axis 1 of X, the second of the layer's input.
    let axis = if scales.len() == 2 { 1 } else { a.quant_axis as usize };
    ensure!(
        (1..=2).contains(&scales.len()) && a.quant_bits.len() >= scales.len() && axis < x.len(),
        InvalidArgument,
        "operator {op}: there must be one or two Scales, as many quant_bits, and an axis {axis} of X, got {} Scales, \
         quant_bits {:?} and shape {x:?}",
        scales.len(),
        a.quant_bits
    );
    let counts = [x[axis], 1];
    for (i, (dims, count)) in scales.iter().zip(counts).enumerate() {
        let n = dims.iter().product::<i64>();
        ensure!(
            n == count || count < 0 || dims.iter().any(|&d| d < 0),
            PreconditionNotMet,
            "operator {op}: Scales[{i}] must have {count} elements for X of shape {x:?}, got {n}"
        );
    }
    let mut range = 1.0;
    for &bits in &a.quant_bits[..scales.len()] {
        ensure!((1..=31).contains(&bits), InvalidArgument, "operator {op}: quant_bits must be in [1, 31], got {bits}");
        range *= ((1i64 << (bits - 1)) - 1) as f64;
    }
    ensure!(
        range <= i32::MAX as f64,
        InvalidArgument,
        "operator {op}: quant_bits {:?} have more levels than there are int32 numbers",
        a.quant_bits
    );
    Ok((axis, range))
}

fn infer_channel(cx: &mut ShapeContext) -> Result<()> {
    let x = cx.dims(channel::X)?;
    let scales =
        (0..cx.count(channel::SCALES)).map(|i| Ok(cx.meta(channel::SCALES, i)?.dims)).collect::<Result<Vec<Dims>>>()?;
    channel_plan(cx.op.name, cx.attrs(), &x, &scales.iter().map(|d| &d[..]).collect::<Vec<_>>())?;
    like_first(cx)
}

fn channels(cx: &mut KernelContext) -> Result<()> {
    let (x, scales) = (cx.input(channel::X)?, cx.inputs(channel::SCALES)?);
    let dims: Vec<&[i64]> = scales.iter().map(|t| t.dims()).collect();
    let (axis, range) = channel_plan(cx.op.name, cx.attrs(), x.dims(), &dims)?;
    ensure!(
        scales.iter().all(|t| t.dtype() == x.dtype()),
        InvalidArgument,
        "operator {}: X and Scales must have one data type, got {x:?} and {scales:?}",
        cx.op.name
    );
    let inner = (x.dims()[axis + 1..].iter().product::<i64>() as usize).max(1);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (own, range) = (scales[0].data::<T>(), range as T);
        let second = scales.get(1).map_or(1.0, |t| t.data::<T>()[0]);
        kernel::channels(x.data::<T>(), (own, second), range, inner, cx.out_data::<T>(channel::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

/// Out is float32 in the shape of X.
fn infer_bytes(cx: &mut ShapeContext) -> Result<()> {
    let dims = cx.dims(InSlot(0))?;
    cx.set(OutSlot(0), &dims, DType::F32);
    cx.share_lod(OutSlot(0), InSlot(0));
    Ok(())
}

fn bytes_max_abs(cx: &mut KernelContext) -> Result<()> {
    let (x, range) = (cx.input(max_abs::X)?, cx.attrs::<MaxAbsAttrs>().max_range);
    let scale = numbers(cx, max_abs::SCALE, DType::F32)?.data::<f32>()[0];
    let y = cx.out_data::<f32>(max_abs::OUT)?;
    y.iter_mut().zip(x.data::<i8>()).for_each(|(y, &x)| *y = scale * f32::from(x) / range);
    Ok(())
}

/// Looks up magnitudes by level; negative levels are offset by 128.
fn by_dictionary(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let (x, dict) = (cx.input(log::X)?.data::<i8>(), numbers(cx, log::DICT, DType::F32)?.data::<f32>());
    kernel::by_dictionary(x, dict, cx.out_data::<f32>(log::OUT)?).map_err(|(x, at)| {
        err!(InvalidArgument, "operator {op}: Dict must have more than {at} elements for {x}, got {}", dict.len())
    })
}

/// A table row: minimum, maximum, then bytes, four per float32.
fn infer_table(cx: &mut ShapeContext) -> Result<()> {
    let (op, w, mut dims) = (cx.op.name, cx.dims(table::W)?, cx.dims(table::IDS)?);
    ensure!(
        w.len() == 2 && (w[1] >= 2 || w[1] < 0),
        InvalidArgument,
        "operator {op}: W must have 2 dimensions and at least 2 columns, got shape {:?}",
        &w[..]
    );
    ensure!(
        matches!(dims.last(), Some(&1 | &-1)),
        InvalidArgument,
        "operator {op}: the last dimension of Ids must be 1, got shape {:?}",
        &dims[..]
    );
    dims.pop();
    dims.push(if w[1] < 0 { -1 } else { (w[1] - 2).saturating_mul(4) });
    cx.set(table::OUT, &dims, DType::F32);
    cx.share_lod(table::OUT, table::IDS);
    Ok(())
}

fn rows_of_bytes(cx: &mut KernelContext) -> Result<()> {
    let (op, padding) = (cx.op.name, cx.attrs::<TableAttrs>().padding_idx);
    let (w, ids) = (cx.input(table::W)?, index_of(op, cx.input(table::IDS)?)?);
    let (height, columns) = (w.dims()[0], w.dims()[1] as usize);
    let padding = (padding != -1).then_some(padding);
    let table = (w.data::<f32>(), height, columns);
    kernel::rows_of_bytes(table, &ids, padding, cx.out_data::<f32>(table::OUT)?)
        .map_err(|id| err!(InvalidArgument, "operator {op}: ids must be in [0, {height}), got {id}"))
}

pub static MAX_ABS: Op = Op {
    name: "fake_dequantize_max_abs",
    inputs: max_abs::INS,
    outputs: max_abs::OUTS,
    attrs: MaxAbsAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: like_first,
    cpu: Kernel::Pure(max_abs),
    ..OP
};

pub static CHANNELS: Op = Op {
    name: "fake_channel_wise_dequantize_max_abs",
    inputs: channel::INS,
    outputs: channel::OUTS,
    attrs: ChannelAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_channel,
    cpu: Kernel::Pure(channels),
    ..OP
};

pub static BYTES: Op = Op {
    name: "dequantize_abs_max",
    inputs: max_abs::INS,
    outputs: max_abs::OUTS,
    attrs: MaxAbsAttrs::FIELDS,
    dtypes: DTypes::of(&[DType::I8]),
    infer: infer_bytes,
    cpu: Kernel::Pure(bytes_max_abs),
    ..OP
};

pub static LOG: Op = Op {
    name: "dequantize_log",
    inputs: log::INS,
    outputs: log::OUTS,
    dtypes: DTypes::of(&[DType::I8]),
    infer: infer_bytes,
    cpu: Kernel::Pure(by_dictionary),
    ..OP
};

pub static ROWS: Op = Op {
    name: "lookup_table_dequant",
    inputs: table::INS,
    outputs: table::OUTS,
    attrs: TableAttrs::FIELDS,
    dtypes: DTypes::of(&[DType::F32]),
    infer: infer_table,
    cpu: Kernel::Pure(rows_of_bytes),
    ..OP
};

pub static TABLE: &[&Op] = &[&MAX_ABS, &CHANNELS, &BYTES, &LOG, &ROWS];
