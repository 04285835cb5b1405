//! Dense tensors are values: a clone shares the bytes, and a write to shared bytes copies them first.

use super::{Buffer, Export};
use crate::base::dtype::Element;
use crate::base::shape::{checked_numel, copied, numel, Dims};
use crate::base::{DType, Result};
use crate::ensure;
use num_complex::Complex;
use std::sync::{Arc, OnceLock};

/// Level of detail: for each level the offsets of its sequences, the first 0.
pub type Lod = Vec<Vec<usize>>;

pub struct Tensor {
    pub(super) buffer: Buffer,
    /// Bytes before the first element.
    pub(super) offset: usize,
    pub(super) dims: Dims,
    pub(super) dtype: DType,
    pub lod: Option<Arc<Lod>>,
}

impl Clone for Tensor {
    /// Shares the bytes.
    #[inline]
    fn clone(&self) -> Tensor {
        Tensor {
            buffer: self.buffer.clone(),
            offset: self.offset,
            dims: copied(&self.dims),
            dtype: self.dtype,
            lod: self.lod.clone(),
        }
    }
}

impl Tensor {
    /// A new tensor to be written: its elements are initialised to unspecified values.
    #[inline]
    pub fn empty(dtype: DType, dims: &[i64]) -> Result<Tensor> {
        let n = checked_numel(dims)?;
        Ok(Tensor { buffer: Buffer::new(n * dtype.size())?, offset: 0, dims: Dims::from_slice(dims), dtype, lod: None })
    }

    pub fn zeros(dtype: DType, dims: &[i64]) -> Result<Tensor> {
        let mut t = Tensor::empty(dtype, dims)?;
        t.bytes_mut()?.fill(0);
        Ok(t)
    }

    pub fn from_slice<T: Element>(data: &[T], dims: &[i64]) -> Result<Tensor> {
        let mut t = Tensor::empty(T::DTYPE, dims)?;
        ensure!(
            t.numel() == data.len(),
            InvalidArgument,
            "{} values do not fill a tensor of shape {dims:?}",
            data.len()
        );
        t.data_mut::<T>()?.copy_from_slice(data);
        Ok(t)
    }

    /// A one-element tensor of shape [1].
    pub fn scalar<T: Element>(value: T) -> Result<Tensor> {
        Tensor::from_slice(&[value], &[1])
    }

    /// A tensor over existing bytes.
    pub fn from_buffer(buffer: Buffer, dtype: DType, dims: &[i64]) -> Result<Tensor> {
        let n = checked_numel(dims)?;
        ensure!(
            n * dtype.size() <= buffer.len(),
            InvalidArgument,
            "{} bytes do not hold a {dtype} tensor of shape {dims:?}",
            buffer.len()
        );
        Ok(Tensor { buffer, offset: 0, dims: Dims::from_slice(dims), dtype, lod: None })
    }

    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    #[inline]
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    #[inline]
    pub fn sizes(&self) -> &Dims {
        &self.dims
    }

    /// A tensor of the same shape and type whose elements are to be written, without LoD.
    #[inline]
    pub fn empty_like(&self) -> Result<Tensor> {
        let buffer = Buffer::new(self.nbytes())?;
        Ok(Tensor { buffer, offset: 0, dims: copied(&self.dims), dtype: self.dtype, lod: None })
    }

    #[inline]
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    #[inline]
    pub fn numel(&self) -> usize {
        numel(&self.dims)
    }

    #[inline]
    pub fn nbytes(&self) -> usize {
        self.numel() * self.dtype.size()
    }

    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// A tensor with a shape but no bytes: what is kept of a variable whose elements are not read.
    pub fn shape_only(dtype: DType, dims: &[i64]) -> Result<Tensor> {
        static NO_BYTES: OnceLock<Buffer> = OnceLock::new();
        let buffer = match NO_BYTES.get() {
            Some(buffer) => buffer.clone(),
            None => {
                let fresh = Buffer::new(0)?;
                NO_BYTES.get_or_init(|| fresh).clone()
            }
        };
        Ok(Tensor { buffer, offset: 0, dims: Dims::from_slice(dims), dtype, lod: None })
    }

