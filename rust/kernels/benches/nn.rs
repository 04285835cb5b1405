//! Benchmarks of products, convolutions, pooling, softmax and normalisations, on the shapes of the comparison with
//! other libraries. `OMP_NUM_THREADS=1 cargo bench -p oar-kernels --bench nn -- gemm`

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, Throughput};
use oar_kernels::conv::winograd::enable;
use oar_kernels::conv::{convolve, filter_grad, input_grad, Conv};
use oar_kernels::gemm::{batched, matmul, strided_batch, Epilogue, View};
use oar_kernels::norm::batch_norm::{batch_norm_train, Channels};
use oar_kernels::norm::layer_norm::layer_norm;
use oar_kernels::pooling::grad::max_pool_grad;
use oar_kernels::pooling::{max_pool, Pool};
use oar_kernels::softmax::{log_softmax, softmax, softmax_grad};
use std::time::Duration;

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 % 1013) as f32 / 506.0) - 1.0).collect()
}

/// m, k, n, whether A and B are transposed.
const PRODUCTS: [(usize, usize, usize, bool, bool); 9] = [
    (64, 64, 64, false, false),
    (256, 256, 256, false, false),
    (512, 512, 512, false, false),
    (1024, 1024, 1024, false, false),
    (1024, 1024, 1024, true, false),
    (1024, 1024, 1024, false, true),
    (32, 1024, 1024, false, false),
    (1, 4096, 4096, false, false),
    (1, 4096, 4096, false, true),
];

fn products(c: &mut Criterion) {
    let mut g = c.benchmark_group("gemm");
    for (m, k, n, ta, tb) in PRODUCTS {
        let (a, b, mut out) = (values(m * k), values(k * n), vec![0.0; m * n]);
        g.throughput(Throughput::Elements(2 * (m * n * k) as u64));
        let id = BenchmarkId::from_parameter(format!("{m}x{k}x{n}/{}{}", u8::from(ta), u8::from(tb)));
        g.bench_function(id, |bench| bench.iter(|| matmul((m, n, k), &a, ta, &b, tb, &mut out)));
    }
    let (count, m, k, n) = (64, 128, 64, 128);
    let (a, b, mut out) = (values(count * m * k), values(count * k * n), vec![0.0; count * m * n]);
    let offsets = strided_batch(count, m * k, k * n, m * n);
    let (va, vb) = (View::new(&a, k, 1), View::new(&b, n, 1));
    g.throughput(Throughput::Elements(2 * (count * m * n * k) as u64));
    g.bench_function("batched64", |bench| {
        bench.iter(|| batched((m, n, k), 1.0, va, vb, 0.0, &mut out, n, Epilogue::NONE, &offsets))
    });
    g.finish();
}

/// Name, images, in, out, kernel, stride, padding, side, groups.
const CONVOLUTIONS: [(&str, usize, usize, usize, usize, usize, usize, usize, usize); 10] = [
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
];

fn convolutions(c: &mut Criterion) {
    let mut g = c.benchmark_group("conv");
    for (name, images, cin, cout, k, s, p, side, groups) in CONVOLUTIONS {
        let out = (side + 2 * p - k) / s + 1;
        let shape = Conv {
            images,
            in_channels: cin,
            in_size: [1, side, side],
            out_channels: cout,
            out_size: [1, out, out],
            kernel: [1, k, k],
            stride: [1, s, s],
            dilation: [1; 3],
            pad: [0, p, p],
            groups,
            channels_last: false,
            bf16: false,
        };
        let (x, w, dy) = (values(shape.in_len()), values(shape.filter_len()), values(shape.out_len()));
        let (mut y, mut dx, mut dw) = (dy.clone(), x.clone(), w.clone());
        g.throughput(Throughput::Elements(2 * (shape.out_len() * cin / groups * k * k) as u64));
        g.bench_function(format!("{name}/forward"), |b| b.iter(|| convolve(&shape, &x, &w, None, false, &mut y)));
        g.bench_function(format!("{name}/input_grad"), |b| b.iter(|| input_grad(&shape, &dy, &w, &mut dx)));
        g.bench_function(format!("{name}/filter_grad"), |b| b.iter(|| filter_grad(&shape, &x, &dy, &mut dw)));
        if name.starts_with("3x3") {
            // The same without Winograd transforms.
            enable(false);
            g.bench_function(format!("{name}/plain/forward"), |b| {
                b.iter(|| convolve(&shape, &x, &w, None, false, &mut y))
            });
            g.bench_function(format!("{name}/plain/input_grad"), |b| b.iter(|| input_grad(&shape, &dy, &w, &mut dx)));
            g.bench_function(format!("{name}/plain/filter_grad"), |b| b.iter(|| filter_grad(&shape, &x, &dy, &mut dw)));
            enable(true);
        }
    }
    g.finish();
}

fn rows(c: &mut Criterion) {
    let mut g = c.benchmark_group("rows");
    let (outer, n) = (4096, 1024);
    let (x, dy, mut y) = (values(outer * n), values(outer * n), values(outer * n));
    g.throughput(Throughput::Bytes(8 * (outer * n) as u64));
    g.bench_function("softmax", |b| b.iter(|| softmax((outer, n, 1), &x, &mut y)));
    g.bench_function("softmax/axis0", |b| b.iter(|| softmax((1, outer, n), &x, &mut y)));
    g.bench_function("log_softmax", |b| b.iter(|| log_softmax((outer, n, 1), &x, &mut y)));
    let mut dx = dy.clone();
    g.bench_function("softmax_grad", |b| b.iter(|| softmax_grad((outer, n, 1), &y, &dy, &mut dx)));
    let (s, mut m, mut v) = (values(n), vec![0.0; outer], vec![0.0; outer]);
    g.bench_function("layer_norm", |b| {
        b.iter(|| layer_norm((outer, n), &x, Some(&s), Some(&s), 1e-5, &mut y, &mut m, &mut v))
    });
    g.finish();
}

fn images(c: &mut Criterion) {
    let mut g = c.benchmark_group("images");
    for last in [false, true] {
        let d = Channels { images: 8, channels: 64, pixels: 56 * 56, last };
        let (x, mut y, s) = (values(d.len()), values(d.len()), values(64));
        let (mut m, mut v) = (vec![0.0; 64], vec![0.0; 64]);
        g.bench_function(format!("batch_norm/{}", if last { "nhwc" } else { "nchw" }), |b| {
            b.iter(|| batch_norm_train(&d, &x, &s, &s, 1e-5, &mut m, &mut v, &mut y))
        });
    }
    for (name, p) in [
        ("max_pool3s2", Pool::planes((8, 64), (112, 112), (56, 56), (3, 3), (2, 2), (1, 1))),
        ("lenet_pool1", Pool::planes((128, 6), (28, 28), (14, 14), (2, 2), (2, 2), (0, 0))),
    ] {
        let (x, dy) = (values(p.in_len()), values(p.out_len()));
        let (mut y, mut dx) = (dy.clone(), x.clone());
        g.bench_function(format!("{name}/forward"), |b| b.iter(|| max_pool(&p, &x, &mut y)));
        g.bench_function(format!("{name}/grad"), |b| b.iter(|| max_pool_grad(&p, &x, &y, &dy, &mut dx)));
    }
    g.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
}

criterion_group! { name = nn; config = short(); targets = products, convolutions, rows, images }
criterion_main!(nn);
