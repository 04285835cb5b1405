//! Fingerprint of an operation: a fixed number of bytes, sent before the data and compared by the receiver.

use std::fmt::Write as _;

use crate::dtype::{Dtype, ReduceOp};

/// Kinds of operations; the order is part of the wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CollectiveKind {
    Barrier = 1,
    AllReduce,
    Reduce,
    Broadcast,
    AllGather,
    ReduceScatter,
    Scatter,
    Gather,
    AllToAll,
    /// `send` on one rank and `recv` on the other: one kind, since both ends must agree.
    SendRecv,
}

impl CollectiveKind {
    const NAMES: [&'static str; 11] = [
        "nothing",
        "barrier",
        "all_reduce",
        "reduce",
        "broadcast",
        "all_gather",
        "reduce_scatter",
        "scatter",
        "gather",
        "all_to_all",
        "send/recv",
    ];

    pub fn name(self) -> &'static str {
        CollectiveKind::NAMES[self as usize]
    }

    pub fn reduces(self) -> bool {
        matches!(self, CollectiveKind::AllReduce | CollectiveKind::Reduce | CollectiveKind::ReduceScatter)
    }

    pub fn has_root(self) -> bool {
        matches!(
            self,
            CollectiveKind::Reduce | CollectiveKind::Broadcast | CollectiveKind::Scatter | CollectiveKind::Gather
        )
    }
}

/// Bytes of an encoded fingerprint.
pub const BYTES: usize = 128;
const MAX_DIMS: usize = 10;

/// Operation, dtype, shape, group, sequence number, reduction and root, encoded.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Fingerprint(pub [u8; BYTES]);

impl Fingerprint {
    pub const NONE: Fingerprint = Fingerprint([0; BYTES]);

    /// `root` is the root of the collective; for send/recv it is sender << 32 | receiver.
    pub fn new(
        kind: CollectiveKind,
        dtype: Dtype,
        op: ReduceOp,
        root: u64,
        group: u64,
        seq: u64,
        shape: &[u64],
    ) -> Fingerprint {
        let mut b = [0u8; BYTES];
        b[0] = kind as u8;
        b[1] = dtype as u8;
        b[2] = if kind.reduces() { op as u8 } else { 0 };
        b[3] = shape.len().min(255) as u8;
        b[8..16].copy_from_slice(&group.to_le_bytes());
        b[16..24].copy_from_slice(&seq.to_le_bytes());
        b[24..32].copy_from_slice(&root.to_le_bytes());
        // A shape too long for the block keeps its first dimensions and a digest of the rest.
        for (i, d) in shape.iter().take(MAX_DIMS).enumerate() {
            b[32 + 8 * i..40 + 8 * i].copy_from_slice(&d.to_le_bytes());
        }
        let rest =
            shape.iter().skip(MAX_DIMS).fold(0u64, |h, d| (h ^ d).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23));
        b[112..120].copy_from_slice(&rest.to_le_bytes());
        Fingerprint(b)
    }

    pub fn from_slice(bytes: &[u8]) -> Option<Fingerprint> {
        Some(Fingerprint(bytes.try_into().ok()?))
    }

    fn word(&self, at: usize) -> u64 {
        let mut w = [0; 8];
        w.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(w)
    }

    pub fn group(&self) -> u64 {
        self.word(8)
    }

    pub fn seq(&self) -> u64 {
        self.word(16)
    }

    pub fn is_none(&self) -> bool {
        self.0[0] == 0
    }

    pub fn is_point_to_point(&self) -> bool {
        self.0[0] == CollectiveKind::SendRecv as u8
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.0[0] as usize;
        let Some(name) = CollectiveKind::NAMES.get(kind) else {
            return write!(f, "an unknown operation ({kind})");
        };
        if kind == 0 {
            return f.write_str("nothing");
        }
        let mut s = String::new();
        if kind != CollectiveKind::Barrier as usize {
            let dtype = Dtype::from_number(self.0[1]).map_or("an unknown type", Dtype::name);
            let _ = write!(s, "{dtype}[");
            let dims = self.0[3] as usize;
            for i in 0..dims.min(MAX_DIMS) {
                let _ = write!(s, "{}{}", if i > 0 { ", " } else { "" }, self.word(32 + 8 * i));
            }
            s.push_str(if dims > MAX_DIMS { ", ...]" } else { "]" });
        }
        if [CollectiveKind::AllReduce, CollectiveKind::Reduce, CollectiveKind::ReduceScatter]
            .iter()
            .any(|k| *k as usize == kind)
        {
            let _ = write!(s, ", {}", ReduceOp::from_number(self.0[2]).map_or("unknown", ReduceOp::name));
        }
        let root = self.word(24);
        if kind == CollectiveKind::SendRecv as usize {
            let _ = write!(s, ", {} to {}", root >> 32, root & 0xFFFF_FFFF);
        } else if [CollectiveKind::Reduce, CollectiveKind::Broadcast, CollectiveKind::Scatter, CollectiveKind::Gather]
            .iter()
            .any(|k| *k as usize == kind)
        {
            let _ = write!(s, ", root {root}");
        }
        write!(f, "{name}({s}) number {} of group {:08x}", self.seq(), self.group() as u32)
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
