//! roll: elements shifted along an axis, wrapping around.

use crate::types::Plain;

/// Shifts every slab of `slab` elements so that its first `head` elements are the last.
pub fn roll<T: Plain>(x: &[T], slab: usize, head: usize, out: &mut [T]) {
    for (from, to) in x.chunks_exact(slab.max(1)).zip(out.chunks_exact_mut(slab.max(1))) {
        to[slab - head..].copy_from_slice(&from[..head]);
        to[..slab - head].copy_from_slice(&from[head..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_wrap_around() {
        let x: Vec<u8> = (0..10).collect();
        let mut out = [99; 10];
        roll(&x, 5, 2, &mut out);
        (0..10).for_each(|i| assert_eq!(out[i], x[i / 5 * 5 + (i % 5 + 2) % 5]));
        roll::<u8>(&[], 0, 0, &mut []);
    }
}
