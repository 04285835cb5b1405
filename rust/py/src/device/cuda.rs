//! The CUDA backend: a Python object (`paddle._cuda.runtime.Runtime`) owns memory and launches kernels; Rust holds its
//! handles and addresses. Handles dropped without the GIL are queued and released at the next call. Calls whose launches
//! are known (`recipe`) run without Python, in memory of the driver's pool.

use super::driver::{is_of_graphs, Block, DeviceBlock, Driver};
use super::graph::{self, Kept};
use super::recipe::{self, Recipe, Recipes};
use super::together::Joined;
use crate::error::wrap;
use crate::error::OrRaise;
use crate::ops::attrs::to_py;
use crate::tensor::numpy::{from_array, to_array};
use crate::tensor::object::PyTensor;
use oar_core::base::{DType, Result};
use oar_core::op::backend::{self, Backend, DeviceCall, Graph};
use oar_core::op::infer::VarKind;
use oar_core::op::{Op, SlotFlag};
use oar_core::tensor::device::Memory;
use oar_core::tensor::{Buffer, Lod, SelectedRows, Tensor, Value};
use oar_core::{bail, err};
use oar_kernels::formula::rows::TABLE;
use oar_kernels::formula::CUDA_PRELUDE;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// The rows of the formula table as CUDA C++: a list of `{name, inputs, params, source}`.
#[pyfunction]
fn cuda_rows(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for row in TABLE {
        let d = PyDict::new(py);
        d.set_item("name", row.name)?;
        d.set_item("inputs", row.inputs)?;
        d.set_item("params", row.params)?;
        d.set_item("source", row.cuda_source())?;
        list.append(d)?;
    }
    Ok(list)
}

/// The common prefix of the rows' sources.
#[pyfunction]
fn cuda_prelude() -> &'static str {
    CUDA_PRELUDE
}

type Handle = Py<PyAny>;

struct PyBackend {
    runtime: Handle,
    launchers: HashSet<String>,
    /// Operators whose launchers only start kernels: their launches may be recorded.
    recorded: HashSet<String>,
    /// What is captured as graphs: 0 nothing, 1 long recipes, 2 plans as well.
    graphs: u8,
    recipes: Recipes,
    /// By device; `None` where recipes cannot be used.
    drivers: Mutex<HashMap<i32, Option<Arc<Driver>>>>,
    freed: Arc<Mutex<Vec<Handle>>>,
    said: Mutex<HashSet<&'static str>>,
}

struct PyMemory {
    runtime: Handle,
    /// Python's array of the memory; that of a block is made when Python needs it.
    handle: Mutex<Option<Handle>>,
    block: Option<Arc<Block>>,
    /// Graphs write it again, and it is theirs.
    is_lent: bool,
    freed: Arc<Mutex<Vec<Handle>>>,
    bytes: usize,
    device: i32,
    address: usize,
}

impl PyMemory {
    fn handle(&self, py: Python<'_>) -> PyResult<Handle> {
        if let Some(handle) = &*self.handle.lock() {
            return Ok(handle.clone_ref(py));
        }
        let block = self.block.as_ref().map(|b| DeviceBlock(b.clone()));
        let made = self.runtime.bind(py).call_method1("adopt", (self.address, self.bytes, self.device, block))?;
        Ok(self.handle.lock().get_or_insert(made.unbind()).clone_ref(py))
    }
}

impl Memory for PyMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn device(&self) -> i32 {
        self.device
    }
    fn address(&self) -> usize {
        self.address
    }
    fn download(&self) -> Result<Buffer> {
        graph::spoil();
        crate::gil::attached(|py| {
            let handle = self.handle(py).map_err(wrap)?;
            let host = self.runtime.bind(py).call_method1("read", (handle,)).map_err(wrap)?;
            Ok(from_array(&host).map_err(wrap)?.buffer().clone())
        })
    }
    fn is_of_graph(&self) -> bool {
        self.is_lent || is_of_graphs(self.address as u64)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for PyMemory {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.get_mut().take() {
            self.freed.lock().push(handle);
        }
    }
}

impl PyBackend {
    fn new(runtime: &Bound<'_, PyAny>) -> PyResult<PyBackend> {
        Ok(PyBackend {
            launchers: runtime.getattr("launchers")?.extract()?,
            recorded: runtime.getattr("recorded")?.extract()?,
            graphs: runtime.getattr("graphs")?.extract()?,
            runtime: runtime.clone().unbind(),
            recipes: Default::default(),
            drivers: Default::default(),
            freed: Default::default(),
            said: Default::default(),
        })
    }

