//! Large products of f32 on the matrix unit of Intel Xeons (AMX).
//!
//! The unit multiplies bf16 and adds up f32. A float is the sum of three bf16 numbers of 8 bits each, high, middle and low;
//! six of the nine products of two such sums are computed (the others are below 2^-26 of the result). The six are more
//! exact than a chain of fused multiply-adds and, splitting included, take three quarters of its time. Tiles of 32 x 32
//! that three bf16 parts cannot represent are computed without the unit: NaN and infinities, very large values, and
//! results so small that denormal parts, which the unit treats as zero, would matter (`Sums::write`).
//!
//! A block of C is accumulated in a buffer, `DEPTH` columns of A at a time, so that panels stay in the caches. The
//! result depends neither on blocks nor on threads.

use super::pack::{split_left, split_right, Magnitudes, PARTS, SIDE, STEP};
use crate::gemm::driver::serial_plain;
use crate::gemm::kernel::{finishing, Shape, A_STRIDE};
use crate::gemm::operands::{with_scratch, Finish, LeftSide, ProductPart, RightSide, Target};
use crate::gemm::pack::transpose;
use crate::gemm::tile::{one_tile, row_tiles, TileScratch};
use crate::simd::vector::prefetch;
use crate::simd::{level, Level};
use crate::types::Float;
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Columns of A per step: a panel of each operand fits half of the first-level cache.
const DEPTH: usize = 128;
/// Columns of A in one chain of additions: longer chains would be less exact.
const CHAIN: usize = 4 * DEPTH;
/// Largest numbers of rows and columns of a block.
const ROWS: usize = 512;
const COLUMNS: usize = 512;

const UNKNOWN: u8 = 0;
const ABSENT: u8 = 1;
const OFF: u8 = 2;
const ON: u8 = 3;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Allows or forbids the unit. It is allowed by default, unless `OAR_SIMD` names a lower level.
pub fn enable(on: bool) {
    if state() != ABSENT {
        STATE.store(if on { ON } else { OFF }, Relaxed);
    }
}

/// Whether products use the unit.
pub fn enabled() -> bool {
    state() == ON && level() == Level::Avx512
}

#[inline]
fn state() -> u8 {
    match STATE.load(Relaxed) {
        UNKNOWN => find(),
        known => known,
    }
}

#[cold]
fn find() -> u8 {
    let chosen = std::env::var("OAR_SIMD").is_ok_and(|wanted| wanted != "amx");
    let state = if !present() {
        ABSENT
    } else if chosen {
        OFF
    } else {
        ON
    };
    STATE.store(state, Relaxed);
    state
}

/// Whether the processor has the unit and Linux permits its use to this process.
fn present() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const TILE_DATA: libc::c_long = 18;
        let (bf16, tile) = (1 << 22, 1 << 24);
        let leaf = __cpuid_count(7, 0);
        // SAFETY: requests a permission; its only effect is the size of this process's signal frames.
        leaf.edx & (bf16 | tile) == bf16 | tile
            && unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) } == 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Whether the unit is faster for a product of this size of plain matrices; `packed`: B is given as panels.
#[inline]
pub fn suits<T: Float>(m: usize, n: usize, k: usize, packed: bool) -> bool {
    let work = |m: usize, n: usize| m as f64 * n as f64 * k.next_multiple_of(STEP) as f64;
    let padded = work(m.next_multiple_of(SIDE), n.next_multiple_of(SIDE));
    // Estimates in 1/1000 of a cycle: the multiplications of both methods, splitting of both operands, and the epilogue
    // of C.
    let (plain, amx) = (42.0 * m as f64 * n as f64 * k as f64, 15.0 * padded);
    let split = k * if packed { m } else { m + n };
    size_of::<T>() == 4
        && m.min(n).min(k) >= 16
        && plain > amx + 1300.0 * split as f64 + 1400.0 * (m * n) as f64 + 5e6
        && enabled()
}

/// Bytes of a panel of B.
const PANEL: usize = PARTS * SIDE * DEPTH * 2;

/// Bytes of the panels of a matrix B of `k` rows and `n` columns, and of their magnitudes.
pub fn right_len(k: usize, n: usize) -> usize {
    n.div_ceil(SIDE) * (k.div_ceil(DEPTH) * PANEL + size_of::<Magnitudes>())
}

