//! Streaming stores for data that another core reads.
//!
//! An ordinary store to a line that another core has read must first fetch the line and invalidate the other copy;
//! streaming stores need neither. Between cores with a common last-level cache the cost is small, between others large:
//! `probe` measures it.

/// Below this length the ordinary copy is faster: the reader finds the line in a cache.
pub const SHORT: usize = 2048;

/// Copies between slices of the same length.
pub fn put(into: &mut [u8], bytes: &[u8]) {
    assert_eq!(into.len(), bytes.len());
    // SAFETY: both have this length, and an exclusive borrow does not overlap with another.
    unsafe { copy(into.as_mut_ptr(), bytes.as_ptr(), bytes.len(), SHORT) };
}

/// Copies `n` bytes, with streaming stores if they are `limit` or more (and at least one line). On return the copy is
/// visible to every thread that sees a later store of this thread.
///
/// # Safety
/// `src` is valid for reading and `dst` for writing `n` bytes, and they do not overlap.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub unsafe fn copy(dst: *mut u8, src: *const u8, n: usize, limit: usize) {
    #[cfg(target_arch = "x86_64")]
    if n >= limit.max(64) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        let head = dst.align_offset(64);
        let lines = (n - head) / 64;
        let tail = head + 64 * lines;
        // SAFETY: head + 64 * lines + rest is n; the streaming stores go to lines aligned at 64. SSE2 is part of x86-64.
        unsafe {
            std::ptr::copy_nonoverlapping(src, dst, head);
            let (mut to, mut from) = (dst.add(head).cast::<__m128i>(), src.add(head).cast::<__m128i>());
            for _ in 0..lines {
                let line = [
                    _mm_loadu_si128(from),
                    _mm_loadu_si128(from.add(1)),
                    _mm_loadu_si128(from.add(2)),
                    _mm_loadu_si128(from.add(3)),
                ];
                for (i, part) in line.into_iter().enumerate() {
                    _mm_stream_si128(to.add(i), part);
                }
                (to, from) = (to.add(4), from.add(4));
            }
            std::ptr::copy_nonoverlapping(src.add(tail), dst.add(tail), n - tail);
            // Streaming stores are not ordered with the flag that publishes them.
            _mm_sfence();
        }
        return;
    }
    // SAFETY: the caller's contract.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, n) };
}
