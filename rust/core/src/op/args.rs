//! The values of an operator's slots: one flat list, and for each slot its range.

use crate::tensor::{Tensor, Value};
use smallvec::SmallVec;
use std::ops::Range;

/// A flat list divided into slots. An absent slot is an empty range or a single `Value::None`. Up to `N` values need
/// no allocation.
#[derive(Clone)]
pub struct Args<T = Value, const N: usize = 3> {
    pub flat: SmallVec<[T; N]>,
    ends: SmallVec<[u32; 12]>,
}

impl<T, const N: usize> Default for Args<T, N> {
    #[inline]
    fn default() -> Self {
        Args { flat: SmallVec::new(), ends: SmallVec::new() }
    }
}

impl<T, const N: usize> Args<T, N> {
    #[inline]
    pub fn new() -> Args<T, N> {
        Args::default()
    }

    /// Appends a slot with these values.
    #[inline]
    pub fn push_slot(&mut self, values: impl IntoIterator<Item = T>) {
        // Not `extend`: for one or two values it costs several times as much.
        for value in values {
            self.flat.push(value);
        }
        self.ends.push(self.flat.len() as u32);
    }

    /// Appends a slot with one value.
    #[inline]
    pub fn push_one(&mut self, value: T) {
        self.flat.push(value);
        self.ends.push(self.flat.len() as u32);
    }

    pub fn slots(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub fn range(&self, slot: usize) -> Range<usize> {
        if slot >= self.ends.len() {
            return 0..0;
        }
        let from = if slot == 0 { 0 } else { self.ends[slot - 1] as usize };
        from..self.ends[slot] as usize
    }

    #[inline]
    pub fn slot(&self, slot: usize) -> &[T] {
        &self.flat[self.range(slot)]
    }

    pub fn slot_mut(&mut self, slot: usize) -> &mut [T] {
        let range = self.range(slot);
        &mut self.flat[range]
    }

    /// The same slots with the mapped values.
    #[inline]
    pub fn map<'a, U, const M: usize>(&'a self, mut f: impl FnMut(&'a T) -> U) -> Args<U, M> {
        // Not `with_capacity`: its result would be moved, inline values and all.
        let mut args = Args::new();
        args.flat.reserve(self.flat.len());
        args.ends.extend_from_slice(&self.ends);
        for value in &self.flat {
            args.flat.push(f(value));
        }
        args
    }

    /// Resizes a slot to `n` values; `fill` creates new ones.
    pub fn resize_slot(&mut self, slot: usize, n: usize, mut fill: impl FnMut() -> T) {
        let range = self.range(slot);
        while self.range(slot).len() > n {
            self.flat.remove(self.range(slot).end - 1);
            self.ends[slot..].iter_mut().for_each(|e| *e -= 1);
        }
        for _ in range.len()..n {
            let at = self.range(slot).end;
            self.flat.insert(at, fill());
            self.ends[slot..].iter_mut().for_each(|e| *e += 1);
        }
    }
}

impl Args<Value> {
    /// The first value of a slot, unless absent.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<&Value> {
        self.slot(slot).first().filter(|v| !v.is_none())
    }

    #[inline]
    pub fn tensor(&self, slot: usize) -> Option<&Tensor> {
        self.get(slot).and_then(Value::as_dense)
    }
}
