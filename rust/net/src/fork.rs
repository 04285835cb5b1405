//! Behaviour in forked children: closes the parent's connections (their end signals the parent's death to peers), makes
//! shared mappings private, and invalidates objects that depend on the parent's threads.
//!
//! The fork handler only stores to atomics and makes system calls: it takes no lock and does not allocate, since
//! another thread may have been in the middle of either.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::Once;

use crate::os;

/// Descriptors from this number on are not tracked; peers detect the loss of such a process by missing heartbeats.
const MOST: usize = 1 << 16;

/// Number of forks between the first process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// Inode of each tracked socket, by descriptor. A descriptor that was closed since has another inode, or none.
static SOCKETS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

fn handle_forks() {
    static ONCE: Once = Once::new();
    // SAFETY: `forked` only stores to atomics and makes system calls, as a fork handler may.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forked));
    });
}

fn inode(fd: RawFd) -> Option<u64> {
    // SAFETY: all bytes zero are a value of this plain struct.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is writable; `fstat` accepts any descriptor number.
    let known = unsafe { libc::fstat(fd, &mut found) } == 0;
    (known && found.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(found.st_ino)
}

/// Marks a socket to be closed in forked children.
pub fn close_on_fork(socket: &impl AsFd) {
    handle_forks();
    let fd = socket.as_fd().as_raw_fd();
    if let (Ok(at), Some(inode)) = (usize::try_from(fd), inode(fd)) {
        if let Some(known) = SOCKETS.get(at) {
            known.store(inode, Ordering::Release);
            HIGHEST.fetch_max(at + 1, Ordering::AcqRel);
        }
    }
}

/// A mapping shared with other processes.
struct SharedMapping {
    taken: AtomicBool,
    /// Null while the other fields are not valid.
    base: AtomicPtr<libc::c_void>,
    len: AtomicUsize,
    fd: AtomicI32,
}

impl SharedMapping {
    const fn nothing() -> SharedMapping {
        let (taken, base) = (AtomicBool::new(false), AtomicPtr::new(std::ptr::null_mut()));
        SharedMapping { taken, base, len: AtomicUsize::new(0), fd: AtomicI32::new(-1) }
    }
}

static SHARED_MAPPINGS: [SharedMapping; 64] = [const { SharedMapping::nothing() }; 64];

/// A mapping that becomes private in a forked child: neither its parent nor other ranks see the child's writes. Limited
/// to 64 mappings; further ones stay shared with the parent.
pub(crate) struct PrivateAfterFork(Option<&'static SharedMapping>);

impl PrivateAfterFork {
    pub fn new(base: *mut u8, len: usize, fd: &impl AsFd) -> PrivateAfterFork {
        handle_forks();
        let free = SHARED_MAPPINGS.iter().find(|s| !s.taken.swap(true, Ordering::AcqRel));
        if let Some(s) = free {
            s.len.store(len, Ordering::Relaxed);
            s.fd.store(fd.as_fd().as_raw_fd(), Ordering::Relaxed);
            s.base.store(base.cast(), Ordering::Release);
        }
        PrivateAfterFork(free)
    }
}

impl Drop for PrivateAfterFork {
    fn drop(&mut self) {
        if let Some(s) = self.0 {
            s.base.store(std::ptr::null_mut(), Ordering::Release);
            s.taken.store(false, Ordering::Release);
        }
    }
}

fn make_mappings_private() {
    for s in &SHARED_MAPPINGS {
        let base = s.base.load(Ordering::Acquire);
        if base.is_null() {
            continue;
        }
        let (len, fd) = (s.len.load(Ordering::Relaxed), s.fd.load(Ordering::Relaxed));
        let (rights, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_FIXED);
        // SAFETY: the mapping exists with this length, and is replaced by a private one of the same bytes; a forked
        // child has one thread, which executes this.
        unsafe { libc::mmap(base, len, rights, how, fd, 0) };
        // Children of this process inherit it like any private memory.
        s.base.store(std::ptr::null_mut(), Ordering::Release);
    }
}

extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
    reset_per_process();
    make_mappings_private();
    // Descriptors stay in use: they are replaced by a socket whose other end is closed. Objects that still refer to
    // them read an end of file, and cannot close a descriptor that was reused.
    let ends = os::raw_socket_pair();
    for (fd, known) in SOCKETS.iter().enumerate().take(HIGHEST.swap(0, Ordering::AcqRel)) {
        let was = known.swap(0, Ordering::AcqRel);
        let fd = fd as RawFd;
        if was == 0 || inode(fd) != Some(was) {
            continue;
        }
        if !ends.is_some_and(|ends| os::raw_replace(ends[0], fd)) {
            // SAFETY: the descriptor is the parent's connection; this process does not use it.
            unsafe { libc::close(fd) };
        }
    }
    if let Some(ends) = ends {
        // SAFETY: both were created above and have no other user.
        unsafe {
            libc::close(ends[0]);
            libc::close(ends[1]);
        }
    }
}

/// The fork generation in which an object was created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkGeneration(u64);

impl ForkGeneration {
    pub fn now() -> ForkGeneration {
        handle_forks();
        ForkGeneration(GENERATION.load(Ordering::Acquire))
    }

    /// Whether the object was created before this process was forked: its threads do not exist here, and its locks may
    /// be held for ever.
    pub fn is_forked(self) -> bool {
        self.0 != GENERATION.load(Ordering::Acquire)
    }

    pub fn check(self, what: &str) -> crate::Result<()> {
        match self.is_forked() {
            true => Err(crate::Error::Closed(format!(
                "{what} belongs to the process that this one was forked from, and in the child it"
            ))),
            false => Ok(()),
        }
    }
}

/// Addresses of the `PerProcess` values that this process has created.
static PER_PROCESS: [AtomicPtr<AtomicPtr<()>>; 16] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 16];

fn reset_per_process() {
    for known in &PER_PROCESS {
        let now = known.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !now.is_null() {
            // SAFETY: registered pointers refer to statics.
            unsafe { &*now }.store(std::ptr::null_mut(), Ordering::Release);
        }
    }
}

/// A value that is created anew in a forked child. The parent's value is not dropped there.
pub struct PerProcess<T> {
    now: AtomicPtr<T>,
}

impl<T: Default> PerProcess<T> {
    #[allow(clippy::new_without_default)] // `new` is const, for statics; `default` could not be.
    pub const fn new() -> PerProcess<T> {
        PerProcess { now: AtomicPtr::new(std::ptr::null_mut()) }
    }

    pub fn get(&'static self) -> &'static T {
        let mut now = self.now.load(Ordering::Acquire);
        if now.is_null() {
            handle_forks();
            self.register(); // first: another thread may fork between any two lines
            let fresh = Box::into_raw(Box::<T>::default());
            now = match self.now.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => fresh,
                Err(other) => {
                    // SAFETY: `fresh` comes from `Box::into_raw` and was not published.
                    drop(unsafe { Box::from_raw(fresh) });
                    other
                }
            };
        }
        // SAFETY: a value that was stored in `now` is never freed.
        unsafe { &*now }
    }

    /// Registers the value with the fork handler. The pointer is stored untyped; the handler only sets it to null.
    fn register(&'static self) {
        let here = std::ptr::from_ref(&self.now).cast::<AtomicPtr<()>>().cast_mut();
        let registered = PER_PROCESS.iter().any(|p| {
            match p.compare_exchange(std::ptr::null_mut(), here, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => true,
                Err(other) => other == here,
            }
        });
        assert!(registered, "more `PerProcess` statics than PER_PROCESS has entries");
    }
}
