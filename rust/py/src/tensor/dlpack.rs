//! DLPack: memory shared with other libraries, in both directions (dlpack.h, versions 0 and 1).

use crate::error::OrRaise;
use crate::tensor::lod_tensor::PyLoDTensor;
use crate::tensor::object::PyTensor;
use oar_core::base::shape::checked_numel;
use oar_core::base::{shortened, DType, Result};
use oar_core::tensor::{Buffer, Export, Owner, Tensor, VarStorage};
use oar_ops_common::elements::{strided, strides_of};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_void, CStr};
use std::ptr::NonNull;
use std::sync::Arc;

const CPU: i32 = 1;
/// Memory of the host that a GPU can reach.
const CUDA_HOST: i32 = 3;
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
const MAX_RANK: usize = 16;

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlArray {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    array: DlArray,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    array: DlArray,
}

/// The two kinds of capsule.
trait CapsuleKind: Sized + 'static {
    const NAME: &'static CStr;
    const USED: &'static CStr;
    fn new(array: DlArray, flags: u64) -> Self;
    fn owned_by(&mut self, context: *mut c_void);
    fn context(&self) -> *mut c_void;
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
    fn array(&self) -> &DlArray;
    /// The flags, or the unsupported major version.
    fn flags(&self) -> std::result::Result<u64, u32>;
}

impl CapsuleKind for Managed {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";
    fn new(array: DlArray, _flags: u64) -> Managed {
        Managed { array, context: std::ptr::null_mut(), deleter: Some(give_back::<Managed>) }
    }
    fn owned_by(&mut self, context: *mut c_void) {
        self.context = context;
    }
    fn context(&self) -> *mut c_void {
        self.context
    }
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Managed)> {
        self.deleter
    }
    fn array(&self) -> &DlArray {
        &self.array
    }
    fn flags(&self) -> std::result::Result<u64, u32> {
        Ok(0)
    }
}

impl CapsuleKind for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";
    fn new(array: DlArray, flags: u64) -> Versioned {
        let deleter = Some(give_back::<Versioned> as unsafe extern "C" fn(*mut Versioned));
        Versioned { major: 1, minor: 0, context: std::ptr::null_mut(), deleter, flags, array }
    }
    fn owned_by(&mut self, context: *mut c_void) {
        self.context = context;
    }
    fn context(&self) -> *mut c_void {
        self.context
    }
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Versioned)> {
        self.deleter
    }
    fn array(&self) -> &DlArray {
        &self.array
    }
    fn flags(&self) -> std::result::Result<u64, u32> {
        if self.major == 1 {
            Ok(self.flags)
        } else {
            Err(self.major)
        }
    }
}

const TYPES: [(DType, u8); 12] = [
    (DType::I8, 0),
    (DType::I16, 0),
    (DType::I32, 0),
    (DType::I64, 0),
    (DType::U8, 1),
    (DType::F16, 2),
    (DType::F32, 2),
    (DType::F64, 2),
    (DType::BF16, 4),
    (DType::C64, 5),
    (DType::C128, 5),
    (DType::Bool, 6),
];

fn dl_type(&(dtype, code): &(DType, u8)) -> DlType {
    DlType { code, bits: 8 * dtype.size() as u8, lanes: 1 }
}

// Export.

/// An exported struct and what it points into.
struct Preallocated<K> {
    managed: K,
    shape: Vec<i64>,
    strides: Vec<i64>,
    _bytes: Export,
}

/// The deleter of an export; called from any thread, with or without the GIL.
unsafe extern "C" fn give_back<K: CapsuleKind>(managed: *mut K) {
    // SAFETY: `capsule` has put the box there, and the consumer calls its deleter once.
    unsafe { drop(Box::from_raw((*managed).context().cast::<Preallocated<K>>())) }
}

/// Frees an export that was never consumed.
unsafe extern "C" fn forgotten<K: CapsuleKind>(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule of this name points to a K.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, K::NAME.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(capsule, K::NAME.as_ptr()).cast::<K>();
            if let Some(delete) = (*managed).deleter() {
                delete(managed);
            }
        }
    }
}