/// Writes the panels of B, `k` rows of `n` floats, and the magnitudes of each 32 columns: `View::panels`.
pub fn pack_right(b: &[f32], k: usize, n: usize, to: &mut [u8]) {
    assert!(b.len() == k * n && to.len() == right_len(k, n) && enabled());
    let (across, deep) = (n.div_ceil(SIDE), k.div_ceil(DEPTH));
    let mut seen = vec![Magnitudes::EMPTY; across];
    let (panels, magnitudes) = to.split_at_mut(across * deep * PANEL);
    for (d, p) in (0..k).step_by(DEPTH).enumerate() {
        let (from, kc) = (b[p * n..].as_ptr(), DEPTH.min(k - p));
        // SAFETY: `kc` rows of B; the panels of this part are `deep * PANEL` apart. The processor has the unit.
        unsafe { split_right(from, n, n, kc, panels[d * PANEL..].as_mut_ptr(), deep * PANEL, &mut seen) };
    }
    for (to, seen) in magnitudes.chunks_exact_mut(size_of::<Magnitudes>()).zip(seen) {
        // SAFETY: `to` has the size of a Magnitudes.
        unsafe { to.as_mut_ptr().cast::<Magnitudes>().write_unaligned(seen) };
    }
}

/// The panels of B from `pack_right`, for a product with `k` columns of A.
struct Packed {
    panels: *const u8,
    deep: usize,
    across: usize,
}

impl Packed {
    fn new(panels: *const u8, n: usize, k: usize) -> Option<Packed> {
        (!panels.is_null()).then(|| Packed { panels, deep: k.div_ceil(DEPTH), across: n.div_ceil(SIDE) })
    }
    /// The panel of columns from `j`, rows from `p`.
    fn panel(&self, p: usize, j: usize) -> *const u8 {
        self.panels.wrapping_add((j / SIDE * self.deep + p / DEPTH) * PANEL)
    }
    /// The magnitudes of columns from `j`.
    unsafe fn magnitudes(&self, j: usize) -> Magnitudes {
        let first = self.panels.wrapping_add(self.across * self.deep * PANEL).cast::<Magnitudes>();
        // SAFETY: the caller's buffer.
        unsafe { first.wrapping_add(j / SIDE).read_unaligned() }
    }
}

/// The size of each of `pieces` nearly equal parts of `n`, in whole tiles.
fn piece_len(n: usize, pieces: usize) -> usize {
    n.div_ceil(pieces).next_multiple_of(SIDE)
}

/// Rows and columns of the blocks of C for this number of threads, at most `most`.
pub(super) fn blocks(m: usize, n: usize, most: (usize, usize), threads: usize) -> (usize, usize) {
    let (mut down, mut across) = (m.div_ceil(most.0), n.div_ceil(most.1));
    while (down * across) % threads != 0 && down * across < 4 * threads {
        let wide = n / across >= m / down;
        if (if wide { n / across } else { m / down }) < 2 * SIDE {
            break;
        }
        *(if wide { &mut across } else { &mut down }) += 1;
    }
    (piece_len(m, down), piece_len(n, across))
}

/// Computes the whole product.
///
/// # Safety
/// As for `driver::parallel`; `suits` is true for the size.
pub unsafe fn product<T: Float>(
    m: usize,
    n: usize,
    k: usize,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
    on_pool: bool,
) {
    let threads = if on_pool { crate::pool::threads() } else { 1 };
    let (rows, columns) = blocks(m, n, (ROWS, COLUMNS), threads);
    let (down, across) = (m.div_ceil(rows), n.div_ceil(columns));
    crate::pool::chunks_on(threads, down * across, |t| {
        let (i, j) = (t / across * rows, t % across * columns);
        // SAFETY: the blocks are disjoint parts of C.
        unsafe { block(i..(i + rows).min(m), j..(j + columns).min(n), (n, k), a, b, c, finish) }
    });
}

