//! The functions of libcuda that recipes call, loaded from the library that the Python machine names; memory of the
//! stream-ordered pool.

use crate::error::OrRaise;
use oar_core::base::Result;
use oar_core::{bail, err};
use oar_engine::graph::release_graphs;
use parking_lot::{Mutex, RwLock};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void, CStr, CString};
use std::sync::{Arc, Weak};

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
type Copy = unsafe extern "C" fn(u64, u64, usize, *mut c_void) -> Code;
type Begin = unsafe extern "C" fn(*mut c_void, c_uint) -> Code;
type End = unsafe extern "C" fn(*mut c_void, *mut usize) -> Code;
type Instantiate = unsafe extern "C" fn(*mut usize, usize, u64) -> Code;
type StartGraph = unsafe extern "C" fn(usize, *mut c_void) -> Code;
type FreeGraph = unsafe extern "C" fn(usize) -> Code;

/// CU_STREAM_CAPTURE_MODE_RELAXED: libraries may allocate meanwhile.
const RELAXED: c_uint = 2;

const OUT_OF_MEMORY: Code = 2;

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
    copy: Copy,
    begin: Begin,
    end: End,
    instantiate: Instantiate,
    start_graph: StartGraph,
    free_graph: FreeGraph,
    free_instance: FreeGraph,
}

/// Written by a thread that captures: others neither start nor free anything meanwhile.
static CAPTURING: RwLock<()> = RwLock::new(());

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
                copy: std::mem::transmute::<*mut c_void, Copy>(symbol(library, c"cuMemcpyDtoDAsync_v2")?),
                begin: std::mem::transmute::<*mut c_void, Begin>(symbol(library, c"cuStreamBeginCapture_v2")?),
                end: std::mem::transmute::<*mut c_void, End>(symbol(library, c"cuStreamEndCapture")?),
                instantiate: std::mem::transmute::<*mut c_void, Instantiate>(symbol(
                    library,
                    c"cuGraphInstantiateWithFlags",
                )?),
                start_graph: std::mem::transmute::<*mut c_void, StartGraph>(symbol(library, c"cuGraphLaunch")?),
                free_graph: std::mem::transmute::<*mut c_void, FreeGraph>(symbol(library, c"cuGraphDestroy")?),
                free_instance: std::mem::transmute::<*mut c_void, FreeGraph>(symbol(library, c"cuGraphExecDestroy")?),
            })
        }
    }

    /// Calls `f` with the device's context as the current one of this thread.
    pub fn within<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        let _held = CAPTURING.read_recursive();
        self.in_context(f)
    }

    fn in_context<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        // SAFETY: the context is that of a device in use, which lives as long as the process.
        check("cuCtxPushCurrent", unsafe { (self.push)(self.context as *mut c_void) })?;
        let result = f();
        let mut held = std::ptr::null_mut();
        // SAFETY: pops what was pushed above.
        check("cuCtxPopCurrent", unsafe { (self.pop)(&mut held) })?;
        result
    }

    /// New memory of the stream's pool, or of the arena of a thread that keeps what it starts. Call it within the context.
    pub fn alloc(self: &Arc<Driver>, bytes: usize) -> Result<Arc<Block>> {
        let arena = ARENA.with_borrow(|a| a.clone().filter(|a| Arc::ptr_eq(&a.driver, self)));
        let address = match &arena {
            Some(arena) => arena.take(bytes)?,
            None => self.new_memory(bytes)?,
        };
        Ok(Arc::new(Block { driver: self.clone(), address, arena: arena.map(|arena| (arena, bytes)) }))
    }

    /// New memory of the stream's pool, whatever the thread keeps. Call it within the context.
    pub fn alloc_outside(self: &Arc<Driver>, bytes: usize) -> Result<Arc<Block>> {
        Ok(Arc::new(Block { driver: self.clone(), address: self.new_memory(bytes)?, arena: None }))
    }

    fn new_memory(&self, bytes: usize) -> Result<u64> {
        let mut address = 0;
        // SAFETY: writes the address.
        let mut alloc = || unsafe { (self.alloc)(&mut address, bytes.max(1), self.stream as *mut c_void) };
        let mut code = alloc();
        if code == OUT_OF_MEMORY && release_graphs() > 0 {
            code = alloc();
        }
        if code != 0 {
            bail!(ResourceExhausted, "cuMemAllocAsync of {bytes} bytes failed with the CUDA error {code}");
        }
        Ok(address)
    }

    fn free_memory(&self, addresses: impl Iterator<Item = u64>) {
        // An error has no reader: the process ends, or a kernel failed before and the next wait raises its error.
        drop(self.within(|| {
            for address in addresses {
                // SAFETY: the address is that of a block of the pool, which nothing refers to.
                check("cuMemFreeAsync", unsafe { (self.free)(address, self.stream as *mut c_void) })?;
            }
            Ok(())
        }));
    }

    /// Copies bytes within the device, in the order of the stream. Call it within the context.
    ///
    /// # Safety
    /// Both addresses are those of as many bytes.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: by the caller's contract.
        check("cuMemcpyDtoDAsync", unsafe { (self.copy)(to, from, bytes, self.stream as *mut c_void) })
    }

    /// The executable graph of what `start` starts on the stream, which is not run.
    pub fn capture(&self, start: &mut dyn FnMut() -> Result<()>) -> Result<usize> {
        let _alone = CAPTURING.write();
        self.in_context(|| {
            let (mut graph, mut instance) = (0, 0);
            // SAFETY: the stream is not the legacy one; a captured graph is instantiated and destroyed once.
            unsafe {
                check("cuStreamBeginCapture", (self.begin)(self.stream as *mut c_void, RELAXED))?;
                let started = start();
                let ended = check("cuStreamEndCapture", (self.end)(self.stream as *mut c_void, &mut graph));
                let made = started
                    .and(ended)
                    .and_then(|()| check("cuGraphInstantiate", (self.instantiate)(&mut instance, graph, 0)));
                if graph != 0 {
                    check("cuGraphDestroy", (self.free_graph)(graph))?;
                }
                made.map(|()| instance)
            }
        })
    }

    pub fn start_graph(&self, instance: usize) -> Result<()> {
        // SAFETY: the instance is one of `capture`.
        self.within(|| check("cuGraphLaunch", unsafe { (self.start_graph)(instance, self.stream as *mut c_void) }))
    }

    pub fn free_graph(&self, instance: usize) {
        // SAFETY: as above; nothing refers to it, and one that is running is freed by the driver afterwards.
        drop(self.within(|| check("cuGraphExecDestroy", unsafe { (self.free_instance)(instance) })));
    }

    /// Writes numbers to the start of a block, in the order of the stream; they may be changed afterwards: the driver
    /// stages what is in pageable memory. Call it within the context.
    pub fn upload(&self, block: &Block, numbers: &[u64]) -> Result<()> {
        let bytes = std::mem::size_of_val(numbers);
        // SAFETY: the block is of at least as many bytes, by the caller's contract.
        let code = unsafe { (self.upload)(block.address, numbers.as_ptr().cast(), bytes, self.stream as *mut c_void) };
        check("cuMemcpyHtoDAsync", code)
    }

    /// Starts a kernel on the stream with the bits of its arguments. Call it within the context.
    ///
    /// # Safety
    /// `values` are the kernel's arguments, in number and types.
    pub unsafe fn launch(&self, at: &Launched, values: &mut [u64]) -> Result<()> {
        let mut params: SmallVec<[*mut c_void; 24]> = values.iter_mut().map(|v| v as *mut u64 as *mut c_void).collect();
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
    py.detach(|| {
        let _held = CAPTURING.read_recursive();
        // SAFETY: launchers pass the arguments of the function's prototype.
        unsafe { function.call(&args) }
    })
    .or_raise()
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
    arena: Option<(Arc<Arena>, usize)>,
}

