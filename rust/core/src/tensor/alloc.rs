//! The caching allocator: 64-byte aligned blocks in size classes, kept for reuse up to a bound.
//!
//! A freed block goes to a list of the freeing thread (small blocks, no lock) or to a shared list; both are bounded,
//! and `empty_cache` returns everything idle to the system. Blocks of 2 MiB and more are mapped separately, on huge
//! pages where the system has them: the page faults of 4 KiB pages cost more than most kernels. Memory from the system
//! is zeroed, so a block is always initialised bytes.

use crate::bail;
use crate::base::fork::ForkMutex;
use crate::base::Result;
use oar_kernels::pages::prefer_huge;
pub use oar_kernels::pages::prefer_huge_for;
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub const ALIGN: usize = 64;
const MAPPED: usize = 2 << 20;
/// Blocks up to this size are cached by the freeing thread.
const LOCAL_BLOCK: usize = 256 << 10;
const LOCAL_BYTES: usize = 4 << 20;
const CLASSES: usize = 320;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Idle bytes of the shared lists; threads count their own, so that small blocks need no atomic operation.
static CACHED: AtomicUsize = AtomicUsize::new(0);
/// Bound of the idle bytes in the shared lists.
const LIMIT: usize = 4 << 30;

/// Bytes that the allocator holds; idle blocks in thread lists are those of the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    pub in_use: usize,
    pub peak: usize,
    pub cached: usize,
}

pub fn stats() -> Stats {
    let own = local(|l| l.bytes).unwrap_or(0);
    Stats { in_use: IN_USE.load(Relaxed), peak: PEAK.load(Relaxed), cached: CACHED.load(Relaxed) + own }
}

pub fn reset_peak() {
    PEAK.store(IN_USE.load(Relaxed), Relaxed);
}

/// Size class of a block and the class's size: eight classes per power of two, so at most 12.5 % is unused.
#[inline]
fn class_of(bytes: usize) -> (usize, usize) {
    if bytes <= 512 {
        let c = bytes.div_ceil(64).max(1);
        return (c, c * 64);
    }
    let top = usize::BITS - (bytes - 1).leading_zeros() - 1; // 2^top <= bytes-1
    let step = 1usize << (top - 3);
    let k = (bytes - 1 - (1 << top)) / step; // 0..8
    (9 + (top as usize - 9) * 8 + k, (1 << top) + (k + 1) * step)
}

struct Lists {
    blocks: Vec<Vec<NonNull<u8>>>,
    bytes: usize,
}

// SAFETY: idle blocks are plain memory without references.
unsafe impl Send for Lists {}

impl Lists {
    const fn new() -> Lists {
        Lists { blocks: Vec::new(), bytes: 0 }
    }

    #[inline]
    fn take(&mut self, class: usize, size: usize) -> Option<NonNull<u8>> {
        let block = self.blocks.get_mut(class)?.pop()?;
        self.bytes -= size;
        Some(block)
    }

    #[inline]
    fn put(&mut self, class: usize, size: usize, block: NonNull<u8>) {
        if self.blocks.is_empty() {
            self.blocks.resize_with(CLASSES, Vec::new);
        }
        self.blocks[class].push(block);
        self.bytes += size;
    }

    /// Returns every block to the system; the result is their bytes.
    fn clear(&mut self) -> usize {
        for (class, blocks) in self.blocks.iter_mut().enumerate() {
            for block in blocks.drain(..) {
                // SAFETY: the block came from `from_system` with the size of its class.
                unsafe { to_system(block, size_of_class(class)) };
            }
        }
        std::mem::take(&mut self.bytes)
    }
}

fn size_of_class(class: usize) -> usize {
    if class < 9 {
        return class * 64;
    }
    let (top, k) = (9 + (class - 9) / 8, (class - 9) % 8);
    (1 << top) + (k + 1) * (1 << (top - 3))
}

struct Local(UnsafeCell<Lists>);

impl Drop for Local {
    fn drop(&mut self) {
        self.0.get_mut().clear();
    }
}

thread_local! {
    static LOCAL: Local = const { Local(UnsafeCell::new(Lists::new())) };
}
static SHARED: ForkMutex<Lists> = ForkMutex::new(Lists::new());

/// Calls `f` with this thread's lists; `None` while the thread is being torn down.
#[inline]
fn local<R>(f: impl FnOnce(&mut Lists) -> R) -> Option<R> {
    // SAFETY: the lists are this thread's own, and `f` (take, put, clear) does not come back here.
    LOCAL.try_with(|l| f(unsafe { &mut *l.0.get() })).ok()
}

fn from_system(size: usize) -> Option<NonNull<u8>> {
    if size >= MAPPED {
        // SAFETY: an anonymous private mapping with no address asked for.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the mapping just made.
        unsafe { prefer_huge(p.cast(), size) };
        return NonNull::new(p.cast());
    }
    // SAFETY: the size is not zero and ALIGN is a power of two.
    NonNull::new(unsafe { alloc_zeroed(Layout::from_size_align(size, ALIGN).ok()?) })
}

