//! The description of a MultiSlot data set: its slots, and how they are assembled to batches.

use oar_core::base::Result;
use oar_core::ensure;

#[derive(Clone, Debug)]
pub struct Slot {
    pub name: String,
    /// float32; otherwise int64, read as uint64.
    pub float: bool,
    /// A dense slot becomes a tensor of `shape` (-1: the number of instances); a sparse one becomes a column with LoD.
    pub dense: bool,
    /// Slots that are not used are skipped.
    pub used: bool,
    pub shape: Vec<i64>,
    /// A line has a multiple of this many values for a dense slot (1 for sparse ones).
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
            // If every size is given, a batch has exactly that many values, whatever the number of lines.
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
    /// Drops zeros of sparse slots (an instance without other values gets a single zero). True for data in memory,
    /// false for queues.
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
