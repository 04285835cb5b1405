//! Regions of random position. Numbers are those of `std::minstd_rand`.

/// `std::minstd_rand`: x * 48271 modulo 2^31 - 1.
pub struct MinStd(u64);

impl MinStd {
    const MODULUS: u64 = (1 << 31) - 1;

    pub fn new(seed: i64) -> MinStd {
        MinStd(match seed as u64 % Self::MODULUS {
            0 => 1,
            s => s,
        })
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0 * 48271 % Self::MODULUS;
        self.0
    }

    /// Equals `n` calls of `next_u64`.
    pub fn skip(&mut self, mut n: u64) {
        let mut step = 48271;
        while n > 0 {
            if n & 1 == 1 {
                self.0 = self.0 * step % Self::MODULUS;
            }
            step = step * step % Self::MODULUS;
            n >>= 1;
        }
    }

    /// `std::uniform_int_distribution(0, most)`.
    pub fn below(&mut self, most: u64) -> u64 {
        let (range, wanted) = (Self::MODULUS - 2, most + 1);
        let scale = range / wanted;
        loop {
            let drawn = self.next_u64() - 1;
            if drawn < wanted * scale {
                return drawn / scale;
            }
        }
    }
}

/// Copies the region of sizes `part` at `from` to `out`.
pub fn copy_region<T: Copy>(x: &[T], dims: &[usize], part: &[usize], from: &[usize], out: &mut [T]) {
    let Some((&size, rest)) = part.split_first() else {
        out[0] = x[0];
        return;
    };
    let (step, to) = (dims[1..].iter().product::<usize>(), rest.iter().product::<usize>());
    if rest.is_empty() {
        out.copy_from_slice(&x[from[0]..from[0] + size]);
        return;
    }
    for k in 0..size {
        let x = &x[(from[0] + k) * step..(from[0] + k + 1) * step];
        copy_region(x, &dims[1..], rest, &from[1..], &mut out[k * to..(k + 1) * to]);
    }
}

/// A region of sizes `part` (not empty) of each instance of sizes `dims`. Instance i begins `i * dims.len()` numbers after the
/// seed.
pub fn crop<T: Copy>(x: &[T], dims: &[usize], part: &[usize], seed: i64, out: &mut [T]) {
    let (whole, n) = (dims.iter().product::<usize>(), part.iter().product::<usize>());
    for (i, out) in out.chunks_exact_mut(n).enumerate() {
        let mut random = MinStd::new(seed);
        random.skip(i as u64 * dims.len() as u64);
        let places: Vec<usize> = dims.iter().zip(part).map(|(&d, &p)| random.below((d - p) as u64) as usize).collect();
        copy_region(&x[i * whole..(i + 1) * whole], dims, part, &places, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_standard() {
        // [rand.predef]: the 10000th number of a default-constructed minstd_rand is 399268537.
        let mut random = MinStd::new(1);
        random.skip(9999);
        assert_eq!(random.next_u64(), 399_268_537);
        let (mut a, mut b) = (MinStd::new(0), MinStd::new(0));
        a.skip(5);
        (0..4).for_each(|_| assert!(b.next_u64() > 0));
        b.next_u64();
        assert_eq!(a.next_u64(), b.next_u64());
        assert!((0..100).all(|_| a.below(2) <= 2));
    }

    #[test]
    fn regions_are_parts_of_their_instance() {
        let (dims, part) = ([3, 4], [2, 3]);
        let x: Vec<usize> = (0..24).collect();
        let mut out = [99; 12];
        crop(&x, &dims, &part, 7, &mut out);
        for (i, out) in out.chunks(6).enumerate() {
            let (row, column) = (out[0] % 12 / 4, out[0] % 4);
            assert!(out[0] / 12 == i && row <= 1 && column <= 1);
            for (k, &v) in out.iter().enumerate() {
                assert_eq!(v, i * 12 + (row + k / 3) * 4 + column + k % 3);
            }
        }
        let mut one = [0];
        copy_region(&[5], &[], &[], &[], &mut one);
        assert_eq!(one, [5]);
    }
}
