//! Collectives among ranks that share memory: every rank publishes data in its slot and reads the others'.

use super::area::Area;
use super::symmetric::SymmetricBuffer;
use crate::dtype::{Dtype, ReduceOp};
use crate::error::Result;
use crate::reduce;
use crate::state::Guard;

/// Up to this many bytes every rank reduces everything, in one step; beyond, every rank reduces a share, in two.
const SMALL: usize = 32 << 10;

/// Offsets and lengths in pieces of `step`; one empty piece if `len` is 0, so that the ranks synchronize in any case.
fn pieces(len: usize, step: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len.div_ceil(step).max(1)).map(move |i| (i * step, step.min(len - i * step)))
}

pub struct Reduction {
    pub dtype: Dtype,
    pub op: ReduceOp,
    /// Divisor of the result.
    pub over: usize,
}

impl Reduction {
    /// Reduces the rows at `rows`, `len` bytes each, into `out`.
    ///
    /// # Safety
    /// As for `reduce::combine`.
    unsafe fn into(&self, out: *mut u8, rows: &[*const u8], len: usize) {
        let count = len / self.dtype.size();
        // SAFETY: the caller's contract.
        unsafe { reduce::combine(self.dtype, self.op, out, rows, count, self.over) }
    }
}

/// The ranks that receive the result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Receivers {
    All,
    Root(usize),
}

impl Receivers {
    fn me(self, rank: usize) -> bool {
        self == Receivers::All || self == Receivers::Root(rank)
    }
}

pub fn all_reduce(a: &mut Area, g: &Guard<'_>, data: &mut [u8], r: &Reduction, receivers: Receivers) -> Result<()> {
    if data.len() <= SMALL {
        a.write(0, data);
        a.commit(g)?;
        if receivers.me(a.me) {
            let rows: Vec<_> = (0..a.world).map(|rank| a.row(rank, 0, data.len())).collect();
            // SAFETY: committed rows of data.len() bytes; `data` is exclusively borrowed.
            unsafe { r.into(data.as_mut_ptr(), &rows, data.len()) };
        }
        return Ok(());
    }
    if receivers == Receivers::All {
        if let Some((buffer, off)) = a.common_place(g, data)? {
            return in_place(a, g, (&buffer, off), data, r);
        }
    }
    in_shares(a, g, data, r, receivers)
}

/// Share `j` of `len` bytes for `world` ranks, in whole cache lines, as (start, end).
fn cut(len: usize, world: usize, j: usize) -> (usize, usize) {
    let each = len.div_ceil(world).next_multiple_of(64);
    ((j * each).min(len), ((j + 1) * each).min(len))
}

/// Reduces in place: `data` is at `off` of the symmetric buffer on every rank. Every rank reduces its share and copies
/// the other shares. After it returns no rank reads another's data.
fn in_place(
    a: &mut Area,
    g: &Guard<'_>,
    (buffer, off): (&SymmetricBuffer, usize),
    data: &mut [u8],
    r: &Reduction,
) -> Result<()> {
    let (me, world) = (a.me, a.world);
    let (from, to) = cut(data.len(), world, me);
    let rows: Vec<_> = (0..world).map(|rank| buffer.at(rank, off + from, to - from).cast_const()).collect();
    // SAFETY: all ranks have written their data; this rank's share, which is one of the rows, is written by this rank
    // only.
    unsafe { r.into(data[from..to].as_mut_ptr(), &rows, to - from) };
    a.commit(g)?;
    for rank in (0..world).filter(|rank| *rank != me) {
        let (from, to) = cut(data.len(), world, rank);
        let theirs = buffer.at(rank, off + from, to - from);
        // SAFETY: that rank's finished share, which it does not write until the next step; the destination is disjoint.
        unsafe { std::ptr::copy_nonoverlapping(theirs, data[from..to].as_mut_ptr(), to - from) };
    }
    a.commit(g)
}

