//! Convolutions and their gradients against plain loops in f64.
mod common;
use common::{at_every_level, narrow};
use oar_kernels::conv::{conv2d, conv2d_filter_grad, conv2d_input_grad, Conv2d};
use oar_kernels::pool;

fn noise(n: usize, seed: u64) -> Vec<f32> {
    narrow(&common::noise(n, seed))
}

/// Calls `f(x index, w index, y index)` for every multiplication of the convolution.
fn each(c: &Conv2d, mut f: impl FnMut(usize, usize, usize)) {
    let (cg, og) = (c.in_channels / c.groups, c.out_channels / c.groups);
    let at = |n: usize, ch: usize, channels: usize, (h, w): (usize, usize), y: usize, x: usize| {
        if c.channels_last {
            ((n * h + y) * w + x) * channels + ch
        } else {
            ((n * channels + ch) * h + y) * w + x
        }
    };
    for n in 0..c.images {
        for o in 0..c.out_channels {
            for ch in 0..cg {
                for (r, s) in (0..c.kernel.0).flat_map(|r| (0..c.kernel.1).map(move |s| (r, s))) {
                    for (i, j) in (0..c.out_size.0).flat_map(|i| (0..c.out_size.1).map(move |j| (i, j))) {
                        let y = (i * c.stride.0 + r * c.dilation.0).wrapping_sub(c.pad.0);
                        let x = (j * c.stride.1 + s * c.dilation.1).wrapping_sub(c.pad.1);
                        if y < c.in_size.0 && x < c.in_size.1 {
                            f(
                                at(n, o / og * cg + ch, c.in_channels, c.in_size, y, x),
                                ((o * cg + ch) * c.kernel.0 + r) * c.kernel.1 + s,
                                at(n, o, c.out_channels, c.out_size, i, j),
                            );
                        }
                    }
                }
            }
        }
    }
}

#[track_caller]
fn close(what: &str, c: &Conv2d, got: &[f32], want: &[f64]) {
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        assert!((g as f64 - w).abs() <= 2e-4 * (1.0 + w.abs()), "{what} {i}: {g} for {w}, {c:?}");
    }
}

fn shape(
    images: usize,
    cin: usize,
    side: (usize, usize),
    cout: usize,
    kernel: (usize, usize),
    stride: (usize, usize),
    dilation: (usize, usize),
    pad: [usize; 4],
    groups: usize,
) -> Conv2d {
    let out = |size: usize, k: usize, s: usize, d: usize, before: usize, after: usize| {
        (size + before + after).saturating_sub(d * (k - 1) + 1) / s + 1
    };
    let out_size = (
        out(side.0, kernel.0, stride.0, dilation.0, pad[0], pad[1]),
        out(side.1, kernel.1, stride.1, dilation.1, pad[2], pad[3]),
    );
    Conv2d {
        images,
        in_channels: cin,
        in_size: side,
        out_channels: cout,
        out_size,
        kernel,
        stride,
        dilation,
        pad: (pad[0], pad[2]),
        groups,
        channels_last: false,
    }
}

#[rustfmt::skip]
fn shapes() -> Vec<Conv2d> {
    vec![
        shape(2, 1, (9, 9), 3, (3, 3), (1, 1), (1, 1), [1; 4], 1),
        shape(3, 6, (14, 14), 16, (5, 5), (1, 1), (1, 1), [0; 4], 1),
        shape(2, 3, (23, 31), 40, (7, 7), (2, 2), (1, 1), [3; 4], 1),
        shape(2, 40, (7, 7), 35, (3, 3), (1, 1), (1, 1), [1; 4], 1),
        shape(3, 33, (5, 7), 50, (1, 1), (1, 1), (1, 1), [0; 4], 1),
        shape(2, 33, (9, 8), 36, (1, 1), (2, 2), (1, 1), [0; 4], 1),
        shape(2, 8, (11, 40), 12, (3, 2), (2, 3), (2, 1), [1, 2, 0, 3], 2),
        shape(2, 5, (20, 20), 5, (3, 3), (1, 1), (1, 1), [1; 4], 5),
        shape(2, 20, (13, 17), 20, (3, 3), (2, 2), (1, 1), [1; 4], 20),
        shape(2, 3, (10, 10), 9, (3, 3), (1, 1), (2, 2), [2; 4], 3),
        shape(1, 64, (6, 6), 64, (3, 3), (1, 1), (1, 1), [1; 4], 1),
        shape(1, 300, (3, 3), 34, (3, 3), (3, 1), (1, 1), [1; 4], 1),
        shape(2, 2, (4, 4), 2, (2, 2), (3, 3), (1, 1), [0; 4], 1),
        shape(1, 2, (2, 2), 2, (3, 3), (1, 1), (1, 1), [4; 4], 1),
        shape(1, 34, (6, 6), 40, (2, 2), (3, 3), (1, 1), [0; 4], 1),
        // Deep, on planes that are smaller than a tile.
        shape(3, 101, (5, 5), 40, (3, 3), (1, 1), (1, 1), [1; 4], 1),
        shape(2, 36, (7, 7), 200, (3, 3), (2, 2), (1, 1), [1; 4], 1),
    ]
}

