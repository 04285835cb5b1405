//! Counted bytes. Header and data share one block of the allocator, so a small tensor costs one allocation.

use super::alloc;
use super::device::{Device, Memory};
use crate::base::Result;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{fence, AtomicBool, AtomicUsize, Ordering};

/// Lies at the start of a block; the data follows at the next multiple of [`alloc::ALIGN`].
struct Header {
    count: AtomicUsize,
    /// Bytes of data.
    len: usize,
    /// Size of the block, to give back; 0 for foreign memory.
    block: usize,
    data: NonNull<u8>,
    /// Exported (buffer protocol, DLPack, shared memory): written in place by everybody, never swapped.
    pinned: AtomicBool,
    /// Keeps foreign memory alive.
    _owner: Option<Box<dyn Any + Send + Sync>>,
}

const DATA: usize = alloc::ALIGN;
/// What pointers to no bytes are aligned to.
#[repr(align(64))]
struct Aligned;
const _: () = assert!(std::mem::size_of::<Header>() <= DATA);

/// A counted reference to bytes.
pub struct Buffer(NonNull<Header>);

// SAFETY: the count is atomic; who may write the bytes is decided by `Tensor` (unique or pinned).
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// New bytes, initialised to something.
    #[inline]
    pub fn new(len: usize) -> Result<Buffer> {
        let (block, size) = alloc::alloc(DATA + len)?;
        let header = block.cast::<Header>();
        // SAFETY: the block has room for the header and `len` bytes behind it, and is aligned for both.
        unsafe {
            header.as_ptr().write(Header {
                count: AtomicUsize::new(1),
                len,
                block: size,
                data: NonNull::new_unchecked(block.as_ptr().add(DATA)),
                pinned: AtomicBool::new(false),
                _owner: None,
            });
        }
        Ok(Buffer(header))
    }

    /// Bytes that somebody else owns and that live as long as `owner`.
    ///
    /// # Safety
    /// `data` points to `len` readable and writable bytes for as long as `owner` lives.
    pub unsafe fn foreign(data: NonNull<u8>, len: usize, owner: Box<dyn Any + Send + Sync>) -> Buffer {
        let header = Box::new(Header {
            count: AtomicUsize::new(1),
            len,
            block: 0,
            data,
            pinned: AtomicBool::new(true),
            _owner: Some(owner),
        });
        Buffer(NonNull::from(Box::leak(header)))
    }

    /// Memory of a device. There are no bytes to point at: `len` is 0, so that whoever asks `Tensor` for bytes leaves
    /// the usual path, which thereby costs nothing more.
    pub fn on_device(memory: Box<dyn Memory>) -> Buffer {
        let header = Box::new(Header {
            count: AtomicUsize::new(1),
            len: 0,
            block: 0,
            data: NonNull::<Aligned>::dangling().cast(),
            pinned: AtomicBool::new(false),
            _owner: Some(Box::new(Device::new(memory))),
        });
        Buffer(NonNull::from(Box::leak(header)))
    }

    /// The device memory behind this buffer, if it is not on the host.
    pub fn device(&self) -> Option<&Device> {
        let header = self.header();
        if header.block != 0 {
            return None;
        }
        header._owner.as_ref().and_then(|owner| owner.downcast_ref())
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the header lives as long as any Buffer that points to it.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.header().len
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        self.header().data.as_ptr()
    }

    /// True if nobody else refers to these bytes.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.header().count.load(Ordering::Acquire) == 1
    }

    /// True if these bytes may be written through this reference without a copy.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.is_unique() || self.header().pinned.load(Ordering::Relaxed)
    }

    /// From now on the bytes are written in place even when shared.
    pub fn pin(&self) {
        self.header().pinned.store(true, Ordering::Relaxed);
    }

    pub fn is_pinned(&self) -> bool {
        self.header().pinned.load(Ordering::Relaxed)
    }

    pub fn same(&self, other: &Buffer) -> bool {
        self.0 == other.0
    }
}

impl Clone for Buffer {
    #[inline]
    fn clone(&self) -> Buffer {
        self.header().count.fetch_add(1, Ordering::Relaxed);
        Buffer(self.0)
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        if self.header().count.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        let block = self.header().block;
        // SAFETY: this was the last reference; the header is a Box (foreign) or starts the block.
        unsafe {
            if block == 0 {
                drop(Box::from_raw(self.0.as_ptr()));
            } else {
                alloc::free(self.0.cast(), block);
            }
        }
    }
}
