//! Instances as they lie in memory: values one after the other, and how many each slot has.

/// Instances that were read together.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Values of the slots of integers, instance by instance, within them slot by slot.
    pub ints: Vec<u64>,
    pub floats: Vec<f32>,
    /// How many values the used slots of every instance have.
    pub counts: Vec<u32>,
    /// Where instances end in `ints` and `floats`.
    pub ends: Vec<(u32, u32)>,
    /// Ids and contents, where lines have them.
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

/// How many values a block may have: their places are 32 bits.
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
            counts: &self.counts[i * width..(i + 1) * width],
            id: self.ids.get(i).map_or("", |s| s),
            content: self.contents.get(i).map_or("", |s| s),
        }
    }

    /// The values of an instance have been added: it ends here.
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

    /// Is there room for the values of another instance?
    pub fn takes(&self, instance: &Instance) -> bool {
        self.ints.len() + instance.ints.len() < MOST && self.floats.len() + instance.floats.len() < MOST
    }

    /// For about as many values as a text of so many bytes has; what is not used goes back by `shrink`.
    pub fn for_text(bytes: usize) -> Block {
        let ints = Vec::with_capacity(bytes / 8);
        Block { ints, floats: Vec::with_capacity(bytes / 8), ..Block::default() }
    }

    pub fn shrink(&mut self) {
        self.ints.shrink_to_fit();
        self.floats.shrink_to_fit();
        self.counts.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}
