//! Fused chains of elementwise operations: each tile passes through all operations while it is in the first-level
//! cache, so that intermediate results never reach memory. Tiles are computed by the loops of the single operations:
//! results are equal bit for bit.

use crate::elementwise::{Arithmetic, Binary};
use crate::formula::{FormulaElement, Row, GRAIN};
use crate::pool;
use crate::simd;

/// Elements of a tile.
pub const TILE: usize = 1024;
/// Largest number of operations, of inputs and of outputs of a chain.
pub const MOST: usize = 32;

#[derive(Clone, Copy)]
pub enum Code {
    Row(&'static Row),
    Binary(Binary),
}

/// An operand of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Input(u16),
    /// The result of an earlier operation.
    Lane(u16),
    Zero,
}

/// One operation of a chain.
#[derive(Clone)]
pub struct Lane {
    pub code: Code,
    pub args: Vec<Operand>,
    pub params: Vec<f64>,
}

/// A chain, and the assignment of its intermediate results to scratch tiles.
#[derive(Clone, Default)]
pub struct Chain {
    lanes: Vec<Lane>,
    slots: Vec<u16>,
    used: usize,
}

impl Chain {
    /// Panics if an operation reads a later one, or there are too many.
    pub fn new(lanes: Vec<Lane>) -> Chain {
        assert!(lanes.len() <= MOST, "a chain of {} operations", lanes.len());
        let mut last = vec![0; lanes.len()];
        for (i, lane) in lanes.iter().enumerate() {
            for arg in &lane.args {
                if let Operand::Lane(l) = *arg {
                    assert!((l as usize) < i, "a chain that reads what comes later");
                    last[l as usize] = i;
                }
            }
        }
        let (mut slots, mut free, mut used) = (Vec::new(), Vec::new(), 0);
        for i in 0..lanes.len() {
            // The result takes its slot first: it never shares a slot with one of its operands.
            slots.push(free.pop().unwrap_or_else(|| {
                used += 1;
                used as u16 - 1
            }));
            free.extend((0..i).filter(|&l| last[l] == i).map(|l| slots[l]));
        }
        Chain { lanes, slots, used }
    }

    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }
}

/// An operand in memory. Element `i` of the chain reads element `(i / inner) % data.len()`; with `inner` 1 and as many
/// elements as the result has, that is element `i`.
pub struct Input<'a, T> {
    pub data: &'a [T],
    pub inner: usize,
}

/// Destination of a result; a lane has at most one.
pub struct Output<'a, T> {
    pub lane: u16,
    pub data: &'a mut [T],
    /// The input that `data` holds at the start (in place); the `data` of that input is empty.
    pub over: Option<u16>,
}

/// How tiles of an input are read.
enum Read<T> {
    Straight,
    /// Repeated in a buffer: as long as a period and a tile.
    Pattern(Vec<T>),
    /// Copied or repeated into the scratch tile with this number.
    Tile(usize),
    /// The same, from the output with this number.
    Over(usize, usize),
}

/// The start of an output, shared by all threads.
#[derive(Clone, Copy)]
struct Base<T>(*mut T);

// SAFETY: only a pointer; threads access disjoint ranges of it.
unsafe impl<T: Send> Send for Base<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Base<T> {}

impl<T> Base<T> {
    fn at(&self, i: usize) -> *mut T {
        self.0.wrapping_add(i)
    }
}