unsafe fn block<T: Float>(
    rows: Range<usize>,
    columns: Range<usize>,
    (n, k): (usize, usize),
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
) {
    let packed = Packed::new(b.panels(), n, k);
    let (down, across) = (rows.len().div_ceil(SIDE), columns.len().div_ceil(SIDE));
    let panel = PARTS * SIDE * DEPTH * 2 / size_of::<T>();
    // One cache line more: rows of a power of two would share cache sets.
    let distance = across * SIDE + 16;
    let plain = SIDE * (A_STRIDE + DEPTH);
    let area = down * SIDE * distance;
    let parts = [down * panel, across * panel, area, plain, if k > CHAIN { area } else { 0 }];
    with_scratch::<T, _>(parts.iter().sum(), |left| {
        let (right, sums) = (left.wrapping_add(parts[0]), left.wrapping_add(parts[0] + parts[1]));
        let plain = sums.wrapping_add(parts[2]);
        let before = plain.wrapping_add(parts[3]);
        let seen = ([Magnitudes::EMPTY; ROWS / SIDE], [Magnitudes::EMPTY; COLUMNS / SIDE]);
        let mut sums = Sums { p: sums, distance, seen, k };
        // SAFETY: the caller's ranges; the buffer has these parts. The processor has the unit (`suits`).
        unsafe {
            let mut scratch = TileScratch::new(plain);
            with_tiles(|| {
                for p in (0..k).step_by(DEPTH) {
                    let (kc, steps) = (DEPTH.min(k - p), DEPTH.min(k - p).div_ceil(STEP));
                    for (s, i) in rows.clone().step_by(SIDE).enumerate() {
                        let some = SIDE.min(rows.end - i);
                        let (from, rs) = left_rows(a, i, some, p, kc, plain);
                        let saw = split_left(from.cast(), rs, some, kc, left.add(s * panel).cast());
                        sums.seen.0[s] = sums.seen.0[s].and(saw);
                    }
                    let (wide, to, apart) = (columns.len(), right.cast::<u8>(), panel * size_of::<T>());
                    if let Some(packed) = &packed {
                        for (seen, j) in sums.seen.1.iter_mut().zip(columns.clone().step_by(SIDE)) {
                            *seen = packed.magnitudes(j);
                        }
                    } else if let Some((from, rs)) = b.rows(p, columns.start) {
                        split_right(from.cast(), rs, wide, kc, to, apart, &mut sums.seen.1);
                    } else {
                        for (t, j) in (0..wide).step_by(SIDE).enumerate() {
                            let some = SIDE.min(wide - j);
                            b.pack(p, kc, columns.start + j, some, SIDE, plain);
                            let (to, seen) = (to.add(t * apart), &mut sums.seen.1[t..]);
                            split_right(plain.cast_const().cast(), SIDE, some, kc, to, apart, seen);
                        }
                    }
                    if p % CHAIN == 0 && p > 0 {
                        add(before.cast(), sums.p.cast(), area, p > CHAIN);
                    }
                    for (t, j) in columns.clone().step_by(SIDE).enumerate() {
                        let wide = j..columns.end.min(j + SIDE);
                        let next = match &packed {
                            Some(packed) if j + SIDE < columns.end => packed.panel(p, j + SIDE),
                            Some(packed) if p + DEPTH < k => packed.panel(p + DEPTH, columns.start),
                            _ => std::ptr::null(),
                        };
                        let next = NextPanel::new(next, down);
                        let last = p + kc == k;
                        let place = if last { scratch.find(c, j, wide.len()) } else { std::ptr::null_mut() };
                        for (s, i) in rows.clone().step_by(SIDE).enumerate() {
                            let high = i..rows.end.min(i + SIDE);
                            // C is prefetched while its tile is computed.
                            for r in if place.is_null() { 0..0 } else { high.clone() } {
                                let row = place.wrapping_add(r * c.row_stride());
                                prefetch(row);
                                prefetch(row.wrapping_add(SIDE - 1));
                            }
                            let left = left.add(s * panel).cast();
                            let right = match &packed {
                                Some(packed) => packed.panel(p, j),
                                None => right.add(t * panel).cast(),
                            };
                            let to = sums.at([s, t]).cast_mut();
                            let bf16 = sums.seen.0[s].bf16 && sums.seen.1[t].bf16;
                            let (sums_to, apart, begin) = (to.cast(), distance * size_of::<T>(), p % CHAIN == 0);
                            if bf16 {
                                multiply::<6144, false>(left, right, steps, sums_to, apart, begin);
                            } else {
                                multiply_parts(left, right, steps, sums_to, apart, begin, next.share(s, steps));
                            }
                            if !last {
                                continue;
                            }
                            if k > CHAIN {
                                let before = before.add(to.offset_from(sums.p) as usize);
                                for r in 0..SIDE {
                                    add(to.add(r * distance).cast(), before.add(r * distance).cast(), SIDE, true);
                                }
                            }
                            if !sums.write([s, t], high.clone(), wide.clone(), place, c, finish, &scratch) {
                                serial_plain(high, wide.clone(), k, a, b, c, finish);
                            }
                        }
                    }
                }
            });
        }
    });
}

