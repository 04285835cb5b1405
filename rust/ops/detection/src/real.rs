//! The element types of boxes, float32 and float64, as one trait.

use oar_core::base::dtype::Element;
use oar_kernels::types::Float;

/// float32 and float64.
pub trait BoxFloat: Float + Element + std::fmt::Display {
    fn of(v: f64) -> Self {
        Self::from_f64(v)
    }
    fn exp(self) -> Self {
        Self::of(self.to_f64().exp())
    }
    fn round(self) -> Self {
        Self::of(self.to_f64().round())
    }
    /// The logistic function, computed in float64 as Paddle does.
    fn sigmoid(self) -> Self {
        Self::of(1.0 / (1.0 + (-self.to_f64()).exp()))
    }
}
impl BoxFloat for f32 {}
impl BoxFloat for f64 {}
