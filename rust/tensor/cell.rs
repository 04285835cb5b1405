//! A cell is what a variable is: an identity, a value, and how often the value was changed in place.

use super::{Tensor, Value};
use crate::base::Result;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Default)]
pub struct Cell {
    value: Mutex<Value>,
    version: AtomicU32,
}

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

    #[inline]
    pub fn set(&self, value: impl Into<Value>) {
        // The old value is dropped after the lock is gone: it may own Python objects.
        let old = std::mem::replace(&mut *self.value.lock(), value.into());
        drop(old);
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
