//! Instances in memory: all values consecutively, and the number of values per slot.

use oar_core::tensor::alloc::prefer_huge_for;

/// Instances that were read together.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Values of the integer slots: by instance, then by slot.
    pub ints: Vec<u64>,
    pub floats: Vec<f32>,
    /// Number of values per used slot of every instance; of the first only if all have the same (`shrink`).
    pub counts: Vec<u32>,
    /// Ends of the instances in `ints` and `floats`.
    pub ends: Vec<(u32, u32)>,
    /// Ids and contents, if the lines have them.
    pub ids: Vec<Box<str>>,
    pub contents: Vec<Box<str>>,
}

/// One instance of a block.
#[derive(Clone, Copy)]
pub struct Instance<'a> {
    pub ints: &'a [u64],
    pub floats: &'a [f32],
    pub counts: &'a [u32],
    pub id: &'a str,
    pub content: &'a str,
}

/// Limit of values in a block: offsets are 32 bits.
pub const MOST: usize = 1 << 31;

impl Block {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Instance `i`; `width` is the number of used slots.
    pub fn instance(&self, i: usize, width: usize) -> Instance<'_> {
        let (u, f) = if i == 0 { (0, 0) } else { self.ends[i - 1] };
        let (u_end, f_end) = self.ends[i];
        Instance {
            ints: &self.ints[u as usize..u_end as usize],
            floats: &self.floats[f as usize..f_end as usize],
            counts: if self.counts.len() == width { &self.counts } else { &self.counts[i * width..(i + 1) * width] },
            id: self.ids.get(i).map_or("", |s| s),
            content: self.contents.get(i).map_or("", |s| s),
        }
    }

    /// Ends an instance whose values were added.
    pub fn end_instance(&mut self) {
        self.ends.push((self.ints.len() as u32, self.floats.len() as u32));
    }

    pub fn push(&mut self, instance: &Instance) {
        self.ints.extend_from_slice(instance.ints);
        self.floats.extend_from_slice(instance.floats);
        self.counts.extend_from_slice(instance.counts);
        self.ids.push(instance.id.into());
        self.contents.push(instance.content.into());
        self.end_instance();
    }

    /// Whether another instance's values fit.
    pub fn takes(&self, instance: &Instance) -> bool {
        self.ints.len() + instance.ints.len() < MOST && self.floats.len() + instance.floats.len() < MOST
    }

    /// A block with capacity for a text of `bytes`; `shrink` frees what is unused.
    pub fn for_text(bytes: usize) -> Block {
        let mut ints = Vec::with_capacity(bytes / 8);
        prefer_huge_for(&mut ints);
        Block { ints, floats: Vec::with_capacity(bytes / 8), ..Block::default() }
    }

    /// Frees unused capacity, and the numbers of values where all instances have the same; none is added afterwards.
    pub fn shrink(&mut self, width: usize) {
        if width > 0 && self.counts.chunks_exact(width).all(|row| row == &self.counts[..width]) {
            self.counts.truncate(width);
        }
        self.ints.shrink_to_fit();
        self.floats.shrink_to_fit();
        self.counts.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}
