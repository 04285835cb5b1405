//! Instances in memory: loaded by several threads, shuffled, and divided among training threads.

use super::batch::{assemble, Batch, Batches};
use super::block::{Block, Instance};
use super::desc::Desc;
use super::read::{Reading, Stop};
use super::source::Piece;
use oar_core::base::interrupt::check_interrupt;
use oar_core::base::{Error, Result};
use oar_core::ensure;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

/// An instance: its block, and its index there.
type Place = (u32, u32);

#[derive(Clone, Default)]
pub struct Memory {
    pub(crate) blocks: Arc<Vec<Block>>,
    pub(crate) order: Vec<Place>,
    /// For each used slot of the lines that were read: whether it holds floats.
    pub(crate) slots: Vec<bool>,
}

/// Random numbers for shuffles (splitmix64), seeded differently each time.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub fn new() -> SplitMix {
        let mut hash = std::collections::hash_map::RandomState::new().build_hasher();
        hash.write_u64(std::process::id().into());
        SplitMix(hash.finish())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

impl Memory {
    /// Reads all files with `threads` threads. Instances are in the order of files and lines, whatever the number of
    /// threads.
    pub fn load(desc: &Desc, reading: &Reading, threads: usize, stop: &Arc<Stop>) -> Result<Memory> {
        let mut pieces: Vec<Piece> = Vec::new();
        for file in 0..reading.files.len() {
            pieces.extend(reading.pieces(file, true)?);
        }
        let (next, found, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(None::<(usize, Error)>));
        let read_next = |text: &mut Vec<u8>| {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= pieces.len() || stop.asked() {
                return false;
            }
            let mut part = 0;
            let read = reading.read(desc, pieces[at], text, stop, &mut |mut block| {
                block.shrink(desc.width());
                if !block.is_empty() {
                    found.lock().push(((at, part), block));
                }
                part += 1;
                Ok(())
            });
            if let Err(e) = read {
                // Of several errors, that of the first file in order is kept; other threads stop.
                let mut failed = failed.lock();
                if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                    *failed = Some((at, e));
                }
                stop.ask();
            }
            true
        };
        let work = || {
            let mut text = Vec::new();
            while read_next(&mut text) {}
        };
        run_threads(threads.clamp(1, pieces.len().max(1)), &work, stop)?;
        if let Some((_, e)) = failed.into_inner() {
            return Err(e);
        }
        let mut found = found.into_inner();
        found.sort_by_key(|(at, _)| *at);
        Ok(Memory::from_blocks(desc, found.into_iter().map(|(_, block)| block).collect()))
    }

    pub(crate) fn from_blocks(desc: &Desc, blocks: Vec<Block>) -> Memory {
        let mut order = Vec::with_capacity(blocks.iter().map(Block::len).sum());
        for (b, block) in blocks.iter().enumerate() {
            order.extend((0..block.len() as u32).map(|i| (b as u32, i)));
        }
        Memory { blocks: Arc::new(blocks), order, slots: desc.used().map(|s| s.float).collect() }
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Checks that the slots are those that the instances were read with.
    pub fn check(&self, desc: &Desc) -> Result<()> {
        ensure!(
            self.is_empty() || desc.used().map(|s| s.float).eq(self.slots.iter().copied()),
            PreconditionNotMet,
            "the variables of the data set have changed since its instances were loaded: load them again"
        );
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub fn instances<'a>(&'a self, desc: &Desc) -> impl Iterator<Item = Instance<'a>> + Clone {
        let width = desc.width();
        self.order.iter().map(move |&(b, i)| self.blocks[b as usize].instance(i as usize, width))
    }

    pub fn shuffle(&mut self) {
        SplitMix::new().shuffle(&mut self.order);
    }

    /// Batches for `threads` threads; each gets a contiguous range of instances.
    pub fn batches(&self, desc: &Arc<Desc>, threads: usize, stop: &Arc<Stop>) -> Vec<Box<dyn Batches>> {
        let each = self.len().div_ceil(threads.max(1));
        (0..threads)
            .map(|t| {
                let places = self.order[(t * each).min(self.len())..((t + 1) * each).min(self.len())].to_vec();
                let (desc, blocks, stop) = (desc.clone(), self.blocks.clone(), stop.clone());
                Box::new(Dealt { desc, blocks, places, at: 0, stop }) as Box<dyn Batches>
            })
            .collect()
    }

    /// Number of integers in all blocks.
    pub fn integers(&self) -> usize {
        self.blocks.iter().map(|b| b.ints.len()).sum()
    }

    /// The distinct integers of all slots.
    pub fn distinct(&self) -> HashSet<u64> {
        self.blocks.iter().flat_map(|b| b.ints.iter().copied()).collect()
    }

    /// The instances as messages to `parts` trainers: distributed at random, or by id.
    pub fn deal(&self, desc: &Desc, parts: usize, by_id: bool) -> Vec<Vec<u8>> {
        let mut chance = SplitMix::new();
        let mut messages = vec![Vec::new(); parts];
        for instance in self.instances(desc) {
            let to = match by_id {
                true => (hash(instance.id.as_bytes()) % parts as u64) as usize,
                false => chance.below(parts),
            };
            write(&instance, &mut messages[to]);
        }
        messages
    }

    /// Replaces the instances by those of messages.
    pub fn take(desc: &Desc, messages: &[&[u8]]) -> Result<Memory> {
        let width = desc.width();
        let (mut blocks, mut block) = (Vec::new(), Block::default());
        for message in messages {
            let mut rest = *message;
            while !rest.is_empty() {
                let before = rest;
                let next = read(&mut rest, width, desc, &mut block);
                ensure!(
                    next.is_some(),
                    InvalidArgument,
                    "another trainer's instances do not fit this data set's {width} slots: do all trainers use the same?"
                );
                debug_assert!(rest.len() < before.len());
                if block.len() >= 1 << 14 {
                    blocks.push(std::mem::take(&mut block));
                }
            }
        }
        blocks.push(block);
        Ok(Memory::from_blocks(desc, blocks))
    }
}

