//! Products on the matrix unit against chains of fused multiply-adds and f64. Without the unit both are equal.
mod common;
use common::{errors, narrow, noise};
use half::bf16;
use oar_kernels::gemm::{gemm, matmul, Epilogue, View};
use oar_kernels::{gemm::amx, pool};

/// The results of `f` with and without the unit.
fn both<R>(mut f: impl FnMut() -> R) -> [R; 2] {
    let was = amx::enabled();
    let each = [was, false].map(|on| {
        amx::enable(on);
        f()
    });
    amx::enable(was);
    each
}

fn product((m, n, k): (usize, usize, usize), a: &[f32], b: &[f32], (ta, tb): (bool, bool)) -> Vec<f32> {
    let mut c = vec![f32::NAN; m * n];
    matmul((m, n, k), a, ta, b, tb, &mut c);
    c
}

fn exact((m, n, k): (usize, usize, usize), a: &[f32], b: &[f32], (ta, tb): (bool, bool)) -> Vec<f64> {
    let (a, b): (Vec<f64>, Vec<f64>) = (a.iter().map(|&x| x as f64).collect(), b.iter().map(|&x| x as f64).collect());
    let mut c = vec![f64::NAN; m * n];
    matmul((m, n, k), &a, ta, &b, tb, &mut c);
    c
}

/// The bound that docs/dev/kernels.md states.
#[test]
fn as_exact_as_chains_of_multiply_adds() {
    for size in [(128, 160, 256), (150, 170, 361), (256, 512, 129), (129, 257, 1000), (300, 700, 2111)] {
        let (m, n, k) = size;
        let (a, b) = (narrow(&noise(m * k, 1)), narrow(&noise(k * n, 2)));
        for turned in [(false, false), (true, false), (false, true), (true, true)] {
            let [unit, plain] = both(|| product(size, &a, &b, turned));
            assert!(unit != plain || !amx::enabled(), "not on the unit: {size:?}");
            let want = exact(size, &a, &b, turned);
            let (u, p) = (errors(&unit, &want), errors(&plain, &want));
            println!("{size:?} {turned:?}: {:.2} {:.2}", u[0] / p[0], u[1] / p[1]);
            assert!(u[0] <= p[0] && u[1] <= p[1], "{size:?} {turned:?}: {u:?}, without {p:?}");
        }
    }
}

/// All operands positive: biased errors would accumulate.
#[test]
fn sums_of_one_sign_are_not_biased() {
    let size = (96, 96, 1500);
    let (a, b): (Vec<f32>, Vec<f32>) = (
        noise(96 * 1500, 3).iter().map(|x| x.abs() as f32).collect(),
        noise(96 * 1500, 4).iter().map(|x| x.abs() as f32).collect(),
    );
    let want = exact(size, &a, &b, (false, false));
    let unit = product(size, &a, &b, (false, false));
    let worst = unit.iter().zip(&want).map(|(&g, w)| (g as f64 / w - 1.0).abs()).fold(0.0, f64::max);
    let mean = unit.iter().zip(&want).map(|(&g, w)| g as f64 / w - 1.0).sum::<f64>() / want.len() as f64;
    assert!(worst < 1e-6 && mean.abs() < 1e-7, "{worst} {mean}");
}

#[test]
fn threads_and_rows_do_not_show() {
    let before = pool::threads();
    let (most, n, k) = (300, 1043, 700);
    let (a, b) = (narrow(&noise(most * k, 5)), narrow(&noise(k * n, 6)));
    pool::set_threads(1);
    let all = product((most, n, k), &a, &b, (false, false));
    for threads in [1, 2, 3, 7] {
        pool::set_threads(threads);
        for m in [96, 161, most] {
            assert!(product((m, n, k), &a, &b, (false, false))[..] == all[..m * n], "{m} rows, {threads} threads");
        }
    }
    pool::set_threads(before);
}

