//! The functions against those of the standard library.

use crate::formula::rows;
use crate::functions::trigonometric::LIMIT;
use crate::functions::*;
use crate::simd::at_every_level;

/// Distance in units in the last place of the exact value `want`, rounded to f32.
fn ulps32(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if near.is_nan() || near.is_infinite() || got.is_nan() || got.is_infinite() {
        let same = (near.is_nan() && got.is_nan()) || near == got;
        // A value at the boundary of overflow may round to the largest finite number or to infinity.
        return if same || (near.abs() >= f32::MAX && got.abs() >= f32::MAX) { 0.0 } else { f64::INFINITY };
    }
    let a = near.abs();
    let ulp = (f32::from_bits(a.to_bits() + 1) - a) as f64;
    (got as f64 - want).abs() / if ulp.is_finite() { ulp } else { 2f64.powi(104) }
}

fn ulps64(got: f64, want: f64) -> f64 {
    if want.is_nan() || want.is_infinite() || got.is_nan() {
        return if (want.is_nan() && got.is_nan()) || want == got { 0.0 } else { f64::INFINITY };
    }
    (got.to_bits() as i64 - want.to_bits() as i64).abs() as f64
}

fn sweep32(f: impl Fn(f32) -> f32, g: impl Fn(f64) -> f64) -> f64 {
    let mut worst = 0.0;
    // Every 997th float of both signs, NaNs and infinities included.
    for bits in (0..=u32::MAX).step_by(9973).chain([0, 1 << 31, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 1, 0x7f7f_ffff])
    {
        let x = f32::from_bits(bits);
        let e = ulps32(f(x), g(x as f64));
        if e > worst {
            worst = e;
        }
    }
    for i in -40000..40000 {
        let x = i as f32 * 0.0005;
        worst = f64::max(worst, ulps32(f(x), g(x as f64)));
    }
    worst
}

fn sweep64(f: impl Fn(f64) -> f64, g: impl Fn(f64) -> f64) -> f64 {
    let mut worst = 0.0;
    for i in -400_000..400_000 {
        let x = i as f64 * 0.002;
        worst = f64::max(worst, ulps64(f(x), g(x)));
        let x = (i as f64 * 0.0017).exp();
        worst = f64::max(worst, ulps64(f(x), g(x)));
    }
    for x in
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 5e-324, 1e-310, f64::MIN_POSITIVE, f64::MAX, -1e-300]
    {
        worst = f64::max(worst, ulps64(f(x), g(x)));
    }
    worst
}

/// The function of a row with a limit: `f` up to the limit, `far` beyond it.
fn near32(f: impl Fn(f32) -> f32, far: impl Fn(f64) -> f64) -> impl Fn(f32) -> f32 {
    move |x| if x.abs() as f64 <= LIMIT { f(x) } else { far(x as f64) as f32 }
}

fn near64(f: impl Fn(f64) -> f64, far: impl Fn(f64) -> f64) -> impl Fn(f64) -> f64 {
    move |x| if x.abs() <= LIMIT { f(x) } else { far(x) }
}

