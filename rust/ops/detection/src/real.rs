//! The element types of boxes, float32 and float64, as one trait.

use oar_core::base::dtype::Element;
use oar_kernels::detection::boxes::BoxMath;

/// float32 or float64.
pub trait BoxFloat: BoxMath + Element + std::fmt::Display {}
impl BoxFloat for f32 {}
impl BoxFloat for f64 {}
