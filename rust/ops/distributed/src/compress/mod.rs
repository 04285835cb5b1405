//! Gradient compression.

mod dgc;
mod exchange;

use oar_core::op::Op;

pub static TABLE: &[&Op] = &[&dgc::DGC, &exchange::DGC_ALLREDUCE];
