//! Convolutions and their gradients against plain loops in f64.
mod common;
use common::{at_every_level, errors, narrow};
use oar_kernels::conv::{convolve, filter_grad, input_grad, Conv};
use oar_kernels::{conv::winograd, gemm::amx, pool};

fn noise(n: usize, seed: u64) -> Vec<f32> {
    narrow(&common::noise(n, seed))
}

/// Every index of a box.
fn indices([d, h, w]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..d * h * w).map(move |i| [i / (h * w), i / w % h, i % w])
}

/// Calls `f(x index, w index, y index)` for every multiplication of the convolution.
fn each(c: &Conv, mut f: impl FnMut(usize, usize, usize)) {
    let (cg, og) = (c.in_channels / c.groups, c.out_channels / c.groups);
    let flat = |[_, h, w]: [usize; 3], [z, y, x]: [usize; 3]| (z * h + y) * w + x;
    let at = |n: usize, ch: usize, channels: usize, size: [usize; 3], i: [usize; 3]| {
        let plane = size.iter().product::<usize>();
        if c.channels_last {
            (n * plane + flat(size, i)) * channels + ch
        } else {
            (n * channels + ch) * plane + flat(size, i)
        }
    };
    for n in 0..c.images {
        for o in 0..c.out_channels {
            for ch in 0..cg {
                for k in indices(c.kernel) {
                    for i in indices(c.out_size) {
                        let x =
                            std::array::from_fn(|a| (i[a] * c.stride[a] + k[a] * c.dilation[a]).wrapping_sub(c.pad[a]));
                        if (0..3).all(|a| x[a] < c.in_size[a]) {
                            f(
                                at(n, o / og * cg + ch, c.in_channels, c.in_size, x),
                                (o * cg + ch) * c.kernel.iter().product::<usize>() + flat(c.kernel, k),
                                at(n, o, c.out_channels, c.out_size, i),
                            );
                        }
                    }
                }
            }
        }
    }
}

#[track_caller]
fn close(what: &str, c: &Conv, got: &[f32], want: &[f64]) {
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
) -> Conv {
    let flat = |(h, w)| [1, h, w];
    let pads = [[0, 0], [pad[0], pad[1]], [pad[2], pad[3]]];
    volume(images, cin, flat(side), cout, flat(kernel), flat(stride), flat(dilation), pads, groups)
}

fn volume(
    images: usize,
    in_channels: usize,
    in_size: [usize; 3],
    out_channels: usize,
    kernel: [usize; 3],
    stride: [usize; 3],
    dilation: [usize; 3],
    pads: [[usize; 2]; 3],
    groups: usize,
) -> Conv {
    let out = |a: usize| {
        let padded = in_size[a] + pads[a][0] + pads[a][1];
        padded.saturating_sub(dilation[a] * (kernel[a] - 1) + 1) / stride[a] + 1
    };
    Conv {
        images,
        in_channels,
        in_size,
        out_channels,
        out_size: std::array::from_fn(out),
        kernel,
        stride,
        dilation,
        pad: pads.map(|p| p[0]),
        groups,
        channels_last: false,
        bf16: false,
    }
}

#[rustfmt::skip]
fn shapes() -> Vec<Conv> {
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
        volume(2, 3, [4, 5, 9], 7, [2, 3, 3], [1; 3], [1; 3], [[1; 2]; 3], 1),
        volume(1, 34, [3, 4, 5], 40, [3, 2, 1], [2, 1, 2], [1, 2, 1], [[1; 2]; 3], 1),
        volume(2, 4, [5, 4, 20], 4, [3; 3], [1; 3], [1; 3], [[1; 2]; 3], 4),
        volume(2, 8, [3, 5, 7], 12, [2; 3], [3, 2, 1], [1; 3], [[0, 1]; 3], 2),
        volume(1, 36, [4, 6, 6], 33, [3, 1, 1], [1; 3], [1; 3], [[1; 2], [0; 2], [0; 2]], 1),
    ]
}

