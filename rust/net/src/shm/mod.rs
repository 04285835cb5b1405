//! Shared memory between the ranks of a host, and the transport and collectives over it.

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
use map::{Map, MemorySender};

/// Bytes that a rank publishes per step of a collective. All slots of a few ranks fit the last-level cache.
const SLOT: usize = 512 << 10;
/// Longest message of a pair.
pub const CELL: usize = 64 << 10;
/// Messages in flight per pair and direction.
pub const CELLS: u32 = 2;

const PAGE: usize = 4096;
/// Per rank: flags on separate cache lines, then the cores it may run on.
const LINE: usize = 512;
pub const FLAG: usize = 0;
pub const FLAG_SLEEPERS: usize = 64;
pub const BELL: usize = 128;
pub const BELL_SLEEPERS: usize = 192;
const CORES: usize = 256;
const CORE_WORDS: usize = 32;
/// Words used by `probe`.
const PROBE: usize = 384;
const PROBE_TIME: usize = 448;

/// A cell: whether it has a fingerprint, the fingerprint, the length, the bytes.
const CELL_HEAD: usize = 256;
/// A pair: words `head` and `tail` on separate cache lines, then the cells.
const PAIR_HEAD: usize = 128;

/// Offsets within the segment.
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

    /// Offset of a slot: the fingerprint, then the data.
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
    /// Number of cores in the union of the ranks' affinity masks.
    pub cores: usize,
    /// Number of bytes from which streaming stores are faster.
    pub stream_from: usize,
    /// Streaming stores are more than twice as fast: data for other ranks should be copied through slots.
    pub prefers_copies: bool,
}

/// Creates or joins a mapping of `len` bytes for `world` local ranks, of which this is `me`. Rank 0 creates it and
/// publishes its name in the store under `key`. On return all ranks have mapped it and run `first` on it.
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
        let sender = MemorySender::new()?;
        first(&map);
        store.set(key, &sender.name, deadline.left())?;
        sender.send(&fd, world - 1, deadline)?;
        (map, fd)
    } else {
        let name = store.get(key, deadline.left())?;
        let fd = map::receive(&name, deadline)?;
        let map = Map::from_fd(&fd, len)?;
        first(&map);
        (map, fd)
    };
    store.barrier(key, world, deadline.left())?;
    Ok((map, fd))
}

/// Creates or joins the segment of `world` local ranks, of which this is `me`.
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
    let (stream_from, prefers_copies) = probe::writing(&map, &layout, me, cores);
    Ok(Arc::new(Segment { map, layout, cores, stream_from, prefers_copies }))
}

fn write_cores(map: &Map, layout: &Layout, me: usize) {
    let cores = crate::os::processors(32 * CORE_WORDS);
    if cores.is_empty() {
        return;
    }
    for w in 0..CORE_WORDS {
        let bits = cores.iter().filter(|&c| c / 32 == w).fold(0u32, |bits, c| bits | 1 << (c % 32));
        map.word(layout.line(me) + CORES + 4 * w).store(bits, std::sync::atomic::Ordering::Release);
    }
}