#[test]
fn scales_biases_and_what_was_there() {
    let (m, n, k) = (192, 259, 200);
    let (a, b, old) = (narrow(&noise(m * k * 2, 7)), narrow(&noise(k * n * 2, 8)), narrow(&noise(m * (n + 5), 9)));
    let (row, col) = (narrow(&noise(m, 10)), narrow(&noise(n, 11)));
    for (wr, wc, relu, beta) in [(true, false, true, 0.0), (false, true, false, 0.5), (true, true, true, 2.0)] {
        let e = Epilogue { row_bias: wr.then_some(&row[..]), col_bias: wc.then_some(&col[..]), relu, bf16: false };
        let [unit, plain] = both(|| {
            let mut c = old.clone();
            gemm((m, n, k), 1.5, View::new(&a, 2 * k, 2), View::new(&b, 2 * n, 2), beta, &mut c, n + 5, e);
            c
        });
        assert!(unit != plain || !amx::enabled());
        for (i, (u, p)) in unit.iter().zip(&plain).enumerate() {
            assert!((u - p).abs() < 1e-5 + 2e-6 * p.abs(), "element {i}: {u}, without {p}");
        }
    }
}

/// Exactly the tiles that three bf16 parts cannot represent are computed without the unit.
#[test]
fn what_is_not_finite_or_very_large_stays_in_its_rows() {
    let (m, n, k) = (128, 160, 200);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e30] {
        let (mut a, mut b) = (narrow(&noise(m * k, 12)), narrow(&noise(k * n, 13)));
        let [usual, _] = both(|| product((m, n, k), &a, &b, (false, false)));
        a[40 * k + 7] = bad;
        b[9 * n + 100] = bad;
        let [unit, plain] = both(|| product((m, n, k), &a, &b, (false, false)));
        for i in 0..m {
            for j in 0..n {
                let e = i * n + j;
                let want = if i / 32 == 1 || j / 32 == 3 { plain[e] } else { usual[e] };
                assert!(unit[e].to_bits() == want.to_bits() || (unit[e].is_nan() && want.is_nan()), "{bad}: {i} {j}");
            }
        }
    }
}

/// The unit treats denormal numbers as zero: results that would change are computed without it.
#[test]
fn very_small_numbers_keep_their_digits() {
    let size = (160, 192, 384);
    let (m, n, k) = size;
    for (left, right) in [(1e-20, 1e-15), (1e-30, 1.0), (1.0, 1e-36), (1e-38, 1.0), (1e-35, 1e12), (1e-22, 1e-22)] {
        let (mut a, mut b) = (narrow(&noise(m * k, 14)), narrow(&noise(k * n, 15)));
        // Some rows and columns, then all.
        for all in [false, true] {
            a.iter_mut().enumerate().filter(|(e, _)| all || e / k % 3 == 0).for_each(|(_, v)| *v *= left);
            b.iter_mut().enumerate().filter(|(e, _)| all || e % n % 5 == 0).for_each(|(_, v)| *v *= right);
            let want = exact(size, &a, &b, (false, false));
            let [unit, plain] = both(|| product(size, &a, &b, (false, false)));
            for (e, want) in want.iter().enumerate() {
                let scale: f64 = (0..k).map(|p| (a[e / n * k + p] as f64 * b[p * n + e % n] as f64).abs()).sum();
                let [u, p] = [unit[e], plain[e]].map(|v| (v as f64 - want).abs());
                let bound = scale * 1e-6 + 1e-45 * k as f64;
                assert!(u <= bound.max(p), "{left} {right}: element {e}: {} for {want}, without {}", unit[e], plain[e]);
            }
        }
    }
    let zeros = product(size, &vec![0.0; m * k], &narrow(&noise(k * n, 16)), (false, false));
    assert!(zeros.iter().all(|v| v.to_bits() == 0));
}

/// Products of bf16 numbers skip five of the six products of parts, which are 0.
#[test]
fn operands_of_bf16_are_as_exact() {
    let near = |x: Vec<f64>| -> Vec<f32> { x.iter().map(|&x| bf16::from_f64(x).to_f32()).collect() };
    for size in [(128, 160, 256), (150, 170, 361), (300, 700, 2111)] {
        let (m, n, k) = size;
        let (a, b) = (near(noise(m * k, 7)), near(noise(k * n, 8)));
        for turned in [(false, false), (true, true)] {
            let [unit, plain] = both(|| product(size, &a, &b, turned));
            let want = exact(size, &a, &b, turned);
            let (u, p) = (errors(&unit, &want), errors(&plain, &want));
            assert!(u[0] <= p[0] && u[1] <= p[1], "{size:?} {turned:?}: {u:?}, without {p:?}");
        }
        // one operand has all parts
        let full = narrow(&noise(k * n, 9));
        let [unit, plain] = both(|| product(size, &a, &full, (false, false)));
        let want = exact(size, &a, &full, (false, false));
        assert!(errors(&unit, &want)[0] <= errors(&plain, &want)[0], "{size:?}");
    }
}

