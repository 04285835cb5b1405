//! Convolutions by packed filters against plain loops in f64.
mod common;
use common::{errors, narrow};
use oar_kernels::conv::packed::{always, convolve_packed, pack_filters, panels_len, FilterShape};
use oar_kernels::conv::{convolve, Conv};
use oar_kernels::{gemm::amx, pool};

fn noise(n: usize, seed: u64) -> Vec<f32> {
    narrow(&common::noise(n, seed))
}

/// images, channels, size, filters, kernel, stride, dilation, pads (top, bottom, left, right).
type Case = (usize, usize, [usize; 2], usize, [usize; 2], [usize; 2], [usize; 2], [usize; 4]);

fn conv((images, channels, size, filters, kernel, stride, dilation, pads): Case, bf16: bool) -> Conv {
    let out = |a: usize| (size[a] + pads[2 * a] + pads[2 * a + 1] - dilation[a] * (kernel[a] - 1) - 1) / stride[a] + 1;
    let deep = |v: [usize; 2], first: usize| [first, v[0], v[1]];
    Conv {
        images,
        in_channels: channels,
        in_size: deep(size, 1),
        out_channels: filters,
        out_size: deep([out(0), out(1)], 1),
        kernel: deep(kernel, 1),
        stride: deep(stride, 1),
        dilation: deep(dilation, 1),
        pad: deep([pads[0], pads[2]], 0),
        groups: 1,
        channels_last: false,
        bf16,
    }
}

fn filters_of(c: &Conv) -> FilterShape {
    let two = |v: [usize; 3]| [v[1], v[2]];
    FilterShape {
        filters: c.out_channels,
        channels: c.in_channels,
        kernel: two(c.kernel),
        stride: two(c.stride),
        dilation: two(c.dilation),
        bf16: c.bf16,
    }
}

/// The panels; `None` where filters are not packed.
fn packed(c: &Conv, w: &[f32]) -> Option<Vec<u8>> {
    let mut panels = vec![0; panels_len(&filters_of(c))];
    (!panels.is_empty() && pack_filters(&filters_of(c), w, &mut panels)).then_some(panels)
}

fn plain(c: &Conv, x: &[f32], w: &[f32]) -> Vec<f64> {
    let ([_, h, wide], [_, oh, ow], [_, kh, kw]) = (c.in_size, c.out_size, c.kernel);
    let mut y = vec![0.0; c.out_len()];
    for (i, y) in y.iter_mut().enumerate() {
        let (n, o, oy, ox) = (i / (c.out_channels * oh * ow), i / (oh * ow) % c.out_channels, i / ow % oh, i % ow);
        for k in 0..c.in_channels * kh * kw {
            let (ch, ky, kx) = (k / (kh * kw), k / kw % kh, k % kw);
            let row = (oy * c.stride[1] + ky * c.dilation[1]).wrapping_sub(c.pad[1]);
            let col = (ox * c.stride[2] + kx * c.dilation[2]).wrapping_sub(c.pad[2]);
            if row < h && col < wide {
                let at = ((n * c.in_channels + ch) * h + row) * wide + col;
                *y += x[at] as f64 * w[o * c.in_channels * kh * kw + k] as f64;
            }
        }
    }
    y
}

const CASES: &[Case] = &[
    (1, 64, [56, 56], 64, [3, 3], [1, 1], [1, 1], [1; 4]),
    (3, 64, [14, 14], 80, [3, 3], [1, 1], [1, 1], [1; 4]),
    (1, 512, [7, 7], 96, [3, 3], [1, 1], [1, 1], [1; 4]),
    (2, 128, [14, 15], 100, [3, 3], [2, 2], [1, 1], [1; 4]),
    (2, 128, [28, 28], 64, [1, 1], [2, 2], [1, 1], [0; 4]),
    (2, 96, [13, 11], 72, [1, 1], [1, 1], [1, 1], [0; 4]),
    (1, 3, [64, 60], 64, [7, 7], [2, 2], [1, 1], [3; 4]),
    (1, 6, [14, 14], 16, [5, 5], [1, 1], [1, 1], [0; 4]),
    (5, 20, [17, 63], 40, [3, 5], [1, 2], [1, 1], [0, 2, 3, 1]),
    (2, 48, [20, 31], 33, [2, 3], [2, 1], [1, 1], [1, 0, 1, 2]),
    (1, 100, [12, 31], 35, [3, 3], [1, 1], [2, 3], [2, 2, 3, 3]),
    (2, 64, [15, 15], 48, [3, 3], [2, 2], [3, 1], [3, 3, 1, 1]),
    (1, 1, [60, 60], 32, [5, 5], [1, 1], [1, 1], [2; 4]),
    // Few filters: by lanes.
    (2, 3, [30, 41], 16, [3, 3], [2, 2], [1, 1], [1, 0, 2, 1]),
    (3, 5, [9, 8], 9, [2, 4], [3, 1], [2, 2], [1, 3, 0, 2]),
    (1, 40, [7, 7], 12, [1, 1], [1, 1], [1, 1], [0; 4]),
    (1, 2, [3, 3], 10, [3, 3], [1, 1], [1, 1], [4; 4]),
];

