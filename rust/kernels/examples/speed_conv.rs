//! Milliseconds and GFLOP/s of convolutions and their gradients: a quick look beside the criterion benches.
use oar_kernels::conv::{conv2d, conv2d_filter_grad, conv2d_input_grad, Conv2d};

/// Seconds of processor time of this thread: other work on the machine does not count.
fn clock() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a timespec of this frame.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn time(mut f: impl FnMut()) -> f64 {
    f();
    let t = clock();
    f();
    let n = (0.01 / (clock() - t).max(1e-8)).max(1.0) as usize;
    let mut best: Vec<f64> = (0..7)
        .map(|_| {
            let t = clock();
            (0..n).for_each(|_| f());
            (clock() - t) / n as f64
        })
        .collect();
    best.sort_by(f64::total_cmp);
    best[0]
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let last = std::env::args().nth(2).is_some();
    for (name, b, cin, cout, k, s, p, side, g) in [
        ("lenet1", 128, 1, 6, 3, 1, 1, 28, 1),
        ("lenet2", 128, 6, 16, 5, 1, 0, 14, 1),
        ("7x7s2_3_64", 8, 3, 64, 7, 2, 3, 224, 1),
        ("1x1_64_256", 8, 64, 256, 1, 1, 0, 56, 1),
        ("3x3_64_64", 8, 64, 64, 3, 1, 1, 56, 1),
        ("3x3_128_128", 8, 128, 128, 3, 1, 1, 28, 1),
        ("3x3_256_256", 8, 256, 256, 3, 1, 1, 14, 1),
        ("3x3_512_512", 8, 512, 512, 3, 1, 1, 7, 1),
        ("1x1_2048_512", 8, 2048, 512, 1, 1, 0, 7, 1),
        ("dw3x3_96", 8, 96, 96, 3, 1, 1, 56, 96),
        ("3x3s2_64_128", 8, 64, 128, 3, 2, 1, 56, 1),
    ] {
        if !name.contains(&only) {
            continue;
        }
        let out = (side + 2 * p - k) / s + 1;
        let c = Conv2d {
            images: b,
            in_channels: cin,
            in_size: (side, side),
            out_channels: cout,
            out_size: (out, out),
            kernel: (k, k),
            stride: (s, s),
            dilation: (1, 1),
            pad: (p, p),
            groups: g,
            channels_last: last,
        };
        let flop = 2.0 * (c.out_len() * (cin / g) * k * k) as f64;
        let rand = |n: usize| -> Vec<f32> { (0..n).map(|i| ((i * 7919 % 1013) as f32 / 506.0) - 1.0).collect() };
        let (x, w, dy) = (rand(c.in_len()), rand(c.filter_len()), rand(c.out_len()));
        let (mut y, mut dx, mut dw) = (dy.clone(), x.clone(), w.clone());
        let t = [
            time(|| conv2d(&c, &x, &w, None, false, &mut y)),
            time(|| conv2d_input_grad(&c, &dy, &w, &mut dx)),
            time(|| conv2d_filter_grad(&c, &x, &dy, &mut dw)),
        ];
        let line: String = t.iter().map(|t| format!(" {:8.3} ms {:6.1} GF/s |", t * 1e3, flop / t * 1e-9)).collect();
        println!("{name:14}{line} fb {:8.3} ms", t.iter().sum::<f64>() * 1e3);
    }
}