fn halves(x: &[f64]) -> Vec<bf16> {
    x.iter().map(|&x| bf16::from_f64(x)).collect()
}

fn wide(x: &[bf16]) -> Vec<f32> {
    x.iter().map(|x| x.to_f32()).collect()
}

/// Sums in f32 that are rounded once: within half a unit of the last place of the exact value, and the error of the sum.
fn rounded_once(got: &[bf16], want: &[f64], k: usize) {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let bound = w.abs() / 256.0 + 1e-6 * (k as f64).sqrt();
        assert!((g.to_f64() - w).abs() <= bound, "element {i}: {g}, {w}");
    }
}

#[test]
fn products_of_halves_are_rounded_once() {
    for size in [(64, 64, 64), (128, 160, 256), (150, 171, 361), (40, 33, 1025), (9, 500, 300), (530, 270, 2111)] {
        let (m, n, k) = size;
        let (a, b) = (halves(&noise(m * k, 21)), halves(&noise(k * n, 22)));
        for turned in [(false, false), (true, false), (false, true), (true, true)] {
            let want = exact(size, &wide(&a), &wide(&b), turned);
            for c in both(|| {
                let mut c = vec![bf16::NAN; m * n];
                matmul(size, &a, turned.0, &b, turned.1, &mut c);
                c
            }) {
                rounded_once(&c, &want, k);
            }
        }
    }
}

#[test]
fn halves_with_an_epilogue() {
    let (m, n, k, rsc) = (150, 259, 200, 300);
    let (a, b, old) = (halves(&noise(m * k, 23)), halves(&noise(k * n, 24)), halves(&noise(m * rsc, 25)));
    let (row, col) = (halves(&noise(m, 26)), halves(&noise(n, 27)));
    let plain = exact((m, n, k), &wide(&a), &wide(&b), (false, false));
    for (wr, wc, relu, beta) in [(true, false, true, 0.0), (false, true, false, 0.5), (true, true, true, 2.0)] {
        let e = Epilogue { row_bias: wr.then_some(&row[..]), col_bias: wc.then_some(&col[..]), relu, bf16: false };
        let mut c = old.clone();
        let (va, vb, of) = (View::new(&a, k, 1), View::new(&b, n, 1), bf16::from_f32);
        gemm((m, n, k), of(1.5), va, vb, of(beta), &mut c, rsc, e);
        for i in 0..m {
            let want: Vec<f64> = (0..n)
                .map(|j| {
                    let bias = |on: bool, v: bf16| if on { v.to_f64() } else { 0.0 };
                    let v = 1.5 * plain[i * n + j] + beta as f64 * old[i * rsc + j].to_f64();
                    let v = v + bias(wr, row[i]) + bias(wc, col[j]);
                    if relu {
                        v.max(0.0)
                    } else {
                        v
                    }
                })
                .collect();
            rounded_once(&c[i * rsc..][..n], &want, k);
        }
        let rest = (0..m - 1).flat_map(|i| i * rsc + n..(i + 1) * rsc);
        assert!(rest.into_iter().all(|e| c[e] == old[e]), "elements between the rows are unchanged");
    }
}

#[test]
fn halves_do_not_depend_on_threads() {
    let before = pool::threads();
    let (most, n, k) = (300, 1043, 700);
    let (a, b) = (halves(&noise(most * k, 28)), halves(&noise(k * n, 29)));
    let of = |m: usize| {
        let mut c = vec![bf16::NAN; m * n];
        matmul((m, n, k), &a, false, &b, false, &mut c);
        c
    };
    pool::set_threads(1);
    let all = of(most);
    for threads in [1, 2, 3, 7] {
        pool::set_threads(threads);
        for m in [96, 161, most] {
            assert!(of(m)[..] == all[..m * n], "{m} rows, {threads} threads");
        }
    }
    pool::set_threads(before);
}