#[test]
fn results_are_those_of_plain_loops() {
    always(true);
    for threads in [1, 2] {
        pool::set_threads(threads);
        for &case in CASES {
            let c = conv(case, false);
            let (x, w, bias) = (noise(c.in_len(), 1), noise(c.filter_len(), 2), noise(c.out_channels, 3));
            let Some(panels) = packed(&c, &w) else { return };
            let mut want = plain(&c, &x, &w);
            let mut y = vec![f32::NAN; c.out_len()];
            assert!(convolve_packed(&c, &x, &w, &panels, None, None, false, &mut y), "{c:?}");
            let scale = ((c.filter_len() / c.out_channels) as f64).sqrt();
            let far =
                |y: &[f32], want: &[f64]| y.iter().zip(want).map(|(&y, w)| (y as f64 - w).abs()).fold(0.0, f64::max);
            assert!(far(&y, &want) <= 3e-6 * scale, "{} {c:?}", far(&y, &want));
            let residual = noise(c.out_len(), 4);
            let plane = c.out_size[1] * c.out_size[2];
            for (i, v) in want.iter_mut().enumerate() {
                *v = (*v + bias[i / plane % c.out_channels] as f64 + residual[i] as f64).max(0.0);
            }
            assert!(convolve_packed(&c, &x, &w, &panels, Some(&bias), Some(&residual), true, &mut y));
            assert!(far(&y, &want) <= 3e-6 * scale, "{} {c:?}", far(&y, &want));
        }
    }
    pool::set_threads(1);
    always(false);
}

#[test]
fn bf16_operands_are_rounded() {
    let round = |v: Vec<f32>| v.into_iter().map(|v| half::bf16::from_f32(v).to_f32()).collect::<Vec<_>>();
    always(true);
    for &case in CASES {
        let c = conv(case, true);
        let (x, w) = (noise(c.in_len(), 1), noise(c.filter_len(), 2));
        let Some(panels) = packed(&c, &w) else { return };
        let want = plain(&c, &round(x.clone()), &round(w.clone()));
        let mut y = vec![f32::NAN; c.out_len()];
        assert!(convolve_packed(&c, &x, &w, &panels, None, None, false, &mut y), "{c:?}");
        assert!(errors(&y, &want)[1] < 1e-4, "{c:?}");
    }
    always(false);
}

#[test]
fn results_do_not_depend_on_threads_and_images() {
    let c = conv((5, 128, [14, 14], 96, [3, 3], [2, 2], [1, 1], [1; 4]), false);
    let (x, w) = (noise(c.in_len(), 1), noise(c.filter_len(), 2));
    let Some(panels) = packed(&c, &w) else { return };
    let mut first = vec![0.0; c.out_len()];
    pool::set_threads(1);
    assert!(convolve_packed(&c, &x, &w, &panels, None, None, false, &mut first));
    for threads in [2, 3, 8] {
        pool::set_threads(threads);
        let mut y = vec![0.0; c.out_len()];
        assert!(convolve_packed(&c, &x, &w, &panels, None, None, false, &mut y));
        assert_eq!(y, first);
    }
    pool::set_threads(1);
    let one = Conv { images: 1, ..c };
    let mut y = vec![0.0; one.out_len()];
    assert!(convolve_packed(&one, &x[..one.in_len()], &w, &panels, None, None, false, &mut y));
    assert_eq!(y, first[..one.out_len()]);
}

/// NaN, infinities, large and very small numbers: as `convolve`.
#[test]
fn numbers_that_parts_cannot_represent() {
    let c = conv((2, 64, [28, 28], 64, [3, 3], [2, 2], [1, 1], [1; 4]), false);
    let (x, w) = (noise(c.in_len(), 1), noise(c.filter_len(), 2));
    if packed(&c, &w).is_none() {
        return;
    }
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38] {
        let mut w = w.clone();
        w[700] = value;
        assert!(packed(&c, &w).is_none());
    }
    let mut small = w.clone();
    small[..40 * 576].iter_mut().for_each(|v| *v *= 1e-33);
    let mut tiny = x.clone();
    tiny.iter_mut().for_each(|v| *v *= 1e-36);
    let mut special = x.clone();
    (special[5000], special[77]) = (f32::NAN, f32::INFINITY);
    for (x, w) in [(&x, &small), (&tiny, &w), (&special, &w)] {
        let panels = packed(&c, w).expect("finite filters are packed");
        let residual = noise(c.out_len(), 4);
        let (mut got, mut want) = (vec![0.0; c.out_len()], vec![0.0; c.out_len()]);
        assert!(convolve_packed(&c, x, w, &panels, None, Some(&residual), false, &mut got));
        convolve(&c, x, w, None, false, &mut want);
        let sum: Vec<f32> = want.iter().zip(&residual).map(|(w, z)| w + z).collect();
        near(&c, &got, &sum);
        assert!(convolve_packed(&c, x, w, &panels, None, None, false, &mut got));
        near(&c, &got, &want);
    }
}

