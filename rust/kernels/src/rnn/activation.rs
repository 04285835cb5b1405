//! The activations that recurrent operators may be told.

use crate::rnn::gates::sigmoid;
use crate::simd_fn;
use crate::types::Float;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Identity,
    Sigmoid,
    Tanh,
    Relu,
}

simd_fn! {
    /// Of arguments within -40 and 13, as Paddle's networks of 1.x have them: above, the result is that of 13.
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

impl Act {
    pub fn apply<T: Float>(self, x: &mut [T]) {
        match self {
            Act::Identity => {}
            Act::Sigmoid => sigmoids(x),
            Act::Tanh => tanhs(x),
            Act::Relu => x.iter_mut().for_each(|x| *x = if *x > T::ZERO { *x } else { T::ZERO }),
        }
    }

    /// `d` times the derivative, by the activation's result.
    pub fn grad<T: Float>(self, y: &[T], d: &mut [T]) {
        let each = d.iter_mut().zip(y);
        match self {
            Act::Identity => {}
            Act::Sigmoid => each.for_each(|(d, &y)| *d = *d * y * (T::ONE - y)),
            Act::Tanh => each.for_each(|(d, &y)| *d = *d * (T::ONE - y * y)),
            Act::Relu => each.for_each(|(d, &y)| *d = *d * if y > T::ZERO { T::ONE } else { T::ZERO }),
        }
    }
}
