//! `paddle._core.ops`: one builtin for every operator, all of them one C function whose `self` is the operator.
//!
//! `softmax(x, axis=-1)`: inputs by position in slot order (None: absent; a list for a duplicable slot) or by slot
//! name, attributes by keyword (or, as in 2.0.2's `core.ops`, as `'name', value` pairs after the inputs), an
//! existing output variable by its slot's name. In static mode the call is handed to the Python `append`.
//!
//! 2.0.2's generated functions take, between inputs and attributes, the number of variables of each duplicable output
//! as an int, and the variables that some operators write (`generated`). The kernel determines the numbers itself.

use crate::error::{raise, OrRaise};
use crate::ops::eager::{any_large, append_hook, is_static, plain_sized, run, InBlock};
use crate::ops::generated;
use crate::program::desc::PyBlockDesc;
use crate::tensor::object::PyTensor;
use oar_core::base::shortened;
use oar_core::ir::Program;
use oar_core::op::attrs::unshared;
use oar_core::op::table;
use oar_core::op::{forward, Args, Attrs, Op, SlotFlag};
use oar_core::tensor::Value;
use oar_engine::autograd::eager::{call, call_quick, is_plain, Destination, Ins};
use oar_engine::autograd::EagerVar;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use pyo3::Borrowed;
use smallvec::SmallVec;
use std::ffi::{c_char, CString};
use std::sync::Arc;

type Object<'py> = Bound<'py, PyAny>;
/// The Tensors of the lists in duplicable slots.
type Listed<'py> = SmallVec<[(usize, Vec<Bound<'py, PyTensor>>); 1]>;