/// The sums of a block, rows `distance` apart, and the magnitudes of their operands; chains have `k` terms.
struct Sums<T> {
    p: *mut T,
    distance: usize,
    seen: ([Magnitudes; ROWS / SIDE], [Magnitudes; COLUMNS / SIDE]),
    k: usize,
}

impl<T: Float> Sums<T> {
    fn at(&self, [s, t]: [usize; 2]) -> *const T {
        self.p.wrapping_add(s * SIDE * self.distance + t * SIDE)
    }

    /// Writes the tile of rows `high` and columns `wide` to C, at `place` or, if null, at the runs of `scratch`. Returns
    /// false if the sums may differ from chains of fused multiply-adds by more than rounding: the tile must be computed
    /// without the unit.
    unsafe fn write(
        &self,
        tile: [usize; 2],
        high: Range<usize>,
        wide: Range<usize>,
        place: *mut T,
        c: &impl Target<T>,
        finish: &Finish<T>,
        scratch: &TileScratch<T>,
    ) -> bool {
        const LARGE: f32 = (1u64 << 50) as f32;
        let seen = [self.seen.0[tile[0]], self.seen.1[tile[1]]];
        let largest = seen.map(|seen| f32::from_bits(seen.largest));
        // False for NaN.
        if !largest.iter().all(|v| *v < LARGE) {
            return false;
        }
        // Sums without an epilogue are copied to C while they are checked.
        let copied = finish.is_plain() && !place.is_null();
        let to = if copied { place.wrapping_add(high.start * c.row_stride()) } else { std::ptr::null_mut() };
        // Parts of operands and of products below 2^-126 are lost: at most this much of a sum, times 2^-22.
        let least = f32::MIN_POSITIVE * (1 << 22) as f32 * self.k as f32 * largest[0].max(largest[1]).max(1.0);
        let (from, size) = (self.at(tile), [high.len(), wide.len()]);
        // SAFETY: the caller's tile and C; the processor has AVX-512, too.
        let (small, nothing) =
            unsafe { small_or_zero(least, from.cast(), self.distance, size, to.cast(), c.row_stride()) };
        // A zero is exact if no product of two nonzero numbers underflowed.
        let smallest = seen.map(|seen| f32::from_bits(seen.smallest.saturating_add(1).min(f32::MAX.to_bits())));
        let lost = nothing && !largest.contains(&0.0) && smallest[0] * smallest[1] < 64.0 * f32::MIN_POSITIVE;
        if small || lost {
            return false;
        }
        if !copied {
            // SAFETY: the caller's C and tile of sums.
            unsafe { finish_tile(from, self.distance, high, wide, place, c, finish, scratch) };
        }
        true
    }
}

/// Applies the epilogue to a tile of sums, rows `distance` apart, and writes it to rows `high` and columns `wide` of C, at
/// `place` or, if null, at the runs of `scratch`.
///
/// # Safety
/// The ranges lie within C, and nothing else accesses that part; the buffer of `scratch` holds a tile.
pub(super) unsafe fn finish_tile<T: Float>(
    sums: *const T,
    distance: usize,
    high: Range<usize>,
    wide: Range<usize>,
    place: *mut T,
    c: &impl Target<T>,
    finish: &Finish<T>,
    scratch: &TileScratch<T>,
) {
    let shape = Shape { lanes: 16, nv: 2, rows: SIDE };
    let x = ProductPart { rows: high.clone(), j: wide.start, nc: wide.len(), p: 0, kc: 0, last: true, shape };
    let mut r = 0;
    while r < high.len() {
        let some = if high.len() - r >= 8 { 8 } else { 1 };
        let i = high.start + r;
        // SAFETY: the caller's C and tile of sums; the buffer holds a tile.
        unsafe {
            let to = (place, c.row_stride());
            let mut tile = row_tiles(&x, i, (std::ptr::null(), 0), finish);
            (tile.b, tile.rsb) = (sums.wrapping_add(r * distance), distance);
            one_tile(&x, &mut tile, finishing(some), (i, some), (0, wide.len()), to, finish, scratch)
        };
        r += some;
    }
}

