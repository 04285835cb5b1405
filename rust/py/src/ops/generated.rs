//! The positional arguments that stand for outputs in 2.0.2's generated functions of `core.ops`, by operator: after the
//! inputs, each output that the caller passes, and the number of variables of each other duplicable output.

use oar_core::op::{Op, SlotFlag};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

/// The outputs that the caller passes as variables.
fn passed(op: &Op) -> &'static [&'static str] {
    match op.name {
        "sgd" => &["ParamOut"],
        "momentum" => &["ParamOut", "VelocityOut"],
        "adam" | "lamb" => &["ParamOut", "Moment1Out", "Moment2Out", "Beta1PowOut", "Beta2PowOut"],
        "average_accumulates" => &[
            "out_sum_1",
            "out_sum_2",
            "out_sum_3",
            "out_num_accumulates",
            "out_old_num_accumulates",
            "out_num_updates",
        ],
        "batch_norm" | "sync_batch_norm" => &["MeanOut", "VarianceOut"],
        "accuracy" => &["Correct", "Total"],
        "fill_constant" | "matmul" | "c_broadcast" | "c_allgather" | "c_scatter" | "barrier" | "c_allreduce_sum"
        | "c_allreduce_max" | "c_allreduce_min" | "c_allreduce_prod" | "c_reduce_sum" | "c_reduce_max"
        | "c_reduce_min" | "c_reduce_prod" => &["Out"],
        "fake_quantize_dequantize_moving_average_abs_max" => &["Out", "OutScale", "OutState", "OutAccum"],
        "fake_quantize_dequantize_abs_max" | "fake_channel_wise_quantize_dequantize_abs_max" => &["Out", "OutScale"],
        "check_finite_and_unscale" => &["Out", "FoundInfinite"],
        "update_loss_scaling" => &["Out", "LossScaling", "OutGoodSteps", "OutBadSteps"],
        "moving_average_abs_max_scale" => &["OutScale", "OutState", "OutAccum"],
        _ => &[],
    }
}

/// Dispensable inputs that the generated function takes.
fn dispensable_inputs(op: &Op) -> usize {
    match op.name {
        "fake_quantize_dequantize_moving_average_abs_max" | "moving_average_abs_max_scale" => 2,
        _ => 0,
    }
}

/// Slots of the outputs that take an argument, in order.
pub fn arguments(op: &Op) -> Vec<usize> {
    let passed = passed(op);
    let takes = |slot: usize| {
        let s = &op.outputs[slot];
        let absent = s.has(SlotFlag::Dispensable) && op.name != "distribute_fpn_proposals";
        passed.contains(&s.name) || s.has(SlotFlag::Duplicable) && !absent
    };
    (0..op.outputs.len()).filter(|&slot| takes(slot)).collect()
}

/// True if the inputs of the generated function end before the dispensable slot `slot`: of `positional` arguments, as
/// many follow as the function takes outputs.
#[inline]
pub fn ends(op: &Op, slot: usize, positional: impl FnOnce() -> usize) -> bool {
    if !op.inputs[slot].has(SlotFlag::Dispensable) {
        return false;
    }
    let outputs = passed(op).len();
    if outputs == 0 {
        return false;
    }
    let required = op.inputs.iter().filter(|s| !s.has(SlotFlag::Dispensable)).count() + dispensable_inputs(op);
    slot == required && positional() == required + outputs
}

/// True for a number of variables: an int that is no bool.
#[inline]
pub fn is_count(arg: &Bound<'_, PyAny>) -> bool {
    // SAFETY: type checks of a live object.
    let is_int = unsafe { ffi::PyLong_Check(arg.as_ptr()) } != 0;
    is_int && !arg.is_instance_of::<PyBool>() && arg.is_instance_of::<PyInt>()
}