/// The parsed call: the object of each slot, and the attributes.
struct BuiltinCall<'py> {
    op: &'static Op,
    /// Input slot -> object.
    ins: SmallVec<[Option<Object<'py>>; 8]>,
    outs: SmallVec<[(usize, Object<'py>); 2]>,
    named: SmallVec<[(Object<'py>, Object<'py>); 6]>,
}

impl<'py> BuiltinCall<'py> {
    /// # Safety
    /// `args` and `kwnames` are those of a vectorcall: `nargs` positional objects, then one per keyword.
    unsafe fn parse(
        py: Python<'py>,
        op: &'static Op,
        args: *const *mut ffi::PyObject,
        nargs: isize,
        kwnames: *mut ffi::PyObject,
    ) -> PyResult<BuiltinCall<'py>> {
        // SAFETY: by the contract, every index below is within the array.
        let object = |i: isize| unsafe { Bound::from_borrowed_ptr(py, *args.offset(i)) };
        let mut call = BuiltinCall { op, ins: SmallVec::new(), outs: SmallVec::new(), named: SmallVec::new() };
        call.ins.resize(op.inputs.len(), None);
        let mut i = 0;
        while i < nargs {
            let arg = object(i);
            if arg.is_instance_of::<PyString>() {
                // The name of an attribute, unless a required input is still missing.
                let input = match op.inputs.get(i as usize) {
                    // SAFETY: kwnames is that of the vectorcall.
                    Some(s) if !s.has(SlotFlag::Dispensable) => !unsafe { is_named(py, kwnames, s.name) }?,
                    Some(_) => call.field(arg.cast::<PyString>()?.to_str()?).is_err(),
                    None => false,
                };
                if !input {
                    break;
                }
                // Static mode refuses it with the names of the function's arguments.
                if !is_static() {
                    return Err(call.bad_input(i as usize, &arg));
                }
            }
            let slot = i as usize;
            let positional = || (0..nargs).take_while(|&k| !object(k).is_instance_of::<PyString>()).count();
            // A number in the place of an input that is required is refused as one.
            let required = op.inputs.get(slot).is_some_and(|s| !s.has(SlotFlag::Dispensable));
            let count = !required && generated::is_count(&arg);
            if count || slot >= op.inputs.len() || generated::ends(op, slot, positional) {
                i = call.generated_outputs(i, nargs, &object)?;
                break;
            }
            if !arg.is_none() {
                call.ins[slot] = Some(arg);
            }
            i += 1;
        }
        while i + 1 < nargs {
            call.named.push((object(i), object(i + 1)));
            i += 2;
        }
        if i < nargs {
            return Err(PyValueError::new_err(format!("{}: an attribute name without a value", op.name)));
        }
        if !kwnames.is_null() {
            // SAFETY: kwnames is a tuple of str, as the calling convention says.
            let names = unsafe { Bound::from_borrowed_ptr(py, kwnames).cast_into_unchecked::<PyTuple>() };
            for (k, name) in names.iter().enumerate() {
                let value = object(nargs + k as isize);
                let text = name.cast::<PyString>()?.to_str()?;
                if let Some(slot) = op.input(text) {
                    call.ins[slot] = Some(value).filter(|v| !v.is_none());
                } else if let Some(slot) = op.output(text) {
                    if !value.is_none() {
                        call.outs.push((slot, value));
                    }
                } else {
                    call.named.push((name, value));
                }
            }
        }
        Ok(call)
    }

    /// The positional arguments from `i` that stand for outputs in 2.0.2's generated functions: counts are dropped,
    /// variables become destinations. Returns the index of the first attribute.
    fn generated_outputs(
        &mut self,
        mut i: isize,
        nargs: isize,
        object: &dyn Fn(isize) -> Object<'py>,
    ) -> PyResult<isize> {
        let op = self.op;
        let mut slots = generated::arguments(op).into_iter();
        while i < nargs && !object(i).is_instance_of::<PyString>() {
            let arg = object(i);
            let Some(slot) = slots.next() else {
                return Err(PyTypeError::new_err(format!("{} takes {} inputs, got more", op.name, op.inputs.len())));
            };
            if !generated::is_count(&arg) {
                self.outs.push((slot, arg));
            } else if !op.outputs[slot].has(SlotFlag::Duplicable) {
                return Err(self.bad_output(slot, &arg));
            }
            i += 1;
        }
        Ok(i)
    }

    /// The index of an attribute; `None` for one that every operator carries and no kernel reads.
    fn field(&self, name: &str) -> PyResult<Option<usize>> {
        match self.op.attrs.field(name) {
            None if !oar_core::op::attrs::COMMON.contains(&name) => {
                Err(PyTypeError::new_err(format!("operator {} has no attribute '{name}'", self.op.name)))
            }
            found => Ok(found),
        }
    }

    fn attrs(&self) -> PyResult<Attrs> {
        let schema = self.op.attrs;
        if self.named.is_empty() && schema.fields.iter().all(|f| !f.required) {
            return Ok((schema.shared)().clone());
        }
        let mut attrs = (schema.new)();
        let set = unshared(&mut attrs);
        let mut given = 0u64;
        for (name, value) in &self.named {
            let name = name.cast::<PyString>()?.to_str()?;
            let Some(i) = self.field(name)? else { continue };
            if value.is_none() {
                continue;
            }
            let field = &schema.fields[i];
            crate::ops::attrs::from_py(value, Some(field.kind))
                .and_then(|attr| set.set(i, attr).ok())
                .ok_or_else(|| bad_attr(self.op, field, value))?;
            given |= 1 << i;
        }
        for (i, field) in schema.fields.iter().enumerate() {
            if field.required && given >> i & 1 == 0 {
                return Err(PyTypeError::new_err(format!(
                    "operator {}: attribute '{}' is required",
                    self.op.name, field.name
                )));
            }
        }
        Ok(attrs)
    }

    /// The result of the shortcut, if it applies: one or two Tensors in the first slots.
    #[inline]
    fn fast_path(&self, attrs: &Attrs) -> Option<EagerVar> {
        if self.op.fast_path.is_none() || !self.outs.is_empty() {
            return None;
        }
        let var = |slot: usize| Some(&self.ins.get(slot)?.as_ref()?.cast::<PyTensor>().ok()?.get().var);
        match self.ins.iter().rposition(Option::is_some)? {
            0 => call_quick(self.op, attrs, &[var(0)?]),
            1 => call_quick(self.op, attrs, &[var(0)?, var(1)?]),
            _ => None,
        }
    }

    /// The result of a view operator becomes an alias of its input.
    #[inline]
    fn view(&self, result: &EagerVar) {
        if let (true, Some(x)) = (self.op.views, &self.ins[0]) {
            if let Ok(x) = x.cast::<PyTensor>() {
                result.cell.join(&x.get().var.cell);
            }
        }
    }

    fn run(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        let attrs = self.attrs()?;
        if let Some(v) = self.fast_path(&attrs) {
            self.view(&v);
            return Ok(PyTensor::wrap(py, v)?.into_any());
        }
        let listed = self.listed()?;
        let mut ins: Ins = Args::new();
        for (slot, obj) in self.ins.iter().enumerate() {
            match obj.as_ref().map(|obj| obj.cast::<PyTensor>()) {
                None => ins.push_slot([]),
                Some(Ok(t)) => ins.push_one(Some(&t.get().var)),
                Some(Err(_)) => {
                    let items = listed.iter().filter(|(at, _)| *at == slot).flat_map(|(_, items)| items);
                    ins.push_slot(items.map(|t| Some(&t.get().var)));
                }
            }
        }
        let forwards = table::forwards(self.op);
        if !forwards.is_empty() {
            let given = ins.map(|v| v.map_or(Value::None, |v| v.cell.get()));
            forward::check(self.op, &attrs, &given, forwards).or_raise()?;
        }
        if self.outs.is_empty() && is_plain(self.op) && !self.op.outputs[0].has(SlotFlag::NotReturned) {
            return match plain_sized(py, self.op, &attrs, &ins, any_large(&ins)).or_raise()? {
                Some(v) => Ok(PyTensor::wrap(py, v)?.into_any()),
                None => Ok(py.None().into_bound(py)),
            };
        }
        let into = self.listed_outputs()?;
        let (mut targets, mut free) = oar_engine::autograd::eager::default_targets(self.op, &ins);
        for (slot, obj) in &self.outs {
            if self.op.outputs[*slot].has(SlotFlag::Duplicable) {
                free = false;
                targets = self.duplicable_targets(&into)?;
                break;
            }
            let t = obj.cast::<PyTensor>().map_err(|_| self.bad_output(*slot, obj))?;
            targets.slot_mut(*slot)[0] = Destination::Into(&t.get().var);
        }
        let outs = match self.in_block(&listed, &into)? {
            Some(env) => {
                let op = self.op;
                crate::gil::detached(py, || call(op, &attrs, &ins, &targets, free, &env)).or_raise()?
            }
            None => run(py, self.op, &attrs, &ins, &targets, free).or_raise()?,
        };
        if let (true, Some(made)) = (self.outs.is_empty(), outs.slot(0).first().and_then(Option::as_ref)) {
            self.view(made);
        }
        self.wrap(py, outs)
    }

    /// The environment of an operator with a block among its attributes.
    #[cold]
    fn block_env(&self, program: Arc<Program>, listed: &Listed<'py>, into: &Listed<'py>) -> PyResult<InBlock> {
        let tensors =
            |slot: usize, obj: Option<&Object<'py>>, lists: &Listed<'py>| match obj.map(|o| o.cast::<PyTensor>()) {
                Some(Ok(t)) => vec![t.clone()],
                _ => lists.iter().filter(|(at, _)| *at == slot).flat_map(|(_, items)| items.iter().cloned()).collect(),
            };
        let mut operands = Vec::new();
        for (slot, obj) in self.ins.iter().enumerate() {
            operands.push((self.op.inputs[slot].name, tensors(slot, obj.as_ref(), listed)));
        }
        for (slot, obj) in &self.outs {
            operands.push((self.op.outputs[*slot].name, tensors(*slot, Some(obj), into)));
        }
        let named = |t: &Bound<'_, PyTensor>| (t.get().name(), t.get().var.cell.clone());
        let operands = operands.into_iter().map(|(slot, list)| (slot, list.iter().map(named).collect())).collect();
        Ok(InBlock { program, operands })
    }

    #[inline]
    fn in_block(&self, listed: &Listed<'py>, into: &Listed<'py>) -> PyResult<Option<InBlock>> {
        if self.op.is_pure() {
            return Ok(None);
        }
        let block = self.named.iter().find_map(|(_, value)| value.cast::<PyBlockDesc>().ok());
        let program = block.and_then(|b| b.get().node().program());
        program.map(|program| self.block_env(program, listed, into)).transpose()
    }

    /// The Tensors of the lists among the inputs, by slot. The call owns them: the iterator of a subclass may create
    /// them on the fly, and another thread may change a list while the operator runs.
    fn listed(&self) -> PyResult<Listed<'py>> {
        let mut listed = Listed::new();
        for (slot, obj) in self.ins.iter().enumerate() {
            let Some(obj) = obj.as_ref().filter(|obj| !obj.is_instance_of::<PyTensor>()) else { continue };
            let list = obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>();
            if !list || !self.op.inputs[slot].has(SlotFlag::Duplicable) {
                return Err(self.bad_input(slot, obj));
            }
            let item = |item: Object<'py>| item.cast_into().map_err(|e| self.bad_input(slot, &e.into_inner()));
            listed.push((slot, obj.try_iter()?.map(|i| i.and_then(item)).collect::<PyResult<_>>()?));
        }
        Ok(listed)
    }

    /// As `listed`, for the outputs.
    fn listed_outputs(&self) -> PyResult<Listed<'py>> {
        let mut listed = Listed::new();
        for (slot, obj) in self.outs.iter().filter(|(slot, _)| self.op.outputs[*slot].has(SlotFlag::Duplicable)) {
            let list = obj.cast::<PyList>().map_err(|_| self.bad_output(*slot, obj))?;
            let item = |item: Object<'py>| item.cast_into().map_err(|e| self.bad_output(*slot, &e.into_inner()));
            listed.push((*slot, list.iter().map(item).collect::<PyResult<_>>()?));
        }
        Ok(listed)
    }

    /// Destinations where an output list is given: lists determine the number of variables.
    fn duplicable_targets<'a>(&'a self, listed: &'a Listed<'py>) -> PyResult<Args<Destination<'a>>> {
        let mut targets = Args::new();
        for slot in 0..self.op.outputs.len() {
            if let Some((_, items)) = listed.iter().find(|(at, _)| *at == slot) {
                targets.push_slot(items.iter().map(|t| Destination::Into(&t.get().var)));
                continue;
            }
            match self.outs.iter().find(|(at, _)| *at == slot) {
                Some((_, obj)) => {
                    let t = obj.cast::<PyTensor>().map_err(|_| self.bad_output(slot, obj))?;
                    targets.push_one(Destination::Into(&t.get().var));
                }
                None => targets.push_one(Destination::New),
            }
        }
        Ok(targets)
    }

    fn wrap(&self, py: Python<'py>, mut outs: Args<Option<EagerVar>>) -> PyResult<Object<'py>> {
        let given = |slot: usize| self.outs.iter().find(|(i, _)| *i == slot).map(|(_, o)| o.clone());
        let mut one = |slot: usize| -> PyResult<Object<'py>> {
            if let Some(obj) = given(slot) {
                return Ok(obj);
            }
            if self.op.outputs[slot].has(SlotFlag::Duplicable) {
                let list = PyList::empty(py);
                for v in outs.slot_mut(slot) {
                    match v.take() {
                        Some(v) => list.append(PyTensor::wrap(py, v)?)?,
                        None => list.append(py.None())?,
                    }
                }
                return Ok(list.into_any());
            }
            match outs.slot_mut(slot).first_mut().and_then(Option::take) {
                Some(v) => Ok(PyTensor::wrap(py, v)?.into_any()),
                None => Ok(py.None().into_bound(py)),
            }
        };
        results(py, self.op, &mut one)
    }

    /// Static mode: Python creates output variables and appends the operator.
    fn append(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        let (inputs, attrs, outputs) = (PyDict::new(py), PyDict::new(py), PyDict::new(py));
        for (slot, obj) in self.ins.iter().enumerate() {
            if let Some(obj) = obj {
                inputs.set_item(self.op.inputs[slot].name, obj)?;
            }
        }
        for (name, value) in &self.named {
            self.field(name.cast::<PyString>()?.to_str()?)?;
            if !value.is_none() {
                attrs.set_item(name, value)?;
            }
        }
        for (slot, obj) in &self.outs {
            outputs.set_item(self.op.outputs[*slot].name, obj)?;
        }
        let made = append_hook(py)?.bind(py).call1((self.op.name, inputs, attrs, outputs))?;
        let made = made.cast_into::<PyDict>()?;
        let mut one = |slot: usize| -> PyResult<Object<'py>> {
            let s = &self.op.outputs[slot];
            match made.get_item(s.name)? {
                None => Ok(py.None().into_bound(py)),
                Some(list) if s.has(SlotFlag::Duplicable) => Ok(list),
                Some(list) if list.is_instance_of::<PyList>() => list.get_item(0),
                Some(var) => Ok(var),
            }
        };
        results(py, self.op, &mut one)
    }

    fn bad_input(&self, slot: usize, got: &Object) -> PyErr {
        wrong_type(self.op, "input", self.op.inputs[slot].name, got)
    }

    fn bad_output(&self, slot: usize, got: &Object) -> PyErr {
        wrong_type(self.op, "output", self.op.outputs[slot].name, got)
    }
}