/// `to[i] = from[i]`, or `to[i] += from[i]` if `more`; `n` is a multiple of 16.
#[target_feature(enable = "avx512f")]
unsafe fn add(to: *mut f32, from: *const f32, n: usize, more: bool) {
    for i in (0..n).step_by(16) {
        // SAFETY: the caller's buffers.
        unsafe {
            let old = if more { _mm512_loadu_ps(to.add(i)) } else { _mm512_setzero_ps() };
            _mm512_storeu_ps(to.add(i), _mm512_add_ps(old, _mm512_loadu_ps(from.add(i))));
        }
    }
}

/// Rows of a part of A and their distance, in place or packed to `buf`.
pub(super) unsafe fn left_rows<T: Float>(
    a: &impl LeftSide<T>,
    i: usize,
    rows: usize,
    p: usize,
    kc: usize,
    buf: *mut T,
) -> (*const T, usize) {
    // SAFETY: the caller's range; the buffer holds a panel.
    unsafe {
        if let Some(there) = a.contiguous_row(i, p) {
            return there;
        }
        let padded_rows = buf.add(SIDE * DEPTH);
        match a.panel(i, rows, p, kc, padded_rows) {
            None => (padded_rows, A_STRIDE),
            Some((columns, distance)) => {
                transpose(columns, distance, kc, rows, DEPTH, buf);
                (buf, DEPTH)
            }
        }
    }
}

/// Whether a tile has nonzero magnitudes below `least`, and whether it has zeros. It is copied to `to` unless that is
/// null.
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn small_or_zero(
    least: f32,
    sums: *const f32,
    distance: usize,
    [rows, columns]: [usize; 2],
    to: *mut f32,
    rs: usize,
) -> (bool, bool) {
    let (least, mut small, mut nothing) = (_mm512_set1_ps(least), 0, 0);
    for r in 0..rows {
        for side in [0, 16] {
            let there = ((1u32 << columns.saturating_sub(side).min(16)) - 1) as u16;
            // SAFETY: the caller's tile, and as much of C.
            let v = unsafe { _mm512_loadu_ps(sums.add(r * distance + side)) };
            let zero = _mm512_mask_cmp_ps_mask::<_CMP_EQ_OQ>(there, v, _mm512_setzero_ps());
            nothing |= zero;
            small |= _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(there & !zero, _mm512_abs_ps(v), least);
            if !to.is_null() {
                // SAFETY: as above.
                unsafe { _mm512_mask_storeu_ps(to.wrapping_add(r * rs + side), there, v) };
            }
        }
    }
    (small != 0, nothing != 0)
}

/// Calls `f` with the unit configured for eight tiles of 16 rows of 64 bytes.
pub unsafe fn with_tiles(f: impl FnOnce()) {
    #[repr(align(64))]
    struct Layout([u8; 64]);
    let mut layout = Layout([0; 64]);
    layout.0[0] = 1;
    for t in 0..8 {
        layout.0[16 + 2 * t] = 64;
        layout.0[48 + t] = 16;
    }
    // SAFETY: the caller has detected the unit; the compiler never uses it.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &layout, options(nostack)) };
    f();
    // SAFETY: as above; released tiles cost nothing in context switches.
    unsafe { asm!("tilerelease", options(nostack)) };
}

/// Four tiles of C += two of A times two of B.
macro_rules! four {
    () => {
        "tdpbf16ps tmm0, tmm4, tmm6\n tdpbf16ps tmm1, tmm4, tmm7\n tdpbf16ps tmm2, tmm5, tmm6\n tdpbf16ps tmm3, tmm5, tmm7"
    };
}

/// Loads the tile of sums, rows `distance` bytes apart, or zeros if `begin`.
#[inline(always)]
unsafe fn load_sums(c: *mut f32, distance: usize, begin: bool) {
    let below = c.wrapping_byte_add(16 * distance);
    // SAFETY: the caller's tile, and `with_tiles`; nothing but these instructions uses the tiles.
    unsafe {
        if begin {
            asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
        } else {
            asm!(
                "tileloadd tmm0, [{c} + {cs}]", "tileloadd tmm1, [{c} + {cs} + 64]",
                "tileloadd tmm2, [{below} + {cs}]", "tileloadd tmm3, [{below} + {cs} + 64]",
                c = in(reg) c, below = in(reg) below, cs = in(reg) distance, options(nostack, readonly),
            );
        }
    }
}

