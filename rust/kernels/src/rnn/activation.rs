//! The activations of recurrent operators.

use crate::rnn::gates::sigmoid;
use crate::simd_fn;
use crate::types::Float;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Identity,
    Sigmoid,
    Tanh,
    Relu,
}

simd_fn! {
    /// Sigmoid of arguments clipped to -40..=13, as in Paddle 1.x.
    fn sigmoids[T: Float](x: &mut [T]) {
        let (low, high) = (T::from_f64(-40.0), T::from_f64(13.0));
        for x in x.iter_mut() {
            let v = if *x < low { low } else { *x };
            *x = sigmoid::<FMA, T>(if v > high { high } else { v });
        }
    }
}

simd_fn! {
    fn tanhs[T: Float](x: &mut [T]) {
        for x in x.iter_mut() {
            *x = x.tanh_::<FMA>();
        }
    }
}

impl Activation {
    pub fn apply<T: Float>(self, x: &mut [T]) {
        match self {
            Activation::Identity => {}
            Activation::Sigmoid => sigmoids(x),
            Activation::Tanh => tanhs(x),
            Activation::Relu => x.iter_mut().for_each(|x| *x = if *x > T::ZERO { *x } else { T::ZERO }),
        }
    }

    /// Multiplies `d` by the derivative, computed from the result `y` of the activation.
    pub fn grad<T: Float>(self, y: &[T], d: &mut [T]) {
        let each = d.iter_mut().zip(y);
        match self {
            Activation::Identity => {}
            Activation::Sigmoid => each.for_each(|(d, &y)| *d = *d * y * (T::ONE - y)),
            Activation::Tanh => each.for_each(|(d, &y)| *d = *d * (T::ONE - y * y)),
            Activation::Relu => each.for_each(|(d, &y)| *d = *d * if y > T::ZERO { T::ONE } else { T::ZERO }),
        }
    }
}
