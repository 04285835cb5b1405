//! Reference-counted bytes. Header and data share one block of the allocator, so a small tensor costs one allocation.

use super::alloc;
use crate::bail;
use crate::base::Result;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;

/// The count has three fields: all references, how many of them are shared-mutable, how many are exports.
const REFS: u32 = 28;
const LIVES: u32 = 18;
/// What one shared-mutable reference or one export adds to the count, itself included.
const LIVE: u64 = (1 << REFS) + 1;
const EXPORT: u64 = (1 << (REFS + LIVES)) + 1;
/// More shared-mutable references or exports than this are refused, so that no field overflows.
const MOST: u64 = 1 << (LIVES - 1);
/// More references than this end the process, as with `Arc`: the field would overflow, and bytes in use would be freed.
const MOST_REFS: u64 = 1 << (REFS - 1);

#[cold]
fn too_many() -> ! {
    eprintln!("paddle: more than {MOST_REFS} references to the bytes of one Tensor");
    std::process::abort()
}

#[inline]
fn refs(count: u64) -> u64 {
    count & ((1 << REFS) - 1)
}

#[inline]
fn lives(count: u64) -> u64 {
    count >> REFS & ((1 << LIVES) - 1)
}

#[inline]
fn exports(count: u64) -> u64 {
    count >> (REFS + LIVES)
}

/// The pointer bit that marks a shared-mutable reference; headers are aligned to more.
const IS_LIVE: usize = 1;

/// Which code outside of the engine sees the bytes.
#[derive(Clone, Copy, PartialEq)]
pub enum Owner {
    /// None.
    Us,
    /// Foreign code, which sees what is written.
    Outside,
    /// Foreign code, whose memory must not be written.
    ReadOnly,
}

/// At the start of a block; the data follows at the next multiple of [`alloc::ALIGN`].
struct Header {
    /// References of all kinds (see [`REFS`]).
    count: AtomicU64,
    /// Bytes of data.
    len: usize,
    /// Size of the block, for [`alloc::free`]; 0 for foreign memory.
    block: usize,
    data: NonNull<u8>,
    bytes_of: Owner,
    /// Foreign code has, or has had, a pointer to the bytes.
    exported: AtomicBool,
    /// Keeps foreign memory alive.
    _owner: Option<Box<dyn Any + Send + Sync>>,
}

const DATA: usize = alloc::ALIGN;
/// The alignment of pointers to no bytes.
#[repr(align(64))]
struct Aligned;
const _: () = assert!(std::mem::size_of::<Header>() <= DATA);

/// A counted reference to bytes, of one of two kinds. A *copy-on-write* reference (a snapshot) keeps the bytes as they
/// are: a writer copies them first. *Shared-mutable* (live) references are those of a variable and of the operators at
/// work on it: they see what is written. A write through a shared-mutable reference copies nothing as long as no
/// snapshot refers to the bytes.
pub struct Buffer(NonNull<Header>);

