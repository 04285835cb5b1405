//! Strided regions of a tensor, which slices read and write.

use super::elements::{part, strided, strided_write, strides_of};
use oar_core::base::shape::numel;
use oar_core::base::{Dims, Result};
use oar_core::tensor::Tensor;
use oar_core::{attrs, ensure};
use smallvec::SmallVec;

// Attributes of `slice` and `strided_slice`; `x[i]` of eager Tensors uses them without an OpDesc.
attrs! {
    pub struct SliceAttrs {
        axes: Vec<i32>, starts: Vec<i32> = vec![], ends: Vec<i32> = vec![], infer_flags: Vec<i32> = vec![],
        decrease_axis: Vec<i32> = vec![],
    }
    pub struct StridedSliceAttrs {
        axes: Vec<i32>, starts: Vec<i32> = vec![], ends: Vec<i32> = vec![], strides: Vec<i32> = vec![],
        infer_flags: Vec<i32> = vec![], decrease_axis: Vec<i32> = vec![],
    }
}

/// The elements of a tensor at `offset + index . strides` for every index within `dims`.
#[derive(Clone, Debug)]
pub struct Region {
    pub offset: usize,
    pub dims: Dims,
    pub strides: SmallVec<[isize; 6]>,
}

impl Region {
    /// The whole tensor.
    pub fn whole(dims: &[i64]) -> Region {
        Region { offset: 0, dims: Dims::from_slice(dims), strides: strides_of(dims) }
    }

    /// Narrows an axis to `count` indices: `first`, `first + step`, ...
    #[inline]
    pub fn narrow(&mut self, axis: usize, first: i64, step: i64, count: i64) {
        if count > 0 {
            self.offset = (self.offset as isize + first as isize * self.strides[axis]) as usize;
        }
        self.dims[axis] = count;
        self.strides[axis] *= step as isize;
    }

    pub fn numel(&self) -> usize {
        numel(&self.dims)
    }

    /// True if the elements are contiguous.
    fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for (&d, &s) in self.dims.iter().zip(&self.strides).rev() {
            if d != 1 && s != step {
                return false;
            }
            step *= d as isize;
        }
        true
    }

    /// The elements as a tensor of shape `shape`, of the same number of elements.
    pub fn read(&self, x: &Tensor, shape: &[i64]) -> Result<Tensor> {
        if self.numel() == 0 {
            return Tensor::empty(x.dtype(), shape);
        }
        if self.is_contiguous() {
            return part(x, self.offset, shape);
        }
        Ok(strided(x, &self.dims, &self.strides, self.offset)?.reshaped(shape))
    }

    /// Overwrites the region with `values`, of the same number of elements.
    pub fn write(&self, values: &Tensor, out: &mut Tensor) -> Result<()> {
        strided_write(values, &self.dims, out, &self.strides, self.offset)
    }
}

/// First index, step and number of indices of `start:end:step` on an axis of size `n`. Negative bounds count from the
/// end of the axis; an end of -1 with a negative step is the position before the first index.
pub fn span(start: i64, end: i64, step: i64, n: i64) -> (i64, i64, i64) {
    let from_end = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
    let first = from_end(start);
    if step > 0 {
        let (first, end) = (first.max(0), from_end(end).clamp(0, n));
        let count = if end > first { (end - first - 1) / step + 1 } else { 0 };
        (first, step, count)
    } else {
        let end = if end == -1 { -1 } else { from_end(end).max(-1) };
        let first = first.min(n - 1);
        let count = if first > end { (first - end - 1) / step.saturating_neg() + 1 } else { 0 };
        (first, step, count)
    }
}

/// `value` without surplus leading ones; fails if it cannot be broadcast to `dims`.
pub fn broadcast_from<'a>(op: &str, value: &'a [i64], dims: &[i64]) -> Result<&'a [i64]> {
    let mut from = value;
    while from.len() > dims.len() && from[0] == 1 {
        from = &from[1..];
    }
    let lead = dims.len().wrapping_sub(from.len());
    let fits = from.len() <= dims.len() && from.iter().zip(&dims[lead..]).all(|(&f, &d)| f == d || f == 1);
    ensure!(
        fits,
        InvalidArgument,
        "operator {op}: Broadcast dimension mismatch. A value of shape {value:?} cannot be broadcast to shape {dims:?}"
    );
    Ok(from)
}

/// A tensor broadcast to the shape of a region by numpy's rules (surplus leading ones are dropped).
pub fn broadcast_to(op: &str, value: &Tensor, dims: &[i64]) -> Result<Tensor> {
    if value.dims() == dims {
        return Ok(value.clone());
    }
    let from = broadcast_from(op, value.dims(), dims)?;
    let lead = dims.len() - from.len();
    let own = strides_of(from);
    let strides: SmallVec<[isize; 6]> =
        (0..dims.len()).map(|i| if i < lead || from[i - lead] == 1 { 0 } else { own[i - lead] }).collect();
    strided(value, dims, &strides, 0)
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn spans_are_those_of_python() {
        let python = |start: i64, end: Option<i64>, step: i64, n: i64| -> Vec<i64> {
            let wrap = |v: i64| if v < 0 { v + n } else { v };
            let (mut i, end) = match step > 0 {
                true => (wrap(start).clamp(0, n), end.map_or(n, |e| wrap(e).clamp(0, n))),
                false => (wrap(start).clamp(-1, n - 1), end.map_or(-1, |e| wrap(e).clamp(-1, n - 1))),
            };
            let mut out = vec![];
            while (step > 0 && i < end) || (step < 0 && i > end) {
                out.push(i);
                i += step;
            }
            out
        };
        for n in [0, 1, 2, 7] {
            for start in -9..9 {
                for end in -9..9 {
                    for step in [1, 2, 3, 9, -1, -2, -3, -9] {
                        let end_given = if end == -1 && step < 0 { None } else { Some(end) };
                        let (first, step, count) = span(start, end, step, n);
                        let got: Vec<i64> = (0..count).map(|i| first + i * step).collect();
                        assert_eq!(got, python(start, end_given, step, n), "{start}:{end}:{step} of {n}");
                    }
                }
            }
        }
    }
}
