//! Benchmarks of kernels that are bound by memory bandwidth. OMP_NUM_THREADS sets the number of threads.

use criterion::{criterion_group, criterion_main, BatchSize, Criterion};
use oar_kernels::elementwise::{binary, Binary};
use oar_kernels::reduce::{mean, reduce, Reduce};
use oar_kernels::{elementwise::cast, formula::rows, order, random, scan, shape::copy, shape::index};
use std::hint::black_box;
use std::time::Duration;

const WIDE: usize = 4096 * 1024;
const SQUARE: usize = 4096 * 4096;

/// Zeroed memory on huge pages, as from the engine's allocator; never freed.
fn zeros<T>(n: usize) -> &'static mut [T] {
    let bytes = (n * std::mem::size_of::<T>()).next_multiple_of(2 << 20) + (2 << 20);
    // SAFETY: a fresh anonymous mapping of `bytes`, aligned up to 2 MiB within it; zero bytes are a value of the plain
    // types used here.
    unsafe {
        let (read_write, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(std::ptr::null_mut(), bytes, read_write, private, -1, 0) as *mut u8;
        let at = at.add(at.align_offset(2 << 20));
        libc::madvise(at as *mut _, bytes - (2 << 20), libc::MADV_HUGEPAGE);
        std::slice::from_raw_parts_mut(at as *mut T, n)
    }
}

fn data(n: usize) -> &'static [f32] {
    let mut s = 12345u32;
    let mut next = || {
        s = s.wrapping_mul(1664525).wrapping_add(1013904223);
        (s >> 8) as f32 / 8388608.0 - 1.0
    };
    let out = zeros(n);
    out.iter_mut().for_each(|v| *v = next() + next() + next());
    out
}

fn ids(n: usize, high: u64) -> Vec<i64> {
    let mut e = random::Mt64::new(7);
    (0..n).map(|_| random::uniform_int(&mut e, 0, high as i64 - 1)).collect()
}

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
}

fn elementwise(c: &mut Criterion) {
    let (x, y) = (data(WIDE), data(WIDE));
    let out = zeros::<f32>(WIDE);
    let flat = |n: usize| ([n], [1isize]);
    c.bench_function("mem/add", |b| {
        let (shape, s) = flat(WIDE);
        b.iter(|| binary(Binary::Add, &shape, (x, &s), (y, &s), out))
    });
    c.bench_function("mem/add_row", |b| {
        b.iter(|| binary(Binary::Add, &[4096, 1024], (x, &[1024, 1]), (&y[..1024], &[0, 1]), out))
    });
    c.bench_function("mem/add_column", |b| {
        b.iter(|| binary(Binary::Add, &[4096, 1024], (x, &[1024, 1]), (&y[..4096], &[1, 0]), out))
    });
    c.bench_function("mem/add_bias10", |b| {
        b.iter(|| {
            binary(Binary::Add, &[400_000, 10], (&x[..4_000_000], &[10, 1]), (&y[..10], &[0, 1]), &mut out[..4_000_000])
        })
    });
    for (name, row) in [
        ("exp", &rows::exp),
        ("log", &rows::log),
        ("gelu", &rows::gelu),
        ("tanh", &rows::tanh),
        ("relu", &rows::relu),
        ("sigmoid", &rows::sigmoid),
    ] {
        c.bench_function(&format!("mem/{name}"), |b| b.iter(|| row.run(&[x], &[], out)));
    }
    c.bench_function("mem/relu_inplace", |b| b.iter(|| rows::relu.run_inplace(&[None], &[], out)));
    c.bench_function("mem/relu_grad", |b| b.iter(|| rows::relu_grad.run(&[x, y], &[], out)));
    let mask: Vec<bool> = x.iter().map(|&v| v > 0.0).collect();
    c.bench_function("mem/where", |b| b.iter(|| copy::select(&mask, x, y, out)));
    let kept = zeros::<u8>(WIDE);
    c.bench_function("mem/dropout", |b| {
        let mut e = random::Mt64::new(1);
        b.iter(|| {
            random::dropout_mask(&mut e, 0.5, kept);
            random::dropped(x, kept, 0.5, out)
        })
    });
    c.bench_function("mem/uniform", |b| {
        let mut e = random::Mt64::new(1);
        b.iter(|| random::uniform(&mut e, -1.0, 1.0, out))
    });
    c.bench_function("mem/normal", |b| {
        let mut e = random::Mt64::new(1);
        b.iter(|| random::normal(&mut e, 0.0f32, 1.0, out))
    });
    let halves = zeros::<half::f16>(WIDE);
    c.bench_function("mem/cast_f16", |b| b.iter(|| cast::cast(x, halves)));
    let ints = zeros::<i64>(WIDE);
    c.bench_function("mem/cast_i64", |b| b.iter(|| cast::cast(x, ints)));
    let (x, y) = (data(SQUARE), data(SQUARE));
    let out = zeros::<f32>(SQUARE);
    c.bench_function("mem/add_64MiB", |b| {
        let (shape, s) = flat(SQUARE);
        b.iter(|| binary(Binary::Add, &shape, (x, &s), (y, &s), out))
    });
}

