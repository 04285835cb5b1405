//! The memory of gradient buckets: gradients that are averaged together are contiguous, and backward computes them in
//! place where it can, so that nothing is copied into a bucket.

use super::bucket::Bucket;
use oar_core::base::Result;
use oar_core::tensor::{Buffer, Owner, Tensor};
use oar_net::{Region, SymmetricBuffer};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{fence, Ordering};
use std::sync::Arc;

/// Gradients start on cache lines.
pub(super) const ALIGN: usize = 64;

/// Owner of the bytes: a buffer, or a symmetric buffer that the other ranks see. Every gradient holds a reference to
/// one, which shows whether it still exists.
trait Keep: Any + Send + Sync {}
impl Keep for Buffer {}
impl Keep for Arc<SymmetricBuffer> {}

/// The bytes of one bucket.
pub struct BucketMemory {
    base: NonNull<u8>,
    bytes: usize,
    keeps: Vec<Arc<dyn Keep>>,
}

// SAFETY: a pointer into what `keeps` holds; the tensors over it decide which reference may write there.
unsafe impl Send for BucketMemory {}
// SAFETY: as above.
unsafe impl Sync for BucketMemory {}

impl BucketMemory {
    fn new(bucket: &Bucket, base: NonNull<u8>, keep: impl Keep + Clone) -> Arc<BucketMemory> {
        let keeps = bucket.slots.iter().map(|_| Arc::new(keep.clone()) as Arc<dyn Keep>).collect();
        Arc::new(BucketMemory { base, bytes: bucket.bytes(), keeps })
    }

    /// Memory of this process. The padding between gradients is summed as well, so it is initialised to numbers.
    pub fn own(bucket: &Bucket) -> Result<Arc<BucketMemory>> {
        let buffer = Buffer::new(bucket.bytes())?;
        let size = bucket.dtype.size();
        for (slot, next) in bucket.slots.iter().zip(&bucket.slots[1..]) {
            let (from, to) = ((slot.from + slot.len) * size, next.from * size);
            // SAFETY: within the new bytes, which are not shared yet.
            unsafe { std::ptr::write_bytes(buffer.ptr().add(from), 0, to - from) };
        }
        // SAFETY: a buffer's bytes are somewhere.
        let base = unsafe { NonNull::new_unchecked(buffer.ptr()) };
        Ok(BucketMemory::new(bucket, base, buffer))
    }

    /// The bytes of a symmetric buffer from `at` on, which are zeros at first.
    pub fn seen(bucket: &Bucket, buffer: &Arc<SymmetricBuffer>, at: usize) -> Arc<BucketMemory> {
        assert!(at + bucket.bytes() <= buffer.len() && at.is_multiple_of(ALIGN), "a bucket outside of its buffer");
        // SAFETY: inside the symmetric buffer.
        let base = unsafe { NonNull::new_unchecked(buffer.ptr().add(at)) };
        BucketMemory::new(bucket, base, buffer.clone())
    }

    /// True if no backward fills the memory and no gradient refers to it.
    pub fn is_free(self: &Arc<BucketMemory>) -> bool {
        let free = Arc::strong_count(self) == 1 && self.keeps.iter().all(|k| Arc::strong_count(k) == 1);
        // Orders this thread after the last use by the former references.
        fence(Ordering::Acquire);
        free
    }

    /// The position of one gradient as a tensor to be written, unless it is in use.
    pub fn lend(&self, bucket: &Bucket, slot: usize, dims: &[i64]) -> Option<Tensor> {
        (Arc::strong_count(&self.keeps[slot]) == 1).then(|| self.tensor(bucket, slot, dims).ok()).flatten()
    }

    /// The position of one gradient, which must be free, as a tensor to be written.
    pub fn tensor(&self, bucket: &Bucket, slot: usize, dims: &[i64]) -> Result<Tensor> {
        let size = bucket.dtype.size();
        let (from, len) = (bucket.slots[slot].from * size, bucket.slots[slot].len * size);
        // SAFETY: inside the memory, aligned; numbers or zeros; they live as long as the keep.
        let buffer = unsafe {
            let keep = Box::new(self.keeps[slot].clone());
            Buffer::foreign(self.base.add(from), len, keep, Owner::Us)
        };
        Tensor::from_buffer(buffer, bucket.dtype, dims)
    }