fn check(c: &Conv2d) {
    let (x, w, bias) = (noise(c.in_len(), 1), noise(c.filter_len(), 2), noise(c.out_channels, 3));
    let dy = noise(c.out_len(), 4);
    let (mut wy, mut wdx, mut wdw) = (vec![0.0; c.out_len()], vec![0.0; c.in_len()], vec![0.0; c.filter_len()]);
    each(c, |i, f, o| {
        wy[o] += x[i] as f64 * w[f] as f64;
        wdx[i] += dy[o] as f64 * w[f] as f64;
        wdw[f] += dy[o] as f64 * x[i] as f64;
    });
    let mut y = vec![f32::NAN; c.out_len()];
    conv2d(c, &x, &w, None, false, &mut y);
    close("y", c, &y, &wy);
    conv2d(c, &x, &w, Some(&bias), true, &mut y);
    let plane = c.out_size.0 * c.out_size.1;
    for (i, v) in wy.iter_mut().enumerate() {
        let ch = if c.channels_last { i % c.out_channels } else { i / plane % c.out_channels };
        *v = (*v + bias[ch] as f64).max(0.0);
    }
    close("y with bias and relu", c, &y, &wy);
    let mut dx = vec![f32::NAN; c.in_len()];
    conv2d_input_grad(c, &dy, &w, &mut dx);
    close("dx", c, &dx, &wdx);
    let mut dw = vec![f32::NAN; c.filter_len()];
    conv2d_filter_grad(c, &x, &dy, &mut dw);
    close("dw", c, &dw, &wdw);
    let wide = |v: &[f32]| v.iter().map(|&v| v as f64).collect::<Vec<_>>();
    let mut y = vec![f64::NAN; c.out_len()];
    conv2d(c, &wide(&x), &wide(&w), Some(&wide(&bias)), true, &mut y);
    close("y in f64", c, &y.iter().map(|&v| v as f32).collect::<Vec<_>>(), &wy);
}

#[test]
fn matches_plain_loops_at_every_level() {
    at_every_level(|_| {
        for c in shapes() {
            check(&c);
            check(&Conv2d { channels_last: true, ..c });
        }
    });
}

#[test]
fn threads_do_not_show() {
    let before = pool::threads();
    for c in shapes() {
        for c in [c, Conv2d { channels_last: true, ..c }, Conv2d { images: 19, ..c }] {
            let (x, w, dy) = (noise(c.in_len(), 1), noise(c.filter_len(), 2), noise(c.out_len(), 4));
            let run = |threads| {
                pool::set_threads(threads);
                let (mut y, mut dx, mut dw) =
                    (vec![0.0; c.out_len()], vec![0.0; c.in_len()], vec![0.0; c.filter_len()]);
                conv2d(&c, &x, &w, None, false, &mut y);
                conv2d_input_grad(&c, &dy, &w, &mut dx);
                conv2d_filter_grad(&c, &x, &dy, &mut dw);
                (y, dx, dw)
            };
            let one = run(1);
            assert!(one == run(2) && one == run(5), "{c:?}");
        }
    }
    pool::set_threads(before);
}

#[test]
fn empty_batches_and_nan() {
    let mut c = shapes()[0];
    c.images = 0;
    conv2d::<f32>(&c, &[], &vec![0.0; c.filter_len()], None, false, &mut []);
    conv2d_input_grad::<f32>(&c, &[], &vec![0.0; c.filter_len()], &mut []);
    let mut dw = vec![1.0f32; c.filter_len()];
    conv2d_filter_grad(&c, &[], &[], &mut dw);
    assert!(dw.iter().all(|&v| v == 0.0));
    // A NaN in the input reaches the outputs whose window holds it, and no others.
    for c in shapes() {
        let (mut x, w) = (vec![1.0f32; c.in_len()], vec![1.0f32; c.filter_len()]);
        let (at, dy) = (c.in_len() - 1, vec![1.0f32; c.out_len()]);
        x[at] = f32::NAN;
        let (mut y, mut dw) = (vec![0.0f32; c.out_len()], vec![0.0f32; c.filter_len()]);
        let (mut hit, mut hit_w) = (vec![false; c.out_len()], vec![false; c.filter_len()]);
        each(&c, |i, f, o| {
            hit[o] |= i == at;
            hit_w[f] |= i == at;
        });
        conv2d(&c, &x, &w, None, false, &mut y);
        conv2d_filter_grad(&c, &x, &dy, &mut dw);
        assert!(y.iter().zip(&hit).all(|(v, h)| v.is_nan() == *h), "{c:?}");
        assert!(dw.iter().zip(&hit_w).all(|(v, h)| v.is_nan() == *h), "{c:?}");
    }
}
