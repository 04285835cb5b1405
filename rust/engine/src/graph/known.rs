//! What a plan knows of its runs on a device, and the graphs that it has of them (`captured`).

use super::var::Var;
use oar_core::base::{DType, Dims};
use oar_core::op::backend::{Backend, Graph};
use oar_core::tensor::{Tensor, Value};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Plain runs with feeds of the same sizes before one is kept: the first ones record recipes and create variables.
const PLAIN: u32 = 2;
/// A graph that was started less often than this was in vain; so many attempts in vain in a row are the last.
const WORTH: u32 = 8;
const MOST_IN_VAIN: u32 = 3;

pub type Sizes = Vec<(Dims, DType)>;

/// What a plan knows of its runs on a device.
#[derive(Default)]
pub struct Captured(pub Arc<Mutex<Known>>);

#[derive(Default)]
pub struct Known {
    pub sizes: Sizes,
    /// Plain runs with feeds of these sizes.
    pub runs: u32,
    pub in_vain: u32,
    pub never: bool,
    /// Variables of the scope that are copied at each run: they were found elsewhere.
    pub moving: HashSet<Var>,
    pub kept: Option<Kept>,
}

/// The pieces of a run, and the memory that the graphs were captured with.
pub struct Kept {
    pub pieces: Vec<Piece>,
    pub backend: Arc<dyn Backend>,
    /// By feed, the memory from which graphs read it; `None`: no graph does.
    pub feeds: Vec<Option<Tensor>>,
    /// The variables of the scope that graphs touch.
    pub outer: Vec<Place>,
    pub started: u32,
}

pub enum Piece {
    /// What graphs repeat, the temporaries that it leaves for later tasks, and those that end with it.
    Graph { graph: Option<Arc<dyn Graph>>, left: Vec<(Var, Value)>, ends: Vec<Var> },
    /// Tasks that run by themselves, and where later graphs expect their results (task, variable, memory).
    Tasks { tasks: Range<usize>, made: Vec<(usize, Var, Tensor)> },
}

/// Where a variable of the scope lay; `None`: it held nothing on a device.
pub struct Place {
    pub var: Var,
    pub at: Option<(usize, DType, Dims)>,
    pub is_written: bool,
    /// The end of the tasks of the last graph that touches it.
    pub until: usize,
    /// Memory from which the graphs read it.
    pub own: Option<Tensor>,
}

impl Known {
    pub fn drop_graph(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.in_vain = if kept.started < WORTH { self.in_vain } else { 0 };
            self.fails();
        }
    }

    /// Variables that from now on are copied at each run; an attempt that found one of them is not in vain.
    pub fn expect_moves(&mut self, vars: Vec<Var>) {
        let known = self.moving.len();
        self.moving.extend(vars);
        if self.moving.len() > known {
            self.in_vain = self.in_vain.saturating_sub(1);
            self.never = false;
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
