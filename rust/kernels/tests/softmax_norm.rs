//! Softmax, losses and normalisations against plain loops in f64 and finite differences.
mod common;
use common::{at_every_level, narrow, noise};
use oar_kernels::loss::cross_entropy::*;
use oar_kernels::norm::batch_norm::*;
use oar_kernels::norm::layer_norm::*;
use oar_kernels::pool;
use oar_kernels::softmax::*;

#[track_caller]
fn close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "element {i}: {g} for {w}");
    }
}

#[track_caller]
fn close32(got: &[f32], want: &[f64], tolerance: f64) {
    close(&got.iter().map(|&v| v as f64).collect::<Vec<_>>(), want, tolerance);
}

fn naive_softmax((outer, n, inner): (usize, usize, usize), x: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; x.len()];
    for o in 0..outer {
        for j in 0..inner {
            let at = |k: usize| (o * n + k) * inner + j;
            let max = (0..n).map(|k| x[at(k)]).fold(f64::MIN, f64::max);
            let sum: f64 = (0..n).map(|k| (x[at(k)] - max).exp()).sum();
            (0..n).for_each(|k| y[at(k)] = (x[at(k)] - max).exp() / sum);
        }
    }
    y
}

/// The derivative of `sum(f(x) * seed)` by differences.
fn differences(x: &[f64], seed: &[f64], f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let value = |x: &[f64]| f(x).iter().zip(seed).map(|(a, b)| a * b).sum::<f64>();
    (0..x.len())
        .map(|i| {
            let (mut a, mut b) = (x.to_vec(), x.to_vec());
            a[i] += 1e-5;
            b[i] -= 1e-5;
            (value(&a) - value(&b)) / 2e-5
        })
        .collect()
}

const DIMS: [(usize, usize, usize); 11] = [
    (3, 1, 1),
    (4, 10, 1),
    (2, 16, 1),
    (3, 17, 1),
    (3, 31, 1),
    (5, 100, 1),
    (2, 17, 3),
    (1, 5, 300),
    (70, 1000, 1),
    (0, 4, 1),
    (2, 3, 0),
];

#[test]
fn softmax_at_every_level() {
    at_every_level(|_| {
        for d in DIMS {
            let count = d.0 * d.1 * d.2;
            let x: Vec<f64> = noise(count, 1).iter().map(|v| v * 5.0).collect();
            let want = naive_softmax(d, &x);
            let logs: Vec<f64> = want.iter().map(|v| v.ln()).collect();
            let (mut y, mut wide) = (vec![0.0f32; count], vec![0.0; count]);
            softmax(d, &narrow(&x), &mut y);
            close32(&y, &want, 1e-6);
            softmax(d, &x, &mut wide);
            close(&wide, &want, 1e-13);
            log_softmax(d, &narrow(&x), &mut y);
            close32(&y, &logs, 2e-6);
            log_softmax(d, &x, &mut wide);
            close(&wide, &logs, 1e-13);
            if count < 200 {
                let dy = noise(count, 2);
                let run = |x: &[f64], log: bool| {
                    let mut y = vec![0.0; x.len()];
                    if log {
                        log_softmax(d, x, &mut y)
                    } else {
                        softmax(d, x, &mut y)
                    };
                    y
                };
                let mut dx = vec![0.0; count];
                softmax_grad(d, &run(&x, false), &dy, &mut dx);
                close(&dx, &differences(&x, &dy, |x| run(x, false)), 1e-8);
                log_softmax_grad(d, &run(&x, true), &dy, &mut dx);
                close(&dx, &differences(&x, &dy, |x| run(x, true)), 1e-8);
            }
        }
    });
}

#[test]
fn softmax_of_the_unusual() {
    let mut y = [0.0f32; 4];
    softmax((1, 4, 1), &[1.0, f32::NAN, 0.0, 2.0], &mut y);
    assert!(y.iter().all(|v| v.is_nan()));
    softmax((1, 4, 1), &[1000.0, 0.0, f32::NEG_INFINITY, 1000.0], &mut y);
    assert!((y[0] - 0.5).abs() < 1e-6 && y[1] < 1e-20 && y[2] < 1e-20);
    log_softmax((1, 4, 1), &[0.0, -1e9, 0.0, 0.0], &mut y);
    assert!(y[1] < -64.0 && y[1].is_finite());
}

