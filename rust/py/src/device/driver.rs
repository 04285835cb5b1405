//! The functions of libcuda that recipes call, loaded from the library that the Python machine names; memory of the
//! stream-ordered pool.

use crate::error::OrRaise;
use oar_core::base::Result;
use oar_core::{bail, err};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::ffi::{c_int, c_uint, c_void, CStr, CString};
use std::sync::Arc;

type Code = c_int;
type Launch = unsafe extern "C" fn(
    *const c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Code;

type Push = unsafe extern "C" fn(*mut c_void) -> Code;
type Pop = unsafe extern "C" fn(*mut *mut c_void) -> Code;
type Alloc = unsafe extern "C" fn(*mut u64, usize, *mut c_void) -> Code;
type Free = unsafe extern "C" fn(u64, *mut c_void) -> Code;
type Upload = unsafe extern "C" fn(u64, *const c_void, usize, *mut c_void) -> Code;

/// The functions, and the context and stream of one device.
pub struct Driver {
    context: usize,
    stream: usize,
    push: Push,
    pop: Pop,
    alloc: Alloc,
    free: Free,
    upload: Upload,
    launch: Launch,
}

/// One launch: a kernel with its grid, the threads of a block and the bytes of dynamic shared memory.
pub struct Launched {
    pub function: usize,
    pub grid: [u32; 3],
    pub block: u32,
    pub shared: u32,
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void> {
    // SAFETY: the handle is that of a loaded library, which is never closed.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        bail!(Unavailable, "the CUDA driver library has no function {}", name.to_string_lossy());
    }
    Ok(found)
}

impl Driver {
    /// `path` is that of libcuda; `context` and `stream` are the driver's handles.
    pub fn load(path: &str, context: usize, stream: usize) -> Result<Driver> {
        let name = CString::new(path).map_err(|_| err!(InvalidArgument, "a path has a zero byte: {path:?}"))?;
        // SAFETY: initialisers of the library run; libcuda's have no condition.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            bail!(Unavailable, "the CUDA driver library {path} cannot be loaded");
        }
        // SAFETY: the signatures are those of cuda.h.
        unsafe {
            Ok(Driver {
                context,
                stream,
                push: std::mem::transmute::<*mut c_void, Push>(symbol(library, c"cuCtxPushCurrent_v2")?),
                pop: std::mem::transmute::<*mut c_void, Pop>(symbol(library, c"cuCtxPopCurrent_v2")?),
                alloc: std::mem::transmute::<*mut c_void, Alloc>(symbol(library, c"cuMemAllocAsync")?),
                free: std::mem::transmute::<*mut c_void, Free>(symbol(library, c"cuMemFreeAsync")?),
                upload: std::mem::transmute::<*mut c_void, Upload>(symbol(library, c"cuMemcpyHtoDAsync_v2")?),
                launch: std::mem::transmute::<*mut c_void, Launch>(symbol(library, c"cuLaunchKernel")?),
            })
        }
    }

    /// Calls `f` with the device's context as the current one of this thread.
    pub fn within<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        // SAFETY: the context is that of a device in use, which lives as long as the process.
        check("cuCtxPushCurrent", unsafe { (self.push)(self.context as *mut c_void) })?;
        let result = f();
        let mut held = std::ptr::null_mut();
        // SAFETY: pops what was pushed above.
        check("cuCtxPopCurrent", unsafe { (self.pop)(&mut held) })?;
        result
    }

    /// New memory of the stream's pool. Call it within the context.
    pub fn alloc(self: &Arc<Driver>, bytes: usize) -> Result<Arc<Block>> {
        let mut address = 0;
        // SAFETY: writes the address.
        let code = unsafe { (self.alloc)(&mut address, bytes.max(1), self.stream as *mut c_void) };
        if code != 0 {
            bail!(ResourceExhausted, "cuMemAllocAsync of {bytes} bytes failed with the CUDA error {code}");
        }
        Ok(Arc::new(Block { driver: self.clone(), address }))
    }

    /// Writes numbers to the start of a block, in the order of the stream; they may be changed afterwards: the driver
    /// stages what is in pageable memory. Call it within the context.
    pub fn upload(&self, block: &Block, numbers: &[u64]) -> Result<()> {
        let bytes = std::mem::size_of_val(numbers);
        // SAFETY: the block is of at least as many bytes, by the caller's contract.
        let code = unsafe { (self.upload)(block.address, numbers.as_ptr().cast(), bytes, self.stream as *mut c_void) };
        check("cuMemcpyHtoDAsync", code)
    }

    /// Starts a kernel on the stream. Call it within the context.
    ///
    /// # Safety
    /// `params` points to the kernel's arguments, in number and types.
    pub unsafe fn launch(&self, at: &Launched, params: &mut [*mut c_void]) -> Result<()> {
        let ([x, y, z], stream) = (at.grid, self.stream as *mut c_void);
        let none = std::ptr::null_mut();
        // SAFETY: by the caller's contract.
        let code = unsafe {
            let function = at.function as *const c_void;
            (self.launch)(function, x, y, z, at.block, 1, 1, at.shared, stream, params.as_mut_ptr(), none)
        };
        check("cuLaunchKernel", code)
    }
}

