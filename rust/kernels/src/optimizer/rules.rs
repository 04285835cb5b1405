//! The rules of further optimizers: what each does to one element of a parameter and its states.

use crate::optimizer::{each, Rule, Stored, CHUNK};
use crate::pool;
use crate::simd_fn;
use crate::types::Float;

/// Declares a rule: its numbers, its states, and the new parameter from gradient and parameter. A state stands for its
/// element, to be read with `wide` and written with `M::narrow`.
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
                // The slices are arguments, so that the compiler knows them apart.
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
    /// The step is divided by the root of the sum of all squares so far.
    Adagrad { rate: T, epsilon: T } [squares], |g, p| {
        let s = squares.wide() + g * g;
        *squares = M::narrow(s);
        p - rate * g / (s.sqrt() + epsilon)
    };

    /// Adagrad with a running mean of the squares.
    DecayedAdagrad { rate: T, decay: T, epsilon: T } [squares], |g, p| {
        let s = decay * squares.wide() + (T::ONE - decay) * g * g;
        *squares = M::narrow(s);
        p - rate * g / (s.sqrt() + epsilon)
    };

    /// Steps as large as the former ones were, by running means of squares of gradients and steps.
    Adadelta { rho: T, epsilon: T } [gradients, steps], |g, p| {
        let s = rho * gradients.wide() + (T::ONE - rho) * g * g;
        *gradients = M::narrow(s);
        let before = steps.wide();
        let step = ((before + epsilon) / (s + epsilon)).sqrt() * g;
        *steps = M::narrow(rho * before + (T::ONE - rho) * step * step);
        p - step
    };

    /// Adam with the greatest of the decayed gradients; `rate` comes corrected for the number of steps.
    Adamax { rate: T, beta1: T, beta2: T, epsilon: T } [mean, greatest], |g, p| {
        let m = beta1 * mean.wide() + (T::ONE - beta1) * g;
        *mean = M::narrow(m);
        let n = greater(g.abs(), beta2 * greatest.wide() + epsilon);
        *greatest = M::narrow(n);
        p - rate * (m / n)
    };

    /// The gradient over the root of the running mean of its square, with momentum.
    RmsProp { rate: T, rho: T, epsilon: T, mu: T } [squares, momentum], |g, p| {
        let s = rho * squares.wide() + (T::ONE - rho) * g * g;
        *squares = M::narrow(s);
        let m = mu * momentum.wide() + rate * g / (s + epsilon).sqrt();
        *momentum = M::narrow(m);
        p - m
    };

    /// RmsProp by the variance: the squared running mean is subtracted.
    CenteredRmsProp { rate: T, rho: T, epsilon: T, mu: T } [squares, momentum, mean], |g, p| {
        let s = rho * squares.wide() + (T::ONE - rho) * g * g;
        *squares = M::narrow(s);
        let average = rho * mean.wide() + (T::ONE - rho) * g;
        *mean = M::narrow(average);
        let m = mu * momentum.wide() + rate * g / (s - average * average + epsilon).sqrt();
        *momentum = M::narrow(m);
        p - m
    };

    /// Follow the regularised leader. `square_root`: the power is -0.5.
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

    /// Momentum whose rate comes adapted to the parameter, with weight decay.
    Lars { rate: T, mu: T, decay: T } [velocity], |g, p| {
        let v = mu * velocity.wide() + rate * (g + decay * p);
        *velocity = M::narrow(v);
        p - v
    };

    /// The gradient divided by `scale`, plus noise.
    Noisy { rate: T, scale: T, noise: T } [], |g, p| p - rate * (g / scale + noise);

    /// The moments of Adam; the parameter stays.
    Moments { beta1: T, beta2: T } [first, second], |g, p| {
        *first = M::narrow(beta1 * first.wide() + (T::ONE - beta1) * g);
        *second = M::narrow(beta2 * second.wide() + (T::ONE - beta2) * g * g);
        p
    };

    /// The step along [`Lamb::direction`]; it reads no gradient.
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
    /// Adam's unbiased step with the weights' decay.
    #[inline(always)]
    fn direction(&self, first: T, second: T, param: T) -> T {
        (first / self.left1) / ((second / self.left2).sqrt() + self.epsilon) + self.decay * param
    }

    /// The norm of the direction over all elements. Panics where lengths differ.
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

/// The sum of squares in eight lanes of f64, which is the same at every level.
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

/// Adds what the parts give, in their order.
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

/// The norm of all elements.
pub fn norm<T: Float, M: Stored<T>>(x: &[M]) -> f64 {
    by_chunks(x.len(), |r| squares_of::<T, M>(&x[r])).sqrt()
}
