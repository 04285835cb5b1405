//! The description of a MultiSlot data set: the slots of a line, and how a batch is made of them.

use oar_core::base::Result;
use oar_core::ensure;

#[derive(Clone, Debug)]
pub struct Slot {
    pub name: String,
    /// float32; else int64, read as uint64.
    pub float: bool,
    /// A dense slot becomes a tensor of `shape` (-1: as many as there are), another one column and a LoD.
    pub dense: bool,
    /// Slots that are not used are skipped.
    pub used: bool,
    pub shape: Vec<i64>,
    /// For a dense slot: a line has a multiple of so many values (1 for others).
    pub each: usize,
}

impl Slot {
    pub fn new(name: String, float: bool, dense: bool, used: bool, shape: Vec<i64>) -> Result<Slot> {
        let mut each = 1_usize;
        if dense {
            let open = shape.iter().filter(|&&d| d <= 0).count();
            ensure!(
                open <= 1 && shape.iter().all(|&d| d > 0 || d == -1),
                InvalidArgument,
                "the dense slot '{name}' has shape {shape:?}: one size at most may be open (-1), the others are positive"
            );
            let sizes = shape.iter().filter(|&&d| d > 0).try_fold(1_i64, |n, &d| n.checked_mul(d));
            let fits = sizes.and_then(|n| usize::try_from(n).ok()).filter(|&n| n <= 1 << 40);
            each = fits.ok_or_else(|| {
                oar_core::err!(InvalidArgument, "the dense slot '{name}' has shape {shape:?}, which is too large")
            })?;
            // With every size given a batch has just that many values, whatever the lines have.
            if open == 0 {
                each = 1;
            }
        }
        Ok(Slot { name, float, dense, used, shape, each })
    }
}

#[derive(Clone, Debug)]
pub struct Desc {
    pub slots: Vec<Slot>,
    pub batch_size: usize,
    /// A line is a batch, not an instance: its sparse slots have instances of one value each.
    pub whole_batches: bool,
    /// Zeros of sparse slots stand for nothing (an instance left without values gets a single zero). Data in memory are
    /// read so, those of a queue are not.
    pub drop_zeros: bool,
    /// Lines begin with `1 <id>`, then `1 <content>`.
    pub ids: bool,
    pub contents: bool,
}

impl Desc {
    pub fn new(
        slots: Vec<Slot>,
        batch_size: i64,
        whole_batches: bool,
        drop_zeros: bool,
        ids: bool,
        contents: bool,
    ) -> Result<Desc> {
        ensure!(batch_size > 0, InvalidArgument, "the batch size of a data set is positive, got {batch_size}");
        ensure!(slots.len() <= 1 << 16, InvalidArgument, "a data set has 65536 slots at most, got {}", slots.len());
        Ok(Desc { slots, batch_size: batch_size as usize, whole_batches, drop_zeros, ids, contents })
    }

    pub fn used(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|s| s.used)
    }

    pub fn width(&self) -> usize {
        self.used().count()
    }
}
