//! average_accumulates: sums of a parameter over a window of steps, for ModelAverage.

use super::update::{infer_aliases, like_param, outs};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pool;

attrs! {
    pub struct AverageAttrs { average_window: f32 = 0.0, max_average_window: i64, min_average_window: i64 = 10000 }
}

slots! {
    mod average {
        PARAM "param", IN1 "in_sum_1", IN2 "in_sum_2", IN3 "in_sum_3", IN_COUNT "in_num_accumulates",
        IN_OLD "in_old_num_accumulates", IN_UPDATES "in_num_updates"
        => SUM1 "out_sum_1".aliases("in_sum_1"), SUM2 "out_sum_2".aliases("in_sum_2"),
        SUM3 "out_sum_3".aliases("in_sum_3"), COUNT "out_num_accumulates".aliases("in_num_accumulates"),
        OLD "out_old_num_accumulates".aliases("in_old_num_accumulates"),
        UPDATES "out_num_updates".aliases("in_num_updates")
    }
}

/// Number of values in the first sum before it moves to the second, which limits rounding errors.
const MOST: i64 = 16384;
const GRAIN: usize = 1 << 15;

fn count<'r>(cx: &'r mut KernelContext, slot: OutSlot) -> Result<&'r mut i64> {
    let op = cx.op;
    let t = cx.out(slot)?;
    ensure!(
        t.numel() == 1 && t.dtype() == DType::I64,
        InvalidArgument,
        "operator {}: '{}' must be of int64 and have one element, got {t:?}",
        op.name,
        op.outputs[slot.0].name
    );
    Ok(&mut t.data_mut::<i64>()?[0])
}

fn run_average(cx: &mut KernelContext) -> Result<()> {
    use average::{COUNT, OLD, PARAM, SUM1, SUM2, SUM3, UPDATES};
    let a = cx.attrs::<AverageAttrs>();
    ensure!(
        a.min_average_window <= a.max_average_window,
        InvalidArgument,
        "operator average_accumulates: min_average_window must not be above max_average_window, got {} and {}",
        a.min_average_window,
        a.max_average_window
    );
    let updates = count(cx, UPDATES)?;
    *updates = updates.wrapping_add(1);
    let updates = *updates;
    let added = count(cx, COUNT)?;
    *added = added.wrapping_add(1);
    let added = *added;
    let window = ((updates as f32 * a.average_window) as i64).min(a.max_average_window);
    let full = added >= a.min_average_window && added >= window;
    let param = cx.input(PARAM)?;
    let [one, two, three] = outs(cx, [SUM1, SUM2, SUM3])?;
    let alike = [&one, &two, &three].iter().all(|t| t.numel() == param.numel() && t.dtype() == param.dtype());
    ensure!(
        alike,
        InvalidArgument,
        "operator average_accumulates: the sums must be like the parameter {param:?}, got {one:?}, {two:?}, {three:?}"
    );
    dispatch!(param.dtype(), T in [f32, f64], {
        let (one, two, three) = (one.data_mut::<T>()?, two.data_mut::<T>()?, three.data_mut::<T>()?);
        add(one, param.data::<T>());
        if updates % MOST == 0 {
            add(two, one);
            one.fill(0.0);
        }
        if full {
            three.copy_from_slice(one);
            add(three, two);
            one.fill(0.0);
            two.fill(0.0);
        }
    }, other => return cx.unsupported(other));
    if full {
        *count(cx, OLD)? = added;
        *count(cx, COUNT)? = 0;
    }
    Ok(())
}

fn add<T: Copy + Send + Sync + std::ops::AddAssign>(to: &mut [T], from: &[T]) {
    pool::parts(to, GRAIN, |at, to| to.iter_mut().zip(&from[at..]).for_each(|(t, &f)| *t += f));
}

pub static AVERAGE: Op = Op {
    name: "average_accumulates",
    inputs: average::INS,
    outputs: average::OUTS,
    attrs: AverageAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        let sums: [InSlot; 3] = [average::IN1, average::IN2, average::IN3];
        like_param(cx, average::PARAM, &sums)?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(run_average),
    ..OP
};

pub static TABLE: &[&Op] = &[&AVERAGE];