/// True if there is a keyword argument of this name.
///
/// # Safety
/// `kwnames` is null or a tuple of str.
#[cold]
unsafe fn is_named(py: Python<'_>, kwnames: *mut ffi::PyObject, name: &str) -> PyResult<bool> {
    // SAFETY: by the contract.
    match unsafe { Bound::from_borrowed_ptr_or_opt(py, kwnames) } {
        Some(names) => names.contains(name),
        None => Ok(false),
    }
}

fn wrong_type(op: &Op, what: &str, name: &str, got: &Object) -> PyErr {
    let kind = got.get_type().name().map(|n| n.to_string()).unwrap_or_default();
    PyValueError::new_err(format!("operator {}: {what} '{name}' must be a Tensor, got {kind}", op.name))
}

#[cold]
fn bad_attr(op: &Op, field: &oar_core::op::attrs::Field, got: &Object) -> PyErr {
    let text = shortened(got.repr().map(|r| r.to_string()).unwrap_or_default(), 400);
    let (op, attr, kind) = (op.name, field.name, field.kind);
    PyValueError::new_err(format!("operator {op}: attribute '{attr}' must be of type {kind:?}, got {text}"))
}

/// The outputs that are returned: the only one, or a tuple in slot order.
fn results<'py>(
    py: Python<'py>,
    op: &'static Op,
    one: &mut dyn FnMut(usize) -> PyResult<Object<'py>>,
) -> PyResult<Object<'py>> {
    let mut shown = op.outputs.iter().enumerate().filter(|(_, s)| !s.has(SlotFlag::NotReturned)).map(|(i, _)| i);
    match (shown.next(), shown.next()) {
        (None, _) => Ok(py.None().into_bound(py)),
        (Some(only), None) => one(only),
        (Some(first), Some(second)) => {
            let items = [first, second].into_iter().chain(shown).map(one).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, items)?.into_any())
        }
    }
}