/// Pipelined: step k carries chunk k and the results of chunk k - 1, with one wait per chunk.
fn in_shares(a: &mut Area, g: &Guard<'_>, data: &mut [u8], r: &Reduction, receivers: Receivers) -> Result<()> {
    let (me, world) = (a.me, a.world);
    // A slot holds a chunk, followed by the results of one share of the previous chunk.
    let share = (a.slot_bytes() / (world + 1)) & !63;
    let chunk = share * world;
    let chunks = data.len().div_ceil(chunk);
    let total = data.len();
    let bounds = |k: usize| (k * chunk, chunk.min(total - k * chunk));
    let mut rows = Vec::with_capacity(world);
    // Only a receiver's data may change.
    let mut spare = vec![0; if receivers.me(me) { 0 } else { share }];
    for k in 0..=chunks {
        let mut result = None;
        if k > 0 {
            let (base, len) = bounds(k - 1);
            let (from, to) = cut(len, world, me);
            let mine = data[base + from..base + to].as_mut_ptr();
            let out = if receivers.me(me) { mine } else { spare.as_mut_ptr() };
            rows.clear();
            rows.extend((0..world).map(|r| if r == me { mine.cast_const() } else { a.row(r, from, to - from) }));
            // SAFETY: committed rows of the previous step; `out` is exclusively borrowed, and either this rank's own
            // row or disjoint from all; afterwards it holds to - from bytes of results.
            unsafe {
                r.into(out, &rows, to - from);
                a.write(chunk, std::slice::from_raw_parts(out, to - from));
            }
            result = Some((base, len));
        }
        if k < chunks {
            let (base, len) = bounds(k);
            let (from, to) = cut(len, world, me);
            a.write(0, &data[base..base + from]);
            a.write(to, &data[base + to..base + len]);
        }
        a.commit(g)?;
        if let (Some((base, len)), true) = (result, receivers.me(me)) {
            for rank in (0..world).filter(|r| *r != me) {
                let (from, to) = cut(len, world, rank);
                a.read(rank, chunk, &mut data[base + from..base + to]);
            }
        }
    }
    Ok(())
}

pub fn reduce_scatter(a: &mut Area, g: &Guard<'_>, input: &[u8], out: &mut [u8], r: &Reduction) -> Result<()> {
    let (me, world, each) = (a.me, a.world, out.len());
    let step = (a.slot_bytes() / world) & !63;
    for (off, len) in pieces(each, step) {
        for to in (0..world).filter(|r| *r != me) {
            a.write(to * step, &input[to * each + off..][..len]);
        }
        a.commit(g)?;
        let rows: Vec<_> = (0..world)
            .map(|rank| if rank == me { input[me * each + off..][..len].as_ptr() } else { a.row(rank, me * step, len) })
            .collect();
        // SAFETY: committed rows and this rank's input of len bytes; `out` is exclusively borrowed.
        unsafe { r.into(out[off..off + len].as_mut_ptr(), &rows, len) };
    }
    Ok(())
}

pub fn broadcast(a: &mut Area, g: &Guard<'_>, data: &mut [u8], root: usize) -> Result<()> {
    for (off, len) in pieces(data.len(), a.slot_bytes()) {
        if a.me == root {
            a.write(0, &data[off..off + len]);
        }
        a.commit(g)?;
        if a.me != root {
            a.read(root, 0, &mut data[off..off + len]);
        }
    }
    Ok(())
}

/// `out` is written on `receivers`; rank r's part becomes part `place(r)` of it.
pub fn gather(
    a: &mut Area,
    g: &Guard<'_>,
    input: &[u8],
    out: &mut [u8],
    receivers: Receivers,
    place: impl Fn(usize) -> usize,
) -> Result<()> {
    let (me, each) = (a.me, input.len());
    let mine = receivers.me(me);
    if mine {
        out[place(me) * each..][..each].copy_from_slice(input);
    }
    for (off, len) in pieces(each, a.slot_bytes()) {
        if receivers != Receivers::Root(me) {
            a.write(0, &input[off..off + len]);
        }
        a.commit(g)?;
        if mine {
            for rank in (0..a.world).filter(|r| *r != me) {
                a.read(rank, 0, &mut out[place(rank) * each + off..][..len]);
            }
        }
    }
    Ok(())
}

/// `input` is read on the root only.
pub fn scatter(a: &mut Area, g: &Guard<'_>, input: &[u8], out: &mut [u8], root: usize) -> Result<()> {
    let (me, each) = (a.me, out.len());
    let step = (a.slot_bytes() / a.world) & !63;
    for (off, len) in pieces(each, step) {
        if me == root {
            for to in (0..a.world).filter(|r| *r != me) {
                a.write(to * step, &input[to * each + off..][..len]);
            }
            out[off..off + len].copy_from_slice(&input[me * each + off..][..len]);
        }
        a.commit(g)?;
        if me != root {
            a.read(root, me * step, &mut out[off..off + len]);
        }
    }
    Ok(())
}

pub fn all_to_all(a: &mut Area, g: &Guard<'_>, input: &[u8], out: &mut [u8]) -> Result<()> {
    let (me, each) = (a.me, input.len() / a.world);
    let step = (a.slot_bytes() / a.world) & !63;
    for (off, len) in pieces(each, step) {
        for to in (0..a.world).filter(|r| *r != me) {
            a.write(to * step, &input[to * each + off..][..len]);
        }
        out[me * each + off..][..len].copy_from_slice(&input[me * each + off..][..len]);
        a.commit(g)?;
        for from in (0..a.world).filter(|r| *r != me) {
            a.read(from, me * step, &mut out[from * each + off..][..len]);
        }
    }
    Ok(())
}