/// Runs a chain over results of `n` elements each.
///
/// Panics if an operand is missing or too short, or an output does not have `n` elements.
pub fn run<T: FormulaElement + Arithmetic>(chain: &Chain, inputs: &[Input<T>], outputs: &mut [Output<T>], n: usize) {
    if n == 0 {
        return;
    }
    assert!(outputs.iter().all(|o| o.data.len() == n) && inputs.len() <= MOST && outputs.len() <= MOST);
    let mut scratch_tiles = chain.used;
    let mut tile = || {
        scratch_tiles += 1;
        scratch_tiles - 1
    };
    let mut reads: [Read<T>; MOST] = [const { Read::Straight }; MOST];
    for (i, (input, read)) in inputs.iter().zip(&mut reads).enumerate() {
        if let Some(o) = outputs.iter().position(|o| o.over == Some(i as u16)) {
            *read = Read::Over(tile(), o);
            continue;
        }
        let (period, inner) = (input.data.len(), input.inner);
        assert!(period > 0 && inner > 0);
        *read = match (period == n && inner == 1, inner == 1 && period <= 8 * TILE && n > TILE) {
            (true, _) => Read::Straight,
            (_, true) => {
                let mut data = Vec::with_capacity(period + TILE);
                while data.len() < period + TILE {
                    data.extend_from_slice(&input.data[..period.min(period + TILE - data.len())]);
                }
                Read::Pattern(data)
            }
            _ => Read::Tile(tile()),
        };
    }
    let reads = &reads[..inputs.len()];
    let zero = tile();
    // Results that exceed the cache are written with streaming stores, unless they are in place.
    let (mut places, mut streamed) = ([None; MOST], [false; MOST]);
    for (k, o) in outputs.iter().enumerate() {
        streamed[k] = o.over.is_none() && simd::streams(std::mem::size_of_val(&*o.data));
        if !streamed[k] {
            places[o.lane as usize] = Some(k);
        }
    }
    let (mut lanes, mut bases) = ([0u16; MOST], [Base(std::ptr::null_mut::<T>()); MOST]);
    for (k, o) in outputs.iter_mut().enumerate() {
        (lanes[k], bases[k]) = (o.lane, Base(o.data.as_mut_ptr()));
    }
    let lanes = &lanes[..outputs.len()];
    pool::ranges(n, pool::grain(n, GRAIN), |range| {
        let size = TILE.min(range.len());
        let mut scratch = vec![T::default(); scratch_tiles * size];
        let scratch = scratch.as_mut_ptr();
        // SAFETY: every tile lies within `scratch`, which outlives the closure.
        let tile_at = |t: usize| unsafe { scratch.add(t * size) };
        for (i, read) in reads.iter().enumerate() {
            if let (Read::Tile(t), [value]) = (read, inputs[i].data) {
                // SAFETY: tile `t` has `size` elements and belongs to this input only.
                unsafe { std::slice::from_raw_parts_mut(tile_at(*t), size) }.fill(*value);
            }
        }
        let mut from = [std::ptr::null::<T>(); MOST];
        let mut at = range.start;
        while at < range.end {
            let len = size.min(range.end - at);
            for (i, read) in reads.iter().enumerate() {
                let Input { data, inner } = inputs[i];
                from[i] = match read {
                    Read::Straight => data[at..at + len].as_ptr(),
                    Read::Pattern(pattern) => pattern[at % data.len()..][..len].as_ptr(),
                    Read::Tile(t) => {
                        if data.len() > 1 {
                            // SAFETY: tile `t` has `size >= len` elements and belongs to this input only.
                            repeat(data, inner, at, unsafe { std::slice::from_raw_parts_mut(tile_at(*t), len) });
                        }
                        tile_at(*t)
                    }
                    Read::Over(t, o) => {
                        // SAFETY: `at..at + len` lies within output `o`, no other thread accesses it, and tile `t`
                        // belongs to this input only.
                        unsafe { std::ptr::copy_nonoverlapping(bases[*o].at(at), tile_at(*t), len) };
                        tile_at(*t)
                    }
                };
            }
            let place = |lane: usize| match places[lane] {
                Some(k) => bases[k].at(at),
                None => tile_at(chain.slots[lane] as usize),
            };
            for (l, lane) in chain.lanes.iter().enumerate() {
                let slice = |arg: &Operand| {
                    let p = match *arg {
                        Operand::Input(i) => from[i as usize],
                        Operand::Lane(l) => place(l as usize),
                        Operand::Zero => tile_at(zero),
                    };
                    // SAFETY: each place holds `len` initialised elements: scratch tiles are initialised with defaults,
                    // inputs were loaded above, and results of earlier lanes were written in this tile.
                    unsafe { std::slice::from_raw_parts(p, len) }
                };
                // SAFETY: the place of a result has `len` elements and differs from the places of its operands: by the
                // assignment of scratch tiles to lanes; tiles of inputs and outputs are separate.
                let out = unsafe { std::slice::from_raw_parts_mut(place(l), len) };
                match lane.code {
                    Code::Binary(op) => T::loops(op).pair(slice(&lane.args[0]), slice(&lane.args[1]), out),
                    Code::Row(row) => {
                        let mut views: [&[T]; 4] = [&[]; 4];
                        views.iter_mut().zip(&lane.args).for_each(|(v, arg)| *v = slice(arg));
                        T::compute(row, &views[..lane.args.len()], &lane.params, out);
                    }
                }
                for (k, _) in lanes.iter().enumerate().filter(|(k, at)| streamed[*k] && **at as usize == l) {
                    // SAFETY: `at..at + len` lies within output `k`, no other thread accesses it, and it is not the
                    // place of a lane.
                    simd::stream(out, unsafe { std::slice::from_raw_parts_mut(bases[k].at(at), len) });
                }
            }
            at += len;
        }
        if streamed.contains(&true) {
            simd::stream_end();
        }
    });
}