/// A function of a CUDA library (cuBLAS, cuDNN) whose arguments are integers and pointers, and whose result is a status.
pub struct Function {
    pub name: String,
    pub address: usize,
}

/// A handle of a library serves one thread at a time.
static LIBRARIES: Mutex<()> = Mutex::new(());

/// `call!(address, args; a b c)` calls a function of as many arguments as there are names.
macro_rules! call {
    ($address:expr, $args:expr; $($arg:ident)*) => {{
        let [$($arg),*] = $args else { unreachable!() };
        let function = std::mem::transmute::<usize, unsafe extern "C" fn($(call!(@word $arg)),*) -> Code>($address);
        function($(*$arg),*)
    }};
    (@word $arg:ident) => { u64 };
}

impl Function {
    /// Calls it with the bits of its arguments: both processors' Linux ABIs pass an integer of at most 64 bits in a
    /// register or in 8 bytes of the stack.
    ///
    /// # Safety
    /// The arguments are those of the function's prototype, and the pointers among them are valid.
    pub unsafe fn call(&self, args: &[u64]) -> Result<()> {
        let _held = LIBRARIES.lock();
        // SAFETY: by the caller's contract; the number of arguments is that of the pattern.
        let code = unsafe {
            match args.len() {
                13 => call!(self.address, args; a b c d e f g h i j k l m),
                19 => call!(self.address, args; a b c d e f g h i j k l m n o p q r s),
                23 => call!(self.address, args; a b c d e f g h i j k l m n o p q r s t u v w),
                n => bail!(Unimplemented, "{} with {n} arguments: functions of 13, 19 and 23 are called", self.name),
            }
        };
        match code {
            0 => Ok(()),
            code => bail!(External, "{} failed with the status {code}", self.name),
        }
    }
}

/// Calls a function of a CUDA library with the bits of its arguments, integers and addresses; an OSError for a status
/// other than 0.
#[pyfunction]
pub fn call_library(py: Python<'_>, name: String, address: usize, args: Vec<u64>) -> PyResult<()> {
    let function = Function { name, address };
    // SAFETY: launchers pass the arguments of the function's prototype.
    py.detach(|| unsafe { function.call(&args) }).or_raise()
}

fn check(function: &str, code: Code) -> Result<()> {
    match code {
        0 => Ok(()),
        code => bail!(External, "{function} failed with the CUDA error {code}"),
    }
}

/// Memory of the pool; freed in the order of the stream.
#[pyclass(frozen, module = "paddle._core")]
pub struct DeviceBlock(#[allow(dead_code)] pub Arc<Block>);

pub struct Block {
    driver: Arc<Driver>,
    pub address: u64,
}

impl Drop for Block {
    fn drop(&mut self) {
        let (driver, address) = (&self.driver, self.address);
        // An error has no reader: the process ends, or a kernel failed before and the next wait raises its error.
        drop(driver.within(|| {
            // SAFETY: the address is that of a block of the pool, which nothing refers to.
            check("cuMemFreeAsync", unsafe { (driver.free)(address, driver.stream as *mut c_void) })
        }));
    }
}
