//! Products against plain loops in f64: odd sizes, layouts, epilogues, levels, threads.
mod common;
use common::{at_every_level, narrow, noise};
use half::{bf16, f16};
use oar_kernels::gemm::{batched, gemm, matmul, strided_batch, Epilogue, View};
use oar_kernels::{gemm::amx, pool};

/// The product of two row-major matrices, each of which may be transposed.
fn naive((m, n, k): (usize, usize, usize), a: &[f32], ta: bool, b: &[f32], tb: bool) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            for p in 0..k {
                let x = if ta { a[p * m + i] } else { a[i * k + p] };
                let y = if tb { b[j * k + p] } else { b[p * n + j] };
                c[i * n + j] += x as f64 * y as f64;
            }
        }
    }
    c
}

#[track_caller]
fn close(got: &[f32], want: &[f64], k: usize) {
    assert_eq!(got.len(), want.len());
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let scale = (k as f64).sqrt().max(1.0);
        assert!((g as f64 - w).abs() <= 1e-6 * scale * (1.0 + w.abs()), "element {i}: {g} for {w}");
    }
}

const SIZES: [(usize, usize, usize); 17] = [
    (1, 1, 1),
    (2, 3, 4),
    (5, 7, 300),
    (6, 64, 9),
    (7, 33, 17),
    (13, 14, 15),
    (14, 32, 256),
    (15, 65, 257),
    (29, 1, 31),
    (1, 1030, 70),
    (3, 200, 513),
    (64, 64, 64),
    (33, 130, 100),
    (100, 10, 84),
    (16, 9, 1000),
    (4, 70, 33),
    (61, 550, 37),
];

#[test]
fn matches_plain_loops_at_every_level() {
    at_every_level(|_| {
        for (m, n, k) in SIZES {
            let (a, b) = (narrow(&noise(m * k, 1)), narrow(&noise(k * n, 2)));
            for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
                let mut c = vec![f32::NAN; m * n];
                matmul((m, n, k), &a, ta, &b, tb, &mut c);
                close(&c, &naive((m, n, k), &a, ta, &b, tb), k);
                let (wa, wb): (Vec<f64>, Vec<f64>) =
                    (a.iter().map(|&x| x as f64).collect(), b.iter().map(|&x| x as f64).collect());
                let mut wide = vec![f64::NAN; m * n];
                matmul((m, n, k), &wa, ta, &wb, tb, &mut wide);
                close(&narrow(&wide), &naive((m, n, k), &a, ta, &b, tb), 1);
            }
        }
    });
}

#[test]
fn strides_scales_and_epilogue() {
    for (m, n, k) in SIZES {
        let (a, b) = (narrow(&noise(m * k * 3, 3)), narrow(&noise(k * n * 2, 4)));
        let old = narrow(&noise(m * (n + 3), 5));
        let (row, col) = (narrow(&noise(m, 6)), narrow(&noise(n, 7)));
        for (wr, wc, relu, beta) in [(true, false, true, 0.0), (false, true, false, 0.5), (true, true, true, 2.0)] {
            let mut c = old.clone();
            let e = Epilogue { row_bias: wr.then_some(&row[..]), col_bias: wc.then_some(&col[..]), relu, bf16: false };
            gemm((m, n, k), 1.5, View::new(&a, 3 * k, 3), View::new(&b, 2 * n, 2), beta, &mut c, n + 3, e);
            for i in 0..m {
                for j in 0..n {
                    let s: f64 = (0..k).map(|p| a[(i * k + p) * 3] as f64 * b[(p * n + j) * 2] as f64).sum();
                    let mut w = 1.5 * s + beta as f64 * old[i * (n + 3) + j] as f64;
                    w += if wr { row[i] as f64 } else { 0.0 } + if wc { col[j] as f64 } else { 0.0 };
                    close(&[c[i * (n + 3) + j]], &[if relu { w.max(0.0) } else { w }], k * 4);
                }
                let gap = i * (n + 3) + n..(i + 1) * (n + 3);
                assert_eq!(c[gap.clone()], old[gap], "the gap between rows was written");
            }
        }
    }
}

