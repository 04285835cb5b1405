//! Pooling against plain loops.
mod common;
use common::{at_every_level, words};
use oar_kernels::pooling::grad::*;
use oar_kernels::pooling::*;

/// Coarse numbers, so that maxima are tied.
fn noise(n: usize, seed: u64) -> Vec<f64> {
    words(n, seed).map(|x| ((x >> 59) as f64) / 8.0 - 2.0).collect()
}

/// Calls `f(x indices of the window in order, y index, counted)`.
fn each(p: &Pool, mut f: impl FnMut(&[usize], usize, f64)) {
    let ([id, ih, iw], [od, oh, ow], c) = (p.in_size, p.out_size, p.channels);
    let at = |n: usize, ch: usize, [d, h, w]: [usize; 3], z: usize, y: usize, x: usize| {
        if p.channels_last {
            (((n * d + z) * h + y) * w + x) * c + ch
        } else {
            (((n * c + ch) * d + z) * h + y) * w + x
        }
    };
    let range = |axis: usize, o: usize| -> (Vec<usize>, usize) {
        let (i, o_n) = (p.in_size[axis], p.out_size[axis]);
        if p.adaptive {
            let r: Vec<usize> = (o * i / o_n..((o + 1) * i).div_ceil(o_n)).collect();
            return (r.clone(), r.len());
        }
        let first = (o * p.stride[axis]) as isize - p.pad[axis] as isize;
        let last = (first + p.kernel[axis] as isize).min((i + p.pad_after[axis]) as isize);
        let r: Vec<usize> = (first..last).filter(|&v| v >= 0 && v < i as isize).map(|v| v as usize).collect();
        let counted = if p.exclusive { r.len() } else { (last - first) as usize };
        (r, counted)
    };
    for n in 0..p.images {
        for ch in 0..c {
            for z in 0..od {
                for y in 0..oh {
                    for x in 0..ow {
                        let (rz, cz) = range(0, z);
                        let (ry, cy) = range(1, y);
                        let (rx, cx) = range(2, x);
                        let mut window = Vec::new();
                        for &a in &rz {
                            for &b in &ry {
                                for &w in &rx {
                                    window.push(at(n, ch, [id, ih, iw], a, b, w));
                                }
                            }
                        }
                        f(&window, at(n, ch, [od, oh, ow], z, y, x), (cz * cy * cx) as f64);
                    }
                }
            }
        }
    }
}

fn shapes() -> Vec<Pool> {
    let flat = Pool::planes((2, 3), (11, 35), (6, 18), (3, 3), (2, 2), (1, 1));
    let mut out = vec![
        flat,
        Pool { exclusive: false, ..flat },
        Pool::planes((1, 2), (7, 7), (4, 4), (2, 2), (2, 2), (1, 1)),
        Pool::planes((1, 2), (9, 9), (1, 1), (9, 9), (1, 1), (0, 0)),
        Pool::planes((2, 3), (8, 19), (8, 19), (3, 3), (1, 1), (1, 1)),
        Pool::planes((1, 2), (5, 21), (2, 10), (2, 2), (2, 2), (0, 0)),
        Pool::planes((2, 1), (9, 13), (5, 7), (5, 5), (2, 2), (2, 2)),
        Pool::planes((1, 2), (11, 30), (3, 9), (2, 2), (3, 3), (0, 1)),
        Pool { adaptive: true, ..Pool::planes((2, 2), (7, 10), (3, 4), (1, 1), (1, 1), (0, 0)) },
        Pool { adaptive: true, ..Pool::planes((2, 2), (7, 10), (1, 1), (1, 1), (1, 1), (0, 0)) },
        Pool {
            images: 2,
            channels: 3,
            in_size: [5, 6, 7],
            out_size: [3, 3, 3],
            kernel: [2, 3, 3],
            stride: [2, 2, 3],
            pad: [0, 1, 1],
            pad_after: [0, 1, 1],
            adaptive: false,
            exclusive: false,
            channels_last: false,
        },
        Pool {
            in_size: [4, 6, 40],
            out_size: [4, 3, 20],
            kernel: [3, 2, 3],
            stride: [1, 2, 2],
            pad: [1, 0, 1],
            pad_after: [1, 0, 1],
            ..flat
        },
    ];
    for p in out.clone() {
        out.push(Pool { channels_last: true, ..p });
    }
    out
}