/// Multiplies `steps` steps of both panels into a tile of sums with rows `distance` bytes apart: overwritten if `begin`,
/// else added to. Of each step of `STEP_BYTES` bytes the first two tiles are multiplied. With PREFETCH, A is in the
/// second-level cache: its lines are prefetched two steps ahead.
///
/// # Safety
/// The panels have these steps; within `with_tiles`.
pub(super) unsafe fn multiply<const STEP_BYTES: usize, const PREFETCH: bool>(
    a: *const u8,
    b: *const u8,
    steps: usize,
    c: *mut f32,
    distance: usize,
    begin: bool,
) {
    let below = c.wrapping_byte_add(16 * distance);
    // SAFETY: the caller's panels and tile.
    unsafe {
        load_sums(c, distance, begin);
        if PREFETCH {
            asm!(
                "2:",
                "tileloadd tmm6, [{b} + {row}]", "tileloadd tmm4, [{a} + {row}]",
                "lea {at}, [{a} + 4096]", "mov {line:e}, 8",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {row} + 1024]",
                "3:",
                "prefetcht0 [{at}]", "prefetcht0 [{at} + 64]", "prefetcht0 [{at} + 128]", "prefetcht0 [{at} + 192]",
                "add {at}, 256", "dec {line:e}", "jnz 3b",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a} + {row} + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, {size}", "add {b}, {size}", "dec {n}", "jnz 2b",
                "tilestored [{c} + {cs}], tmm0", "tilestored [{c} + {cs} + 64], tmm1",
                "tilestored [{below} + {cs}], tmm2", "tilestored [{below} + {cs} + 64], tmm3",
                a = inout(reg) a => _, b = inout(reg) b => _, n = inout(reg) steps => _, size = const STEP_BYTES,
                at = out(reg) _, line = out(reg) _,
                row = in(reg) 64usize, c = in(reg) c, below = in(reg) below, cs = in(reg) distance, options(nostack),
            );
            return;
        }
        asm!(
            "2:",
            "tileloadd tmm4, [{a} + {row}]", "tileloadd tmm5, [{a} + {row} + 1024]",
            "tileloadd tmm6, [{b} + {row}]", "tileloadd tmm7, [{b} + {row} + 1024]", four!(),
            "add {a}, {size}", "add {b}, {size}", "dec {n}", "jnz 2b",
            "tilestored [{c} + {cs}], tmm0", "tilestored [{c} + {cs} + 64], tmm1",
            "tilestored [{below} + {cs}], tmm2", "tilestored [{below} + {cs} + 64], tmm3",
            a = inout(reg) a => _, b = inout(reg) b => _, n = inout(reg) steps => _, size = const STEP_BYTES,
            row = in(reg) 64usize, c = in(reg) c, below = in(reg) below, cs = in(reg) distance, options(nostack),
        );
    }
}

/// Prefetches the four cache lines from `next` on, into the second-level cache.
macro_rules! ahead {
    ($at:literal) => {
        concat!(
            "prefetcht1 [{next} + ", $at, "]\n prefetcht1 [{next} + ", $at, " + 64]\n prefetcht1 [{next} + ", $at,
            " + 128]\n prefetcht1 [{next} + ", $at, " + 192]\n"
        )
    };
    ($($at:literal),+) => { concat!($(ahead!($at)),+) };
}

