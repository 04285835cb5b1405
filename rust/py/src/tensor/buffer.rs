//! The buffer protocol (PEP 3118): `memoryview` and numpy see LoDTensors without a copy, as in Paddle. A Tensor has
//! none: numpy prefers it to `__array__`, and `np.asarray(tensor)` is a copy in Paddle.

use oar_core::base::DType;
use oar_core::tensor::{Export, VarStorage};
use oar_ops_common::elements::strides_of;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void, CStr};

/// The memory of a filled view, and what keeps the bytes.
struct View {
    shape: Vec<isize>,
    strides: Vec<isize>,
    _bytes: Export,
}

/// The element type in the struct module's notation.
fn format(dtype: DType) -> &'static CStr {
    match dtype {
        DType::Bool => c"?",
        DType::I16 => c"h",
        DType::I32 => c"i",
        DType::I64 => c"l",
        DType::F16 => c"e",
        DType::F32 => c"f",
        DType::F64 => c"d",
        DType::U8 => c"B",
        DType::I8 => c"b",
        DType::BF16 => c"H", // the bits, as numpy() returns them
        DType::C64 => c"Zf",
        DType::C128 => c"Zd",
    }
}

/// Fills a view of the tensor in a variable; the bytes are pinned until the view is released.
///
/// # Safety
/// `view` points to a `Py_buffer` that the interpreter asks to fill.
pub unsafe fn fill(
    cell: &VarStorage,
    owner: Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no view to fill"));
    }
    // SAFETY: not null; an error leaves no owner in it.
    unsafe { (*view).obj = std::ptr::null_mut() };
    let wants = |flag: c_int| flags & flag == flag;
    if cell.lock().as_dense().is_some_and(|t| t.on_device().is_some()) {
        return Err(PyBufferError::new_err("the tensor is on a GPU: copy it to the CPU first"));
    }
    let out = cell.export(wants(ffi::PyBUF_WRITABLE)).map_err(|e| PyBufferError::new_err(e.to_string()))?;
    let one_long = out.dims.iter().filter(|&&d| d != 1).count() <= 1;
    if wants(ffi::PyBUF_F_CONTIGUOUS) && !wants(ffi::PyBUF_ANY_CONTIGUOUS) && !one_long {
        return Err(PyBufferError::new_err("tensors are in C order, the view asks for Fortran order"));
    }
    let size = out.dtype.size();
    let mut kept = Box::new(View {
        shape: out.dims.iter().map(|&d| d as isize).collect(),
        strides: strides_of(&out.dims).iter().map(|s| s * size as isize).collect(),
        _bytes: out.export,
    });
    let when = |flag: c_int, p: *mut isize| if wants(flag) { p } else { std::ptr::null_mut() };
    // SAFETY: the pointers live in `kept`, which the view owns until `release`.
    unsafe {
        (*view).buf = out.ptr.cast();
        (*view).len = kept.shape.iter().product::<isize>() * size as isize;
        (*view).itemsize = size as isize;
        (*view).readonly = kept._bytes.buffer().is_read_only() as c_int;
        (*view).ndim = kept.shape.len() as c_int;
        (*view).format =
            if wants(ffi::PyBUF_FORMAT) { format(out.dtype).as_ptr().cast_mut() } else { std::ptr::null_mut() };
        (*view).shape = when(ffi::PyBUF_ND, kept.shape.as_mut_ptr());
        (*view).strides = when(ffi::PyBUF_STRIDES, kept.strides.as_mut_ptr());
        (*view).suboffsets = std::ptr::null_mut();
        (*view).internal = Box::into_raw(kept).cast::<c_void>();
        (*view).obj = owner.into_ptr();
    }
    Ok(())
}

/// Releases the bytes of a view.
///
/// # Safety
/// `view` was filled by [`fill`] and is released once.
pub unsafe fn release(view: *mut ffi::Py_buffer) {
    // SAFETY: `fill` has put the box there.
    unsafe {
        drop(Box::from_raw((*view).internal.cast::<View>()));
        (*view).internal = std::ptr::null_mut();
    }
}
