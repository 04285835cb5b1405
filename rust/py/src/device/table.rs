//! Launches over many tensors: kernels read the addresses of their operands from a table in device memory.

use super::driver::{Block, Driver, Launched};
use crate::error::OrRaise;
use crate::tensor::object::PyTensor;
use oar_core::base::{DType, Result};
use oar_core::err;
use oar_core::tensor::{Tensor, Value};
use parking_lot::Mutex;
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::sync::Arc;

/// Device, data type, addresses (slot by slot) and sizes (of the first slot).
type Table = (i32, &'static str, Vec<u64>, Vec<usize>);
type Slots<'py> = Vec<Vec<Bound<'py, PyTensor>>>;

/// The operands of a kernel over many tensors: lists of Tensors, one for each slot, of which `written` says whether the
/// kernel writes it. `None` unless all are dense, of one data type, on one device, of the size of the first slot or of
/// one element, and those to write have no other reference and no copy on the host.
#[pyfunction]
pub fn device_table(slots: Slots<'_>, written: Vec<bool>) -> Option<Table> {
    let mut found: Option<(i32, DType)> = None;
    let (mut addresses, mut sizes) = (Vec::new(), Vec::new());
    for (slot, (tensors, &written)) in slots.iter().zip(&written).enumerate() {
        for (i, tensor) in tensors.iter().enumerate() {
            let held = tensor.get().var.cell.lock();
            let Value::Dense(t) = &*held else { return None };
            let (memory, offset) = t.on_device()?;
            let (n, own) = (t.numel(), (memory.device(), t.dtype()));
            if *found.get_or_insert(own) != own || n == 0 || written && !t.device_may_write() {
                return None;
            }
            if slot == 0 {
                sizes.push(n);
            } else if n != 1 && sizes.get(i) != Some(&n) {
                return None;
            }
            addresses.push((memory.address() + offset) as u64);
        }
    }
    let (device, dtype) = found.filter(|_| addresses.len() == slots.len() * sizes.len())?;
    Some((device, dtype.name(), addresses, sizes))
}

/// Tensors outside the tape, one after the other from the start of a flat Tensor on a device.
#[pyfunction]
pub fn device_parts<'py>(
    py: Python<'py>,
    whole: &Bound<'py, PyTensor>,
    shapes: Vec<Vec<i64>>,
) -> PyResult<Vec<Bound<'py, PyTensor>>> {
    let held = whole.get().held();
    let (whole, mut at) = (held.dense().or_raise()?, 0);
    let part = |shape: Vec<i64>| {
        let n = oar_core::base::shape::checked_numel(&shape).or_raise()?;
        let end = at + n;
        if end > whole.numel() {
            return Err(err!(InvalidArgument, "{} elements have no part that ends at {end}", whole.numel())).or_raise();
        }
        let t: Tensor = whole.view(at, &shape);
        at = end;
        PyTensor::given(py, Value::Dense(t), true)
    };
    shapes.into_iter().map(part).collect()
}

/// An argument of a kernel.
enum Arg {
    /// The address of the table.
    Table,
    /// The bits of a number.
    Number(u64),
}

/// Kernel, grid, block and arguments; `None` is the address of the table.
type GivenStep = (usize, u32, u32, Vec<Option<u64>>);

/// Launches that share a table. It is written to the device where an address differs from the last run's.
#[pyclass(frozen, module = "paddle._core")]
pub struct TableSteps {
    driver: Arc<Driver>,
    steps: Vec<(Launched, SmallVec<[Arg; 16]>)>,
    last: Mutex<Option<(Vec<u64>, Arc<Block>)>>,
}

#[pymethods]
impl TableSteps {
    /// `driver`: the path of libcuda, the context and the stream.
    #[new]
    fn new(driver: (String, usize, usize), steps: Vec<GivenStep>) -> PyResult<TableSteps> {
        let (path, context, stream) = driver;
        let step = |(function, grid, block, args): GivenStep| {
            let launched = Launched { function, grid: [grid, 1, 1], block, shared: 0 };
            (launched, args.into_iter().map(|a| a.map_or(Arg::Table, Arg::Number)).collect())
        };
        let driver = Arc::new(Driver::load(&path, context, stream).or_raise()?);
        Ok(TableSteps { driver, steps: steps.into_iter().map(step).collect(), last: Mutex::new(None) })
    }

    /// Starts the kernels over the tensors at these addresses.
    fn run(&self, addresses: Vec<u64>) -> PyResult<()> {
        self.driver.within(|| self.start(addresses)).or_raise()
    }
}

impl TableSteps {
    fn start(&self, addresses: Vec<u64>) -> Result<()> {
        let mut last = self.last.lock();
        let table = match last.take() {
            Some((known, block)) if known == addresses => block,
            found => {
                // The order of the stream lets earlier kernels read the block before it is written.
                let reused = found.filter(|(known, _)| known.len() == addresses.len());
                let block = reused.map_or_else(|| self.driver.alloc(8 * addresses.len()), |(_, block)| Ok(block))?;
                self.driver.upload(&block, &addresses)?;
                block
            }
        };
        for (launched, args) in &self.steps {
            let value = |arg: &Arg| match *arg {
                Arg::Table => table.address,
                Arg::Number(bits) => bits,
            };
            let mut values: SmallVec<[u64; 24]> = args.iter().map(value).collect();
            // SAFETY: the arguments are those of the kernel, as the launcher that made the steps describes them.
            unsafe { self.driver.launch(launched, &mut values)? };
        }
        *last = Some((addresses, table));
        Ok(())
    }
}
