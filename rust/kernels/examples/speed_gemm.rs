//! GFLOP/s of products, one line each: a quick look beside the criterion benches.
use oar_kernels::gemm::{batched, gemm, matmul, strided_batch, Epilogue, View};

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
    let mut best: Vec<f64> = (0..9)
        .map(|_| {
            let t = clock();
            (0..n).for_each(|_| f());
            (clock() - t) / n as f64
        })
        .collect();
    best.sort_by(f64::total_cmp);
    best[0]
}

fn report(name: &str, flop: f64, s: f64) {
    println!("{name:30} {:10.4} ms {:7.1} GF/s", s * 1e3, flop / s * 1e-9);
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let rand = |n: usize| -> Vec<f32> { (0..n).map(|i| ((i * 7919 % 1013) as f32 / 506.0) - 1.0).collect() };
    for (m, k, n, ta, tb) in [
        (64, 64, 64, false, false),
        (256, 256, 256, false, false),
        (512, 512, 512, false, false),
        (1024, 1024, 1024, false, false),
        (1024, 1024, 1024, true, false),
        (1024, 1024, 1024, false, true),
        (2048, 2048, 2048, false, false),
        (32, 1024, 1024, false, false),
        (32, 1024, 1024, false, true),
        (1, 4096, 4096, false, false),
        (4096, 4096, 1, false, false),
        (1, 4096, 4096, false, true),
        (4, 1024, 1024, false, false),
        (128, 784, 512, false, false),
        (784, 128, 512, true, false),
        (128, 512, 784, false, true),
        (128, 400, 120, false, false),
        (400, 128, 120, true, false),
        (128, 84, 10, false, false),
        (64, 576, 25088, false, false),
        (128, 1152, 6272, false, false),
        (256, 2304, 1568, false, false),
        (512, 4608, 392, false, false),
        (256, 64, 25088, false, false),
        (512, 2048, 392, false, false),
    ] {
        let name = format!("{m}x{k}x{n}{}{}", if ta { " ta" } else { "" }, if tb { " tb" } else { "" });
        if !name.contains(&only) {
            continue;
        }
        let (a, b, mut c) = (rand(m * k), rand(k * n), vec![0.0f32; m * n]);
        report(&name, 2.0 * (m * n * k) as f64, time(|| matmul((m, n, k), &a, ta, &b, tb, &mut c)));
    }
    let (m, k, n) = (128, 64, 128);
    let (a, b, mut c) = (rand(64 * m * k), rand(64 * k * n), vec![0.0f32; 64 * m * n]);
    let offs = strided_batch(64, m * k, k * n, m * n);
    let (va, vb) = (View::new(&a, k, 1), View::new(&b, n, 1));
    report(
        "batched64",
        128.0 * (m * n * k) as f64,
        time(|| batched((m, n, k), 1.0, va, vb, 0.0, &mut c, n, Epilogue::NONE, &offs)),
    );
    let n = 256;
    let (a, b, mut c) =
        (rand(n * n).iter().map(|&x| x as f64).collect::<Vec<_>>(), vec![0.5f64; n * n], vec![0.0f64; n * n]);
    report(
        "f64 256",
        2.0 * (n * n * n) as f64,
        time(|| gemm((n, n, n), 1.0, View::new(&a, n, 1), View::new(&b, n, 1), 0.0, &mut c, n, Epilogue::NONE)),
    );
}
