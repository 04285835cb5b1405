//! Ranks of one host: memory they share, and what they do with it.

pub(crate) mod area;
pub(crate) mod local;
pub mod map;
pub(crate) mod pair;
mod probe;
pub(crate) mod stream;
pub mod symmetric;
pub mod wait;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::error::Result;
use crate::fingerprint::BYTES;
use crate::socket::Deadline;
use crate::store::Store;
use map::{Giver, Map};

/// Bytes that a rank shows the others per step of a collective. All slots of a few ranks stay in the last-level cache.
const SLOT: usize = 512 << 10;
/// Longest message of a pair.
pub const CELL: usize = 64 << 10;
/// Messages under way per pair and direction.
pub const CELLS: u32 = 2;

const PAGE: usize = 4096;
/// Per rank: words on cache lines of their own, then the cores it may run on.
const LINE: usize = 512;
pub const FLAG: usize = 0;
pub const FLAG_SLEEPERS: usize = 64;
pub const BELL: usize = 128;
pub const BELL_SLEEPERS: usize = 192;
const CORES: usize = 256;
const CORE_WORDS: usize = 32;
/// What `probe` uses.
const PROBE: usize = 384;
const PROBE_TIME: usize = 448;

/// A cell: whether a fingerprint goes first, the fingerprint, the length, the bytes.
const CELL_HEAD: usize = 256;
/// A pair: words `head` and `tail` on lines of their own, then the cells.
const PAIR_HEAD: usize = 128;

/// Where everything lies.
#[derive(Clone, Copy)]
pub struct Layout {
    pub world: usize,
}

impl Layout {
    pub fn line(&self, rank: usize) -> usize {
        rank * LINE
    }

    fn slots(&self) -> usize {
        (self.world * LINE).next_multiple_of(PAGE)
    }

    fn slot_size(&self) -> usize {
        (SLOT + BYTES).next_multiple_of(PAGE)
    }

    /// The fingerprint of a slot; the data follows.
    pub fn slot(&self, rank: usize, odd: usize) -> usize {
        self.slots() + (2 * rank + odd) * self.slot_size()
    }

    pub fn slot_bytes(&self) -> usize {
        SLOT
    }

    fn pair_size(&self) -> usize {
        (PAIR_HEAD + CELLS as usize * (CELL_HEAD + CELL)).next_multiple_of(PAGE)
    }

    pub fn pair(&self, from: usize, to: usize) -> usize {
        self.slot(self.world, 0) + (from * self.world + to) * self.pair_size()
    }

    pub fn cell(&self, from: usize, to: usize, number: u32) -> usize {
        self.pair(from, to) + PAIR_HEAD + (number % CELLS) as usize * (CELL_HEAD + CELL)
    }

    fn total(&self) -> usize {
        self.pair(self.world, 0)
    }
}

/// The shared memory of one host's ranks in one group.
pub struct Segment {
    pub map: Map,
    pub layout: Layout,
    /// Cores that the ranks may run on, all together.
    pub cores: usize,
    /// From how many bytes on writing past the caches is quicker.
    pub stream_from: usize,
    /// It is much quicker: what others read had better be copied.
    pub apart: bool,
}

/// Make or join a mapping of `len` bytes of `world` local ranks, of which this is `me`. The first makes it and tells
/// through the store under `key`. All have it and have done `first` with it when this returns.
fn mapped(
    store: &Store,
    key: &str,
    (me, world): (usize, usize),
    len: usize,
    deadline: &Deadline<'_>,
    first: impl FnOnce(&Map),
) -> Result<(Map, OwnedFd)> {
    let (map, fd) = if me == 0 {
        let (map, fd) = Map::create(len)?;
        let giver = Giver::new()?;
        first(&map);
        store.set(key, &giver.name, deadline.left())?;
        giver.give(&fd, world - 1, deadline)?;
        (map, fd)
    } else {
        let name = store.get(key, deadline.left())?;
        let fd = map::take(&name, deadline)?;
        let map = Map::of(&fd, len)?;
        first(&map);
        (map, fd)
    };
    store.barrier(key, world, deadline.left())?;
    Ok((map, fd))
}

/// Make or join the segment of `world` local ranks, of which this is `me`.
pub fn meet(store: &Store, key: &str, me: usize, world: usize, deadline: &Deadline<'_>) -> Result<Arc<Segment>> {
    let layout = Layout { world };
    let (map, _) = mapped(store, key, (me, world), layout.total(), deadline, |map| write_cores(map, &layout, me))?;
    let mut cores = 0;
    for w in 0..CORE_WORDS {
        let all = (0..world).fold(0, |all, r| {
            all | map.word(layout.line(r) + CORES + 4 * w).load(std::sync::atomic::Ordering::Acquire)
        });
        cores += all.count_ones() as usize;
    }
    let (stream_from, apart) = probe::writing(&map, &layout, me, cores);
    Ok(Arc::new(Segment { map, layout, cores, stream_from, apart }))
}

fn write_cores(map: &Map, layout: &Layout, me: usize) {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return };
    for w in 0..CORE_WORDS {
        let bits = (0..32).filter(|b| set.is_set(32 * w + b)).fold(0u32, |bits, b| bits | 1 << b);
        map.word(layout.line(me) + CORES + 4 * w).store(bits, std::sync::atomic::Ordering::Release);
    }
}