#[test]
fn errors_are_as_documented() {
    let erf = |x: f64| x.erf_::<true>();
    // Below -87 the result is denormal, and exp(-x) infinite: zero is accepted, as in Paddle.
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x.max(-87.0)).exp()) + x * 0.0;
    let fma_sigmoid = |x: f32| f32_fma::sigmoid(if x < -87.0 { -87.0 } else { x }) + x * 0.0;
    let plain_sigmoid = |x: f32| f32_plain::sigmoid(if x < -87.0 { -87.0 } else { x }) + x * 0.0;
    let by32 = |f: fn(f32) -> f32, far: fn(f64) -> f64| sweep32(near32(f, far), far);
    let by64 = |f: fn(f64) -> f64, far: fn(f64) -> f64| sweep64(near64(f, far), far);
    let found = [
        ("exp", sweep32(f32_fma::exp, f64::exp), sweep32(f32_plain::exp, f64::exp), 1.0),
        ("log", sweep32(f32_fma::log, f64::ln), sweep32(f32_plain::log, f64::ln), 1.0),
        ("tanh", sweep32(f32_fma::tanh, f64::tanh), sweep32(f32_plain::tanh, f64::tanh), 2.3),
        ("erf", sweep32(f32_fma::erf, erf), sweep32(f32_plain::erf, erf), 1.1),
        ("sigmoid", sweep32(fma_sigmoid, sigmoid), sweep32(plain_sigmoid, sigmoid), 2.3),
        ("exp64", sweep64(f64_fma::exp, f64::exp), sweep64(f64_plain::exp, f64::exp), 1.0),
        ("log64", sweep64(f64_fma::log, f64::ln), sweep64(f64_plain::log, f64::ln), 1.0),
        ("tanh64", sweep64(f64_fma::tanh, f64::tanh), sweep64(f64_plain::tanh, f64::tanh), 3.0),
        ("log2", sweep32(f32_fma::log2, f64::log2), sweep32(f32_plain::log2, f64::log2), 1.5),
        ("log264", sweep64(f64_fma::log2, f64::log2), sweep64(f64_plain::log2, f64::log2), 2.0),
        ("log10", sweep32(f32_fma::log10, f64::log10), sweep32(f32_plain::log10, f64::log10), 1.8),
        ("log1064", sweep64(f64_fma::log10, f64::log10), sweep64(f64_plain::log10, f64::log10), 2.0),
        ("log1p", sweep32(f32_fma::log1p, f64::ln_1p), sweep32(f32_plain::log1p, f64::ln_1p), 1.5),
        ("log1p64", sweep64(f64_fma::log1p, f64::ln_1p), sweep64(f64_plain::log1p, f64::ln_1p), 2.0),
        ("sinh", sweep32(f32_fma::sinh, f64::sinh), sweep32(f32_plain::sinh, f64::sinh), 1.5),
        ("sinh64", sweep64(f64_fma::sinh, f64::sinh), sweep64(f64_plain::sinh, f64::sinh), 2.0),
        ("cosh", sweep32(f32_fma::cosh, f64::cosh), sweep32(f32_plain::cosh, f64::cosh), 1.5),
        ("cosh64", sweep64(f64_fma::cosh, f64::cosh), sweep64(f64_plain::cosh, f64::cosh), 2.0),
        ("asin", sweep32(f32_fma::asin, f64::asin), sweep32(f32_plain::asin, f64::asin), 2.5),
        ("asin64", sweep64(f64_fma::asin, f64::asin), sweep64(f64_plain::asin, f64::asin), 2.0),
        ("acos", sweep32(f32_fma::acos, f64::acos), sweep32(f32_plain::acos, f64::acos), 1.5),
        ("acos64", sweep64(f64_fma::acos, f64::acos), sweep64(f64_plain::acos, f64::acos), 2.0),
        ("atan", sweep32(f32_fma::atan, f64::atan), sweep32(f32_plain::atan, f64::atan), 2.5),
        ("atan64", sweep64(f64_fma::atan, f64::atan), sweep64(f64_plain::atan, f64::atan), 2.0),
        ("sin", by32(f32_fma::sin, f64::sin), by32(f32_plain::sin, f64::sin), 1.5),
        ("cos", by32(f32_fma::cos, f64::cos), by32(f32_plain::cos, f64::cos), 1.5),
        ("sin64", by64(f64_fma::sin, f64::sin), by64(f64_plain::sin, f64::sin), 2.0),
        ("cos64", by64(f64_fma::cos, f64::cos), by64(f64_plain::cos, f64::cos), 2.0),
    ];
    println!("{found:?}");
    for i in -12000..12000 {
        let x = i as f32 * 0.001;
        let want = (x as f64).phi_::<true>();
        assert!(
            (f32_fma::phi(x) as f64 - want).abs() <= 1e-7 && (f32_plain::phi(x) as f64 - want).abs() <= 1e-7,
            "{x}"
        );
    }
    assert!(f32_fma::phi(f32::NAN).is_nan() && f32_fma::phi(f32::NEG_INFINITY) == 0.0 && f32_fma::phi(1e30) == 1.0);
    for (name, fma, plain, limit) in found {
        assert!(fma <= limit && plain <= limit, "{name}: {fma} {plain} > {limit}");
    }
}

/// Powers of the base have whole logarithms.
#[test]
fn logarithms_of_powers_are_whole() {
    for n in -300..=300 {
        let x: f64 = format!("1e{n}").parse().unwrap();
        assert!(
            f64_fma::log10(x) == n as f64 && f64_plain::log10(x) == n as f64,
            "log10(1e{n}): {}",
            f64_fma::log10(x)
        );
    }
    for n in -10..=10 {
        let x: f32 = format!("1e{n}").parse().unwrap();
        assert!(
            f32_fma::log10(x) == n as f32 && f32_plain::log10(x) == n as f32,
            "log10(1e{n}): {}",
            f32_fma::log10(x)
        );
    }
    for n in -149..128 {
        let x = 2f64.powi(n);
        assert!(f64_fma::log2(x) == n as f64 && f32_plain::log2(x as f32) == n as f32);
    }
}

#[test]
fn signs_of_zero_stay() {
    for f in [f32_fma::log1p, f32_fma::sinh, f32_fma::asin, f32_fma::atan, f32_fma::sin, f32_fma::ceil, f32_fma::round]
    {
        assert!(f(-0.0).to_bits() == (-0.0f32).to_bits() && f(0.0).to_bits() == 0);
    }
    for f in [f64_fma::log1p, f64_fma::sinh, f64_fma::asin, f64_fma::atan, f64_fma::sin, f64_fma::ceil, f64_fma::round]
    {
        assert!(f(-0.0).to_bits() == (-0.0f64).to_bits() && f(0.0).to_bits() == 0);
    }
}

/// One huge number among small ones does not change the results of the others.
#[test]
fn sines_of_any_number() {
    let x: Vec<f64> = (0..1000)
        .map(|i| match i % 97 {
            13 => 1e6 * (i as f64).exp2().min(1e30),
            14 => [f64::NAN, f64::INFINITY, -3.4e38, -1e6, 1e22][i / 97 % 5],
            _ => (i as f64 - 500.0) * 0.37,
        })
        .collect();
    let narrow: Vec<f32> = x.iter().map(|&v| v as f32).collect();
    at_every_level(|level| {
        let (mut a, mut b) = (vec![0.0; x.len()], vec![0.0f32; x.len()]);
        rows::sin.run(&[&x[..]], &[], &mut a);
        rows::cos_grad.run(&[&narrow[..], &vec![-2.0; x.len()]], &[], &mut b);
        for (i, &v) in x.iter().enumerate() {
            assert!(ulps64(a[i], v.sin()) <= 2.0, "{level:?} sin({v}): {}", a[i]);
            assert!(ulps32(0.5 * b[i], (v as f32 as f64).sin()) <= 1.5, "{level:?} sin({v}): {}", b[i]);
        }
    });
}
