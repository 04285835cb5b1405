//! Forked children: they must not hold the connections of their parent, whose death the others would not see then, and
//! have none of the threads that serve its groups; and what they write must stay with them.
//!
//! The fork handler closes, takes no lock and allocates nothing: another thread may have been in the middle of either.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::Once;

/// Files with numbers from here on are not known to the handler; their loss of a process is found by its silence.
const MOST: usize = 1 << 16;

/// How often this process and its forebears have forked, on the way from the first one to here.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// The inode of each of our sockets, by file number. One that was closed since has another inode there, or none.
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
    // SAFETY: `found` is there to be written; any number may be asked for.
    let known = unsafe { libc::fstat(fd, &mut found) } == 0;
    (known && found.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(found.st_ino)
}

/// A socket that forked children must not hold.
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

/// A mapping that other processes see.
struct SharedMapping {
    taken: AtomicBool,
    /// Null while the rest is not to be looked at.
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

/// Memory that a forked child keeps, but for itself: neither its parent nor the other ranks see what it writes. Beyond
/// so many at a time a child has them in common with its parent.
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
        // SAFETY: the mapping is there, of this length, and its place is taken by one of the same bytes; this process
        // has one thread, which is here.
        unsafe { libc::mmap(base, len, rights, how, fd, 0) };
        // Its own children inherit it as any memory.
        s.base.store(std::ptr::null_mut(), Ordering::Release);
    }
}

extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
    reset_per_process();
    make_mappings_private();
    // The numbers stay taken, by a socket whose other end is closed: what still refers to them finds an end of file,
    // and closes no file of somebody else's.
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
    for (fd, known) in SOCKETS.iter().enumerate().take(HIGHEST.swap(0, Ordering::AcqRel)) {
        let was = known.swap(0, Ordering::AcqRel);
        let fd = fd as RawFd;
        if was == 0 || inode(fd) != Some(was) {
            continue;
        }
        // SAFETY: the file is the parent's connection, which nothing in this process is to use.
        unsafe {
            if made != 0 || libc::dup3(ends[0], fd, libc::O_CLOEXEC) < 0 {
                libc::close(fd);
            }
        }
    }
    if made == 0 {
        // SAFETY: both were made above and nobody else knows of them.
        unsafe {
            libc::close(ends[0]);
            libc::close(ends[1]);
        }
    }
}

/// Remembers in which process something was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkGeneration(u64);

impl ForkGeneration {
    pub fn now() -> ForkGeneration {
        handle_forks();
        ForkGeneration(GENERATION.load(Ordering::Acquire))
    }

    /// Whether it was made before this process was forked: its threads are not here, and its locks may be held for ever.
    pub fn is_forked(self) -> bool {
        self.0 != GENERATION.load(Ordering::Acquire)
    }

    pub fn check(self, what: &str) -> crate::Result<()> {
        match self.is_forked() {
            true => Err(crate::Error::Closed(format!(
                "{what} belongs to the process that this one was forked from, and in here it"
            ))),
            false => Ok(()),
        }
    }
}

/// Where the values of `PerProcess` are that this process has made.
static PER_PROCESS: [AtomicPtr<AtomicPtr<()>>; 16] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 16];

fn reset_per_process() {
    for known in &PER_PROCESS {
        let now = known.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !now.is_null() {
            // SAFETY: what is listed is a static.
            unsafe { &*now }.store(std::ptr::null_mut(), Ordering::Release);
        }
    }
}

/// A value that a forked child starts anew. What the parent had is not dropped there.
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
            self.list(); // first: a fork may come between any two lines of another thread
            let fresh = Box::into_raw(Box::<T>::default());
            now = match self.now.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => fresh,
                Err(other) => {
                    // SAFETY: `fresh` is ours, and nobody else has seen it.
                    drop(unsafe { Box::from_raw(fresh) });
                    other
                }
            };
        }
        // SAFETY: a value that stood in `now` is never freed.
        unsafe { &*now }
    }

    /// Tells the fork handler of it. A pointer to a T is stored as a pointer to nothing is.
    fn list(&'static self) {
        let here = std::ptr::from_ref(&self.now).cast::<AtomicPtr<()>>().cast_mut();
        let listed = PER_PROCESS.iter().any(|p| {
            match p.compare_exchange(std::ptr::null_mut(), here, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => true,
                Err(other) => other == here,
            }
        });
        assert!(listed, "there are fewer statics of this kind than places");
    }
}