fn reductions(c: &mut Criterion) {
    let x = data(SQUARE);
    let shape = [4096, 4096];
    for (name, axes) in [("sum0", [true, false]), ("sum1", [false, true]), ("sum_all", [true, true])] {
        let out = zeros::<f32>(if axes == [true, true] { 1 } else { 4096 });
        c.bench_function(&format!("mem/{name}"), |b| b.iter(|| reduce(Reduce::Sum, black_box(x), &shape, &axes, out)));
    }
    let out = zeros::<f32>(4096);
    c.bench_function("mem/mean0", |b| b.iter(|| mean(black_box(x), &shape, &[true, false], out)));
    c.bench_function("mem/max1", |b| b.iter(|| reduce(Reduce::Max, black_box(x), &shape, &[false, true], out)));
    let at = zeros::<i64>(4096);
    c.bench_function("mem/argmax", |b| b.iter(|| order::arg_extreme(true, black_box(&x[..WIDE]), 1024, 1, at)));
    let sums = zeros::<f32>(WIDE);
    c.bench_function("mem/cumsum", |b| b.iter(|| scan::cumsum(black_box(&x[..WIDE]), 1024, 1, false, false, sums)));
    let long = &x[..1024 * 10_000];
    let (v, i) = (zeros::<f32>(10_240), zeros::<i64>(10_240));
    c.bench_function("mem/topk", |b| b.iter(|| order::topk(true, long, 10_000, 10, v, i)));
    let (v, i) = (zeros::<f32>(long.len()), zeros::<i64>(long.len()));
    c.bench_function("mem/sort", |b| b.iter(|| order::sort(false, long, 10_000, v, i)));
}

fn moves(c: &mut Criterion) {
    let x = data(SQUARE);
    let out = zeros::<f32>(SQUARE);
    c.bench_function("mem/transpose", |b| b.iter(|| copy::transpose(x, &[4096, 4096], &[1, 0], out)));
    c.bench_function("mem/transpose_heads", |b| {
        b.iter(|| copy::transpose(&x[..4 * 128 * 768], &[4, 128, 12, 64], &[0, 2, 1, 3], &mut out[..4 * 128 * 768]))
    });
    let parts: Vec<&[f32]> = x[..WIDE].chunks(WIDE / 4).collect();
    c.bench_function("mem/concat0", |b| b.iter(|| copy::concat(&parts, &[1024; 4], 1, 1024, &mut out[..WIDE])));
    c.bench_function("mem/concat1", |b| b.iter(|| copy::concat(&parts, &[256; 4], 4096, 1, &mut out[..WIDE])));
    let hot = ids(16384, 256);
    c.bench_function("mem/one_hot", |b| b.iter(|| copy::one_hot(&hot, 256, false, &mut out[..WIDE])));
    let (table, at) = (&x[..100_000 * 128], ids(65536, 100_000));
    let rows = 65536 * 128;
    c.bench_function("mem/embedding", |b| b.iter(|| index::gather(table, 128, &at, None, &mut out[..rows])));
    let dout = data(rows);
    let grad = zeros::<f32>(100_000 * 128);
    c.bench_function("mem/embedding_b", |b| b.iter(|| index::gather_grad(&at, dout, 128, None, grad)));
    c.bench_function("mem/merge_rows", |b| {
        b.iter_batched(|| (), |_| index::merge_rows(&at, dout, 128), BatchSize::LargeInput)
    });
}

fn pool(c: &mut Criterion) {
    c.bench_function("pool/two_empty_chunks", |b| {
        b.iter(|| {
            oar_kernels::pool::chunks(2, |i| {
                black_box(i);
            })
        })
    });
    let (x, out) = (data(4096), zeros::<f32>(4096));
    c.bench_function("small/relu_64x64", |b| b.iter(|| rows::relu.run(&[x], &[], out)));
    c.bench_function("small/add_64x64", |b| {
        b.iter(|| binary(Binary::Add, &[64, 64], (x, &[64, 1]), (x, &[64, 1]), out))
    });
    c.bench_function("small/add_1", |b| {
        b.iter(|| binary(Binary::Add, &[1], (&x[..1], &[1]), (&x[..1], &[1]), &mut out[..1]))
    });
    c.bench_function("small/sum_64x64", |b| {
        b.iter(|| reduce(Reduce::Sum, black_box(x), &[64, 64], &[true, true], &mut out[..1]))
    });
}

criterion_group!(name = all; config = settings(); targets = elementwise, reductions, moves, pool);
criterion_main!(all);
