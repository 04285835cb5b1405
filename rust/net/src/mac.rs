//! Message authentication codes of frames: POLYVAL (RFC 8452) of header and payload, masked with HMAC-SHA256 of the
//! frame's number (one of each two numbers: it has 32 bytes). GMAC is the same construction with AES for the mask (Wegman and Carter 1981).
//!
//! A key serves one direction of one connection, so that a frame of another connection, of the other direction or of
//! another place in the order is refused.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac as _};
use polyval::universal_hash::UniversalHash;
use polyval::Polyval;
use sha2::Sha256;

use crate::codec::HEADER;

/// Bytes of a code.
pub const TAG: usize = 16;
/// Powers of the hash key, as many as blocks share a reduction, which waits for the one before.
const POWERS: usize = 64;

type Block = [u8; 16];

/// The key of POLYVAL: H^64 to H^1.
pub struct Hash([Block; POWERS]);

/// The hash of a payload, from which the code of its frame follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(Block);

/// The key of one direction of a connection.
#[derive(Clone)]
pub struct Mac {
    hash: Arc<Hash>,
    mask: Hmac<Sha256>,
}

/// The keys of a connection, for frames that are sent and frames that are received.
#[derive(Clone, Debug)]
pub struct Seal {
    pub out: Mac,
    pub incoming: Mac,
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mac")
    }
}

/// HMAC-SHA256 with a key of any length.
pub(crate) fn keyed(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    #[allow(clippy::expect_used)] // HMAC takes keys of every length.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes any key");
    parts.iter().for_each(|p| mac.update(p));
    mac
}

fn xor(a: Block, b: Block) -> Block {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}

/// `bytes`, padded with zeros.
fn padded(bytes: &[u8]) -> Block {
    let mut block = [0; 16];
    block[..bytes.len()].copy_from_slice(bytes);
    block
}

impl Hash {
    pub fn new(key: &[u8]) -> Hash {
        let digest = keyed(key, &[b"polyval"]).finalize().into_bytes();
        let hash_key = padded(&digest[..16]);
        let mut powers = [hash_key; POWERS];
        for i in (0..POWERS - 1).rev() {
            powers[i] = portable(hash_key, [0; 16], &powers[i + 1]);
        }
        Hash(powers)
    }

    /// The hash so far, continued over `bytes`, which are padded with zeros to whole blocks.
    fn on(&self, state: Block, bytes: &[u8]) -> Block {
        #[cfg(target_arch = "x86_64")]
        if let Some(state) = clmul::hash(&self.0, state, bytes) {
            return state;
        }
        portable(self.0[POWERS - 1], state, bytes)
    }

    pub fn digest(&self, payload: &[u8]) -> Digest {
        Digest(self.on([0; 16], payload))
    }
}

impl Mac {
    pub fn new(key: &[u8]) -> Mac {
        Mac { hash: Arc::new(Hash::new(key)), mask: keyed(key, &[]) }
    }

    /// The masks of this key over another hash, which several connections share: a digest that was received serves for
    /// sending. Each mask is used once, which is all that the construction asks of a shared hash key.
    pub fn over(self, hash: &Arc<Hash>) -> Mac {
        Mac { hash: hash.clone(), ..self }
    }

    /// The masks of frames `2 * pair` and `2 * pair + 1`.
    fn masks(&self, pair: u64) -> [Block; 2] {
        let mut mask = self.mask.clone();
        mask.update(b"frames");
        mask.update(&pair.to_le_bytes());
        let both = mask.finalize().into_bytes();
        [padded(&both[..16]), padded(&both[16..])]
    }

    /// The code of frame `seq`. `header` holds the payload's length.
    pub fn tag(&self, seq: u64, header: &[u8; HEADER], payload: &[u8]) -> [u8; TAG] {
        let hash = self.hash.on(self.hash.digest(payload).0, header);
        xor(hash, self.masks(seq / 2)[(seq % 2) as usize])
    }

    /// Whether `tag` is the code of frame `seq`; takes the same time for all wrong codes.
    pub fn verify(&self, seq: u64, header: &[u8; HEADER], payload: &[u8], tag: &[u8; TAG]) -> bool {
        equal(self.tag(seq, header, payload), *tag)
    }
}

fn equal(a: Block, b: Block) -> bool {
    std::hint::black_box(xor(a, b)) == [0; TAG]
}