fn check(c: &Conv) {
    let (x, w, bias) = (noise(c.in_len(), 1), noise(c.filter_len(), 2), noise(c.out_channels, 3));
    let dy = noise(c.out_len(), 4);
    let (mut wy, mut wdx, mut wdw) = (vec![0.0; c.out_len()], vec![0.0; c.in_len()], vec![0.0; c.filter_len()]);
    each(c, |i, f, o| {
        wy[o] += x[i] as f64 * w[f] as f64;
        wdx[i] += dy[o] as f64 * w[f] as f64;
        wdw[f] += dy[o] as f64 * x[i] as f64;
    });
    let mut y = vec![f32::NAN; c.out_len()];
    convolve(c, &x, &w, None, false, &mut y);
    close("y", c, &y, &wy);
    convolve(c, &x, &w, Some(&bias), true, &mut y);
    let plane = c.out_size.iter().product::<usize>();
    for (i, v) in wy.iter_mut().enumerate() {
        let ch = if c.channels_last { i % c.out_channels } else { i / plane % c.out_channels };
        *v = (*v + bias[ch] as f64).max(0.0);
    }
    close("y with bias and relu", c, &y, &wy);
    let mut dx = vec![f32::NAN; c.in_len()];
    input_grad(c, &dy, &w, &mut dx);
    close("dx", c, &dx, &wdx);
    let mut dw = vec![f32::NAN; c.filter_len()];
    filter_grad(c, &x, &dy, &mut dw);
    close("dw", c, &dw, &wdw);
    let wide = |v: &[f32]| v.iter().map(|&v| v as f64).collect::<Vec<_>>();
    let mut y = vec![f64::NAN; c.out_len()];
    convolve(c, &wide(&x), &wide(&w), Some(&wide(&bias)), true, &mut y);
    close("y in f64", c, &y.iter().map(|&v| v as f32).collect::<Vec<_>>(), &wy);
}

#[test]
fn matches_plain_loops_at_every_level() {
    at_every_level(|_| {
        for c in shapes() {
            check(&c);
            check(&Conv { channels_last: true, ..c });
        }
    });
}