    /// False for a [`Tensor::shape_only`].
    #[inline]
    pub fn has_bytes(&self) -> bool {
        self.on_host_here() || self.buffer.device().is_some()
    }

    #[inline]
    fn on_host_here(&self) -> bool {
        self.offset + self.nbytes() <= self.buffer.len()
    }

    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        if !self.on_host_here() {
            return self.ptr_elsewhere();
        }
        if self.dtype == DType::Bool {
            self.heal_bools();
        }
        // SAFETY: the offset lies within the buffer.
        unsafe { self.buffer.ptr().add(self.offset) }
    }

    /// Normalises bools to 0 or 1 again if the bytes are or were exported (DLPack, buffer protocol): numpy can write a
    /// 7 into a bool through a view of its bytes. Elements of other types may be any bits.
    #[inline(never)]
    fn heal_bools(&self) {
        if !self.buffer.is_known_outside() {
            return;
        }
        // SAFETY: the bytes are initialised. Pinned bytes may change under their other readers, which know that; read-only
        // ones have been 0 or 1 since they were imported (else they were copied), so nothing is written there.
        unsafe {
            let first = self.buffer.ptr().add(self.offset);
            for b in (0..self.nbytes()).map(|i| first.add(i)).filter(|b| **b > 1) {
                *b = 1;
            }
        }
    }

    /// For imported bytes (a file, an array): sets every bool to 0 or 1, the only values that Rust allows.
    pub fn normalise_bools(&mut self) -> Result<()> {
        if self.dtype == DType::Bool {
            self.bytes_mut()?.iter_mut().for_each(|b| *b = (*b != 0) as u8);
        }
        Ok(())
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes are initialised and live as long as the buffer.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.nbytes()) }
    }

    pub fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        self.unshare()?;
        // SAFETY: as in `bytes`; `unshare` made this the only reference that may write.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.ptr(), self.nbytes()) })
    }

    /// The elements. `T` must be the tensor's type: another one is a bug of the kernel.
    #[inline]
    pub fn data<T: Element>(&self) -> &[T] {
        let (at, n) = self.elements(T::DTYPE);
        // SAFETY: the type is right, blocks are aligned to 64 and offsets to elements.
        unsafe { std::slice::from_raw_parts(at as *const T, n) }
    }

    /// The elements, to write; copies them first if they are shared.
    #[inline]
    pub fn data_mut<T: Element>(&mut self) -> Result<&mut [T]> {
        let (at, n) = self.elements_mut(T::DTYPE)?;
        // SAFETY: as in `data`; `unshare` made this the only reference that may write.
        Ok(unsafe { std::slice::from_raw_parts_mut(at as *mut T, n) })
    }

    /// The part of `data` that does not depend on the type: compiled once, not in every kernel.
    #[inline(never)]
    fn elements(&self, asked: DType) -> (*mut u8, usize) {
        assert!(asked == self.dtype, "a {} tensor read as {asked}", self.dtype);
        (self.ptr(), self.numel())
    }

    #[inline(never)]
    fn elements_mut(&mut self, asked: DType) -> Result<(*mut u8, usize)> {
        assert!(asked == self.dtype, "a {} tensor written as {asked}", self.dtype);
        self.unshare()?;
        Ok((self.ptr(), self.numel()))
    }

    fn unshare(&mut self) -> Result<()> {
        if !self.buffer.is_writable() || !self.on_host_here() {
            self.own()?;
        }
        Ok(())
    }

    fn own(&mut self) -> Result<()> {
        let fresh = Buffer::new(self.nbytes())?;
        // SAFETY: both have `nbytes` bytes and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr(), fresh.ptr(), self.nbytes()) };
        (self.buffer, self.offset) = (fresh, 0);
        Ok(())
    }

    /// The same value, sharing the bytes until one of the two is written. Pinned bytes are copied: foreign code writes
    /// them in place.
    #[inline]
    pub fn share(&self) -> Result<Tensor> {
        if self.buffer.is_pinned() {
            self.deep_copy()
        } else {
            Ok(self.clone())
        }
    }

    /// Pins the bytes for foreign code until the export is dropped. Other values that shared them get a copy.
    pub fn export(&mut self, writable: bool) -> Result<Export> {
        if !self.on_host_here() || !(self.buffer.is_writable() || self.buffer.is_read_only() && !writable) {
            self.own()?;
        }
        self.buffer.export()
    }

    /// Another shared-mutable reference to these bytes, which a variable holds (see [`Buffer::live`]).
    #[inline]
    pub(super) fn live(&mut self) -> Tensor {
        Tensor {
            buffer: self.buffer.live(),
            offset: self.offset,
            dims: copied(&self.dims),
            dtype: self.dtype,
            lod: self.lod.clone(),
        }
    }

    /// True if these bytes, which a variable holds, must be copied before a write: a snapshot refers to them. Pinned
    /// bytes and memory of a device stay where they are.
    pub(super) fn is_kept(&self) -> bool {
        !self.buffer.is_writable() && self.on_host_here() && !self.buffer.is_pinned()
    }

    /// Replaces the bytes by a copy of them.
    pub(super) fn move_to(&mut self, copy: Tensor) {
        (self.buffer, self.offset) = (copy.buffer, copy.offset);
    }

    /// Turns a shared-mutable reference into a snapshot.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.buffer.is_live() {
            self.buffer = self.buffer.clone();
        }
    }

    /// Neither floating-point nor complex numbers: mostly indices.
    #[inline]
    pub(super) fn is_exact(&self) -> bool {
        !(self.dtype.is_float() || self.dtype.is_complex())
    }

    /// Writes the elements of `new` into the bytes of this tensor if those are pinned and type and number of elements
    /// agree; shape and LoD follow. False otherwise.
    pub(super) fn receive(&mut self, new: &Tensor) -> bool {
        let fits = self.buffer.is_pinned()
            && !self.buffer.is_read_only()
            && (self.dtype, self.numel()) == (new.dtype, new.numel())
            && self.on_host_here()
            && new.on_host_here();
        if fits && !self.buffer.same(&new.buffer) {
            // SAFETY: both have `nbytes` bytes. Two buffers may overlap if both are views of imported memory: `copy` allows
            // that. Pinned bytes may change under their other readers, which know that.
            unsafe { std::ptr::copy(new.ptr(), self.ptr(), self.nbytes()) };
        }
        let fits = fits && (!self.buffer.same(&new.buffer) || self.offset == new.offset);
        if fits {
            (self.dims, self.lod) = (Dims::from_slice(&new.dims), new.lod.clone());
        }
        fits
    }

    /// A tensor with bytes of its own.
    pub fn deep_copy(&self) -> Result<Tensor> {
        let mut t = Tensor::empty(self.dtype, &self.dims)?;
        t.bytes_mut()?.copy_from_slice(self.bytes());
        t.lod = self.lod.clone();
        Ok(t)
    }

    /// The same bytes with another shape of as many elements.
    #[inline]
    pub fn reshaped(&self, dims: &[i64]) -> Tensor {
        debug_assert_eq!(numel(dims), self.numel());
        Tensor { dims: Dims::from_slice(dims), lod: None, ..self.clone() }
    }

    /// Elements `from..from + numel(dims)` of the flat tensor, sharing the bytes.
    pub fn view(&self, from: usize, dims: &[i64]) -> Tensor {
        assert!(from + numel(dims) <= self.numel(), "a view outside its tensor");
        let offset = self.offset + from * self.dtype.size();
        Tensor { dims: Dims::from_slice(dims), offset, lod: None, ..self.clone() }
    }

    /// Rows `from..to` of the first dimension, sharing the bytes.
    pub fn rows(&self, from: usize, to: usize) -> Tensor {
        let width = numel(&self.dims[1..]);
        let mut dims = self.dims.clone();
        dims[0] = (to - from) as i64;
        self.view(from * width, &dims)
    }

    /// The same bytes as elements of another type, of which each bit pattern must be a value.
    pub fn retyped(&self, dtype: DType, dims: &[i64]) -> Tensor {
        assert!(numel(dims) * dtype.size() == self.nbytes(), "{self:?} retyped as {dtype} of shape {dims:?}");
        Tensor { dtype, dims: Dims::from_slice(dims), lod: None, ..self.clone() }
    }

    pub fn with_lod(mut self, lod: Option<Arc<Lod>>) -> Tensor {
        self.lod = lod;
        self
    }

    /// Elements of an index tensor (bool, int32, int64) as i64, for small tensors that hold attributes.
    pub fn to_i64s(&self) -> Result<Vec<i64>> {
        Ok(match self.dtype {
            DType::I64 => self.data::<i64>().to_vec(),
            DType::I32 => self.data::<i32>().iter().map(|&v| v as i64).collect(),
            DType::I16 => self.data::<i16>().iter().map(|&v| v as i64).collect(),
            DType::Bool => self.bytes().iter().map(|&v| v as i64).collect(),
            other => crate::bail!(InvalidArgument, "expected an int32 or int64 tensor, got {other}"),
        })
    }

    /// Every element as f64 (of complex numbers the real part); for scalars and small tensors.
    pub fn to_f64s(&self) -> Vec<f64> {
        use half::{bf16, f16};
        if self.dtype.is_complex() {
            return self.to_complexes().iter().map(|v| v.re).collect();
        }
        crate::dispatch!(self.dtype, T in [f32, f64, i32, i64, i16, u8, i8, f16, bf16, bool], {
            self.data::<T>().iter().map(|&v| ToF64::to(v)).collect()
        }, _other => unreachable!())
    }

    /// Every element as a complex number; for scalars and small tensors.
    pub fn to_complexes(&self) -> Vec<Complex<f64>> {
        match self.dtype {
            DType::C64 => {
                self.data::<Complex<f32>>().iter().map(|v| Complex::new(f64::from(v.re), f64::from(v.im))).collect()
            }
            DType::C128 => self.data::<Complex<f64>>().to_vec(),
            _ => self.to_f64s().into_iter().map(Complex::from).collect(),
        }
    }
}