/// A key whose masks are computed before their frames, while a peer is waited for: a mask takes as long as the hash of
/// 10 KB.
pub struct Ahead {
    mac: Mac,
    pair: u64,
    masks: [Block; 2],
}

impl Ahead {
    pub fn new(mac: Mac) -> Ahead {
        Ahead { masks: mac.masks(0), pair: 0, mac }
    }

    /// Computes the mask of frame `seq`.
    pub fn prepare(&mut self, seq: u64) {
        if self.pair != seq / 2 {
            self.pair = seq / 2;
            self.masks = self.mac.masks(self.pair);
        }
    }

    /// The code of frame `seq`, of a payload whose digest is known.
    pub fn tag(&mut self, seq: u64, header: &[u8; HEADER], payload: Digest) -> [u8; TAG] {
        self.prepare(seq);
        xor(self.mac.hash.on(payload.0, header), self.masks[(seq % 2) as usize])
    }

    /// As `Mac::verify`.
    pub fn verify(&mut self, seq: u64, header: &[u8; HEADER], payload: Digest, tag: &[u8; TAG]) -> bool {
        equal(self.tag(seq, header, payload), *tag)
    }
}

fn portable(key: Block, state: Block, bytes: &[u8]) -> Block {
    if bytes.is_empty() {
        return state;
    }
    let mut hash = Polyval::new(&key.into());
    let (first, rest) = bytes.split_at(bytes.len().min(16));
    hash.update_padded(&xor(state, padded(first)));
    hash.update_padded(rest);
    hash.finalize().into()
}

/// POLYVAL by carry-less multiplication: products of up to 64 blocks with powers of the key share one reduction.
#[cfg(target_arch = "x86_64")]
mod clmul {
    use super::{padded, Block, POWERS};
    use std::arch::x86_64::*;