/// A step of `multiply_parts`, after whose six groups of products the given lines are prefetched, `bytes` in all.
macro_rules! parts_loop {
    ($x:ident, $bytes:literal, [$g0:expr, $g1:expr, $g2:expr, $g3:expr, $g4:expr, $g5:expr]) => {
        asm!(
            "2:",
            // high of A by low, then by middle of B
            "tileloadd tmm4, [{a} + {row}]", "tileloadd tmm5, [{a} + {row} + 1024]",
            "tileloadd tmm6, [{b} + {row} + 4096]", "tileloadd tmm7, [{b} + {row} + 5120]", four!(), $g0,
            "tileloadd tmm6, [{b} + {row} + 2048]", "tileloadd tmm7, [{b} + {row} + 3072]", four!(), $g1,
            // middle of A by middle, then by high of B
            "tileloadd tmm4, [{a} + {row} + 2048]", "tileloadd tmm5, [{a} + {row} + 3072]", four!(), $g2,
            "tileloadd tmm6, [{b} + {row}]", "tileloadd tmm7, [{b} + {row} + 1024]", four!(), $g3,
            // low, then high of A by high of B
            "tileloadd tmm4, [{a} + {row} + 4096]", "tileloadd tmm5, [{a} + {row} + 5120]", four!(), $g4,
            "tileloadd tmm4, [{a} + {row}]", "tileloadd tmm5, [{a} + {row} + 1024]", four!(), $g5,
            "add {a}, 6144", "add {b}, 6144", concat!("add {next}, ", $bytes), "dec {n}", "jnz 2b",
            "tilestored [{c} + {cs}], tmm0", "tilestored [{c} + {cs} + 64], tmm1",
            "tilestored [{below} + {cs}], tmm2", "tilestored [{below} + {cs} + 64], tmm3",
            a = inout(reg) $x.a => _, b = inout(reg) $x.b => _, n = inout(reg) $x.steps => _,
            next = inout(reg) $x.next => _, row = in(reg) 64usize, c = in(reg) $x.c, below = in(reg) $x.below,
            cs = in(reg) $x.distance, options(nostack),
        )
    };
}

/// The next panel of B, of which a product of this panel prefetches a share with each tile of rows.
#[derive(Clone, Copy)]
struct NextPanel {
    at: *const u8,
    /// Lines after each group of products: 16, 8, 4, or 0.
    lines: usize,
    /// Tiles of rows that prefetch.
    tiles: usize,
}

impl NextPanel {
    /// For `down` tiles of rows. All lines at once would stall the unit until most of them are there: 128 x 768 x 3072
    /// in 2.7 ms; without prefetching 1.9, spread 1.6.
    fn new(at: *const u8, down: usize) -> Self {
        let lines = match down {
            _ if at.is_null() => 0,
            1 => 16,
            2 | 3 => 8,
            _ => 4,
        };
        NextPanel { at, lines, tiles: 16usize.checked_div(lines).unwrap_or(0) }
    }
    /// The first line that tile `s` prefetches in `steps` steps, and the number of lines after each group.
    fn share(&self, s: usize, steps: usize) -> (*const u8, usize) {
        let lines = if s < self.tiles { self.lines } else { 0 };
        (self.at.wrapping_add(s * steps * lines * 6 * 64), lines)
    }
}

/// The operands of `multiply_parts`.
struct PartsOfPanels {
    a: *const u8,
    b: *const u8,
    steps: usize,
    c: *mut f32,
    below: *mut f32,
    distance: usize,
    next: *const u8,
}

/// Multiplies `steps` steps of both panels of three parts (`split_left`, `split_right`), as `multiply`; `next` is the
/// panel that is prefetched meanwhile, and the number of its lines after each of six groups of a step.
unsafe fn multiply_parts(
    a: *const u8,
    b: *const u8,
    steps: usize,
    c: *mut f32,
    distance: usize,
    begin: bool,
    (next, lines): (*const u8, usize),
) {
    let x = PartsOfPanels { a, b, steps, c, below: c.wrapping_byte_add(16 * distance), distance, next };
    // SAFETY: the caller's panels and tile, and `with_tiles`; nothing but these instructions uses the tiles. A prefetch is
    // a hint and does not access memory.
    unsafe {
        load_sums(c, distance, begin);
        match lines {
            0 => parts_loop!(x, 0, ["", "", "", "", "", ""]),
            4 => parts_loop!(x, 1536, [ahead!(0), ahead!(256), ahead!(512), ahead!(768), ahead!(1024), ahead!(1280)]),
            8 => parts_loop!(
                x,
                3072,
                [
                    ahead!(0, 256),
                    ahead!(512, 768),
                    ahead!(1024, 1280),
                    ahead!(1536, 1792),
                    ahead!(2048, 2304),
                    ahead!(2560, 2816)
                ]
            ),
            _ => parts_loop!(
                x,
                6144,
                [
                    ahead!(0, 256, 512, 768),
                    ahead!(1024, 1280, 1536, 1792),
                    ahead!(2048, 2304, 2560, 2816),
                    ahead!(3072, 3328, 3584, 3840),
                    ahead!(4096, 4352, 4608, 4864),
                    ahead!(5120, 5376, 5632, 5888)
                ]
            ),
        }
    }
}