    /// Where a gradient's bytes are, relative to its position here.
    pub fn holds(&self, bucket: &Bucket, slot: usize, t: &Tensor) -> Held {
        let there = self.base.as_ptr() as usize + bucket.slots[slot].from * bucket.dtype.size();
        match (t.ptr() as usize == there, Arc::strong_count(&self.keeps[slot])) {
            (true, _) if t.buffer().is_unique() => Held::There,
            (false, 1) => Held::Elsewhere,
            _ => Held::Shared,
        }
    }

    /// The whole position, as an operand of an operation.
    pub fn region(&self) -> Region {
        // SAFETY: the keeps go with the region, and only the operation uses the bytes until it has ended.
        unsafe { Region::raw(self.base.as_ptr(), self.bytes, Some(Box::new(self.keeps.clone()))) }
    }
}

#[derive(Debug, PartialEq)]
pub enum Held {
    /// Here, and not referenced elsewhere.
    There,
    /// Elsewhere; the position here is free.
    Elsewhere,
    /// The position here is referenced elsewhere.
    Shared,
}

#[cfg(test)]
mod tests {
    use super::super::bucket::Slot;
    use super::*;
    use oar_core::base::DType;
    use oar_core::ir::AttrMap;
    use oar_core::op::call::call_checked;
    use oar_core::op::run::{NoEnv, Out};
    use oar_core::op::Args;
    use oar_core::tensor::Value;

    #[test]
    fn places_are_lent_once_and_known_again() {
        let slots = vec![Slot { param: 0, from: 0, len: 3 }, Slot { param: 1, from: 16, len: 2 }];
        let bucket = Bucket { dtype: DType::F32, slots, len: 18 };
        let memory = BucketMemory::own(&bucket).unwrap();
        assert!(memory.is_free());
        let mut preallocated = memory.lend(&bucket, 0, &[1, 3]).unwrap();
        assert!(memory.lend(&bucket, 0, &[3]).is_none() && !memory.is_free());
        preallocated.data_mut::<f32>().unwrap().fill(2.0);
        assert_eq!(memory.holds(&bucket, 0, &preallocated), Held::There);
        let kept = preallocated.clone();
        assert_eq!(memory.holds(&bucket, 0, &preallocated), Held::Shared);
        let other = Tensor::from_slice(&[1f32, 2.0, 3.0], &[3]).unwrap();
        assert_eq!(memory.holds(&bucket, 0, &other), Held::Shared);
        assert_eq!(memory.holds(&bucket, 1, &other), Held::Elsewhere);
        drop(preallocated);
        assert_eq!(kept.data::<f32>(), [2.0; 3]);
        drop(kept);
        assert_eq!(memory.holds(&bucket, 0, &other), Held::Elsewhere);
        let region = memory.region();
        assert!(!memory.is_free() && region.len() == 72);
        drop(region);
        assert!(memory.is_free());
    }

    #[test]
    fn what_is_lent_is_used_where_it_fits() {
        oar_ops::install();
        let op = oar_core::op::table::lookup("relu").unwrap();
        let attrs = op.attrs.parse(op.name, &AttrMap::default()).unwrap();
        for (dtype, dims, fits) in
            [(DType::F32, [2i64, 3], true), (DType::F32, [3, 2], false), (DType::F64, [2, 3], false)]
        {
            let bytes = Tensor::empty(dtype, &dims).unwrap();
            let place = bytes.ptr();
            let (mut ins, mut outs) = (Args::new(), Args::new());
            ins.push_one(Value::from(Tensor::from_slice(&[-1f32, 2.0, -3.0, 4.0, -5.0, 6.0], &[2, 3]).unwrap()));
            outs.push_one(Out::preallocated(Some(bytes)));
            call_checked(op, &attrs, &mut ins, &mut outs, false, &NoEnv).unwrap();
            let Value::Dense(out) = &outs.flat[0].value else { panic!("no output") };
            assert_eq!(out.data::<f32>(), [0.0, 2.0, 0.0, 4.0, 0.0, 6.0]);
            assert!(out.dims() == [2, 3] && (!fits || out.ptr() == place));
        }
    }
}
