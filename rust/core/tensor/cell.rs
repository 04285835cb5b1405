//! A cell is what a variable is: an identity, a value, and how often the value was changed in place.

use super::{Export, Tensor, Value};
use crate::bail;
use crate::base::{DType, Result};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Default)]
pub struct Cell {
    value: Mutex<Value>,
    version: AtomicU32,
}

/// The elements of a tensor as somebody outside sees them.
pub struct Exported {
    pub ptr: *mut u8,
    pub dims: Vec<i64>,
    pub dtype: DType,
    /// Keeps the bytes alive and where they are.
    pub export: Export,
}

// SAFETY: the pointer is into the bytes that `export` keeps.
unsafe impl Send for Exported {}

impl Cell {
    pub fn new(value: impl Into<Value>) -> Cell {
        Cell { value: Mutex::new(value.into()), version: AtomicU32::new(0) }
    }

    /// A clone of the value; the bytes are shared.
    #[inline]
    pub fn get(&self) -> Value {
        self.value.lock().clone()
    }

    /// The value if it is a dense tensor; the bytes are shared.
    #[inline]
    pub fn dense(&self) -> Option<Tensor> {
        match &*self.value.lock() {
            Value::Dense(t) => Some(t.clone()),
            _ => None,
        }
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Value> {
        self.value.lock()
    }

    /// Sets the value. Bytes that somebody outside sees (pinned ones) are written in place where the new value fits.
    #[inline]
    pub fn set(&self, value: impl Into<Value>) {
        let value = value.into();
        let mut held = self.value.lock();
        if let (Value::Dense(old), Value::Dense(new)) = (&mut *held, &value) {
            if old.buffer().is_pinned() && old.receive(new) {
                return;
            }
        }
        // The old value is dropped after the lock is gone: it may own Python objects.
        let old = std::mem::replace(&mut *held, value);
        drop(held);
        drop(old);
    }

    /// Pins the bytes of a dense tensor for somebody outside, and says where and what they are.
    pub fn export(&self, writable: bool) -> Result<Exported> {
        match &mut *self.value.lock() {
            Value::Dense(t) => {
                t.fetch()?;
                let export = t.export(writable)?;
                Ok(Exported { ptr: t.ptr(), dims: t.dims().to_vec(), dtype: t.dtype(), export })
            }
            Value::None => bail!(PreconditionNotMet, "the Tensor holds no memory: it has not been initialised"),
            other => bail!(InvalidArgument, "expected a dense Tensor, got {}", other.what()),
        }
    }

    /// The value, leaving nothing: for an operator that writes its input in place.
    #[inline]
    pub fn take(&self) -> Value {
        std::mem::take(&mut *self.value.lock())
    }

    pub fn tensor(&self) -> Result<Tensor> {
        self.value.lock().dense().cloned()
    }

    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn bump(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }
}
