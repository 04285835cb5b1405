//! Transformations of instances in memory: merging by id, and shuffling the values of slots.

use super::block::{Block, Instance};
use super::desc::Desc;
use super::memory::{Memory, SplitMix};
use super::parse::is_zero;
use oar_core::base::Result;
use oar_core::ensure;

/// An instance group that merging dropped: the id, its number of instances, the reason.
pub type Dropped = (String, usize, String);

/// The values of an instance, by slot.
struct Parts<'a> {
    ints: Vec<&'a [u64]>,
    floats: Vec<&'a [f32]>,
}

fn parts<'a>(desc: &Desc, instance: &Instance<'a>) -> Parts<'a> {
    let (mut ints, mut floats) = (instance.ints, instance.floats);
    let mut parts = Parts { ints: Vec::new(), floats: Vec::new() };
    for (slot, &n) in desc.used().zip(instance.counts) {
        let (mut own_ints, mut own_floats): (&[u64], &[f32]) = (&[], &[]);
        if slot.float {
            (own_floats, floats) = floats.split_at(n as usize);
        } else {
            (own_ints, ints) = ints.split_at(n as usize);
        }
        parts.ints.push(own_ints);
        parts.floats.push(own_floats);
    }
    parts
}

/// Builds blocks from single instances.
#[derive(Default)]
struct Made {
    done: Vec<Block>,
    block: Block,
}

impl Made {
    fn push(&mut self, parts: &Parts, id: &str, content: &str) {
        let (ints, floats) = (parts.ints.concat(), parts.floats.concat());
        let counts: Vec<u32> = parts.ints.iter().zip(&parts.floats).map(|(i, f)| (i.len() + f.len()) as u32).collect();
        let instance = Instance { ints: &ints, floats: &floats, counts: &counts, id, content };
        if self.block.len() >= 1 << 14 || !self.block.takes(&instance) {
            self.done.push(std::mem::take(&mut self.block));
        }
        self.block.push(&instance);
    }

    fn memory(mut self, desc: &Desc) -> Memory {
        self.done.push(self.block);
        Memory::from_blocks(desc, self.done)
    }
}

impl Memory {
    /// Merges the instances of one id. For a dense slot the last values that are not all zeros are kept. Dropped are
    /// ids without exactly `size` instances (if `size` is positive), and ids of which two instances have values in one
    /// sparse slot.
    pub fn merged(&self, desc: &Desc, size: usize) -> (Memory, Vec<Dropped>) {
        let mut all: Vec<Instance> = self.instances(desc).collect();
        all.sort_by(|a, b| a.id.cmp(b.id));
        let (mut made, mut dropped) = (Made::default(), Vec::new());
        for group in all.chunk_by(|a, b| a.id == b.id) {
            let mut drop = |why: String| dropped.push((group[0].id.to_string(), group.len(), why));
            if size > 0 && group.len() != size {
                drop(format!("there are {} of them, not {size}", group.len()));
                continue;
            }
            match merge(desc, group) {
                Ok(parts) => made.push(&parts, group[0].id, group[0].content),
                Err(slot) => drop(format!("more than one has values in slot '{slot}'")),
            }
        }
        let mut memory = made.memory(desc);
        memory.shuffle();
        (memory, dropped)
    }

    /// Replaces the values of the named slots, in every instance, by those of another one drawn from `candidates`
    /// earlier instances. Draws read from `self`, so that slots are shuffled independently.
    pub fn slots_shuffled(&self, desc: &Desc, slots: &[String], candidates: usize) -> Result<Memory> {
        for name in slots {
            let slot = desc.used().find(|s| s.name == *name);
            ensure!(slot.is_some(), InvalidArgument, "slots_shuffle: the data set has no slot '{name}' in use");
            ensure!(
                slot.is_some_and(|s| !s.float),
                InvalidArgument,
                "slots_shuffle: slot '{name}' has floating-point values; only slots of integers are shuffled"
            );
        }
        ensure!(
            candidates > 0,
            InvalidArgument,
            "slots_shuffle: the number of candidates in set_fea_eval must be positive, got {candidates}"
        );
        let swapped: Vec<bool> = desc.used().map(|s| slots.contains(&s.name)).collect();
        let (mut chance, mut made) = (SplitMix::new(), Made::default());
        let mut kept: Vec<Instance> = Vec::new();
        for (seen, instance) in self.instances(desc).enumerate() {
            // Reservoir sampling: every earlier instance is kept with equal probability.
            if kept.len() < candidates {
                kept.push(instance);
            } else if let Some(place) = kept.get_mut(chance.below(seen + 1)) {
                *place = instance;
            }
            let other = parts(desc, &kept[chance.below(kept.len())]);
            let mut own = parts(desc, &instance);
            for (i, _) in swapped.iter().enumerate().filter(|(_, &s)| s) {
                own.ints[i] = other.ints[i];
            }
            made.push(&own, instance.id, instance.content);
        }
        Ok(made.memory(desc))
    }
}

/// The merged values, or the name of a slot for which two instances have values.
fn merge<'a>(desc: &'a Desc, group: &[Instance<'a>]) -> std::result::Result<Parts<'a>, &'a str> {
    let width = desc.width();
    let mut merged = Parts { ints: vec![&[]; width], floats: vec![&[]; width] };
    for instance in group {
        let own = parts(desc, instance);
        for (i, slot) in desc.used().enumerate() {
            let (ints, floats) = (own.ints[i], own.floats[i]);
            let had = merged.ints[i].len() + merged.floats[i].len() > 0;
            let says = ints.iter().any(|&v| v != 0) || floats.iter().any(|&v| !is_zero(v));
            let some = !ints.is_empty() || !floats.is_empty();
            if !slot.dense && had && some {
                return Err(&slot.name);
            }
            let better = if slot.dense { says } else { some };
            if !had || better {
                (merged.ints[i], merged.floats[i]) = (ints, floats);
            }
        }
    }
    Ok(merged)
}