#[test]
fn losses() {
    for d in [(6, 10, 1), (3, 7, 5)] {
        let (outer, n, inner) = d;
        let (x, dloss) = (noise(outer * n * inner, 1), noise(outer * inner, 3));
        let labels: Vec<i64> = (0..outer * inner).map(|i| if i == 2 { -100 } else { (i * 7 % n) as i64 }).collect();
        let soft = naive_softmax(d, &noise(x.len(), 4));
        let run = |x: &[f64]| {
            let (mut p, mut l) = (vec![0.0; x.len()], vec![0.0; outer * inner]);
            softmax_cross_entropy(d, x, &labels, -100, &mut p, &mut l).unwrap();
            (p, l)
        };
        let (p, l) = run(&x);
        for (i, &l) in l.iter().enumerate() {
            let at = |k: i64| (i / inner * n + k as usize) * inner + i % inner;
            let want = if i == 2 { 0.0 } else { -naive_softmax(d, &x)[at(labels[i])].ln() };
            assert!((l - want).abs() < 1e-12);
        }
        let mut dx = vec![0.0; x.len()];
        softmax_cross_entropy_grad(d, &p, &labels, -100, &dloss, &mut dx).unwrap();
        close(&dx, &differences(&x, &dloss, |x| run(x).1), 1e-8);
        let run = |x: &[f64]| {
            let (mut p, mut l) = (vec![0.0; x.len()], vec![0.0; outer * inner]);
            softmax_cross_entropy_soft(d, x, &soft, &mut p, &mut l);
            l
        };
        softmax_cross_entropy_soft_grad(d, &p, &soft, &dloss, &mut dx);
        close(&dx, &differences(&x, &dloss, run), 1e-8);
        let run = |p: &[f64]| {
            let mut l = vec![0.0; outer * inner];
            cross_entropy(d, p, &labels, -100, &mut l).unwrap();
            l
        };
        cross_entropy_grad(d, &p, &labels, -100, &dloss, &mut dx).unwrap();
        close(&dx, &differences(&p, &dloss, run), 1e-6);
        let run = |p: &[f64]| {
            let mut l = vec![0.0; outer * inner];
            cross_entropy_soft(d, p, &soft, &mut l);
            l
        };
        cross_entropy_soft_grad(d, &p, &soft, &dloss, &mut dx);
        close(&dx, &differences(&p, &dloss, run), 1e-6);
    }
    let bad = cross_entropy((1, 3, 1), &[0.2f32, 0.3, 0.5], &[3i32], -100, &mut [0.0]);
    assert_eq!(bad, Err(BadLabel { label: 3, classes: 3 }));
    let mut l = [0.0f32];
    cross_entropy((1, 3, 1), &[0.0f32, 0.3, 0.7], &[0i64], -100, &mut l).unwrap();
    assert_eq!(l, [1e20]);
}

#[test]
fn sigmoid_losses() {
    let (x, y, d) = (noise(37, 1), noise(37, 2), noise(37, 3));
    let y: Vec<f64> = y.iter().enumerate().map(|(i, v)| if i == 5 { -1.0 } else { v.abs() }).collect();
    for normalize in [false, true] {
        let run = |x: &[f64]| {
            let mut out = vec![0.0; x.len()];
            sigmoid_cross_entropy(x, &y, -1, normalize, &mut out);
            out
        };
        let out = run(&x);
        let scale = if normalize { 36.0 } else { 1.0 };
        for i in 0..37 {
            let want = if i == 5 { 0.0 } else { (x[i].max(0.0) - x[i] * y[i] + (-x[i].abs()).exp().ln_1p()) / scale };
            assert!((out[i] - want).abs() < 1e-12);
        }
        let mut dx = vec![0.0; 37];
        sigmoid_cross_entropy_grad(&x, &y, -1, normalize, &d, &mut dx);
        close(&dx, &differences(&x, &d, run), 1e-8);
    }
}

