//! Gradients made smaller before they travel.

mod dgc;

use oar_core::op::Op;

pub static TABLE: &[&Op] = &[&dgc::DGC];
