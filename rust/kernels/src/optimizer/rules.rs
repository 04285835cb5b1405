//! Update rules of optimizers other than SGD, Momentum and Adam.

use crate::optimizer::{each, Rule, Stored, CHUNK};
use crate::pool;
use crate::simd_fn;
use crate::types::Float;

/// Declares a rule: hyperparameters, states, and the new parameter as a function of gradient and parameter. A state
/// names its element, which is read with `wide` and written with `M::narrow`.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $ty:ty),* $(,)? } [$($state:ident),*],
        |$g:ident, $p:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<T> {
            $($(#[$of])* pub $field: $ty),*
        }

        impl<T: Float> Rule<T> for $name<T> {
            #[inline(always)]
            fn update<const FMA: bool, M: Stored<T>, G: Stored<T>>(
                &self,
                grad: Option<&[G]>,
                param: &mut [M],
                states: &mut [&mut [M]],
            ) {
                // The slices are arguments, so that the compiler knows that they do not alias.
                #[inline(always)]
                fn run<T: Float, M: Stored<T>, G: Stored<T>>(
                    rule: $name<T>,
                    grad: Option<&[G]>,
                    param: &mut [M],
                    $($state: &mut [M]),*
                ) {
                    let $name { $($field),* } = rule;
                    each!(grad, param, [$($state),*], |$g, $p| $body);
                }
                let [$($state),*] = states else { unreachable!("a rule with other states") };
                run::<T, M, G>(*self, grad, param, $($state),*);
            }
        }
    )*};
}

#[inline(always)]
fn greater<T: Float>(a: T, b: T) -> T {
    if a < b {
        b
    } else {
        a
    }
}

/// -1, 0 or 1.
#[inline(always)]
fn sign<T: Float>(v: T) -> T {
    if v > T::ZERO {
        T::ONE
    } else if v < T::ZERO {
        T::ZERO - T::ONE
    } else {
        T::ZERO
    }
}

rules! {
    /// Adagrad: the step is divided by the square root of the sum of all squared gradients.
    Adagrad { rate: T, epsilon: T } [squares], |g, p| {
        let s = squares.wide() + g * g;
        *squares = M::narrow(s);
        p - rate * g / (s.sqrt() + epsilon)
    };

    /// Adagrad with a running mean of squared gradients.
    DecayedAdagrad { rate: T, decay: T, epsilon: T } [squares], |g, p| {
        let s = decay * squares.wide() + (T::ONE - decay) * g * g;
        *squares = M::narrow(s);
        p - rate * g / (s.sqrt() + epsilon)
    };

    /// Adadelta: the step is scaled by the ratio of running means of squared steps and squared gradients.
    Adadelta { rho: T, epsilon: T } [gradients, steps], |g, p| {
        let s = rho * gradients.wide() + (T::ONE - rho) * g * g;
        *gradients = M::narrow(s);
        let before = steps.wide();
        let step = ((before + epsilon) / (s + epsilon)).sqrt() * g;
        *steps = M::narrow(rho * before + (T::ONE - rho) * step * step);
        p - step
    };

    /// Adamax: Adam with the infinity norm of decayed gradients; `rate` is corrected for the number of steps.
    Adamax { rate: T, beta1: T, beta2: T, epsilon: T } [mean, greatest], |g, p| {
        let m = beta1 * mean.wide() + (T::ONE - beta1) * g;
        *mean = M::narrow(m);
        let n = greater(g.abs(), beta2 * greatest.wide() + epsilon);
        *greatest = M::narrow(n);
        p - rate * (m / n)
    };

    /// RMSProp: the gradient divided by the square root of the running mean of its square, with momentum.
    RmsProp { rate: T, rho: T, epsilon: T, mu: T } [squares, momentum], |g, p| {
        let s = rho * squares.wide() + (T::ONE - rho) * g * g;
        *squares = M::narrow(s);
        let m = mu * momentum.wide() + rate * g / (s + epsilon).sqrt();
        *momentum = M::narrow(m);
        p - m
    };

    /// Centered RMSProp: the running mean of the gradient is squared and subtracted.
    CenteredRmsProp { rate: T, rho: T, epsilon: T, mu: T } [squares, momentum, mean], |g, p| {
        let s = rho * squares.wide() + (T::ONE - rho) * g * g;
        *squares = M::narrow(s);
        let average = rho * mean.wide() + (T::ONE - rho) * g;
        *mean = M::narrow(average);
        let m = mu * momentum.wide() + rate * g / (s - average * average + epsilon).sqrt();
        *momentum = M::narrow(m);
        p - m
    };

    /// FTRL (follow the regularised leader). `square_root`: the power is -0.5.
    Ftrl { rate: T, l1: T, l2: T, power: T, square_root: bool } [squares, linear], |g, p| {
        let before = squares.wide();
        let s = before + g * g;
        *squares = M::narrow(s);
        let raised = |v: T| if square_root { v.sqrt() } else { v.pow(T::ZERO - power) };
        let (old, new) = (raised(before), raised(s));
        let l = linear.wide() + g - (new - old) / rate * p;
        *linear = M::narrow(l);
        if l.abs() > l1 {
            (l1 * sign(l) - l) / (new / rate + l2 + l2)
        } else {
            T::ZERO
        }
    };

    /// Gradient descent, then the proximal step of L1 and L2.
    ProximalGd { rate: T, l1: T, l2: T } [], |g, p| proximal(p - rate * g, rate, l1, l2);

    /// Adagrad, then the proximal step of L1 and L2.
    ProximalAdagrad { rate: T, l1: T, l2: T } [squares], |g, p| {
        let s = squares.wide() + g * g;
        *squares = M::narrow(s);
        proximal(p - rate * g / s.sqrt(), rate, l1, l2)
    };

    /// LARS: momentum with a rate adapted to the parameter, and weight decay.
    Lars { rate: T, mu: T, decay: T } [velocity], |g, p| {
        let v = mu * velocity.wide() + rate * (g + decay * p);
        *velocity = M::narrow(v);
        p - v
    };

    /// SGD on the gradient divided by `scale` plus noise (differential privacy).
    Noisy { rate: T, scale: T, noise: T } [], |g, p| p - rate * (g / scale + noise);

    /// Updates the moments of Adam only.
    Moments { beta1: T, beta2: T } [first, second], |g, p| {
        *first = M::narrow(beta1 * first.wide() + (T::ONE - beta1) * g);
        *second = M::narrow(beta2 * second.wide() + (T::ONE - beta2) * g * g);
        p
    };

    /// LAMB: the step along [`Lamb::direction`]; the gradient is not read.
    Lamb {
        rate: T,
        /// 1 - beta^t of both moments.
        left1: T,
        left2: T,
        epsilon: T,
        decay: T,
    } [first, second], |_g, p| {
        let rule = Lamb { rate, left1, left2, epsilon, decay };
        p - rate * rule.direction(first.wide(), second.wide(), p)
    };
}

