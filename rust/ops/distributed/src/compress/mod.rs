//! Gradient compression.

mod dgc;
mod dgc_allreduce;

use oar_core::op::Op;

pub static TABLE: &[&Op] = &[&dgc::DGC, &dgc_allreduce::DGC_ALLREDUCE];