// SAFETY: the count is atomic; `Tensor` decides which reference may write the bytes (`is_writable`).
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// New initialised bytes of unspecified value.
    #[inline]
    pub fn new(len: usize) -> Result<Buffer> {
        let (block, size) = alloc::alloc(DATA + len)?;
        let header = block.cast::<Header>();
        // SAFETY: the block has room for the header and `len` bytes behind it, and is aligned for both.
        unsafe {
            header.as_ptr().write(Header {
                count: AtomicU64::new(1),
                len,
                block: size,
                data: NonNull::new_unchecked(block.as_ptr().add(DATA)),
                bytes_of: Owner::Us,
                exported: AtomicBool::new(false),
                _owner: None,
            });
        }
        Ok(Buffer(header))
    }

    /// Foreign bytes, which live as long as `owner`. Read-only ones are copied before a write.
    ///
    /// # Safety
    /// `data` points to `len` initialised bytes, readable and (unless `ReadOnly`) writable for as long as `owner`
    /// lives.
    pub unsafe fn foreign(data: NonNull<u8>, len: usize, owner: Box<dyn Any + Send + Sync>, of: Owner) -> Buffer {
        let header = Box::new(Header {
            count: AtomicU64::new(1),
            len,
            block: 0,
            data,
            bytes_of: of,
            exported: AtomicBool::new(of != Owner::Us),
            _owner: Some(owner),
        });
        Buffer(NonNull::from(Box::leak(header)))
    }

    /// Memory of a device. `len` is 0, so that an access to bytes leaves the fast path, which pays nothing for
    /// devices.
    pub fn on_device(memory: Box<dyn Memory>) -> Buffer {
        let header = Box::new(Header {
            count: AtomicU64::new(1),
            len: 0,
            block: 0,
            data: NonNull::<Aligned>::dangling().cast(),
            bytes_of: Owner::Us,
            exported: AtomicBool::new(false),
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
    fn at(&self) -> NonNull<Header> {
        let at = self.0.as_ptr().map_addr(|a| a & !IS_LIVE);
        // SAFETY: without the mark it is the address of a header.
        unsafe { NonNull::new_unchecked(at) }
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the header lives as long as any Buffer that points to it.
        unsafe { self.at().as_ref() }
    }

    #[inline]
    pub fn is_live(&self) -> bool {
        self.0.addr().get() & IS_LIVE != 0
    }

    /// Another shared-mutable reference to the bytes of this one, which a variable holds. This one becomes
    /// shared-mutable itself if only exports refer to the bytes; while a snapshot does, the result is a snapshot.
    #[inline]
    pub(super) fn live(&mut self) -> Buffer {
        if self.is_live() && lives(self.header().count.fetch_add(LIVE, Ordering::Relaxed)) < MOST {
            return Buffer(self.0);
        }
        self.first_live()
    }

    #[inline(never)]
    fn first_live(&mut self) -> Buffer {
        let count = &self.header().count;
        if self.is_live() {
            // Over the bound (see `live`): it is a snapshot.
            count.fetch_sub(LIVE - 1, Ordering::Relaxed);
            return Buffer(self.at());
        }
        let now = count.load(Ordering::Acquire);
        if refs(now) != 1 + exports(now) {
            return self.clone();
        }
        count.fetch_add(2 * LIVE - 1, Ordering::Relaxed);
        self.0 = self.0.map_addr(|a| a | IS_LIVE);
        Buffer(self.0)
    }

    /// The number of shared-mutable references.
    #[cfg(test)]
    fn lives(&self) -> u64 {
        lives(self.header().count.load(Ordering::Acquire))
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

    /// True if no other reference to these bytes exists.
    #[inline]
    pub fn is_unique(&self) -> bool {
        let count = self.header().count.load(Ordering::Acquire);
        refs(count) == 1 && exports(count) == 0
    }

    /// True if a write through this reference needs no copy: no other snapshot refers to the bytes.
    #[inline]
    pub fn is_writable(&self) -> bool {
        let count = self.header().count.load(Ordering::Acquire);
        let mine = if self.is_live() { lives(count) } else { 1 };
        (count == 1 || refs(count) == mine + exports(count)) && !self.is_read_only()
    }

    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.header().bytes_of == Owner::ReadOnly
    }

    /// True if foreign code reads or writes these bytes: they are written in place and never shared between values.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        self.header().bytes_of != Owner::Us || exports(self.header().count.load(Ordering::Relaxed)) != 0
    }

    /// True if foreign code sees these bytes, or has seen them since they were allocated.
    pub fn is_known_outside(&self) -> bool {
        self.header().exported.load(Ordering::Relaxed)
    }

    /// A reference for foreign code (buffer protocol, DLPack); the bytes are pinned until it is dropped.
    pub fn export(&self) -> Result<Export> {
        self.header().exported.store(true, Ordering::Relaxed);
        if exports(self.header().count.fetch_add(EXPORT, Ordering::Relaxed)) >= MOST {
            self.header().count.fetch_sub(EXPORT, Ordering::Relaxed);
            bail!(ResourceExhausted, "the bytes of a Tensor are exported {MOST} times already");
        }
        Ok(Export(std::mem::ManuallyDrop::new(Buffer(self.at()))))
    }

    /// Releases `references` (1, a [`LIVE`], or an [`EXPORT`]).
    #[inline]
    fn release(&self, references: u64) {
        if self.header().count.fetch_sub(references, Ordering::Release) == references {
            // SAFETY: this was the last reference.
            unsafe { self.free() }
        }
    }

    /// # Safety
    /// No reference to the header exists any more.
    #[inline(never)]
    unsafe fn free(&self) {
        fence(Ordering::Acquire);
        let block = self.header().block;
        // SAFETY: alone by the caller's promise; the header is a Box (foreign) or starts the block.
        unsafe {
            if block == 0 {
                drop(Box::from_raw(self.at().as_ptr()));
            } else {
                alloc::free(self.at().cast(), block);
            }
        }
    }

    pub fn same(&self, other: &Buffer) -> bool {
        self.at() == other.at()
    }
}

impl Clone for Buffer {
    /// A copy-on-write reference, whatever kind this one is.
    #[inline]
    fn clone(&self) -> Buffer {
        if refs(self.header().count.fetch_add(1, Ordering::Relaxed)) >= MOST_REFS {
            too_many();
        }
        Buffer(self.at())
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        let mark = (self.0.addr().get() & IS_LIVE) as u64;
        self.release((mark << REFS) + 1);
    }
}

/// A foreign reference to a buffer.
pub struct Export(std::mem::ManuallyDrop<Buffer>);

impl Export {
    pub fn buffer(&self) -> &Buffer {
        &self.0
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.0.release(EXPORT);
    }
}

/// Device memory as its backend holds it; dropping it frees the memory (or queues that).
pub trait Memory: Any + Send + Sync {
    /// Size in bytes.
    fn bytes(&self) -> usize;
    /// The number of the device.
    fn device(&self) -> i32;
    /// Address of the first byte on the device.
    fn address(&self) -> usize;
    /// A copy of all bytes on the host; waits for pending writes.
    fn download(&self) -> Result<Buffer>;
    /// True if a graph writes it again at its next start: a value that outlives the run must be a copy.
    fn is_of_graph(&self) -> bool {
        false
    }
    fn as_any(&self) -> &dyn Any;
}

/// What a device buffer owns: the memory, and a copy of its bytes on the host once they were read.
pub struct Device {
    memory: Box<dyn Memory>,
    pub(super) mirror: OnceLock<Buffer>,
}

impl Device {
    fn new(memory: Box<dyn Memory>) -> Device {
        Device { memory, mirror: OnceLock::new() }
    }

    pub fn memory(&self) -> &dyn Memory {
        &*self.memory
    }

    /// The bytes on the host. They stay valid: device kernels write only memory that has no such copy.
    pub(super) fn mirror(&self) -> Result<&Buffer> {
        if let Some(there) = self.mirror.get() {
            return Ok(there);
        }
        let fetched = self.memory.download()?;
        Ok(self.mirror.get_or_init(|| fetched))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn exports_pin_and_let_go() {
        let b = Buffer::new(16).unwrap();
        assert!(b.is_writable() && !b.is_pinned());
        let (first, second) = (b.export().unwrap(), b.export().unwrap());
        assert!(b.is_writable() && b.is_pinned() && !b.is_unique());
        let other = b.clone();
        assert!(!b.is_writable());
        drop((other, first));
        assert!(b.is_writable() && b.is_pinned());
        drop(second);
        assert!(b.is_unique() && !b.is_pinned());
        let last = b.export().unwrap();
        drop(b);
        assert_eq!(last.buffer().len(), 16);
    }

    #[test]
    fn live_bytes_are_written_unless_a_snapshot_keeps_them() {
        let mut held = Buffer::new(16).unwrap();
        let (reader, writer) = (held.live(), held.live());
        assert!(held.is_live() && reader.is_live() && writer.is_writable() && held.lives() == 3);
        let kept = reader.clone();
        assert!(!kept.is_live() && !kept.is_writable() && !writer.is_writable() && !held.is_writable());
        drop(kept);
        let export = writer.export().unwrap();
        assert!(writer.is_writable() && writer.is_pinned());
        drop((export, held));
        // The variable holds another value now. The remaining reader turns values into snapshots.
        let kept = reader.clone();
        drop(writer);
        assert!(!kept.is_writable());
        drop(reader);
        assert!(kept.is_writable() && kept.is_unique());
        let (mut first, second) = (kept.clone(), kept);
        assert!(!first.live().is_live() && !first.is_live());
        drop(second);
        let value = first.live().clone();
        assert!(!value.is_live() && first.is_live() && !first.is_writable());
        drop(first);
        assert!(value.is_unique());
    }

    #[test]
    fn foreign_bytes_live_as_long_as_their_owner_lets_them() {
        let bytes = Box::leak(Box::new([7u8; 8]));
        let owner = Arc::new(());
        for of in [Owner::Outside, Owner::ReadOnly] {
            let read_only = of == Owner::ReadOnly;
            // SAFETY: the bytes are leaked.
            let b = unsafe { Buffer::foreign(NonNull::from(&mut bytes[0]), 8, Box::new(owner.clone()), of) };
            assert!(b.is_pinned() && b.is_writable() != read_only && b.is_read_only() == read_only);
            let export = b.export().unwrap();
            drop(b);
            assert_eq!(Arc::strong_count(&owner), 2);
            drop(export);
            assert_eq!(Arc::strong_count(&owner), 1);
        }
    }
}
