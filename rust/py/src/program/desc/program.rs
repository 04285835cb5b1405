//! `core.ProgramDesc`.

use super::{Name, PyBlockDesc};
use crate::error::{raise, OrRaise};
use oar_core::err;
use oar_core::ir::desc::CURRENT_PROGRAM_VERSION;
use oar_core::ir::prune::BlockMap;
use oar_core::ir::{self, Message, Program, ProgramDesc};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashSet;
use std::sync::Arc;

/// A Program: `ProgramDesc()` is empty, `ProgramDesc(other)` a copy, `ProgramDesc(data)` read from bytes.
#[pyclass(name = "ProgramDesc", module = "paddle._core", frozen, weakref)]
pub struct PyProgramDesc {
    program: Arc<Program>,
}

impl PyProgramDesc {
    pub fn new(program: Arc<Program>) -> PyProgramDesc {
        PyProgramDesc { program }
    }

    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
}

#[pymethods]
impl PyProgramDesc {
    #[new]
    #[pyo3(signature = (other=None, /))]
    fn py_new(other: Option<&Bound<'_, PyAny>>) -> PyResult<PyProgramDesc> {
        let Some(other) = other else { return Ok(PyProgramDesc::new(Program::new())) };
        if let Ok(other) = other.cast::<PyProgramDesc>() {
            return Ok(PyProgramDesc::new(other.get().program.copy()));
        }
        match other.cast::<PyBytes>() {
            Ok(bytes) => Ok(PyProgramDesc::new(Program::parse(bytes.as_bytes()).or_raise()?)),
            Err(_) => Err(PyTypeError::new_err(format!(
                "ProgramDesc() takes a ProgramDesc or the bytes of one, got {}",
                other.get_type().name()?
            ))),
        }
    }

    fn append_block(&self, parent: &PyBlockDesc) -> PyResult<PyBlockDesc> {
        Ok(PyBlockDesc::new(self.program.append_block(parent.node().idx()).or_raise()?))
    }

    fn block(&self, index: i32) -> PyResult<PyBlockDesc> {
        let n = self.program.block_count();
        let missing = || raise(err!(OutOfRange, "the Program has {n} blocks, got the index {index}"));
        Ok(PyBlockDesc::new(self.program.block(index).ok_or_else(missing)?))
    }

    fn num_blocks(&self) -> usize {
        self.program.block_count()
    }

    /// Does nothing: there is no second copy to update.
    fn flush(&self) {}

    fn get_feed_target_names(&self) -> PyResult<Vec<String>> {
        self.program.feed_targets().or_raise()
    }

    fn get_fetch_target_names(&self) -> PyResult<Vec<String>> {
        self.program.fetch_targets().or_raise()
    }

    fn serialize_to_string<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &crate::gil::detached(py, || self.program.to_bytes()))
    }

    /// Replaces the contents by those of the bytes; handles to the old ones no longer belong to this Program.
    fn parse_from_string(&self, data: &[u8]) -> PyResult<()> {
        self.program.replace(ProgramDesc::decode(data).or_raise()?).or_raise()
    }

    #[pyo3(signature = (version=CURRENT_PROGRAM_VERSION))]
    fn _set_version(&self, version: i64) {
        self.program.set_version(version);
    }

    fn _version(&self) -> i64 {
        self.program.version()
    }

    /// Versions of operators' definitions, by the operator's name.
    fn _op_versions(&self) -> std::collections::BTreeMap<String, i32> {
        self.program.op_versions().into_iter().collect()
    }

    /// A number that is unique in this process.
    #[getter]
    fn _uid(&self) -> u64 {
        self.program.uid()
    }

    /// The number of changes.
    #[getter]
    fn _revision(&self) -> u64 {
        self.program.revision()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyProgramDesc>().is_ok_and(|other| Arc::ptr_eq(&other.get().program, &self.program))
    }

    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.program) as usize
    }

    fn __repr__(&self) -> String {
        format!("ProgramDesc({} blocks)", self.num_blocks())
    }
}

/// Writes the versions of this engine's operators into a Program that is about to be saved.
#[pyfunction]
pub(super) fn save_op_version_info(desc: &PyProgramDesc) {
    oar_core::ir::op_version::save_op_versions(desc.program());
}

/// The part of a Program that is needed to run the operators `targets` (block and position of each) when the variables
/// `feeds` are given, and which block came from which.
#[pyfunction]
pub(super) fn prune(
    origin: &PyProgramDesc,
    feeded_var_names: HashSet<Name>,
    targets: Vec<[usize; 2]>,
) -> PyResult<(PyProgramDesc, BlockMap)> {
    let feeds = feeded_var_names.into_iter().map(|name| name.0).collect();
    let targets: Vec<_> = targets.into_iter().map(|[block, op]| (block, op)).collect();
    let (part, map) = ir::prune::prune(&origin.program.to_desc(), &feeds, &targets).or_raise()?;
    Ok((PyProgramDesc::new(Program::from_desc(part).or_raise()?), map))
}

/// A Program without its backward part, and which block came from which.
#[pyfunction]
pub(super) fn prune_backward(program: &PyProgramDesc) -> PyResult<(PyProgramDesc, BlockMap)> {
    let (part, map) = ir::prune::prune_backward(&program.program.to_desc()).or_raise()?;
    Ok((PyProgramDesc::new(Program::from_desc(part).or_raise()?), map))
}