/// Equal but for rounding, by the largest number of each plane.
#[track_caller]
fn near(c: &Conv, got: &[f32], want: &[f32]) {
    let plane = c.out_size[1] * c.out_size[2];
    for (got, want) in got.chunks(plane).zip(want.chunks(plane)) {
        let largest = want.iter().filter(|w| w.is_finite()).fold(0f32, |m, w| m.max(w.abs()));
        for (&g, &w) in got.iter().zip(want) {
            assert!(g.is_nan() && w.is_nan() || g == w || (g - w).abs() <= 1e-5 * largest, "{g} for {w}, {c:?}");
        }
    }
}

#[test]
fn other_convolutions_are_left_alone() {
    let c = conv((1, 64, [28, 28], 64, [3, 3], [2, 2], [1, 1], [1; 4]), false);
    let (x, w) = (noise(c.in_len(), 1), noise(c.filter_len(), 2));
    let Some(panels) = packed(&c, &w) else { return };
    let mut y = vec![0.0; c.out_len()];
    assert!(!convolve_packed(&c, &x, &w, &panels[1..], None, None, false, &mut y));
    assert!(!convolve_packed(&Conv { bf16: true, ..c }, &x, &w, &panels, None, None, false, &mut y));
    amx::enable(false);
    assert_eq!(panels_len(&filters_of(&c)), 0);
    assert!(!convolve_packed(&c, &x, &w, &panels, None, None, false, &mut y));
    amx::enable(true);
    for shape in [
        FilterShape { stride: [3, 1], ..filters_of(&c) },
        FilterShape { channels: 0, ..filters_of(&c) },
        FilterShape { kernel: [0, 3], ..filters_of(&c) },
        FilterShape { channels: 3, dilation: [2, 2], ..filters_of(&c) },
    ] {
        assert_eq!(panels_len(&shape), 0);
    }
}

#[test]
#[ignore = "a measurement"]
fn times() {
    let threads = std::env::var("THREADS").ok().and_then(|t| t.parse().ok()).unwrap_or(1);
    pool::set_threads(threads);
    let cases: &[Case] = &[
        (1, 3, [224, 224], 64, [7, 7], [2, 2], [1, 1], [3; 4]),
        (1, 64, [56, 56], 64, [3, 3], [1, 1], [1, 1], [1; 4]),
        (1, 64, [56, 56], 128, [3, 3], [2, 2], [1, 1], [1; 4]),
        (1, 64, [56, 56], 128, [1, 1], [2, 2], [1, 1], [0; 4]),
        (1, 128, [28, 28], 128, [3, 3], [1, 1], [1, 1], [1; 4]),
        (1, 256, [14, 14], 256, [3, 3], [1, 1], [1, 1], [1; 4]),
        (1, 512, [7, 7], 512, [3, 3], [1, 1], [1, 1], [1; 4]),
        (1, 6, [14, 14], 16, [5, 5], [1, 1], [1, 1], [0; 4]),
        (8, 64, [56, 56], 64, [3, 3], [1, 1], [1, 1], [1; 4]),
        (8, 512, [7, 7], 512, [3, 3], [1, 1], [1, 1], [1; 4]),
    ];
    let only = std::env::var("CASE").ok().and_then(|t| t.parse().ok());
    for (i, &case) in cases.iter().enumerate() {
        if only.is_some_and(|only: usize| only != i) {
            continue;
        }
        let mut line = format!("{case:?}");
        for bf16 in [false, true] {
            let c = conv(case, bf16);
            let (x, w) = (noise(c.in_len(), 1), noise(c.filter_len(), 2));
            let Some(panels) = packed(&c, &w) else { return };
            let mut y = vec![0.0; c.out_len()];
            let mut least = [f64::MAX; 2];
            for i in 0..60 {
                let start = std::time::Instant::now();
                if i % 2 == 0 {
                    convolve(&c, &x, &w, None, false, &mut y);
                } else if !convolve_packed(&c, &x, &w, &panels, None, None, false, &mut y) {
                    continue;
                }
                least[i % 2] = least[i % 2].min(start.elapsed().as_secs_f64() * 1e6);
            }
            line += &format!("  bf16 {bf16}: {:.1} -> {:.1} us", least[0], least[1].min(1e9));
        }
        println!("{line}");
    }
}