#[test]
fn matches_plain_loops() {
    at_every_level(|_| {
        for p in shapes() {
            let (x, dy) = (noise(p.in_len(), 1), noise(p.out_len(), 2));
            let (mut top, mut avg) = (vec![0.0; p.out_len()], vec![0.0; p.out_len()]);
            let (mut dtop, mut davg) = (vec![0.0; p.in_len()], vec![0.0; p.in_len()]);
            each(&p, |w, o, counted| {
                top[o] = w.iter().map(|&i| x[i]).fold(f64::MIN, f64::max);
                avg[o] = w.iter().map(|&i| x[i]).sum::<f64>() / counted;
                dtop[*w.iter().find(|&&i| x[i] == top[o]).unwrap()] += dy[o];
                w.iter().for_each(|&i| davg[i] += dy[o] / counted);
            });
            let mut y = vec![f64::NAN; p.out_len()];
            max_pool(&p, &x, &mut y);
            assert_eq!(y, top, "{p:?}");
            let mut dx = vec![f64::NAN; p.in_len()];
            max_pool_grad(&p, &x, &y, &dy, &mut dx);
            assert_eq!(dx, dtop, "{p:?}");
            let mut mask = vec![7; p.out_len()];
            max_pool_with_index(&p, &x, &mut y, &mut mask);
            assert_eq!(y, top);
            max_pool_with_index_grad(&p, &mask, &dy, &mut dx);
            assert_eq!(dx, dtop, "{p:?}");
            avg_pool(&p, &x, &mut y);
            assert!(y.iter().zip(&avg).all(|(a, b)| (a - b).abs() < 1e-12), "{p:?}");
            avg_pool_grad(&p, &dy, &mut dx);
            assert!(dx.iter().zip(&davg).all(|(a, b)| (a - b).abs() < 1e-12), "{p:?}");
            let narrow: Vec<f32> = x.iter().map(|&v| v as f32).collect();
            let mut y = vec![f32::NAN; p.out_len()];
            max_pool(&p, &narrow, &mut y);
            assert!(y.iter().zip(&top).all(|(&a, &b)| a as f64 == b), "{p:?}");
            avg_pool(&p, &narrow, &mut y);
            assert!(y.iter().zip(&avg).all(|(&a, b)| (a as f64 - b).abs() < 1e-5), "{p:?}");
            max_pool(&p, &narrow, &mut y);
            let (mut dx, dy) = (vec![f32::NAN; p.in_len()], dy.iter().map(|&v| v as f32).collect::<Vec<_>>());
            max_pool_grad(&p, &narrow, &y, &dy, &mut dx);
            assert!(dx.iter().zip(&dtop).all(|(&a, &b)| a as f64 == b), "{p:?}");
        }
    });
}

#[test]
fn nothing_and_minus_infinity() {
    let p = Pool { images: 0, ..shapes()[0] };
    max_pool::<f32>(&p, &[], &mut []);
    max_pool_grad::<f32>(&p, &[], &[], &[], &mut []);
    let p = Pool::planes((1, 1), (2, 2), (1, 1), (2, 2), (1, 1), (0, 0));
    let (mut y, mut mask) = ([0.0f32], [0]);
    max_pool(&p, &[f32::NEG_INFINITY; 4], &mut y);
    assert_eq!(y, [-f32::MAX]);
    max_pool_with_index(&p, &[f32::NEG_INFINITY; 4], &mut y, &mut mask);
    assert_eq!(mask, [-1]);
    let mut dx = [1.0f32; 4];
    max_pool_with_index_grad(&p, &mask, &[1.0], &mut dx);
    assert_eq!(dx, [0.0; 4]);
}

#[test]
fn padding_takes_no_gradient() {
    let p = Pool::planes((1, 1), (2, 2), (2, 2), (2, 2), (2, 2), (1, 1));
    let x = [-f32::MAX, f32::NAN, f32::NEG_INFINITY, 1.0];
    let (mut y, mut dx) = ([0.0f32; 4], [7.0; 4]);
    max_pool(&p, &x, &mut y);
    max_pool_grad(&p, &x, &y, &[1.0, 2.0, 3.0, f32::INFINITY], &mut dx);
    assert_eq!(dx, [1.0, 0.0, 0.0, f32::INFINITY]);
}

/// A NaN is the maximum until a later element of the window replaces it.
#[test]
fn a_maximum_compares_in_order() {
    at_every_level(|_| {
        for (w, kernel) in [(40, 2), (41, 3), (10, 2), (7, 4)] {
            let out = (w - kernel) / 2 + 1;
            let p = Pool::planes((1, 2), (kernel, w), (1, out), (kernel, kernel), (2, 2), (0, 0));
            for at in 0..kernel * w {
                let mut x: Vec<f32> = noise(p.in_len(), 3).into_iter().map(|v| v as f32).collect();
                (x[at], x[kernel * w + at]) = (f32::NAN, f32::INFINITY);
                let (mut y, mut want) = (vec![0.0f32; p.out_len()], vec![0.0f32; p.out_len()]);
                max_pool(&p, &x, &mut y);
                each(&p, |w, o, _| {
                    let larger = |s: f32, &i: &usize| if s > x[i] { s } else { x[i] };
                    want[o] = w.iter().fold(-f32::MAX, larger);
                });
                let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(y.iter().zip(&want).all(same), "{p:?} {at}: {y:?} {want:?}");
            }
        }
    });
}