#[test]
fn nothing_to_sum_gives_zeros_and_nothing_to_write_is_fine() {
    let mut c = [f32::NAN; 6];
    matmul::<f32>((2, 3, 0), &[], false, &[], false, &mut c);
    assert_eq!(c, [0.0; 6]);
    let e = Epilogue { row_bias: None, col_bias: Some(&[1.0, -2.0, 3.0][..]), relu: true, bf16: false };
    gemm((2, 3, 0), 1.0, View::rows(&[], 0, false), View::rows(&[], 3, false), 0.0, &mut c, 3, e);
    assert_eq!(c, [1.0, 0.0, 3.0, 1.0, 0.0, 3.0]);
    matmul::<f32>((1, 3, 0), &[], false, &[], false, &mut c[..3]);
    assert_eq!(c[..3], [0.0; 3]);
    matmul::<f32>((0, 3, 5), &[], false, &[0.0; 15], false, &mut []);
    matmul::<i32>((2, 0, 5), &[0; 10], false, &[], false, &mut []);
}

#[test]
fn nan_and_infinity_reach_the_result() {
    let (m, n, k) = (20, 40, 300);
    let (mut a, b) = (vec![1.0f32; m * k], vec![0.0f32; k * n]);
    a[5 * k + 299] = f32::INFINITY;
    a[7 * k] = f32::NAN;
    let mut c = vec![0.0; m * n];
    matmul((m, n, k), &a, false, &b, false, &mut c);
    for (i, row) in c.chunks(n).enumerate() {
        assert!(row.iter().all(|x| x.is_nan() == (i == 5 || i == 7)), "row {i}");
    }
}

#[test]
fn batches_share_operands() {
    let (m, n, k, count) = (9, 21, 12, 40);
    let (a, b) = (narrow(&noise(count * m * k, 8)), narrow(&noise(k * n, 9)));
    let mut c = vec![0.0; count * m * n];
    let (va, vb) = (View::rows(&a, k, false), View::rows(&b, n, false));
    batched((m, n, k), 1.0, va, vb, 0.0, &mut c, n, Epilogue::NONE, &strided_batch(count, m * k, 0, m * n));
    close(&c, &naive((count * m, n, k), &a, false, &b, false), k);
}