    fn let_go(&self) -> usize {
        let freed = std::mem::take(&mut *self.freed.lock());
        freed.len()
    }

    /// Calls `f` with the GIL, after releasing what was dropped.
    fn attached<T>(&self, f: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        crate::gil::attached(|py| {
            self.let_go();
            f(py, self.runtime.bind(py)).map_err(wrap)
        })
    }

    fn tensor(&self, made: Made, device: i32) -> Result<Tensor> {
        let (handle, address, bytes, dtype, dims) = made;
        let Some(dtype) = DType::ALL.into_iter().find(|d| d.name() == dtype) else {
            bail!(Type, "a device kernel made elements of type {dtype}")
        };
        let (runtime, freed) = crate::gil::attached(|py| (self.runtime.clone_ref(py), self.freed.clone()));
        let (handle, block) = (Mutex::new(Some(handle)), None);
        let memory = PyMemory { runtime, handle, block, is_lent: false, freed, bytes, device, address };
        Tensor::from_device(Box::new(memory), dtype, &dims)
    }

    fn value(&self, made: &Bound<'_, PyAny>, device: i32) -> PyResult<Value> {
        if made.is_none() {
            return Ok(Value::None);
        }
        if let Ok((rows, height, value)) = made.extract::<(Bound<'_, PyAny>, i64, Made)>() {
            let (rows, value) = (from_array(&rows)?, self.tensor(value, device).or_raise()?);
            let rows = Arc::new(rows.to_i64s().or_raise()?);
            return Ok(SelectedRows { rows, height, value }.into());
        }
        let Ok((of, lod)) = made.extract::<(Bound<'_, PyAny>, Lod)>() else {
            return Ok(Value::Dense(self.tensor(made.extract()?, device).or_raise()?));
        };
        Ok(Value::Dense(self.tensor(of.extract()?, device).or_raise()?.with_lod(Some(Arc::new(lod)))))
    }

    /// The driver of a device for recipes; `None` if it has none.
    fn driver(&self, device: i32) -> Result<Option<Arc<Driver>>> {
        if let Some(found) = self.drivers.lock().get(&device) {
            return Ok(found.clone());
        }
        let given: Option<(String, usize, usize)> =
            self.attached(|_, runtime| runtime.call_method1("driver", (device,))?.extract())?;
        let found =
            given.map(|(path, context, stream)| Driver::load(&path, context, stream)).transpose()?.map(Arc::new);
        Ok(self.drivers.lock().entry(device).or_insert(found).clone())
    }

    /// The memory of a tensor over a block.
    fn block_memory(&self, device: i32) -> impl Fn(Arc<Block>, usize) -> Box<dyn Memory> + '_ {
        move |block, bytes| Box::new(self.memory(device, block.address as usize, bytes, Some(block)))
    }

    /// Memory of a block, or (`None`) lent by graphs.
    fn memory(&self, device: i32, address: usize, bytes: usize, block: Option<Arc<Block>>) -> PyMemory {
        let runtime = crate::gil::attached(|py| self.runtime.clone_ref(py));
        let (handle, is_lent, freed) = (Mutex::new(None), block.is_none(), self.freed.clone());
        PyMemory { runtime, handle, block, is_lent, freed, bytes, device, address }
    }

    /// Runs a call by its recipe, or by its launcher, which is recorded if the key is new; `false` if it is neither.
    fn run_recorded(&self, call: &mut DeviceCall) -> Result<bool> {
        if !self.recorded.contains(call.op.name) {
            return Ok(false);
        }
        let Some(key) = recipe::key(call) else { return Ok(false) };
        match self.recipes.get(&key, call.op, call.attrs) {
            Some(None) => return Ok(false),
            Some(Some(found)) => {
                let Some(driver) = self.driver(call.device)? else { return Ok(false) };
                found.replay(call, &driver, self.block_memory(call.device), self.graphs > 0)?;
                return Ok(true);
            }
            None => {}
        }
        if self.driver(call.device)?.is_none() {
            return Ok(false);
        }
        graph::spoil();
        self.attached(|py, runtime| {
            let Some(described) = describe(py, call)? else { return Ok(false) };
            let (result, found): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                runtime.call_method1("record", (described,))?.extract()?;
            let found = if found.is_none() { None } else { Some(Arc::new(Recipe::from_python(&found)?)) };
            self.recipes.put(key, call.attrs, found);
            if !result.is_none() {
                self.set_results(call, &result)?;
            }
            Ok(true)
        })
    }

    /// Kept steps, with updates of adjacent parameters in one launch.
    fn together(&self, device: i32, steps: Vec<Kept>) -> Result<Vec<Kept>> {
        let joined = self.attached(|_, runtime| {
            let launched: Vec<_> = steps.iter().map(Kept::launched).collect();
            Joined::from_python(&runtime.call_method1("together", (device, launched))?)
        })?;
        Ok(match joined {
            Some(joined) => joined.of(steps),
            None => steps,
        })
    }

    fn set_results(&self, call: &mut DeviceCall, result: &Bound<'_, PyAny>) -> PyResult<()> {
        for (slot, made) in result.try_iter()?.enumerate() {
            let made = made?;
            let one = !call.op.outputs[slot].has(SlotFlag::Duplicable);
            for (i, out) in call.outs.slot_mut(slot).iter_mut().enumerate() {
                let made = if one || made.is_none() { made.clone() } else { made.get_item(i)? };
                out.value = self.value(&made, call.device)?;
            }
        }
        call.ran = true;
        Ok(())
    }

    fn run_all(&self, py: Python<'_>, runtime: &Bound<'_, PyAny>, segment: &mut [DeviceCall]) -> PyResult<()> {
        let calls = PyList::empty(py);
        for call in segment.iter() {
            match describe(py, call)? {
                Some(call) => calls.append(call)?,
                None => break,
            }
        }
        let results = runtime.call_method1("run", (calls,))?;
        for (call, result) in segment.iter_mut().zip(results.try_iter()?) {
            let result = result?;
            if result.is_none() {
                break;
            }
            self.set_results(call, &result)?;
        }
        Ok(())
    }
}

