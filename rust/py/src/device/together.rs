//! Launches that replace several kept ones (`paddle._cuda.optim.multi.together`).

use super::driver::{Driver, Launched};
use super::graph::{Kept, Started, Values};
use oar_core::base::Result;
use pyo3::prelude::*;
use std::sync::Arc;

/// A kernel with its blocks and threads, and the bits of its arguments.
type Given = (usize, u32, u32, Vec<u64>);

/// Kept steps, some of them replaced.
pub struct Joined {
    order: Vec<Item>,
    launches: Arc<Launches>,
}

enum Item {
    Kept(usize),
    New(usize, Values),
}

/// New launches, and what holds the memory that they read.
struct Launches {
    steps: Vec<Launched>,
    _held: Py<PyAny>,
}

impl Started for Launches {
    fn start(&self, number: usize, values: &mut Values, driver: &Driver) -> Result<()> {
        // SAFETY: the arguments are those of the kernel, as `multi.together` describes the launch.
        unsafe { driver.launch(&self.steps[number], values) }
    }

    fn function(&self, number: usize) -> usize {
        self.steps[number].function
    }
}

impl Joined {
    /// From `(steps, holder)`, or None.
    pub fn from_python(given: &Bound<'_, PyAny>) -> PyResult<Option<Joined>> {
        if given.is_none() {
            return Ok(None);
        }
        let (items, held): (Vec<Bound<'_, PyAny>>, Py<PyAny>) = given.extract()?;
        let (mut order, mut steps) = (Vec::new(), Vec::new());
        for item in items {
            if let Ok(number) = item.extract() {
                order.push(Item::Kept(number));
                continue;
            }
            let (function, grid, block, args): Given = item.extract()?;
            order.push(Item::New(steps.len(), args.into()));
            steps.push(Launched { function, grid: [grid, 1, 1], block, shared: 0 });
        }
        Ok(Some(Joined { order, launches: Arc::new(Launches { steps, _held: held }) }))
    }

    pub fn of(self, kept: Vec<Kept>) -> Vec<Kept> {
        let mut kept: Vec<Option<Kept>> = kept.into_iter().map(Some).collect();
        let Joined { order, launches } = self;
        let step = |item| match item {
            Item::Kept(number) => kept.get_mut(number).and_then(Option::take),
            Item::New(number, values) => Some(Kept::new(launches.clone(), number, values)),
        };
        order.into_iter().filter_map(step).collect()
    }
}
