//! Hashes of bytes: xxHash of 32 and 64 bits and MurmurHash3 of 128 bits, as their authors publish them.

fn word32(b: &[u8]) -> u32 {
    u32::from_le_bytes([b[0], b[1], b[2], b[3]])
}

fn word64(b: &[u8]) -> u64 {
    u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])
}

const A: [u64; 5] =
    [0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0x85EB_CA77_C2B2_AE63, 0x27D4_EB2F_1656_67C5];

fn round64(sum: u64, lane: u64) -> u64 {
    sum.wrapping_add(lane.wrapping_mul(A[1])).rotate_left(31).wrapping_mul(A[0])
}

/// XXH64.
pub fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    let mut stripes = bytes.chunks_exact(32);
    let mut h = if bytes.len() >= 32 {
        let start = [A[0].wrapping_add(A[1]), A[1], 0, 0u64.wrapping_sub(A[0])];
        let mut v = start.map(|s| seed.wrapping_add(s));
        for stripe in &mut stripes {
            for (v, lane) in v.iter_mut().zip(stripe.chunks_exact(8)) {
                *v = round64(*v, word64(lane));
            }
        }
        let turned = v.iter().zip([1, 7, 12, 18]).fold(0u64, |h, (v, r)| h.wrapping_add(v.rotate_left(r)));
        v.iter().fold(turned, |h, &v| (h ^ round64(0, v)).wrapping_mul(A[0]).wrapping_add(A[3]))
    } else {
        seed.wrapping_add(A[4])
    };
    h = h.wrapping_add(bytes.len() as u64);
    let mut words = stripes.remainder().chunks_exact(8);
    for w in &mut words {
        h = (h ^ round64(0, word64(w))).rotate_left(27).wrapping_mul(A[0]).wrapping_add(A[3]);
    }
    let mut rest = words.remainder();
    if rest.len() >= 4 {
        h = (h ^ u64::from(word32(rest)).wrapping_mul(A[0])).rotate_left(23).wrapping_mul(A[1]).wrapping_add(A[2]);
        rest = &rest[4..];
    }
    for &b in rest {
        h = (h ^ u64::from(b).wrapping_mul(A[4])).rotate_left(11).wrapping_mul(A[0]);
    }
    h = (h ^ (h >> 33)).wrapping_mul(A[1]);
    h = (h ^ (h >> 29)).wrapping_mul(A[2]);
    h ^ (h >> 32)
}

const B: [u32; 5] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1];

/// XXH32.
pub fn xxh32(bytes: &[u8], seed: u32) -> u32 {
    let mut stripes = bytes.chunks_exact(16);
    let mut h = if bytes.len() >= 16 {
        let start = [B[0].wrapping_add(B[1]), B[1], 0, 0u32.wrapping_sub(B[0])];
        let mut v = start.map(|s| seed.wrapping_add(s));
        for stripe in &mut stripes {
            for (v, lane) in v.iter_mut().zip(stripe.chunks_exact(4)) {
                *v = v.wrapping_add(word32(lane).wrapping_mul(B[1])).rotate_left(13).wrapping_mul(B[0]);
            }
        }
        v.iter().zip([1, 7, 12, 18]).fold(0u32, |h, (v, r)| h.wrapping_add(v.rotate_left(r)))
    } else {
        seed.wrapping_add(B[4])
    };
    h = h.wrapping_add(bytes.len() as u32);
    let mut words = stripes.remainder().chunks_exact(4);
    for w in &mut words {
        h = h.wrapping_add(word32(w).wrapping_mul(B[2])).rotate_left(17).wrapping_mul(B[3]);
    }
    for &b in words.remainder() {
        h = h.wrapping_add(u32::from(b).wrapping_mul(B[4])).rotate_left(11).wrapping_mul(B[0]);
    }
    h = (h ^ (h >> 15)).wrapping_mul(B[1]);
    h = (h ^ (h >> 13)).wrapping_mul(B[2]);
    h ^ (h >> 16)
}

/// MurmurHash3 for 64-bit machines, of 128 bits.
pub fn murmur3(bytes: &[u8], seed: u32) -> [u64; 2] {
    const C: [u64; 2] = [0x87C3_7B91_1142_53D5, 0x4CF5_AD43_2745_937F];
    let turn = |k: u64, i: usize| k.wrapping_mul(C[i]).rotate_left([31, 33][i]).wrapping_mul(C[1 - i]);
    let [mut a, mut b] = [u64::from(seed); 2];
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        a ^= turn(word64(block), 0);
        a = a.rotate_left(27).wrapping_add(b).wrapping_mul(5).wrapping_add(0x52DC_E729);
        b ^= turn(word64(&block[8..]), 1);
        b = b.rotate_left(31).wrapping_add(a).wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }
    let mut tail = [0; 16];
    let rest = blocks.remainder();
    tail[..rest.len()].copy_from_slice(rest);
    a ^= turn(word64(&tail), 0) ^ bytes.len() as u64;
    b ^= turn(word64(&tail[8..]), 1) ^ bytes.len() as u64;
    let mix = |mut k: u64| {
        k = (k ^ (k >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        k = (k ^ (k >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        k ^ (k >> 33)
    };
    a = a.wrapping_add(b);
    b = b.wrapping_add(a);
    (a, b) = (mix(a), mix(b));
    a = a.wrapping_add(b);
    [a, b.wrapping_add(a)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(xxh64(b"", 0), 0xEF46_DB37_51D8_E999);
        assert_eq!(xxh64(b"abc", 0), 0x44BC_2CF5_AD77_0999);
        assert_eq!(xxh32(b"", 0), 0x02CC_5D05);
        assert_eq!(xxh32(b"abc", 0), 0x32D1_53FF);
        assert_eq!(murmur3(b"hello", 0), [0xCBD8_A7B3_41BD_9B02, 0x5B1E_906A_48AE_1D19]);
    }
}