#[test]
fn layer_norm_and_its_gradient() {
    for (outer, n) in [(3, 7), (5, 64), (2, 1), (40, 33)] {
        let (x, s, b, dy) = (noise(outer * n, 1), noise(n, 2), noise(n, 3), noise(outer * n, 4));
        for (with_s, with_b) in [(true, true), (true, false), (false, true), (false, false)] {
            let (so, bo) = (with_s.then_some(&s[..]), with_b.then_some(&b[..]));
            let run = |x: &[f64], s: Option<&[f64]>| {
                let (mut y, mut m, mut v) = (vec![0.0; x.len()], vec![0.0; outer], vec![0.0; outer]);
                layer_norm((outer, n), x, s, bo, 1e-2, &mut y, &mut m, &mut v);
                (y, m, v)
            };
            let (y, m, v) = run(&x, so);
            for r in 0..outer {
                let row = &x[r * n..(r + 1) * n];
                let mean = row.iter().sum::<f64>() / n as f64;
                let var = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
                close(&[m[r], v[r]], &[mean, var], 1e-12);
                for i in 0..n {
                    let w = (row[i] - mean) / (var + 1e-2).sqrt() * so.map_or(1.0, |s| s[i]) + bo.map_or(0.0, |b| b[i]);
                    close(&[y[r * n + i]], &[w], 1e-12);
                }
            }
            let (mut dx, mut ds, mut db) = (vec![0.0; x.len()], vec![0.0; n], vec![0.0; n]);
            let out = (Some(&mut dx[..]), Some(&mut ds[..]), Some(&mut db[..]));
            layer_norm_grad((outer, n), &x, &dy, so, &m, &v, 1e-2, out.0, out.1, out.2);
            close(&dx, &differences(&x, &dy, |x| run(x, so).0), 1e-7);
            if with_s {
                close(&ds, &differences(&s, &dy, |s| run(&x, Some(s)).0), 1e-7);
            }
            let mut want = vec![0.0; n];
            dy.iter().enumerate().for_each(|(i, v)| want[i % n] += v);
            close(&db, &want, 1e-12);
        }
    }
    let (mut y, mut m, mut v) = ([0.0f32; 3], [0.0f32], [0.0f32]);
    layer_norm((1, 3), &[1.0, f32::NAN, 2.0], None, None, 1e-5, &mut y, &mut m, &mut v);
    assert!(y.iter().all(|v| v.is_nan()));
    layer_norm::<f32>((0, 3), &[], None, None, 1e-5, &mut [], &mut [], &mut []);
    let mut ds = [1.0f32; 3];
    layer_norm_grad::<f32>((0, 3), &[], &[], None, &[], &[], 1e-5, None, Some(&mut ds), None);
    assert_eq!(ds, [0.0; 3]);
}

#[test]
fn batch_norm_in_one_call_has_the_same_bits() {
    for (images, channels, pixels) in
        [(3, 40, 70), (2, 16, 1), (1, 17, 33), (2, 3, 50), (1, 16, 90_000), (0, 16, 4), (2, 0, 4)]
    {
        for last in [false, true] {
            let d = Channels { images, channels, pixels, last };
            let (x, s, b) = (noise(d.len(), 1), noise(channels, 2), noise(channels, 3));
            let (mut m, mut v, mut y) = (vec![0.0; channels], vec![0.0; channels], vec![0.0; d.len()]);
            batch_stats(&d, &x, &mut m, &mut v);
            let inv = inverse_deviation(&v, 1e-3);
            batch_norm(&d, &x, &m, &inv, &s, &b, &mut y);
            let (mut m1, mut v1, mut y1) = (m.clone(), v.clone(), vec![0.0; d.len()]);
            let inv1 = batch_norm_train(&d, &x, &s, &b, 1e-3, &mut m1, &mut v1, &mut y1);
            let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            for (one, other) in [(&m, &m1), (&v, &v1), (&inv, &inv1), (&y, &y1)] {
                assert_eq!(bits(one), bits(other), "{d:?}");
            }
        }
    }
}

