//! Milliseconds of softmax, normalisations and pooling: a quick look beside the criterion benches.
use oar_kernels::norm::*;
use oar_kernels::pooling::*;
use oar_kernels::softmax::*;
use oar_kernels::softmax_loss::*;

/// Seconds of processor time of this thread: other work on the machine does not count.
fn clock() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a timespec of this frame.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn time(name: &str, mut f: impl FnMut()) {
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
    println!("{name:24} {:9.4} ms", best[0] * 1e3);
}

fn main() {
    let rand = |n: usize| -> Vec<f32> { (0..n).map(|i| ((i * 7919 % 1013) as f32 / 506.0) - 1.0).collect() };
    let (rows, n) = (4096, 1024);
    let (x, dy, mut y) = (rand(rows * n), rand(rows * n), rand(rows * n));
    time("softmax 4096x1024", || softmax((rows, n, 1), &x, &mut y));
    time("softmax axis 0", || softmax((1, rows, n), &x, &mut y));
    time("log_softmax", || log_softmax((rows, n, 1), &x, &mut y));
    let mut dx = dy.clone();
    time("softmax_grad", || softmax_grad((rows, n, 1), &y, &dy, &mut dx));
    time("softmax 32x100", || softmax((32, 100, 1), &x[..3200], &mut y[..3200]));
    let labels = vec![3i64; 128];
    let (mut p, mut l) = (vec![0.0; 1280], vec![0.0; 128]);
    time("softmax_xent 128x10", || {
        softmax_cross_entropy((128, 10, 1), &x[..1280], &labels, -100, &mut p, &mut l).unwrap()
    });
    let (s, b) = (rand(n), rand(n));
    let (mut m, mut v) = (vec![0.0; rows], vec![0.0; rows]);
    time("layer_norm", || layer_norm((rows, n), &x, Some(&s), Some(&b), 1e-5, &mut y, &mut m, &mut v));
    let (mut ds, mut db) = (s.clone(), b.clone());
    time("layer_norm_grad", || {
        layer_norm_grad((rows, n), &x, &dy, Some(&s), &m, &v, 1e-5, Some(&mut dx), Some(&mut ds), Some(&mut db))
    });
    for last in [false, true] {
        let d = Channels { images: 8, channels: 64, pixels: 56 * 56, last };
        let (x, dy, mut y) = (rand(d.len()), rand(d.len()), rand(d.len()));
        let (mut m, mut v) = (vec![0.0; 64], vec![0.0; 64]);
        let (s, b) = (rand(64), rand(64));
        time(&format!("batch_norm f last={last}"), || {
            batch_stats(&d, &x, &mut m, &mut v);
            batch_norm(&d, &x, &m, &inverse_deviation(&v, 1e-5), &s, &b, &mut y);
        });
        let (mut ds, mut db) = (s.clone(), b.clone());
        let inv = inverse_deviation(&v, 1e-5);
        time(&format!("batch_norm b last={last}"), || {
            let out = BatchNormGrad { dx: Some(&mut y), dscale: Some(&mut ds), dbias: Some(&mut db) };
            batch_norm_grad(&d, &x, &dy, &m, &inv, &s, false, out);
        });
    }
    for (name, p) in [
        ("max_pool3s2", Pool::planes((8, 64), (112, 112), (56, 56), (3, 3), (2, 2), (1, 1))),
        ("lenet pool1", Pool::planes((128, 6), (28, 28), (14, 14), (2, 2), (2, 2), (0, 0))),
        ("lenet pool2", Pool::planes((128, 16), (10, 10), (5, 5), (2, 2), (2, 2), (0, 0))),
        ("global avg", Pool { adaptive: true, ..Pool::planes((8, 512), (7, 7), (1, 1), (1, 1), (1, 1), (0, 0)) }),
    ] {
        let (x, dy) = (rand(p.in_len()), rand(p.out_len()));
        let (mut y, mut dx) = (dy.clone(), x.clone());
        time(&format!("{name} max f"), || max_pool(&p, &x, &mut y));
        time(&format!("{name} max b"), || max_pool_grad(&p, &x, &y, &dy, &mut dx));
        time(&format!("{name} avg f"), || avg_pool(&p, &x, &mut y));
        time(&format!("{name} avg b"), || avg_pool_grad(&p, &dy, &mut dx));
        max_pool(&p, &x, &mut y);
    }
}