#[test]
fn threads_do_not_show() {
    let before = pool::threads();
    let wide = [(200, 300, 517), (400, 300, 517), (7, 900, 600)];
    for (m, n, k) in wide.into_iter().chain([(3000, 1, 500), (1, 3000, 500), (700, 20, 300)]) {
        let (a, b) = (narrow(&noise(m * k, 10)), narrow(&noise(k * n, 11)));
        let mut results = Vec::new();
        for threads in [1, 2, 3, 7] {
            pool::set_threads(threads);
            let mut c = vec![0.0; m * n];
            matmul((m, n, k), &a, false, &b, false, &mut c);
            results.push(c.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        }
        assert!(results.windows(2).all(|w| w[0] == w[1]), "{m} x {n} x {k}");
    }
    pool::set_threads(before);
}

/// Few rows with a large B use `sweep`: equal bit for bit to many rows, at every level, for any layout of A.
#[test]
fn few_rows_are_the_rows_of_a_larger_product() {
    let unit = amx::enabled(); // the matrix unit adds in a different order
    amx::enable(false);
    let (most, n, k) = (300, 1043, 1001);
    let (a, b) = (narrow(&noise(most * k, 12)), narrow(&noise(k * n, 13)));
    let (row, col, old) = (narrow(&noise(most, 14)), narrow(&noise(n, 15)), narrow(&noise(most * n, 16)));
    let columns: Vec<f32> = (0..most * k).map(|e| a[e % most * k + e / most]).collect();
    let turned: Vec<f32> = (0..n * k).map(|e| b[e % k * n + e / k]).collect();
    at_every_level(|level| {
        let product_of = |m: usize, a: View<f32>, b: View<f32>| {
            let mut c = old[..m * n].to_vec();
            let e = Epilogue { row_bias: Some(&row[..m]), col_bias: Some(&col[..]), relu: true, bf16: false };
            gemm((m, n, k), 1.5, a, b, 0.5, &mut c, n, e);
            c
        };
        let product = |m: usize, a: View<f32>| product_of(m, a, View::rows(&b, n, false));
        let all = product(most, View::rows(&a, k, false));
        for m in [13, 43, 200, most] {
            let of_turned = product_of(m, View::rows(&a, k, false), View::rows(&turned, k, true));
            assert!(of_turned[..] == all[..m * n], "{m} rows by a transposed B, {level:?}");
        }
        for m in [2, 7, 13, 15, 16, 24, 25, 28, 29, 43, 60, 128, 200, 225] {
            let lying = product(m, View::rows(&a, k, false));
            assert!(lying[..] == all[..m * n], "{m} rows, {level:?}");
            let standing = product(m, View::new(&columns, 1, most));
            assert!(standing[..] == all[..m * n], "{m} rows of a transposed A, {level:?}");
        }
        // Few steps too, and wider elements.
        for k in [41, 385] {
            let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
            let (a, b) = (wide(&a[..most * k]), wide(&b[..k * n]));
            let rows = |m: usize| {
                let mut c = vec![f64::NAN; m * n];
                matmul((m, n, k), &a[..m * k], false, &b, false, &mut c);
                c
            };
            let all = rows(most);
            for m in [7, 25, 43, 100] {
                assert!(rows(m)[..] == all[..m * n], "{m} rows of doubles, k = {k}, {level:?}");
            }
        }
    });
    amx::enable(unit);
}

/// A vector times a long matrix, which is summed in blocks of rows: wide, narrow, and transposed.
#[test]
fn long_sums_are_blocks_of_rows() {
    let before = pool::threads();
    let near = [(1, 512, 784), (1, 90, 1000), (1, 1024, 129), (1, 1000, 515)];
    for (m, n, k) in [(1, 5000, 900), (1, 4100, 1100), (1, 30, 140_003), (5000, 1, 900)].into_iter().chain(near) {
        let (a, b) = (narrow(&noise(m * k, 12)), narrow(&noise(k * n, 13)));
        let ta = n == 1;
        let want = naive((m, n, k), &a, ta, &b, false);
        let mut results = Vec::new();
        for threads in [1, 2, 3] {
            pool::set_threads(threads);
            let mut c = vec![f32::NAN; m * n];
            matmul((m, n, k), &a, ta, &b, false, &mut c);
            close(&c, &want, k);
            results.push(c.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        }
        assert!(results.windows(2).all(|w| w[0] == w[1]), "{m} x {n} x {k}");
    }
    pool::set_threads(before);
}

#[test]
fn integers_wrap_and_halves_round_once() {
    let mut c = [0i32; 4];
    matmul((2, 2, 2), &[1, 2, i32::MAX, 1], false, &[1, 2, 3, 4], false, &mut c);
    assert_eq!(c, [7, 10, i32::MAX.wrapping_add(3), i32::MAX.wrapping_mul(2).wrapping_add(4)]);
    let mut d = [0i64; 2];
    matmul((1, 2, 3), &[1, 2, 3], false, &[1, 2, 3, 4, 5, 6], true, &mut d);
    assert_eq!(d, [14, 32]);
    let a: Vec<f16> = (0..2000).map(|_| f16::from_f32(1.0)).collect();
    let mut c = [f16::ZERO];
    matmul((1, 1, 2000), &a, false, &a, false, &mut c);
    assert_eq!(c[0].to_f32(), 2000.0);
    let a: Vec<bf16> = (0..6).map(|i| bf16::from_f32(i as f32)).collect();
    let mut c = [bf16::ZERO; 4];
    matmul((2, 2, 3), &a, false, &a, true, &mut c);
    assert_eq!(c.map(|x| x.to_f32()), [5.0, 14.0, 14.0, 50.0]);
}