#[test]
fn batch_norm_and_its_gradients() {
    for last in [false, true] {
        for (images, channels, pixels) in [(2, 3, 5), (4, 2, 1), (3, 1, 20)] {
            let d = Channels { images, channels, pixels, last };
            let at = |e: usize| if last { e % channels } else { e / pixels % channels };
            let (x, dy, ddx) = (noise(d.len(), 1), noise(d.len(), 2), noise(d.len(), 3));
            let (s, b) = (noise(channels, 4), noise(channels, 5));
            let (fixed_m, fixed_v) = (noise(channels, 6), vec![1.7; channels]);
            let (gs, gb) = (noise(channels, 7), noise(channels, 8));
            for global in [false, true] {
                let stats = |x: &[f64]| {
                    let (mut m, mut v) = (vec![0.0; channels], vec![0.0; channels]);
                    batch_stats(&d, x, &mut m, &mut v);
                    if global {
                        (fixed_m.clone(), fixed_v.clone())
                    } else {
                        (m, v)
                    }
                };
                let forward = |x: &[f64], s: &[f64]| {
                    let (m, v) = stats(x);
                    let mut y = vec![0.0; x.len()];
                    batch_norm(&d, x, &m, &inverse_deviation(&v, 0.1), s, &b, &mut y);
                    y
                };
                // (dx, dscale, dbias) as one vector
                let backward = |x: &[f64], s: &[f64], dy: &[f64]| {
                    let (m, v) = stats(x);
                    let inv = inverse_deviation(&v, 0.1);
                    let (mut dx, mut ds, mut db) = (vec![0.0; x.len()], vec![0.0; channels], vec![0.0; channels]);
                    let out = BatchNormGrad { dx: Some(&mut dx), dscale: Some(&mut ds), dbias: Some(&mut db) };
                    batch_norm_grad(&d, x, dy, &m, &inv, s, global, out);
                    dx.extend(ds);
                    dx.extend(db);
                    dx
                };
                let (m, v) = stats(&x);
                if !global {
                    let count = d.count() as f64;
                    let mut want = vec![0.0; channels];
                    x.iter().enumerate().for_each(|(e, v)| want[at(e)] += v / count);
                    close(&m, &want, 1e-12);
                    let mut var = vec![0.0; channels];
                    x.iter().enumerate().for_each(|(e, v)| var[at(e)] += (v - want[at(e)]).powi(2) / count);
                    close(&v, &var, 1e-12);
                }
                let y = forward(&x, &s);
                for (e, &y) in y.iter().enumerate() {
                    let c = at(e);
                    close(&[y], &[(x[e] - m[c]) / (v[c] + 0.1).sqrt() * s[c] + b[c]], 1e-12);
                }
                let g = backward(&x, &s, &dy);
                close(&g[..d.len()], &differences(&x, &dy, |x| forward(x, &s)), 1e-7);
                close(&g[d.len()..d.len() + channels], &differences(&s, &dy, |s| forward(&x, s)), 1e-7);
                let seeds = BatchNormSeeds { ddx: &ddx, ddscale: &gs, ddbias: &gb };
                let seed = [&ddx[..], &gs, &gb].concat();
                let (mut dx, mut ds, mut ddy) = (vec![0.0; d.len()], vec![0.0; channels], vec![0.0; d.len()]);
                let inv = inverse_deviation(&v, 0.1);
                let out = (Some(&mut dx[..]), Some(&mut ds[..]), Some(&mut ddy[..]));
                batch_norm_double_grad(&d, &x, &dy, &m, &inv, &s, global, seeds, out.0, out.1, out.2);
                close(&dx, &differences(&x, &seed, |x| backward(x, &s, &dy)), 1e-6);
                close(&ds, &differences(&s, &seed, |s| backward(&x, s, &dy)), 1e-6);
                close(&ddy, &differences(&dy, &seed, |dy| backward(&x, &s, dy)), 1e-6);
            }
        }
    }
}