/// With `bf16` the operands of f32 are rounded, and the result is f32.
#[test]
fn f32_operands_are_rounded_on_request() {
    for size in [(128, 160, 256), (150, 170, 361), (300, 700, 2111)] {
        let (m, n, k) = size;
        let (a, b) = (narrow(&noise(m * k, 30)), narrow(&noise(k * n, 31)));
        let near = |x: &[f32]| -> Vec<f32> { x.iter().map(|&x| bf16::from_f32(x).to_f32()).collect() };
        for turned in [(false, false), (true, false), (false, true), (true, true)] {
            let want = exact(size, &near(&a), &near(&b), turned);
            let mut c = vec![f32::NAN; m * n];
            let view =
                |x, rows: usize, cols: usize, turned: bool| View::rows(x, if turned { rows } else { cols }, turned);
            let (va, vb) = (view(&a[..], m, k, turned.0), view(&b[..], k, n, turned.1));
            gemm(size, 1.0, va, vb, 0.0, &mut c, n, Epilogue { bf16: true, ..Epilogue::NONE });
            let [rms, worst] = errors(&c, &want);
            let (bound, full) = (2e-7 * k as f64, exact(size, &a, &b, turned));
            if amx::enabled() {
                assert!(rms < bound / 4.0 && worst < bound, "{size:?} {turned:?}: {rms} {worst}");
                assert!(errors(&c, &full)[0] > 1e-4, "{size:?}: not on the unit");
            }
        }
    }
}

#[test]
fn infinite_halves_are_ieee() {
    let (m, n, k) = (64, 96, 128);
    let (mut a, b) = (halves(&noise(m * k, 32)), halves(&noise(k * n, 33)));
    a[5 * k + 3] = bf16::INFINITY;
    a[40 * k] = bf16::NAN;
    let mut c = vec![bf16::ZERO; m * n];
    matmul((m, n, k), &a, false, &b, false, &mut c);
    for (e, v) in c.iter().enumerate() {
        match e / n {
            5 => assert!(v.is_infinite() && v.is_sign_negative() == b[3 * n + e % n].is_sign_negative()),
            40 => assert!(v.is_nan()),
            _ => assert!(v.is_finite()),
        }
    }
}

/// Panels of B that are packed before give the same sums.
#[test]
fn packed_matrices_give_the_same() {
    if !amx::enabled() {
        return;
    }
    for (m, n, k) in [(128, 160, 256), (50, 171, 361), (300, 700, 2111), (16, 96, 128), (2, 96, 128), (1, 96, 128)] {
        let (a, b) = (narrow(&noise(m * k, 34)), narrow(&noise(k * n, 35)));
        let mut panels = vec![0; amx::right_len(k, n)];
        amx::pack_right(&b, k, n, &mut panels);
        let (mut plain, mut packed) = (vec![f32::NAN; m * n], vec![f32::NAN; m * n]);
        let (va, mut vb) = (View::new(&a, k, 1), View::new(&b, n, 1));
        gemm((m, n, k), 1.0, va, vb, 0.0, &mut plain, n, Epilogue::NONE);
        vb.panels = Some(&panels);
        gemm((m, n, k), 1.0, va, vb, 0.0, &mut packed, n, Epilogue::NONE);
        let want = exact((m, n, k), &a, &b, (false, false));
        assert!(errors(&packed, &want)[1] <= 3e-5, "{m} {n} {k}");
        if m >= 128 {
            assert!(packed == plain, "{m} {n} {k}");
        }
        // Panels of one kind do not serve products of the other.
        let rounded = Epilogue { bf16: true, ..Epilogue::NONE };
        vb.panels = None;
        gemm((m, n, k), 1.0, va, vb, 0.0, &mut plain, n, rounded);
        let mut halves = vec![0; if amx::bf16::present() { amx::bf16::right_len(k, n) } else { 0 }];
        if !halves.is_empty() {
            amx::bf16::pack_right(&b, k, n, &mut halves);
        }
        for panels in [&halves, &panels] {
            packed.fill(f32::NAN);
            vb.panels = Some(panels);
            gemm((m, n, k), 1.0, va, vb, 0.0, &mut packed, n, rounded);
            assert!(errors(&packed, &plain.iter().map(|&v| v as f64).collect::<Vec<_>>())[1] <= 3e-5, "{m} {n} {k}");
            assert!(m < 128 || packed == plain, "{m} {n} {k}");
        }
        vb.panels = Some(&halves);
        gemm((m, n, k), 1.0, va, vb, 0.0, &mut packed, n, Epilogue::NONE);
        assert!(errors(&packed, &want)[1] <= 3e-5, "{m} {n} {k}");
    }
}