/// Elements `at..` of a repeated operand.
fn repeat<T: Copy>(data: &[T], inner: usize, at: usize, out: &mut [T]) {
    let (mut done, mut which, mut left) = (0, (at / inner) % data.len(), inner - at % inner);
    if inner == 1 {
        while done < out.len() {
            let n = (data.len() - which).min(out.len() - done);
            out[done..done + n].copy_from_slice(&data[which..which + n]);
            (done, which) = (done + n, 0);
        }
        return;
    }
    while done < out.len() {
        let n = left.min(out.len() - done);
        out[done..done + n].fill(data[which]);
        (done, left) = (done + n, inner);
        which = if which + 1 == data.len() { 0 } else { which + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elementwise::{binary, binary_inplace};
    use crate::formula::rows;
    use half::f16;

    fn sample(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 104729) % 2003) as f32 / 500.0 - 2.0).collect()
    }

    fn lane(code: Code, args: &[Operand], params: &[f64]) -> Lane {
        Lane { code, args: args.to_vec(), params: params.to_vec() }
    }

    /// tanh(x + bias) * 2 + 1, and the sum: fused, over x, and step by step.
    #[test]
    fn a_chain_is_its_steps_bit_for_bit() {
        for (rows_, columns, inner) in [(1, 1, 1), (3, 5, 1), (700, 9, 1), (40, 9000, 1), (13, 4, 333), (1, 7, 9000)] {
            let n = rows_ * columns * inner;
            let (x, bias) = (sample(n, 1), sample(columns, 2));
            let shape = [rows_, columns, inner];
            let mut sum = vec![0.0; n];
            binary(
                Binary::Add,
                &shape,
                (&x, &[(columns * inner) as isize, inner as isize, 1]),
                (&bias, &[0, 1, 0]),
                &mut sum,
            )
            .unwrap();
            let (mut t, mut want) = (vec![0.0; n], vec![0.0; n]);
            rows::tanh.run(&[&sum], &[], &mut t);
            rows::scale.run(&[&t], &[2.0, 1.0], &mut want);
            let (i, l) = (Operand::Input, Operand::Lane);
            let chain = Chain::new(vec![
                lane(Code::Binary(Binary::Add), &[i(0), i(1)], &[]),
                lane(Code::Row(&rows::tanh), &[l(0)], &[]),
                lane(Code::Row(&rows::scale), &[l(1)], &[2.0, 1.0]),
            ]);
            let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let (mut mid, mut got) = (vec![9.0; n], vec![9.0; n]);
            let mut outputs =
                [Output { lane: 0, data: &mut mid, over: None }, Output { lane: 2, data: &mut got, over: None }];
            run(&chain, &[Input { data: &x, inner: 1 }, Input { data: &bias, inner }], &mut outputs, n);
            assert_eq!((bits(&mid), bits(&got)), (bits(&sum), bits(&want)));
            let mut over = x.clone();
            let mut outputs = [Output { lane: 2, data: &mut over, over: Some(0) }];
            run(&chain, &[Input { data: &[], inner: 1 }, Input { data: &bias, inner }], &mut outputs, n);
            assert_eq!(bits(&over), bits(&want));
        }
    }

    #[test]
    fn halves_and_zero() {
        let x: Vec<f16> = sample(3000, 3).into_iter().map(f16::from_f32).collect();
        let (mut want, mut got) = (vec![f16::ZERO; 3000], vec![f16::ZERO; 3000]);
        let zeros = vec![f16::ZERO; 3000];
        binary(Binary::Sub, &[3000], (&zeros, &[1]), (&x, &[1]), &mut want).unwrap();
        binary_inplace(Binary::Mul, &[3000], &mut want, (&x, &[1])).unwrap();
        let chain = Chain::new(vec![
            lane(Code::Binary(Binary::Sub), &[Operand::Zero, Operand::Input(0)], &[]),
            lane(Code::Binary(Binary::Mul), &[Operand::Lane(0), Operand::Input(0)], &[]),
        ]);
        let mut outputs = [Output { lane: 1, data: &mut got, over: None }];
        run(&chain, &[Input { data: &x, inner: 1 }], &mut outputs, 3000);
        assert!(want.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