    /// `None` on a processor without the instructions.
    pub fn hash(powers: &[Block; POWERS], state: Block, bytes: &[u8]) -> Option<Block> {
        if !is_x86_feature_detected!("pclmulqdq") || !is_x86_feature_detected!("sse4.1") {
            return None;
        }
        let mut state = state;
        let mut rest = bytes;
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq") {
            let (whole, tail) = bytes.split_at(bytes.len() - bytes.len() % 256);
            // SAFETY: the processor has the instructions.
            (state, rest) = (unsafe { wide(powers, state, whole) }, tail);
        }
        // SAFETY: the processor has the instructions.
        Some(unsafe { narrow(powers, state, rest) })
    }

    fn load(block: &Block) -> __m128i {
        // SAFETY: a block has 16 bytes; SSE2 is part of x86-64.
        unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
    }

    fn store(x: __m128i) -> Block {
        let mut block = [0; 16];
        // SAFETY: a block has 16 bytes; SSE2 is part of x86-64.
        unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), x) };
        block
    }

    /// A product of 256 bits modulo x^128 + x^127 + x^126 + x^121 + 1, times x^-128.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn reduce(low: __m128i, middle: __m128i, high: __m128i) -> __m128i {
        let (low, high) =
            (_mm_xor_si128(low, _mm_slli_si128(middle, 8)), _mm_xor_si128(high, _mm_srli_si128(middle, 8)));
        let polynomial = _mm_set_epi64x(0xc200_0000_0000_0000_u64 as i64, 1);
        let fold = |x| _mm_xor_si128(_mm_shuffle_epi32(x, 0x4e), _mm_clmulepi64_si128(x, polynomial, 0x10));
        _mm_xor_si128(high, fold(fold(low)))
    }

    /// Whole blocks and the padded last one.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn narrow(powers: &[Block; POWERS], state: Block, bytes: &[u8]) -> Block {
        let mut state = load(&state);
        for group in bytes.chunks(16 * POWERS) {
            let (mut low, mut middle, mut high) = (_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128());
            let keys = &powers[POWERS - group.len().div_ceil(16)..];
            for (block, key) in group.chunks(16).zip(keys) {
                let whole = block.first_chunk().map_or_else(|| load(&padded(block)), load);
                let (x, key) = (_mm_xor_si128(whole, state), load(key));
                state = _mm_setzero_si128();
                low = _mm_xor_si128(low, _mm_clmulepi64_si128(x, key, 0x00));
                high = _mm_xor_si128(high, _mm_clmulepi64_si128(x, key, 0x11));
                let (a, b) = (_mm_clmulepi64_si128(x, key, 0x01), _mm_clmulepi64_si128(x, key, 0x10));
                middle = _mm_xor_si128(middle, _mm_xor_si128(a, b));
            }
            state = reduce(low, middle, high);
        }
        store(state)
    }

    /// Multiples of 16 blocks.
    #[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.1")]
    fn wide(powers: &[Block; POWERS], state: Block, bytes: &[u8]) -> Block {
        let add = |x| {
            let half = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
            _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1))
        };
        let mut state = load(&state);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (group, after) = rest.split_at(if rest.len() < 16 * POWERS { 256 } else { 16 * POWERS });
            rest = after;
            let keys = powers[POWERS - group.len() / 16..].chunks_exact(4);
            let zero = _mm512_setzero_si512();
            let (mut low, mut a, mut b, mut high) = (zero, zero, zero, zero);
            let mut carried = _mm512_zextsi128_si512(state);
            for (blocks, key) in group.chunks_exact(64).zip(keys) {
                // SAFETY: the chunk has four blocks of 16 bytes.
                let key = unsafe { _mm512_loadu_si512(key.as_ptr().cast()) };
                // SAFETY: the chunk has 64 bytes.
                let x = _mm512_xor_si512(unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) }, carried);
                carried = zero;
                low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128(x, key, 0x00));
                high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128(x, key, 0x11));
                a = _mm512_xor_si512(a, _mm512_clmulepi64_epi128(x, key, 0x01));
                b = _mm512_xor_si512(b, _mm512_clmulepi64_epi128(x, key, 0x10));
            }
            state = reduce(add(low), add(_mm512_xor_si512(a, b)), add(high));
        }
        store(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8452, appendix A.
    #[test]
    fn polyval_of_the_standard() {
        let hex = |text: &str| -> Vec<u8> { crate::codec::from_hex(text).unwrap() };
        let key = padded(&hex("25629347589242761d31f826ba4b757b"));
        let text = hex("4f4f95668c83dfb6401762bb2d01a262d1a24ddd2721d006bbe45f20d3c9f362");
        assert_eq!(portable(key, [0; 16], &text)[..], hex("f7a3b47b846119fae5b7866cf5e5b77e")[..]);
    }

    #[test]
    fn kernels_agree() {
        let hash = Hash::new(b"a key");
        let bytes: Vec<u8> = (0..2000).map(|i| (i * 131 + i / 7) as u8).collect();
        for n in (0..300).chain([511, 512, 513, 768, 1023, 1024, 1025, 1279, 1280, 1536, 1999, 2000]) {
            let state = padded(&bytes[n % 50..][..16]);
            assert_eq!(hash.on(state, &bytes[..n]), portable(hash.0[POWERS - 1], state, &bytes[..n]), "{n} bytes");
        }
    }

    #[test]
    fn connections_share_digests_and_not_codes() {
        let (hash, header, payload) = (Arc::new(Hash::new(b"a job")), [7; HEADER], [5; 300]);
        let digest = hash.digest(&payload);
        let [a, b] = [b"one", b"two"].map(|key| Mac::new(key).over(&hash));
        let (mut one, mut two) = (Ahead::new(a.clone()), Ahead::new(b));
        for seq in [0, 1, 2, 7, 6, 1 << 40] {
            let tag = one.tag(seq, &header, digest);
            assert!(a.verify(seq, &header, &payload, &tag) && one.verify(seq, &header, digest, &tag));
            assert!(!two.verify(seq, &header, digest, &tag) && !one.verify(seq ^ 1, &header, digest, &tag));
        }
    }

    #[test]
    fn every_part_counts() {
        let (mac, header, payload) = (Mac::new(b"a key"), [7; HEADER], [5; 300]);
        let tag = mac.tag(3, &header, &payload);
        assert!(mac.verify(3, &header, &payload, &tag));
        assert!(!mac.verify(4, &header, &payload, &tag) && !Mac::new(b"another").verify(3, &header, &payload, &tag));
        for bit in 0..8 * payload.len() {
            let mut other = payload;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!mac.verify(3, &header, &other, &tag));
        }
        for bit in 0..8 * HEADER {
            let mut other = header;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!mac.verify(3, &other, &payload, &tag));
        }
    }
}