impl Drop for Block {
    fn drop(&mut self) {
        match &self.arena {
            Some((arena, bytes)) => arena.give(*bytes, self.address),
            None => self.driver.free_memory(std::iter::once(self.address)),
        }
    }
}

thread_local! {
    static ARENA: RefCell<Option<Arc<Arena>>> = const { RefCell::new(None) };
}

/// The arenas that are in use.
static ARENAS: Mutex<Vec<Weak<Arena>>> = Mutex::new(Vec::new());

/// True if the address is in memory of graphs.
pub fn is_of_graphs(address: u64) -> bool {
    ARENAS.lock().iter().any(|a| a.upgrade().is_some_and(|a| a.has(address)))
}

/// Memory of graphs. Blocks that are dropped while its steps run are used again by later ones, as the order of the
/// stream allows; all of it is freed with the graph and the last block.
pub struct Arena {
    driver: Arc<Driver>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Addresses and bytes.
    all: Vec<(u64, usize)>,
    free: Vec<(usize, u64)>,
}

impl Arena {
    pub fn new(driver: Arc<Driver>) -> Arc<Arena> {
        let arena = Arc::new(Arena { driver, held: Mutex::default() });
        let mut arenas = ARENAS.lock();
        arenas.retain(|a| a.strong_count() > 0);
        arenas.push(Arc::downgrade(&arena));
        arena
    }

    /// Blocks that this thread allocates on a device from now on are those of its arena, or (`None`) of the pool.
    pub fn serve(arena: Option<Arc<Arena>>) {
        ARENA.replace(arena);
    }

    /// The least free block of at most twice the size, else new memory, else any free block that is large enough.
    fn take(&self, bytes: usize) -> Result<u64> {
        let mut held = self.held.lock();
        let fitting = |held: &Held, most: usize| {
            let fits = held.free.iter().enumerate().filter(|(_, f)| (bytes..=most).contains(&f.0));
            fits.min_by_key(|(_, f)| f.0).map(|(i, _)| i)
        };
        if let Some(i) = fitting(&held, 2 * bytes + 1) {
            return Ok(held.free.swap_remove(i).1);
        }
        match (self.driver.new_memory(bytes), fitting(&held, usize::MAX)) {
            (Ok(address), _) => {
                held.all.push((address, bytes));
                Ok(address)
            }
            (Err(_), Some(i)) => Ok(held.free.swap_remove(i).1),
            (Err(e), None) => Err(e),
        }
    }

    fn has(&self, address: u64) -> bool {
        self.held.lock().all.iter().any(|&(start, bytes)| (start..start + bytes.max(1) as u64).contains(&address))
    }

    fn give(&self, bytes: usize, address: u64) {
        self.held.lock().free.push((bytes, address));
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.driver.free_memory(self.held.get_mut().all.drain(..).map(|(address, _)| address));
    }
}