/// Conversion for `to_f64s`.
pub trait ToF64 {
    fn to(self) -> f64;
}
macro_rules! to_f64 { ($($t:ty),*) => { $(impl ToF64 for $t { fn to(self) -> f64 { self as f64 } })* } }
to_f64!(f32, f64, i32, i64, i16, u8, i8);
impl ToF64 for bool {
    fn to(self) -> f64 {
        self as u8 as f64
    }
}
impl ToF64 for half::f16 {
    fn to(self) -> f64 {
        self.to_f64()
    }
}
impl ToF64 for half::bf16 {
    fn to(self) -> f64 {
        self.to_f64()
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor({}, {:?})", self.dtype, &self.dims[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_copies_what_is_shared() {
        let mut a = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        let b = a.clone();
        let row = a.rows(1, 2);
        a.data_mut::<f32>().unwrap()[3] = 9.0;
        assert_eq!(b.data::<f32>(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(row.data::<f32>(), [3.0, 4.0]);
        assert_eq!(a.data::<f32>(), [1.0, 2.0, 3.0, 9.0]);
    }

    #[test]
    fn impossible_shapes_are_errors() {
        assert!(Tensor::empty(DType::F32, &[-1, 2]).is_err());
        assert!(Tensor::empty(DType::F32, &[i64::MAX, 4]).is_err());
        assert_eq!(Tensor::empty(DType::F32, &[0, 4]).unwrap().numel(), 0);
    }
}
