//! Tensors in the memory of a device. CPU code never writes one: a read fetches its bytes once, a write makes a tensor
//! on the host.

pub use super::buffer::{Device, Memory};
use super::{Buffer, Tensor};
use crate::base::shape::{checked_numel, Dims};
use crate::base::{DType, Result};
use crate::ensure;

/// Panic payload of a read of a `Tensor::shape_only`. The caller of an operator turns it into an error.
pub const NOT_KEPT: &str = "the Tensor holds no memory: only its shape was kept";

impl Tensor {
    /// A tensor at the start of device memory.
    pub fn from_device(memory: Box<dyn Memory>, dtype: DType, dims: &[i64]) -> Result<Tensor> {
        let n = checked_numel(dims)?;
        ensure!(
            n * dtype.size() <= memory.bytes(),
            InvalidArgument,
            "{} bytes of a device do not hold a {dtype} tensor of shape {dims:?}",
            memory.bytes()
        );
        Ok(Tensor { buffer: Buffer::on_device(memory), offset: 0, dims: Dims::from_slice(dims), dtype, lod: None })
    }

    /// The device memory that holds the elements, and the first one's offset; `None` on the host.
    pub fn on_device(&self) -> Option<(&dyn Memory, usize)> {
        self.buffer.device().map(|d| (d.memory(), self.offset))
    }

    /// True if a device kernel may write these bytes: no other value refers to them, and the host has no copy.
    pub fn device_may_write(&self) -> bool {
        self.buffer.is_writable() && self.buffer.device().is_some_and(|d| d.mirror.get().is_none())
    }

    /// The same elements on the host.
    pub fn on_host(&self) -> Result<Tensor> {
        match self.buffer.device() {
            None => Ok(self.clone()),
            Some(d) => Ok(Tensor { buffer: d.mirror()?.clone(), ..self.clone() }),
        }
    }

    /// Fetches the bytes of a device tensor, so that reading them cannot fail.
    pub fn fetch(&self) -> Result<()> {
        self.buffer.device().map_or(Ok(()), |d| d.mirror().map(drop))
    }

    /// The bytes of a tensor that has none on the host. Operators and Python's methods fetch before they read; this
    /// serves callers that did not.
    #[cold]
    #[inline(never)]
    pub(super) fn ptr_elsewhere(&self) -> *mut u8 {
        let Some(device) = self.buffer.device() else { std::panic::resume_unwind(Box::new(NOT_KEPT)) };
        match device.mirror() {
            // SAFETY: the mirror holds all bytes of the memory, in which the offset lies.
            Ok(mirror) => unsafe { mirror.ptr().add(self.offset) },
            Err(e) => panic!("the elements could not be copied from the device: {e}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::any::Any;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    static FETCHED: AtomicUsize = AtomicUsize::new(0);

    /// Two floats on a stand-in device whose memory is the heap.
    struct Two([f32; 2]);

    impl Memory for Two {
        fn bytes(&self) -> usize {
            8
        }
        fn device(&self) -> i32 {
            3
        }
        fn address(&self) -> usize {
            self.0.as_ptr() as usize
        }
        fn download(&self) -> Result<Buffer> {
            FETCHED.fetch_add(1, Relaxed);
            Ok(Tensor::from_slice(&self.0, &[2])?.buffer().clone())
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    #[test]
    fn reading_fetches_once_and_writing_leaves_the_device() {
        let t = Tensor::from_device(Box::new(Two([1.0, 2.0])), DType::F32, &[2]).unwrap();
        assert!(t.device_may_write() && t.has_bytes() && !Tensor::shape_only(t.dtype(), t.dims()).unwrap().has_bytes());
        assert_eq!(t.on_device().map(|(m, offset)| (m.device(), offset)), Some((3, 0)));
        let second = t.view(1, &[1]);
        assert_eq!(t.data::<f32>(), [1.0, 2.0]);
        assert_eq!((second.data::<f32>(), FETCHED.load(Relaxed)), (&[2.0f32][..], 1));
        assert!(!t.device_may_write());
        let mut written = t.clone();
        written.data_mut::<f32>().unwrap()[0] = 9.0;
        assert!(written.on_device().is_none() && t.on_device().is_some());
        assert_eq!((written.data::<f32>(), t.data::<f32>()), (&[9.0f32, 2.0][..], &[1.0f32, 2.0][..]));
        assert!(t.on_host().unwrap().on_device().is_none());
        assert!(Tensor::from_device(Box::new(Two([0.0; 2])), DType::F32, &[3]).is_err());
    }
}