fn capsule<K: CapsuleKind>(py: Python<'_>, out: oar_core::tensor::Exported, flags: u64) -> PyResult<Py<PyAny>> {
    let dtype = TYPES.iter().find(|(d, _)| *d == out.dtype).map(dl_type);
    let dtype = dtype.ok_or_else(|| PyBufferError::new_err(format!("DLPack has no {}", out.dtype)))?;
    let strides = strides_of(&out.dims).iter().map(|&s| s as i64).collect();
    let array = DlArray {
        data: out.ptr.cast(),
        device: DlDevice { kind: CPU, id: 0 },
        ndim: out.dims.len() as i32,
        dtype,
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = K::new(array, flags);
    let preallocated = Box::into_raw(Box::new(Preallocated { managed, shape: out.dims, strides, _bytes: out.export }));
    // SAFETY: the box was just made; the capsule owns it from here on.
    unsafe {
        let (shape, strides) = ((*preallocated).shape.as_mut_ptr(), (*preallocated).strides.as_mut_ptr());
        let array = std::ptr::from_ref((*preallocated).managed.array()).cast_mut();
        ((*array).shape, (*array).strides) = (shape, strides);
        (*preallocated).managed.owned_by(preallocated.cast());
        let made =
            ffi::PyCapsule_New((&raw mut (*preallocated).managed).cast(), K::NAME.as_ptr(), Some(forgotten::<K>));
        if made.is_null() {
            drop(Box::from_raw(preallocated));
        }
        Bound::from_owned_ptr_or_err(py, made).map(Bound::unbind)
    }
}

/// A capsule that shares the memory of a variable's tensor, or (`copy`) has a copy.
fn lend(py: Python<'_>, cell: &VarStorage, versioned: bool, copy: Option<bool>) -> PyResult<Py<PyAny>> {
    let t = cell.tensor().map_err(|e| PyBufferError::new_err(e.to_string()))?;
    // The unversioned struct cannot express that memory is read-only.
    let must = t.on_device().is_some() || t.buffer().is_read_only() && !versioned;
    if must && copy == Some(false) {
        return Err(PyBufferError::new_err(
            "copy=False: the memory is on a GPU or read-only, and a copy was ruled out",
        ));
    }
    let (out, mut flags) = if must || copy == Some(true) {
        t.fetch().or_raise()?;
        (VarStorage::new(t.deep_copy().or_raise()?).export(true).or_raise()?, IS_COPIED)
    } else {
        drop(t); // the variable's own reference must be the only one
        (cell.export(false).or_raise()?, 0)
    };
    if out.export.buffer().is_read_only() {
        flags |= READ_ONLY;
    }
    if versioned {
        capsule::<Versioned>(py, out, flags)
    } else {
        capsule::<Managed>(py, out, flags)
    }
}

fn cell_of<'a>(x: &'a Bound<'_, PyAny>) -> PyResult<&'a Arc<VarStorage>> {
    if let Ok(t) = x.cast::<PyTensor>() {
        return Ok(&t.get().var.cell);
    }
    match x.cast::<PyLoDTensor>() {
        Ok(t) => Ok(&t.get().0),
        Err(_) => Err(PyTypeError::new_err(format!(
            "to_dlpack: argument 'x' must be a Tensor, got {}",
            x.get_type().fully_qualified_name()?
        ))),
    }
}

/// A DLPack capsule of a Tensor or LoDTensor.
#[pyfunction]
#[pyo3(signature = (x, versioned=false, copy=None))]
fn to_dlpack(x: &Bound<'_, PyAny>, versioned: bool, copy: Option<bool>) -> PyResult<Py<PyAny>> {
    lend(x.py(), cell_of(x)?, versioned, copy)
}

// Import.

/// A consumed struct; dropping it calls its deleter.
struct Borrowed<K: CapsuleKind>(*mut K);

// SAFETY: DLPack lets any thread call the deleter, and nothing else is done with the pointer.
unsafe impl<K: CapsuleKind> Send for Borrowed<K> {}
// SAFETY: as above.
unsafe impl<K: CapsuleKind> Sync for Borrowed<K> {}

impl<K: CapsuleKind> Drop for Borrowed<K> {
    fn drop(&mut self) {
        // SAFETY: the struct lives until its deleter has run, and this is the only call.
        unsafe {
            if let Some(delete) = (*self.0).deleter() {
                delete(self.0);
            }
        }
    }
}

/// The checked description of an imported array.
struct Layout {
    first: *mut u8,
    dtype: DType,
    dims: Vec<i64>,
    strides: Vec<isize>,
    /// Elements before and after the first that belong to the array.
    before: usize,
    behind: usize,
    compact: bool,
}

fn refuse<T>(why: impl std::fmt::Display) -> PyResult<T> {
    Err(PyBufferError::new_err(format!("from_dlpack: {why}")))
}

/// # Safety
/// The struct is as dlpack.h says.
unsafe fn layout(a: &DlArray) -> PyResult<Layout> {
    if a.device.kind != CPU && a.device.kind != CUDA_HOST {
        return refuse(format!(
            "the array is on a device of type {}: copy it to the CPU (device type 1) first",
            a.device.kind
        ));
    }
    let Some(&(dtype, _)) = TYPES.iter().find(|t| dl_type(t) == a.dtype) else {
        let DlType { code, bits, lanes } = a.dtype;
        return refuse(format!("no tensor has elements of DLPack type code {code}, {bits} bits, {lanes} lanes"));
    };
    let rank = match usize::try_from(a.ndim) {
        Ok(n) if n <= MAX_RANK && (n == 0 || !a.shape.is_null()) => n,
        _ => return refuse(format!("expected 0 to {MAX_RANK} dimensions, got {}", a.ndim)),
    };
    // SAFETY: shape and strides (where there are any) have one number for each dimension.
    let given = |p: *const i64| unsafe {
        if rank == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(p, rank)
        }
    };
    let dims = given(a.shape).to_vec();
    let numel = match checked_numel(&dims) {
        Ok(n) if dims.iter().all(|&d| d >= 0) => n,
        _ => return refuse(format!("no array has the shape {dims:?}")),
    };
    let plain = strides_of(&dims);
    let strides: Vec<isize> = match a.strides.is_null() {
        true => plain.to_vec(),
        false => given(a.strides).iter().map(|&s| s as isize).collect(),
    };
    let compact = numel == 0 || (0..rank).all(|i| dims[i] == 1 || strides[i] == plain[i]);
    let (mut before, mut behind) = (0i128, 0i128);
    for (&d, &s) in dims.iter().zip(&strides).filter(|_| numel > 0) {
        let reach = i128::from(d - 1) * s as i128;
        (before, behind) = (before - reach.min(0), behind + reach.max(0));
    }
    if numel > 0 && (a.data.is_null() || (before + behind + 1) * dtype.size() as i128 > isize::MAX as i128) {
        return refuse(format!("shape {dims:?} with strides {strides:?} at {:?} is no memory", a.data));
    }
    let first = a.data.cast::<u8>().wrapping_add(a.byte_offset as usize);
    Ok(Layout { first, dtype, dims, strides, before: before as usize, behind: behind as usize, compact })
}