/// A new tensor as Python returns it: handle, address, bytes, data type, shape; or the pair of it and its LoD.
type Made = (Handle, usize, usize, String, Vec<i64>);

/// `(handle, offset, data type, shape)`; a tensor whose elements were not kept has no handle.
fn dense<'py>(py: Python<'py>, t: &Tensor) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let handle = match t.on_device() {
        None if t.has_bytes() => return Ok(None),
        None => (py.None(), 0),
        Some((memory, offset)) => match memory.as_any().downcast_ref::<PyMemory>() {
            Some(memory) => (memory.handle(py)?, offset),
            None => return Ok(None),
        },
    };
    (handle.0, handle.1, t.dtype().name(), t.dims().to_vec()).into_pyobject(py).map(Some)
}

/// `None`: not a value that kernels take.
fn argument<'py>(py: Python<'py>, value: &Value) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(match value {
        Value::None => Some(py.None().into_bound(py)),
        Value::Dense(t) => dense(py, t)?.map(Bound::into_any),
        Value::Rows(r) => match dense(py, &r.value)? {
            Some(value) => {
                let rows = Tensor::from_slice(&r.rows[..], &[r.rows.len() as i64]).or_raise()?;
                Some((to_array(py, &rows)?, r.height, value).into_pyobject(py)?.into_any())
            }
            None => None,
        },
        _ => None,
    })
}

/// The LoD of a value, `None` if it has none.
fn lod_of(value: &Value) -> Option<&Lod> {
    value.elements().and_then(|t| t.lod.as_deref()).filter(|levels| !levels.is_empty())
}

