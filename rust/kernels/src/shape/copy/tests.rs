//! Tests of copies against plain index arithmetic.

use crate::elementwise::cast::cast;
use crate::shape::copy::*;
use crate::shape::strides::{numel, strides_of};
use crate::simd::at_every_level;
use half::f16;

fn naive(x: &[f32], shape: &[usize], strides: &[isize], offset: isize) -> Vec<f32> {
    let own = strides_of(shape);
    (0..numel(shape))
        .map(|flat| {
            let at: isize = (0..shape.len()).map(|a| (flat / own[a] as usize % shape[a]) as isize * strides[a]).sum();
            x[(offset + at) as usize]
        })
        .collect()
}

#[test]
fn transposes_of_all_kinds() {
    at_every_level(|_| {
        let cases: [(&[usize], &[usize]); 9] = [
            (&[5, 7], &[1, 0]),
            (&[64, 64], &[1, 0]),
            (&[65, 131], &[1, 0]),
            (&[3, 70, 9], &[0, 2, 1]),
            (&[3, 70, 9], &[2, 1, 0]),
            (&[2, 17, 4, 33], &[0, 2, 1, 3]),
            (&[2, 17, 4, 33], &[3, 1, 0, 2]),
            (&[8, 1, 8], &[2, 0, 1]),
            (&[0, 3], &[1, 0]),
        ];
        for (shape, perm) in cases {
            let x: Vec<f32> = (0..numel(shape)).map(|i| i as f32).collect();
            let own = strides_of(shape);
            let to: Vec<usize> = perm.iter().map(|&p| shape[p]).collect();
            let strides: Vec<isize> = perm.iter().map(|&p| own[p]).collect();
            let want = naive(&x, &to, &strides, 0);
            let mut got = vec![-1.0; x.len()];
            transpose(&x, shape, perm, &mut got);
            assert_eq!(got, want, "{shape:?} {perm:?}");
            let x: Vec<i64> = x.iter().map(|&v| v as i64).collect();
            let mut got = vec![-1; x.len()];
            transpose(&x, shape, perm, &mut got);
            assert!(got.iter().zip(&want).all(|(g, w)| *g == *w as i64));
        }
    });
}

#[test]
fn slices_forward_backward_and_expanded() {
    let x: Vec<f32> = (0..60).map(|i| i as f32).collect();
    for (shape, strides, offset) in [
        (vec![3, 2], vec![20, 5], 2),
        (vec![4, 5], vec![-5, -1], 59),
        (vec![2, 20], vec![0, -3], 58),
        (vec![3, 4, 5], vec![20, 5, 1], 0),
        (vec![2, 60], vec![0, 1], 0),
        (vec![30, 2], vec![1, -30], 30),
    ] {
        let mut got = vec![0.0; numel(&shape)];
        strided(&x, &shape, &strides, offset, &mut got);
        assert_eq!(got, naive(&x, &shape, &strides, offset), "{shape:?} {strides:?}");
        if !strides.contains(&0) {
            let mut back = vec![-1.0; 60];
            strided_write(&got, &shape, &mut back, &strides, offset);
            assert!(back.iter().zip(&x).filter(|(b, _)| **b >= 0.0).all(|(b, x)| b == x));
            assert_eq!(back.iter().filter(|b| **b >= 0.0).count(), numel(&shape));
        }
    }
    let mut out = [0.0f32; 4];
    let bad = std::panic::catch_unwind(move || strided(&x, &[4], &[-1], 2, &mut out));
    assert!(bad.is_err());
}

#[test]
fn tiling() {
    let mut out = [0; 12];
    tile(&[1, 2, 3], &[1, 3], &[2, 2], &mut out);
    assert_eq!(out, [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
    tile(&[1, 2, 3], &[3, 1], &[2, 2], &mut out);
    assert_eq!(out, [1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3]);
}

#[test]
fn concat_and_split_are_inverse() {
    for (outer, inner) in [(1, 1), (3, 5), (200, 70)] {
        let lens = [2, 0, 3, 1];
        let parts: Vec<Vec<i32>> = lens
            .iter()
            .enumerate()
            .map(|(p, &l)| (0..outer * l * inner).map(|i| (p * 1_000_000 + i) as i32).collect())
            .collect();
        let views: Vec<&[i32]> = parts.iter().map(|p| &p[..]).collect();
        let mut joined = vec![-1; outer * 6 * inner];
        concat(&views, &lens, outer, inner, &mut joined);
        let mut from = 0;
        for (part, &len) in parts.iter().zip(&lens) {
            let mut got = vec![-1; part.len()];
            split_one(&joined, outer, 6, inner, from, len, &mut got);
            assert_eq!(got, *part);
            from += len;
        }
    }
}

#[test]
fn selecting_filling_one_hot() {
    at_every_level(|_| {
        let mask: Vec<bool> = (0..1000).map(|i| i % 3 == 0).collect();
        let (a, b): (Vec<f32>, Vec<f32>) = (0..1000).map(|i| (i as f32, -(i as f32))).unzip();
        let mut out = vec![0.0; 1000];
        select(&mask, &a, &b, &mut out);
        assert!(out.iter().enumerate().all(|(i, &v)| v == if i % 3 == 0 { i as f32 } else { -(i as f32) }));
    });
    let mut out = vec![0.0f32; crate::simd::cache_size() / 4 + 5];
    fill(2.5, &mut out);
    assert!(out.iter().all(|&v| v == 2.5));
    let mut out = [9.0f32; 6];
    one_hot(&[2, 0], 3, false, &mut out).unwrap();
    assert_eq!(out, [0., 0., 1., 1., 0., 0.]);
    assert_eq!(one_hot(&[3, 0], 3, false, &mut out), Err(OutOfRange { index: 3, limit: 3 }));
    one_hot(&[-1, 7], 3, true, &mut out).unwrap();
    assert_eq!(out, [0.0; 6]);
}

#[test]
fn casts_follow_numpy() {
    let x = [1.9f32, -1.9, f32::NAN, f32::INFINITY, 3e9, -0.0, 300.7];
    let mut i = [0i32; 7];
    cast(&x, &mut i);
    assert_eq!(i, [1, -1, i32::MIN, i32::MIN, i32::MIN, 0, 300]);
    let mut l = [0i64; 7];
    cast(&x, &mut l);
    assert_eq!(l, [1, -1, i64::MIN, i64::MIN, 3_000_000_000, 0, 300]);
    let mut u = [0u8; 7];
    cast(&x, &mut u);
    assert_eq!((u[0], u[1], u[6]), (1, 255, 44));
    let mut b = [false; 7];
    cast(&x, &mut b);
    assert_eq!(b, [true, true, true, true, true, false, true]);
    let mut h = [f16::ZERO; 2];
    cast(&[true, false], &mut h);
    assert_eq!(h, [f16::ONE, f16::ZERO]);
    let mut back = [0i16; 1];
    cast(&[70_000i64], &mut back);
    assert_eq!(back, [4464]);
}

#[test]
fn parts_follow_each_other() {
    let mut out = [9; 5];
    concatenate([&[1, 2][..], &[], &[3], &[4, 5]], &mut out);
    assert_eq!(out, [1, 2, 3, 4, 5]);
    concatenate::<u8>([], &mut []);
}
