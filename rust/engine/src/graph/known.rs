//! What a plan knows of its runs on a device, and the graph that it has of them (`captured`).

use super::var::Var;
use oar_core::base::{DType, Dims};
use oar_core::op::backend::{Backend, Graph};
use oar_core::tensor::Tensor;
use parking_lot::Mutex;
use std::sync::Arc;

/// Plain runs with feeds of the same sizes before one is kept: the first ones record recipes and create variables.
const PLAIN: u32 = 2;
/// A graph that was started less often than this was in vain; so many attempts in vain in a row are the last.
const WORTH: u32 = 8;
const MOST_IN_VAIN: u32 = 3;

pub type Sizes = Vec<(Dims, DType)>;

/// What a plan knows of its runs on a device.
#[derive(Default)]
pub struct Captured(pub Mutex<Known>);

#[derive(Default)]
pub struct Known {
    pub sizes: Sizes,
    /// Plain runs with feeds of these sizes.
    pub runs: u32,
    pub in_vain: u32,
    pub never: bool,
    pub kept: Option<Kept>,
}

impl Captured {
    /// True if a run's feeds are to be given to `run`.
    pub fn is_watched(&self) -> bool {
        self.0.try_lock().is_some_and(|known| !known.never)
    }
}

/// A graph and the memory that it was captured with.
pub struct Kept {
    pub graph: Arc<dyn Graph>,
    pub backend: Arc<dyn Backend>,
    pub feeds: Vec<Tensor>,
    pub outer: Vec<Place>,
    pub fetches: Vec<Fetched>,
    pub started: u32,
}

/// Where a variable of the scope lay; `None`: it held nothing on a device.
pub struct Place {
    pub var: Var,
    pub at: Option<(usize, DType, Dims)>,
    pub is_written: bool,
}

pub enum Fetched {
    /// A variable of the scope.
    Outer(Var),
    Temporary(Tensor),
}

impl Known {
    pub fn drop_graph(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.in_vain = if kept.started < WORTH { self.in_vain } else { 0 };
            self.fails();
        }
    }

    pub fn fails(&mut self) {
        (self.in_vain, self.runs) = (self.in_vain + 1, 0);
        self.never = self.in_vain >= MOST_IN_VAIN;
    }

    /// Counts a run with feeds of these sizes; true if it is to be kept.
    pub fn counts(&mut self, sizes: Sizes) -> bool {
        self.runs = if self.sizes == sizes { self.runs + 1 } else { 1 };
        self.sizes = sizes;
        !self.never && self.runs > PLAIN
    }
}