/// Copies an array element by element, for unaligned memory.
///
/// # Safety
/// The memory is as the layout says.
unsafe fn gather(l: &Layout, out: &mut Tensor) -> Result<()> {
    let (size, n) = (l.dtype.size(), out.numel());
    let mut index = vec![0i64; l.dims.len()];
    let mut at = 0isize;
    let bytes = out.bytes_mut()?;
    for to in bytes.chunks_exact_mut(size).take(n) {
        // SAFETY: `at` is the offset of an element.
        unsafe { std::ptr::copy_nonoverlapping(l.first.wrapping_offset(at * size as isize), to.as_mut_ptr(), size) };
        for d in (0..index.len()).rev() {
            (index[d], at) = (index[d] + 1, at.wrapping_add(l.strides[d]));
            if index[d] < l.dims[d] {
                break;
            }
            at = at.wrapping_sub(l.strides[d].wrapping_mul(l.dims[d] as isize));
            index[d] = 0;
        }
    }
    Ok(())
}

/// The tensor of a layout, over the memory itself or (`copy`, or where it must) a copy.
///
/// # Safety
/// The memory is as the layout says for as long as `owner` lives.
unsafe fn tensor<K: CapsuleKind>(l: &Layout, owner: Borrowed<K>, flags: u64, copy: bool) -> Result<Tensor> {
    let size = l.dtype.size();
    let aligned = l.first.align_offset(size.min(8)) == 0;
    let mut out = match NonNull::new(l.first.wrapping_sub(l.before * size)) {
        Some(start) if aligned && l.dims.iter().all(|&d| d > 0) => {
            let n = l.before + l.behind + 1;
            let of = match (flags & READ_ONLY != 0, flags & IS_COPIED != 0) {
                (true, _) => Owner::ReadOnly,
                (false, true) => Owner::Us,
                (false, false) => Owner::Outside,
            };
            // SAFETY: all elements lie in these bytes.
            let buffer = unsafe { Buffer::foreign(start, n * size, Box::new(owner), of) };
            let flat = Tensor::from_buffer(buffer, l.dtype, &[n as i64])?;
            if l.compact && !copy {
                return Ok(flat.reshaped(&l.dims));
            }
            strided(&flat, &l.dims, &l.strides, l.before)?
        }
        _ => {
            let mut out = Tensor::empty(l.dtype, &l.dims)?;
            // SAFETY: as the caller says.
            unsafe { gather(l, &mut out)? };
            out
        }
    };
    out.normalise_bools()?;
    Ok(out)
}

