//! Tests of elementwise operators against plain loops, at every SIMD level.

use crate::elementwise::*;
use crate::shape::strides::{broadcast_strides, numel, strides_of};
use crate::simd::at_every_level;
use half::f16;

fn index_of(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &d) in shape.iter().enumerate().rev() {
        index[i] = flat % d;
        flat /= d;
    }
    index
}

fn at(flat: usize, shape: &[usize], strides: &[isize]) -> usize {
    index_of(flat, shape).iter().zip(strides).map(|(&i, &s)| i * s as usize).sum()
}

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104729) % 1009) as f32 / 100.0 - 5.0).collect()
}

const OPS: [(Binary, fn(f32, f32) -> f32); 7] = [
    (Binary::Add, |a, b| a + b),
    (Binary::Sub, |a, b| a - b),
    (Binary::Mul, |a, b| a * b),
    (Binary::Div, |a, b| a / b),
    (Binary::Max, |a, b| if a > b { a } else { b }),
    (Binary::Min, |a, b| if a < b { a } else { b }),
    (Binary::Pow, f32::powf),
];

const SHAPES: [(&[usize], &[usize], &[usize]); 12] = [
    (&[3, 5], &[3, 5], &[3, 5]),
    (&[0, 5], &[0, 5], &[1, 5]),
    (&[1], &[1], &[1]),
    (&[37, 3], &[37, 3], &[3]),
    (&[37, 3], &[3], &[37, 3]),
    (&[4, 70], &[4, 70], &[4, 1]),
    (&[4, 70], &[4, 1], &[1, 70]),
    (&[2, 3, 4, 5], &[2, 3, 4, 5], &[3, 1, 1]),
    (&[2, 3, 4, 5], &[2, 1, 4, 1], &[3, 1, 5]),
    (&[50, 6, 101], &[50, 6, 101], &[6, 1]),
    (&[40, 1000], &[], &[40, 1000]),
    (&[300, 130], &[300, 130], &[130]),
];

#[test]
fn broadcasts_at_every_level() {
    at_every_level(|_| {
        for (shape, sa, sb) in SHAPES {
            let (ta, tb) = (broadcast_strides(sa, shape, None).unwrap(), broadcast_strides(sb, shape, None).unwrap());
            let (a, b) = (values(numel(sa), 1), values(numel(sb), 2));
            let n = numel(shape);
            for (op, f) in OPS {
                let want: Vec<f32> = (0..n).map(|i| f(a[at(i, shape, &ta)], b[at(i, shape, &tb)])).collect();
                let same = |x: &[f32]| {
                    x.iter().zip(&want).all(|(x, y)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()))
                };
                let mut got = vec![0.0; n];
                binary(op, shape, (&a, &ta), (&b, &tb), &mut got).unwrap();
                assert!(same(&got), "{op:?} {shape:?} {sa:?} {sb:?}");
                if numel(sa) == n {
                    let mut x = a.clone();
                    binary_inplace(op, shape, &mut x, (&b, &tb)).unwrap();
                    assert!(same(&x), "{op:?} {shape:?} in place");
                }
                if numel(sb) == n {
                    let mut x = b.clone();
                    binary_inplace_right(op, shape, (&a, &ta), &mut x).unwrap();
                    assert!(same(&x), "{op:?} {shape:?} in place, right");
                }
            }
        }
    });
}

#[test]
fn transposed_and_reversed_operands() {
    let (shape, a, b) = ([17, 23], values(17 * 23, 1), values(17 * 23, 2));
    let mut got = vec![0.0; a.len()];
    binary(Binary::Add, &shape, (&a, &[1, 17]), (&b, &[23, 1]), &mut got).unwrap();
    assert!((0..got.len()).all(|i| got[i] == a[at(i, &shape, &[1, 17])] + b[i]));
}

#[test]
fn results_beyond_the_cache() {
    let n = crate::simd::cache_size() / 4 + 777;
    let (a, b) = (values(n, 1), [2.5f32]);
    let mut got = vec![0.0; n];
    binary(Binary::Mul, &[n], (&a, &[1]), (&b, &[0]), &mut got).unwrap();
    assert!(got.iter().zip(&a).all(|(g, a)| *g == a * 2.5));
}