/// Equal on every host (FNV-1a).
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn write(instance: &Instance, to: &mut Vec<u8>) {
    for text in [instance.id, instance.content] {
        to.extend((text.len() as u32).to_le_bytes());
        to.extend(text.as_bytes());
    }
    to.extend(instance.counts.iter().flat_map(|n| n.to_le_bytes()));
    to.extend(instance.ints.iter().flat_map(|v| v.to_le_bytes()));
    to.extend(instance.floats.iter().flat_map(|v| v.to_le_bytes()));
}

fn read(from: &mut &[u8], width: usize, desc: &Desc, block: &mut Block) -> Option<()> {
    fn part<'a>(from: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
        let (head, rest) = from.split_at_checked(n)?;
        *from = rest;
        Some(head)
    }
    fn number(from: &mut &[u8]) -> Option<u32> {
        Some(u32::from_le_bytes(part(from, 4)?.try_into().ok()?))
    }
    for texts in [&mut block.ids, &mut block.contents] {
        let n = number(from)?;
        texts.push(std::str::from_utf8(part(from, n as usize)?).ok()?.into());
    }
    let first = block.counts.len();
    for _ in 0..width {
        let n = number(from)?;
        block.counts.push(n);
    }
    for (i, slot) in desc.used().enumerate() {
        let n = block.counts[first + i] as usize;
        if slot.float {
            continue;
        }
        let own = part(from, n.checked_mul(8)?)?;
        block.ints.extend(own.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default())));
    }
    for (i, slot) in desc.used().enumerate() {
        let n = block.counts[first + i] as usize;
        if slot.float {
            let own = part(from, n.checked_mul(4)?)?;
            block.floats.extend(own.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap_or_default())));
        }
    }
    block.end_instance();
    Some(())
}

/// Runs `work` on threads; this thread checks for signals meanwhile.
fn run_threads(threads: usize, work: &(dyn Fn() + Sync), stop: &Arc<Stop>) -> Result<()> {
    // Disconnected once all threads have ended.
    let (sender, ended) = mpsc::channel::<Infallible>();
    std::thread::scope(|scope| {
        let started = (0..threads).map_while(|_| {
            let sender = sender.clone();
            let work = move || {
                work();
                drop(sender);
            };
            std::thread::Builder::new().name("paddle-feed".into()).spawn_scoped(scope, work).ok()
        });
        if started.count() == 0 {
            work();
        }
        drop(sender);
        let mut interrupted = Ok(());
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_millis(20)) {
            if interrupted.is_ok() {
                interrupted = check_interrupt();
                if interrupted.is_err() {
                    stop.ask();
                }
            }
        }
        interrupted
    })
}

struct Dealt {
    desc: Arc<Desc>,
    blocks: Arc<Vec<Block>>,
    places: Vec<Place>,
    at: usize,
    stop: Arc<Stop>,
}

impl Batches for Dealt {
    fn next(&mut self) -> Result<Option<Batch>> {
        let end = (self.at + self.desc.batch_size).min(self.places.len());
        if self.at == end || self.stop.asked() {
            return Ok(None);
        }
        let width = self.desc.width();
        let places = &self.places[self.at..end];
        let instances = places.iter().map(|&(b, i)| self.blocks[b as usize].instance(i as usize, width));
        let batch = assemble(&self.desc, instances)?;
        self.at = end;
        Ok(Some(batch))
    }
}