#[test]
fn threads_do_not_show() {
    let before = pool::threads();
    for c in shapes().into_iter().chain(tiled()) {
        for c in [c, Conv { channels_last: true, ..c }, Conv { images: 19, ..c }] {
            let (x, w, dy) = (noise(c.in_len(), 1), noise(c.filter_len(), 2), noise(c.out_len(), 4));
            let run = |threads| {
                pool::set_threads(threads);
                let (mut y, mut dx, mut dw) =
                    (vec![0.0; c.out_len()], vec![0.0; c.in_len()], vec![0.0; c.filter_len()]);
                convolve(&c, &x, &w, None, false, &mut y);
                input_grad(&c, &dy, &w, &mut dx);
                filter_grad(&c, &x, &dy, &mut dw);
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
    convolve::<f32>(&c, &[], &vec![0.0; c.filter_len()], None, false, &mut []);
    input_grad::<f32>(&c, &[], &vec![0.0; c.filter_len()], &mut []);
    let mut dw = vec![1.0f32; c.filter_len()];
    filter_grad(&c, &[], &[], &mut dw);
    assert!(dw.iter().all(|&v| v == 0.0));
    // A NaN in the input reaches exactly the outputs whose window contains it.
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
        convolve(&c, &x, &w, None, false, &mut y);
        filter_grad(&c, &x, &dy, &mut dw);
        assert!(y.iter().zip(&hit).all(|(v, h)| v.is_nan() == *h), "{c:?}");
        assert!(dw.iter().zip(&hit_w).all(|(v, h)| v.is_nan() == *h), "{c:?}");
    }
}

/// Convolutions that use `winograd`: edges within tiles, channels that do not fill a vector, many channels, several
/// blocks.
#[rustfmt::skip]
fn tiled() -> Vec<Conv> {
    vec![
        shape(2, 16, (20, 22), 40, (3, 3), (1, 1), (1, 1), [1; 4], 1),
        shape(3, 37, (14, 13), 35, (3, 3), (1, 1), (1, 1), [0, 1, 2, 0], 1),
        shape(1, 64, (16, 16), 64, (3, 3), (1, 1), (1, 1), [0; 4], 1),
        shape(2, 400, (7, 7), 24, (3, 3), (1, 1), (1, 1), [1; 4], 1),
        shape(1, 24, (8, 8), 700, (3, 3), (1, 1), (1, 1), [2; 4], 1),
        shape(1, 300, (5, 8), 300, (3, 3), (1, 1), (1, 1), [3, 3, 1, 1], 1),
        shape(9, 16, (40, 41), 20, (3, 3), (1, 1), (1, 1), [1; 4], 1),
    ]
}

#[test]
fn tiles_match_plain_loops_at_every_level() {
    at_every_level(|_| {
        for c in tiled() {
            assert!(winograd::suits::<f32>(
                winograd::WinogradOutput::Filters,
                c.images,
                [c.in_channels, c.out_channels],
                [c.out_size[1], c.out_size[2]]
            ));
            check(&c);
            check(&Conv { channels_last: true, ..c });
        }
    });
}

/// The bound that docs/dev/kernels.md states.
#[test]
fn tiles_are_as_exact_as_they_should_be() {
    let cases = [(2, 16, 24, 32), (1, 64, 28, 64), (1, 128, 12, 96), (2, 512, 7, 64)];
    at_every_level(|_| {
        for (images, ins, side, outs) in cases {
            let c = shape(images, ins, (side, side), outs, (3, 3), (1, 1), (1, 1), [1; 4], 1);
            let (x, w, dy) = (noise(c.in_len(), 5), noise(c.filter_len(), 6), noise(c.out_len(), 7));
            let unit = amx::enabled();
            let all = |on: bool| {
                winograd::enable(on);
                amx::enable(on && unit); // the unit is more exact than the direct kernel
                let (mut y, mut dx, mut dw) = (dy.clone(), x.clone(), w.clone());
                convolve(&c, &x, &w, None, false, &mut y);
                input_grad(&c, &dy, &w, &mut dx);
                filter_grad(&c, &x, &dy, &mut dw);
                winograd::enable(true);
                amx::enable(unit);
                [y, dx, dw]
            };
            let wide = |v: &[f32]| v.iter().map(|&v| v as f64).collect::<Vec<_>>();
            let (mut y, mut dx, mut dw) = (wide(&dy), wide(&x), wide(&w));
            convolve(&c, &wide(&x), &wide(&w), None, false, &mut y);
            input_grad(&c, &wide(&dy), &wide(&w), &mut dx);
            filter_grad(&c, &wide(&x), &wide(&dy), &mut dw);
            let (tiles, plain) = (all(true), all(false));
            for (i, exact) in [y, dx, dw].iter().enumerate() {
                assert!(tiles[i] != plain[i], "not computed by tiles: {c:?}");
                let (t, p) = (errors(&tiles[i], exact), errors(&plain[i], exact));
                println!("{i} {c:?} {:.2} {:.2}", t[0] / p[0], t[1] / p[1]);
                assert!(t[0] <= 4.0 * p[0] && t[1] <= 4.0 * p[1], "result {i}: {t:?}, directly {p:?}; {c:?}");
            }
        }
    });
}

#[test]
fn tiles_spread_nothing_that_is_not_finite() {
    let c = tiled()[0];
    let (mut x, w, dy) = (noise(c.in_len(), 1), noise(c.filter_len(), 2), noise(c.out_len(), 3));
    for bad in [f32::INFINITY, f32::NAN, 3e38] {
        x[500] = bad;
        let run = |on: bool| {
            winograd::enable(on);
            let (mut y, mut dw) = (dy.clone(), w.clone());
            convolve(&c, &x, &w, None, true, &mut y);
            filter_grad(&c, &x, &dy, &mut dw);
            winograd::enable(true);
            [y, dw].map(|v| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
        };
        if bad.is_finite() {
            let finite = |v: &[Vec<u32>; 2]| v[0].iter().filter(|b| f32::from_bits(**b).is_finite()).count();
            assert!(finite(&run(true)) >= finite(&run(false)));
        } else {
            assert!(run(true) == run(false));
        }
    }
}

/// With `bf16`, a convolution is that of the rounded operands.
#[test]
fn operands_are_rounded_on_request() {
    let round = |x: &[f32]| -> Vec<f32> { x.iter().map(|&x| half::bf16::from_f32(x).to_f32()).collect() };
    for c in [
        shape(2, 48, (28, 28), 64, (3, 3), (1, 1), (1, 1), [1; 4], 1),
        shape(2, 33, (21, 23), 70, (3, 3), (2, 2), (1, 1), [1; 4], 1),
        shape(2, 64, (14, 14), 128, (1, 1), (1, 1), (1, 1), [0; 4], 1),
        shape(1, 3, (64, 64), 64, (7, 7), (2, 2), (1, 1), [3; 4], 1),
        shape(2, 64, (16, 16), 96, (3, 3), (1, 1), (1, 1), [1; 4], 2),
    ] {
        for c in [c, Conv { channels_last: true, ..c }] {
            let (x, w, bias) = (noise(c.in_len(), 1), noise(c.filter_len(), 2), noise(c.out_channels, 3));
            let (mut got, mut want) = (vec![f32::NAN; c.out_len()], vec![f32::NAN; c.out_len()]);
            convolve(&Conv { bf16: true, ..c }, &x, &w, Some(&bias), true, &mut got);
            convolve(&c, &round(&x), &round(&w), Some(&bias), true, &mut want);
            let worst = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
            let bound = if oar_kernels::gemm::amx::enabled() { 2e-4 } else { 1.0 };
            assert!(worst < bound, "{c:?}: {worst}");
        }
    }
}
