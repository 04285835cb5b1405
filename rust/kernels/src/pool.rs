//! The thread pool. Work is cut into chunks whose number depends on the size of the work alone, never on
//! the number of threads, so a result never depends on it either.

use std::ops::Range;

/// Number of threads that take part in a parallel call, the caller included.
pub fn threads() -> usize {
    1
}

/// Calls `f(i)` for every `i < chunks`, on the pool's threads and the caller's.
pub fn chunks(chunks: usize, f: impl Fn(usize) + Sync) {
    (0..chunks).for_each(f);
}

/// Calls `f` with consecutive ranges of `grain` indices (the last may be shorter) that cover `0..n`.
pub fn ranges(n: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
    chunks(n.div_ceil(grain.max(1)), |i| f(i * grain..((i + 1) * grain).min(n)));
}