/// # Safety
/// `block` came from `from_system(size)` and is not used any more.
unsafe fn to_system(block: NonNull<u8>, size: usize) {
    // SAFETY: by the contract above.
    unsafe {
        if size >= MAPPED {
            libc::munmap(block.as_ptr().cast(), size);
        } else {
            dealloc(block.as_ptr(), Layout::from_size_align_unchecked(size, ALIGN));
        }
    }
}

/// A block of at least `bytes` bytes, and the size to pass to [`free`].
#[inline]
pub fn alloc(bytes: usize) -> Result<(NonNull<u8>, usize)> {
    if bytes > isize::MAX as usize / 2 {
        bail!(ResourceExhausted, "cannot allocate {bytes} bytes");
    }
    let (class, size) = class_of(bytes);
    let found = if size <= LOCAL_BLOCK { local(|l| l.take(class, size)).flatten() } else { None };
    let found = match found {
        Some(block) => Some(block),
        None => SHARED.lock().take(class, size).inspect(|_| {
            CACHED.fetch_sub(size, Relaxed);
        }),
    };
    let block = match found {
        Some(block) => block,
        None => match from_system(size).or_else(|| {
            empty_cache();
            from_system(size)
        }) {
            Some(block) => block,
            None => bail!(
                ResourceExhausted,
                "out of memory: cannot allocate {bytes} bytes ({} bytes are in use)",
                IN_USE.load(Relaxed)
            ),
        },
    };
    let now = IN_USE.fetch_add(size, Relaxed) + size;
    if now > PEAK.load(Relaxed) {
        PEAK.fetch_max(now, Relaxed);
    }
    Ok((block, size))
}

/// Returns a block for reuse.
///
/// # Safety
/// `block` and `size` came from one call of [`alloc`], and the block is not used any more.
#[inline]
pub unsafe fn free(block: NonNull<u8>, size: usize) {
    let (class, _) = class_of(size);
    IN_USE.fetch_sub(size, Relaxed);
    let kept = size <= LOCAL_BLOCK
        && local(|l| {
            let room = l.bytes + size <= LOCAL_BYTES;
            if room {
                l.put(class, size, block);
            }
            room
        }) == Some(true);
    if kept {
        return;
    }
    let cached = CACHED.fetch_add(size, Relaxed) + size;
    if cached <= LIMIT {
        SHARED.lock().put(class, size, block);
    } else {
        CACHED.fetch_sub(size, Relaxed);
        // SAFETY: by this function's contract.
        unsafe { to_system(block, size) };
    }
}

/// Returns every idle block of this thread and of the shared lists to the system.
pub fn empty_cache() {
    local(|l| l.clear());
    let freed = SHARED.lock().clear();
    CACHED.fetch_sub(freed, Relaxed);
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: trims the C heap; no preconditions.
    unsafe {
        libc::malloc_trim(0)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_their_sizes() {
        for bytes in (1..5000).chain([1 << 20, (1 << 20) + 1, 3 << 20, 1 << 40]) {
            let (class, size) = class_of(bytes);
            assert!(size >= bytes && size <= bytes + bytes / 8 + 64, "{bytes} -> {size}");
            assert_eq!(class_of(size), (class, size));
            assert_eq!(size_of_class(class), size);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri stops where a mapping cannot be had")]
    fn refuses_what_cannot_be() {
        assert!(alloc(usize::MAX).is_err());
        assert!(alloc(1 << 60).is_err());
    }

    #[test]
    fn blocks_go_from_thread_to_thread() {
        let sizes = [1usize, 64, 700, 5000, (256 << 10) + 1, MAPPED + 1];
        let (send, receive) = std::sync::mpsc::channel::<(usize, usize, u8)>();
        let worker = std::thread::spawn(move || {
            for (block, size, mark) in receive {
                let block: NonNull<u8> = NonNull::new(std::ptr::with_exposed_provenance_mut(block)).unwrap();
                // SAFETY: the other thread made the block, wrote its first and last byte and let go of it.
                unsafe {
                    assert_eq!((*block.as_ptr(), *block.as_ptr().add(size - 1)), (mark, mark));
                    free(block, size);
                }
                let (again, size) = alloc(size).unwrap();
                // SAFETY: the block just made.
                unsafe { free(again, size) };
            }
        });
        for round in 0..if cfg!(miri) { 3 } else { 300 } {
            for bytes in sizes {
                let (block, size) = alloc(bytes).unwrap();
                // SAFETY: the block just made has `size` bytes.
                unsafe {
                    *block.as_ptr() = round as u8;
                    *block.as_ptr().add(size - 1) = round as u8;
                }
                send.send((block.as_ptr().expose_provenance(), size, round as u8)).unwrap();
            }
            if round % 2 == 1 {
                empty_cache();
            }
        }
        drop(send);
        worker.join().unwrap();
    }
}