fn consume<K: CapsuleKind>(capsule: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Option<Tensor>> {
    // SAFETY: a valid capsule of this name points to an unconsumed K.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), K::NAME.as_ptr()) != 1 {
            return Ok(None);
        }
        let managed = ffi::PyCapsule_GetPointer(capsule.as_ptr(), K::NAME.as_ptr()).cast::<K>();
        let flags = match (*managed).flags() {
            Ok(flags) => flags,
            Err(major) => return refuse(format!("DLPack version {major} is not known here")),
        };
        let l = layout((*managed).array())?;
        let aligned = l.first.align_offset(l.dtype.size().min(8)) == 0;
        // Elements of bool must be 0 or 1: an array with other values is copied, and so is one that only its owner may
        // write (later values could not be normalised there).
        let bits = || {
            let n = l.behind + 1;
            let given = || std::slice::from_raw_parts(l.first, n);
            l.dtype != DType::Bool || flags & READ_ONLY == 0 && given().iter().all(|&b| b <= 1)
        };
        let shareable = l.dims.contains(&0) || l.compact && aligned && bits();
        let must = !shareable;
        if must && copy == Some(false) {
            return refuse("copy=False: the array is not contiguous or not aligned, and a copy was ruled out");
        }
        if ffi::PyCapsule_SetName(capsule.as_ptr(), K::USED.as_ptr()) != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        let t = tensor(&l, Borrowed(managed), flags, must || copy == Some(true)).or_raise()?;
        Ok(Some(if t.rank() == 0 { t.reshaped(&[1]) } else { t }))
    }
}

fn borrow(capsule: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Tensor> {
    if let Some(t) = consume::<Versioned>(capsule, copy)? {
        return Ok(t);
    }
    if let Some(t) = consume::<Managed>(capsule, copy)? {
        return Ok(t);
    }
    // SAFETY: a check of a live object.
    let used = [Versioned::USED, Managed::USED]
        .iter()
        .any(|name| unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) } == 1);
    if used {
        return refuse("the capsule was consumed before; each can be consumed once");
    }
    Err(PyTypeError::new_err(format!(
        "The type of 'dlpack' in from_dlpack must be PyCapsule object (a capsule named 'dltensor' or \
         'dltensor_versioned'), but received {}.",
        shortened(capsule.repr()?.to_string(), 400)
    )))
}

/// A LoDTensor over the memory of a DLPack capsule.
#[pyfunction]
fn from_dlpack(dltensor: &Bound<'_, PyAny>) -> PyResult<PyLoDTensor> {
    Ok(PyLoDTensor(Arc::new(VarStorage::new(borrow(dltensor, None)?))))
}

/// A Tensor over the memory of a DLPack capsule.
#[pyfunction]
#[pyo3(signature = (dlpack, copy=None))]
fn tensor_from_dlpack<'py>(dlpack: &Bound<'py, PyAny>, copy: Option<bool>) -> PyResult<Bound<'py, PyTensor>> {
    PyTensor::given(dlpack.py(), borrow(dlpack, copy)?, true)
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(to_dlpack, m)?)?;
    m.add_function(wrap_pyfunction!(from_dlpack, m)?)?;
    m.add_function(wrap_pyfunction!(tensor_from_dlpack, m)?)
}
