//! Helpers of the kernel tests.
#![allow(dead_code)] // each test crate uses some of it

/// Runs `f` at every SIMD level of the machine.
pub fn at_every_level(f: impl FnMut(oar_kernels::simd::Level)) {
    // SAFETY: tests run one at a time (.cargo/config.toml).
    unsafe { oar_kernels::simd::each_level(f) }
}

/// Words of xorshift.
pub fn words(n: usize, seed: u64) -> impl Iterator<Item = u64> {
    let mut x = seed.wrapping_mul(0x9e3779b97f4a7c15) | 1;
    (0..n).map(move |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    })
}

/// Numbers between -1 and 1.
pub fn noise(n: usize, seed: u64) -> Vec<f64> {
    words(n, seed).map(|x| (x >> 40) as f64 / (1u64 << 23) as f64 - 1.0).collect()
}

pub fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|&x| x as f32).collect()
}

/// Root of the mean square error, and the largest, against the exact values.
pub fn errors(got: &[f32], want: &[f64]) -> [f64; 2] {
    let each = || got.iter().zip(want).map(|(&g, &w)| (g as f64 - w).abs());
    [(each().map(|e| e * e).sum::<f64>() / want.len() as f64).sqrt(), each().fold(0.0, f64::max)]
}