/// A call with Tensors only and default attributes, by the shortcut.
///
/// # Safety
/// `args` are the `nargs` positional arguments of a vectorcall.
#[inline]
unsafe fn tensors_alone(
    py: Python<'_>,
    op: &'static Op,
    args: *const *mut ffi::PyObject,
    nargs: isize,
) -> Option<EagerVar> {
    if op.fast_path.is_none() || op.attrs.fields.iter().any(|f| f.required) {
        return None;
    }
    // SAFETY: by the contract, and the caller of the vectorcall holds its arguments.
    let object = |i: isize| unsafe { Borrowed::from_ptr(py, *args.offset(i)) };
    match nargs {
        1 => {
            let x = object(0);
            let x = &x.cast::<PyTensor>().ok()?.get().var;
            let made = call_quick(op, (op.attrs.shared)(), &[x])?;
            if op.views {
                made.cell.join(&x.cell);
            }
            Some(made)
        }
        2 => {
            let (x, y) = (object(0), object(1));
            let (x, y) = (x.cast::<PyTensor>().ok()?, y.cast::<PyTensor>().ok()?);
            call_quick(op, (op.attrs.shared)(), &[&x.get().var, &y.get().var])
        }
        _ => None,
    }
}

/// The C function of every builtin.
unsafe extern "C" fn trampoline(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls this with the GIL held; `slf` is the capsule made in `register`.
    let (py, op) = unsafe {
        let op = ffi::PyCapsule_GetPointer(slf, c"oar.op".as_ptr()) as *const Op;
        (Python::assume_attached(), &*op)
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        if kwnames.is_null() && !is_static() {
            // SAFETY: the arguments are those of this vectorcall.
            if let Some(v) = unsafe { tensors_alone(py, op, args, nargs) } {
                return Ok(PyTensor::wrap(py, v)?.into_any());
            }
        }
        // SAFETY: as above.
        let call = unsafe { BuiltinCall::parse(py, op, args, nargs, kwnames) }?;
        if is_static() {
            call.append(py)
        } else {
            call.run(py)
        }
    }));
    match result {
        Ok(Ok(obj)) => obj.into_ptr(),
        Ok(Err(e)) => {
            e.restore(py);
            std::ptr::null_mut()
        }
        Err(panic) => {
            let text = oar_core::op::call::panic_text(&*panic).to_string();
            raise(oar_core::err!(Fatal, "internal error in operator {}: {text}", op.name)).restore(py);
            std::ptr::null_mut()
        }
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let ops_module = PyModule::new(py, "ops")?;
    for op in table::all() {
        let doc = CString::new(format!("Operator {} (see op_table()).", op.name))?;
        let name = CString::new(op.name)?;
        // One definition per operator, for the life of the process.
        let def = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: name.into_raw() as *const c_char,
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: trampoline },
            ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
            ml_doc: doc.into_raw() as *const c_char,
        }));
        // SAFETY: the definition and the operator live for ever; null results carry an exception.
        let function = unsafe {
            let capsule = ffi::PyCapsule_New(op as *const Op as *mut _, c"oar.op".as_ptr(), None);
            let capsule = Bound::from_owned_ptr_or_err(py, capsule)?;
            let f = ffi::PyCFunction_NewEx(def, capsule.as_ptr(), std::ptr::null_mut());
            Bound::from_owned_ptr_or_err(py, f)?
        };
        ops_module.add(op.name, function)?;
    }
    m.add_submodule(&ops_module)?;
    Ok(())
}