#[test]
fn threads_do_not_show() {
    let before = pool::threads();
    let run = |threads: usize| {
        pool::set_threads(threads);
        let d = Channels { images: 50, channels: 70, pixels: 40, last: false };
        let (x, dy) = (narrow(&noise(d.len(), 1)), narrow(&noise(d.len(), 2)));
        let mut all = Vec::new();
        for d in [d, Channels { last: true, ..d }] {
            let (mut m, mut v) = (vec![0.0; 70], vec![0.0; 70]);
            batch_stats(&d, &x, &mut m, &mut v);
            let mut dx = vec![0.0; d.len()];
            let out = BatchNormGrad { dx: Some(&mut dx), dscale: None, dbias: None };
            batch_norm_grad(&d, &x, &dy, &m, &v, &m, false, out);
            all.extend([m, v, dx].concat());
        }
        let (rows, n) = (1400, 100);
        let (mut y, mut m, mut v) = (x.clone(), vec![0.0; rows], vec![0.0; rows]);
        layer_norm((rows, n), &x, None, None, 1e-5, &mut y, &mut m, &mut v);
        let mut ds = vec![0.0; n];
        layer_norm_grad((rows, n), &x, &dy, None, &m, &v, 1e-5, None, Some(&mut ds), None);
        all.extend([y, ds].concat());
        let mut y = x.clone();
        softmax((50, 70, 40), &x, &mut y);
        all.extend(y);
        all.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
    };
    let one = run(1);
    assert!(one == run(2) && one == run(5));
    pool::set_threads(before);
}

/// Rows that end within a vector, followed by a row of NaN.
#[test]
fn norms_of_any_length_at_every_level() {
    at_every_level(|level| {
        for n in (1..=37).chain([63, 64, 65]) {
            let (rows, count) = (3, 3 * n);
            let (x, s, dy) = (noise(count, 1), noise(n, 2), noise(count, 3));
            let mut dirty = narrow(&x);
            dirty[n..2 * n].fill(f32::NAN);
            let run = |x: &[f32]| {
                let (mut y, mut m, mut v) = (vec![0.0; count], vec![0.0; rows], vec![0.0; rows]);
                layer_norm((rows, n), x, Some(&narrow(&s)), None, 1e-2, &mut y, &mut m, &mut v);
                let mut dx = vec![0.0; count];
                let to = Some(&mut dx[..]);
                layer_norm_grad((rows, n), x, &narrow(&dy), Some(&narrow(&s)), &m, &v, 1e-2, to, None, None);
                [y, m, v, dx]
            };
            let (mut y, mut m, mut v) = (vec![0.0; count], vec![0.0; rows], vec![0.0; rows]);
            layer_norm((rows, n), &x, Some(&s), None, 1e-2, &mut y, &mut m, &mut v);
            let mut dx = vec![0.0; count];
            layer_norm_grad((rows, n), &x, &dy, Some(&s), &m, &v, 1e-2, Some(&mut dx[..]), None, None);
            let (clean, got) = (run(&narrow(&x)), run(&dirty));
            for (got, want) in clean.iter().zip([&y, &m, &v, &dx]) {
                close32(got, want, 1e-4);
            }
            for (clean, got) in clean.iter().zip(&got) {
                let row = clean.len() / rows;
                assert_eq!(clean[..row], got[..row], "{level:?} {n}");
                assert_eq!(clean[2 * row..], got[2 * row..], "{level:?} {n}");
            }
            // The same numbers as one image of three channels, and as three pixels of n channels.
            for (d, c) in [((1, rows, n, false), rows), ((1, n, rows, true), n)] {
                let d = Channels { images: d.0, channels: d.1, pixels: d.2, last: d.3 };
                let (mut mean, mut var) = (vec![0.0; c], vec![0.0; c]);
                batch_stats(&d, &narrow(&x), &mut mean, &mut var);
                let (mut exact, mut spread) = (vec![0.0; c], vec![0.0; c]);
                batch_stats(&d, &x, &mut exact, &mut spread);
                let at = |ch: usize| (0..count).filter(move |e| if d.last { e % n == ch } else { e / n == ch });
                let mean_of = |ch: usize| at(ch).map(|e| x[e]).sum::<f64>() / (count / c) as f64;
                close(&exact, &(0..c).map(mean_of).collect::<Vec<_>>(), 1e-12);
                close32(&mean, &exact, 1e-5);
                close32(&var, &spread, 1e-5);
            }
        }
    });
}