/// `(op, device, {slot: argument}, {attribute: value}, {output slot: wanted}, {output slot: may be written},
/// {output slot: (shape, data type)}, {slot: [LoD or None]})`; the last has the slots of which a value has a LoD.
fn describe<'py>(py: Python<'py>, call: &DeviceCall) -> PyResult<Option<Bound<'py, PyAny>>> {
    let op = call.op;
    let (ins, lods) = (PyDict::new(py), PyDict::new(py));
    for (slot, s) in op.inputs.iter().enumerate() {
        let given = call.ins.slot(slot);
        if given.iter().any(|v| lod_of(v).is_some()) {
            lods.set_item(s.name, given.iter().map(lod_of).collect::<Vec<_>>())?;
        }
        let values = PyList::empty(py);
        for v in given {
            match argument(py, v)? {
                Some(v) => values.append(v)?,
                None => return Ok(None),
            }
        }
        if s.has(SlotFlag::Duplicable) {
            ins.set_item(s.name, values)?;
        } else {
            ins.set_item(s.name, values.get_item(0).unwrap_or_else(|_| py.None().into_bound(py)))?;
        }
    }
    let attrs = PyDict::new(py);
    for (i, f) in op.attrs.fields.iter().enumerate() {
        attrs.set_item(f.name, to_py(py, &call.attrs.get(i))?)?;
    }
    let (wanted, writable, rule) = (PyDict::new(py), PyDict::new(py), PyDict::new(py));
    for (slot, s) in op.outputs.iter().enumerate() {
        wanted.set_item(s.name, call.outs.slot(slot).iter().any(|o| o.wanted))?;
        if let Some(m) = call.metas.slot(slot).first().filter(|m| m.known && m.kind == VarKind::Dense) {
            rule.set_item(s.name, (PyTuple::new(py, m.dims.iter())?, m.dtype.name()))?;
        }
        let Some(input) = s.alias.and_then(|name| op.input(name)) else { continue };
        let (from, out) = (call.ins.slot(input).first(), call.outs.slot(slot).first());
        if let (Some(Value::Dense(t)), Some(out)) = (from, out) {
            writable.set_item(s.name, (s.alias, out.in_place && t.device_may_write()))?;
        }
    }
    Ok(Some((op.name, call.device, ins, attrs, wanted, writable, rule, lods).into_pyobject(py)?.into_any()))
}

impl Backend for PyBackend {
    fn alloc(&self, device: i32, dtype: DType, dims: &[i64]) -> Result<Tensor> {
        graph::spoil();
        let bytes = oar_core::base::shape::checked_numel(dims)? * dtype.size();
        let (handle, address) =
            self.attached(|_, runtime| runtime.call_method1("alloc", (device, bytes))?.extract())?;
        self.tensor((handle, address, bytes, dtype.name().into(), dims.to_vec()), device)
    }

    fn copy(&self, t: &Tensor, to: Option<i32>) -> Result<Tensor> {
        graph::spoil();
        let host = t.on_host()?;
        let Some(device) = to else { return Ok(host) };
        let fresh = self.alloc(device, t.dtype(), t.dims())?;
        self.attached(|py, runtime| {
            let memory = fresh.on_device().and_then(|(m, _)| m.as_any().downcast_ref::<PyMemory>());
            let handle = memory.map(|m| m.handle(py)).transpose()?;
            runtime.call_method1("write", (handle, to_array(py, &host)?)).map(drop)
        })?;
        Ok(fresh)
    }

    fn has(&self, op: &str) -> bool {
        self.launchers.contains(op)
    }

    fn run(&self, segment: &mut [DeviceCall]) -> Result<()> {
        if let [call] = segment {
            if self.run_recorded(call)? {
                return Ok(());
            }
        }
        graph::spoil();
        self.attached(|py, runtime| self.run_all(py, runtime, segment))
    }

    fn enter(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        crate::gil::attached(|_| f())
    }

    fn drain(&self) -> usize {
        crate::gil::attached(|_| self.let_go())
    }

    fn lacks(&self, op: &'static Op) -> Result<()> {
        if !self.said.lock().insert(op.name) {
            return Ok(());
        }
        self.attached(|_, runtime| runtime.call_method1("lacks", (op.name,)).map(drop))
    }

    fn keep_started(&self, device: i32) -> Result<bool> {
        let Some(driver) = self.driver(device)?.filter(|_| self.graphs > 1) else { return Ok(false) };
        Ok(graph::keep(driver, device))
    }

    fn unkept(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        graph::unkept(f)
    }

    fn kept(&self) -> Option<usize> {
        graph::kept()
    }

    fn captured(&self, parts: &[Range<usize>]) -> Result<Vec<Arc<dyn Graph>>> {
        crate::gil::attached(|_| graph::captured(parts, &|device, steps| self.together(device, steps))).or_else(|e| {
            self.attached(|_, runtime| runtime.call_method1("lacks_graph", (e.to_string(),)).map(|_| Vec::new()))
        })
    }

    fn lent(&self, t: &Tensor) -> Result<Tensor> {
        let Some((memory, offset)) = t.on_device() else { return Ok(t.clone()) };
        let lent = self.memory(memory.device(), memory.address() + offset, t.nbytes(), None);
        Tensor::from_device(Box::new(lent), t.dtype(), t.dims())
    }