#[inline(always)]
fn proximal<T: Float>(p: T, rate: T, l1: T, l2: T) -> T {
    let shrunk = if l1 > T::ZERO { sign(p) * greater(p.abs() - rate * l1, T::ZERO) } else { p };
    shrunk / (T::ONE + rate * l2)
}

impl<T: Float> Lamb<T> {
    /// The bias-corrected step of Adam plus weight decay.
    #[inline(always)]
    fn direction(&self, first: T, second: T, param: T) -> T {
        (first / self.left1) / ((second / self.left2).sqrt() + self.epsilon) + self.decay * param
    }

    /// The L2 norm of the direction over all elements. Panics if lengths differ.
    pub fn norm<M: Stored<T>>(&self, param: &[M], first: &[M], second: &[M]) -> f64 {
        let n = param.len();
        assert!(first.len() == n && second.len() == n, "parameter and moments differ in size");
        by_chunks(n, |r| direction_squares::<T, M>(*self, &param[r.clone()], &first[r.clone()], &second[r])).sqrt()
    }
}

simd_fn! {
    fn direction_squares[T: Float, M: Stored<T>](rule: Lamb<T>, param: &[M], first: &[M], second: &[M]) -> f64 {
        let n = param.len();
        let (first, second) = (&first[..n], &second[..n]);
        sum_of::<T>(n, |i| rule.direction(first[i].wide(), second[i].wide(), param[i].wide()))
    }
}

simd_fn! {
    fn squares_of[T: Float, M: Stored<T>](x: &[M]) -> f64 {
        sum_of::<T>(x.len(), |i| x[i].wide())
    }
}

/// The sum of squares in eight lanes of f64, equal at every SIMD level.
#[inline(always)]
fn sum_of<T: Float>(n: usize, at: impl Fn(usize) -> T) -> f64 {
    let mut lanes = [0f64; 8];
    let whole = n - n % 8;
    for i in (0..whole).step_by(8) {
        for (k, lane) in lanes.iter_mut().enumerate() {
            let v = at(i + k).to_f64();
            *lane += v * v;
        }
    }
    for i in whole..n {
        let v = at(i).to_f64();
        lanes[i - whole] += v * v;
    }
    lanes.iter().sum()
}

/// Adds the results of chunks in order.
fn by_chunks(n: usize, f: impl Fn(std::ops::Range<usize>) -> f64 + Sync) -> f64 {
    let mut sums = vec![0f64; n.div_ceil(CHUNK)];
    pool::parts(&mut sums, 1, |at, sums| {
        for (k, sum) in sums.iter_mut().enumerate() {
            let start = (at + k) * CHUNK;
            *sum = f(start..n.min(start + CHUNK));
        }
    });
    sums.iter().sum()
}

/// The L2 norm.
pub fn norm<T: Float, M: Stored<T>>(x: &[M]) -> f64 {
    by_chunks(x.len(), |r| squares_of::<T, M>(&x[r])).sqrt()
}