#[test]
fn integers_wrap_and_refuse_zero() {
    let (a, one) = ([i32::MIN, 7, -7, 7], [1isize]);
    let b = [-1, 2, 2, -2];
    let go = |op| {
        let mut out = [0; 4];
        binary(op, &[4], (&a, &one), (&b, &one), &mut out).map(|_| out)
    };
    assert_eq!(go(Binary::Div), Ok([i32::MIN, 3, -3, -3]));
    assert_eq!(go(Binary::FloorDiv), Ok([i32::MIN, 3, -3, -3]));
    assert_eq!(go(Binary::Mod), Ok([0, 1, 1, -1]));
    assert_eq!(go(Binary::Mul), Ok([i32::MIN, 14, -14, -14]));
    let mut out = [9i64; 2];
    for op in [Binary::Div, Binary::Mod, Binary::FloorDiv] {
        assert_eq!(binary(op, &[2], (&[1, 2], &one), (&[1, 0], &one), &mut out), Err(DivideByZero));
        assert_eq!(out, [9, 9]);
    }
    let mut out = [0.0f64; 2];
    binary(Binary::Div, &[2], (&[1.0, 2.0], &one), (&[0.0, 4.0], &one), &mut out).unwrap();
    assert_eq!(out, [f64::INFINITY, 0.5]);
    binary(Binary::Mod, &[2], (&[-5.5, 5.5], &one), (&[2.0, -2.0], &one), &mut out).unwrap();
    assert_eq!(out, [0.5, -0.5]);
}

#[test]
fn halves_comparisons_logic() {
    let a: Vec<f16> = values(3000, 1).into_iter().map(f16::from_f32).collect();
    let mut out = vec![f16::ZERO; 3000];
    binary(Binary::Add, &[3000], (&a, &[1]), (&a[5..6], &[0]), &mut out).unwrap();
    assert!(a.iter().zip(&out).all(|(x, y)| *y == f16::from_f32(x.to_f32() + a[5].to_f32())));
    let (x, y) = ([1.0, f32::NAN, 3.0], [1.0, f32::NAN, 2.0]);
    let strides = strides_of(&[3]);
    for (op, want) in [
        (Compare::Eq, [true, false, false]),
        (Compare::Ne, [false, true, true]),
        (Compare::Lt, [false, false, false]),
        (Compare::Le, [true, false, false]),
        (Compare::Gt, [false, false, true]),
        (Compare::Ge, [true, false, true]),
    ] {
        let mut out = [false; 3];
        compare(op, &[3], (&x, &strides), (&y, &strides), &mut out);
        assert_eq!(out, want, "{op:?}");
    }
    let (x, y, mut out) = ([true, true, false, false], [true, false, true, false], [false; 4]);
    for (op, want) in [
        (Logic::And, [true, false, false, false]),
        (Logic::Or, [true, true, true, false]),
        (Logic::Xor, [false, true, true, false]),
    ] {
        logic(op, &[4], (&x, &[1]), (&y, &[1]), &mut out);
        assert_eq!(out, want);
    }
    logical_not(&x, &mut out);
    assert_eq!(out, [false, false, true, true]);
}

#[test]
fn results_too_large_for_the_cache_are_the_same() {
    let n = crate::simd::cache_size() / 8 + 77;
    let (x, y) = (values(n, 1), values(n, 2));
    at_every_level(|level| {
        let mut out = vec![0.0f32; n + 3];
        binary(Binary::Add, &[n], (&x, &[1]), (&y, &[1]), &mut out[3..]).unwrap();
        assert!(out[3..].iter().zip(x.iter().zip(&y)).all(|(o, (x, y))| *o == x + y), "{level:?}");
        let (rows, width) = (n / 1000, 1000);
        let whole = rows * width;
        let mut out = vec![0.0f32; whole];
        binary(Binary::Mul, &[rows, width], (&x[..whole], &[width as isize, 1]), (&y, &[0, 1]), &mut out).unwrap();
        assert!(out.iter().enumerate().all(|(i, &o)| o == x[i] * y[i % width]), "{level:?}");
    });
}