    fn duplicate(&self, t: &Tensor, to: Option<&Tensor>) -> Result<Tensor> {
        let place =
            |t: &Tensor| t.on_device().map(|(memory, offset)| ((memory.address() + offset) as u64, memory.device()));
        let Some((from, device)) = place(t) else { bail!(Fatal, "a copy within a device of what is not on one") };
        let Some(driver) = self.driver(device)? else {
            bail!(Fatal, "a copy within device {device} without its driver")
        };
        let copy = |to: u64| match t.nbytes() {
            0 => Ok(()),
            // SAFETY: the memory is that of tensors of `t`'s size.
            bytes => unsafe { driver.copy(to, from, bytes) },
        };
        let Some(own) = to else {
            let block = driver.within(|| {
                let block = driver.alloc_outside(t.nbytes())?;
                copy(block.address).map(|()| block)
            })?;
            return Tensor::from_device(self.block_memory(device)(block, t.nbytes()), t.dtype(), t.dims());
        };
        match place(own) {
            Some((to, _)) if own.nbytes() == t.nbytes() => driver.within(|| copy(to))?,
            _ => bail!(Fatal, "a copy of {} bytes over {}", t.nbytes(), own.nbytes()),
        }
        Ok(own.clone())
    }
}

/// Registers the object that owns device memory and runs kernels; None removes it.
#[pyfunction]
fn register_backend(runtime: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let backend = runtime.map(PyBackend::new).transpose()?;
    drop(backend::register(backend.map(|b| Arc::new(b) as Arc<dyn Backend>)));
    Ok(())
}

#[pyfunction]
fn has_backend() -> bool {
    backend::is_active()
}

/// Sets the device of operators without operands on a device; -1 is the CPU.
#[pyfunction]
fn set_current_device(device: i32) {
    backend::set_current((device >= 0).then_some(device));
}

/// The number of the device that holds a Tensor's elements, -1 for the CPU.
#[pyfunction]
fn device_of(tensor: &Bound<'_, PyTensor>) -> i32 {
    let value = tensor.get().var.cell.lock();
    value.elements().and_then(|t| t.on_device()).map_or(-1, |(memory, _)| memory.device())
}

/// The address of a Tensor's elements on its device; 0 for the CPU.
#[pyfunction]
fn device_address(tensor: &Bound<'_, PyTensor>) -> usize {
    match &*tensor.get().var.cell.lock() {
        Value::Dense(t) => t.on_device().map_or(0, |(memory, offset)| memory.address() + offset),
        _ => 0,
    }
}

/// A new Tensor outside the tape with the elements on a device (-1: the CPU).
#[pyfunction]
fn copy_to_device<'py>(py: Python<'py>, tensor: &Bound<'py, PyTensor>, device: i32) -> PyResult<Bound<'py, PyTensor>> {
    let value = tensor.get().held();
    let moved = if device < 0 {
        backend::to_host(&value).or_raise()?
    } else {
        let backend =
            backend::registered().ok_or_else(|| err!(Unavailable, "no device has been registered")).or_raise()?;
        backend::to_device(&*backend, &value, device).or_raise()?
    };
    PyTensor::given(py, moved, tensor.get().var.stop_gradient())
}

/// Drops the graphs of Programs that are not running, and the memory that they hold; returns their number.
#[pyfunction]
fn release_device_graphs(py: Python<'_>) -> usize {
    py.detach(oar_engine::graph::release_graphs)
}

/// Releases device memory that was dropped; returns the number of blocks.
#[pyfunction]
fn drain_device() -> usize {
    let Some(backend) = backend::registered() else { return 0 };
    backend.drain()
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(cuda_rows, m)?)?;
    m.add_function(wrap_pyfunction!(cuda_prelude, m)?)?;
    m.add_function(wrap_pyfunction!(register_backend, m)?)?;
    m.add_function(wrap_pyfunction!(has_backend, m)?)?;
    m.add_function(wrap_pyfunction!(set_current_device, m)?)?;
    m.add_function(wrap_pyfunction!(device_of, m)?)?;
    m.add_function(wrap_pyfunction!(device_address, m)?)?;
    m.add_function(wrap_pyfunction!(copy_to_device, m)?)?;
    m.add_function(wrap_pyfunction!(super::table::device_table, m)?)?;
    m.add_function(wrap_pyfunction!(super::table::device_parts, m)?)?;
    m.add_function(wrap_pyfunction!(super::driver::call_library, m)?)?;
    m.add_class::<DeviceBlock>()?;
    m.add_class::<super::table::TableSteps>()?;
    m.add_function(wrap_pyfunction!(release_device_graphs, m)?)?;
    m.add_function(wrap_pyfunction!(drain_device, m)?)
}
