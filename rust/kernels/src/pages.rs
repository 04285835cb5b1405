//! Pages of 2 MB under large buffers: a fault of a 4 KB page costs as much as filling it, and scattered small pages use
//! the sets of the second-level cache unevenly.

/// The size of a huge page, in bytes.
pub const HUGE: usize = 2 << 20;

/// Asks for huge pages under the whole small pages of a buffer that is not filled yet. Its contents stay.
///
/// # Safety
/// The bytes belong to one allocation.
pub unsafe fn prefer_huge(p: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const PAGE: usize = 4096;
        let skip = p.align_offset(PAGE);
        if bytes >= HUGE {
            // SAFETY: whole pages of the allocation; advice does not change their contents, and may fail.
            unsafe { libc::madvise(p.add(skip).cast(), (bytes - skip) / PAGE * PAGE, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (p, bytes);
}

/// `prefer_huge` for the capacity of a vector.
pub fn prefer_huge_for<T>(buffer: &mut Vec<T>) {
    // SAFETY: the capacity is one allocation.
    unsafe { prefer_huge(buffer.as_mut_ptr().cast(), buffer.capacity() * size_of::<T>()) }
}
