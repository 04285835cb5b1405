//! A cell is what a variable is: an identity, a value, and how often the value was changed in place.
//!
//! From its first value on a cell always holds one, whoever works on it. An operator that writes its input in place
//! gets a live reference (see [`super::Buffer`]) to the bytes that the cell goes on holding; so do operators that read it,
//! which does not keep others from writing. Threads that share a cell may see each other's elements half written, but
//! never a shape that is not the bytes', nor bytes that were given back. What leaves (`get`) is a snapshot.
//!
//! Integers and bools are indices and conditions: they never change under who reads them. Operators get snapshots of
//! them, so that one that writes them in place writes a copy, which [`Cell::finish`] installs.

use super::{Export, SelectedRows, Tensor, Value};
use crate::bail;
use crate::base::{DType, Result};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Default)]
pub struct Cell {
    value: Mutex<Value>,
    version: AtomicU32,
    /// Held by the thread that copies the bytes to write them.
    moving: Mutex<()>,
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
        Cell { value: Mutex::new(value.into()), version: AtomicU32::new(0), moving: Mutex::new(()) }
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

    /// The value for an operator that reads it now; of floating-point numbers it does not keep others from writing them
    /// in place.
    #[inline]
    pub fn read(&self) -> Value {
        match &mut *self.value.lock() {
            Value::Dense(t) if !t.is_exact() => Value::Dense(t.live()),
            held => read_others(held),
        }
    }

    /// The value for an operator that writes it in place. The cell keeps it; what the operator makes of it goes to
    /// [`Cell::finish`].
    pub fn write(&self) -> Result<Value> {
        let mut held = self.value.lock();
        if held.elements().is_some_and(|t| !t.is_exact() && t.is_kept()) {
            drop(held);
            self.move_away()?;
            held = self.value.lock();
        }
        Ok(match &mut *held {
            Value::Dense(t) if !t.is_exact() => Value::Dense(t.live()),
            held => read_others(held),
        })
    }

    /// Copies the bytes, which somebody keeps, for the cell. One thread does, the others wait for it; readers do not.
    #[cold]
    fn move_away(&self) -> Result<()> {
        let _one = self.moving.lock();
        let old = match self.value.lock().elements() {
            Some(t) if t.is_kept() => t.clone(),
            _ => return Ok(()),
        };
        let copy = old.deep_copy()?;
        let mut held = self.value.lock();
        let replaced = match &mut *held {
            Value::Dense(t) => Some(t),
            Value::Rows(r) => Some(&mut r.value),
            _ => None,
        };
        if let Some(t) = replaced.filter(|t| t.buffer().same(old.buffer()) && t.nbytes() == old.nbytes()) {
            t.move_to(copy);
        }
        Ok(())
    }

    /// The end of a [`Cell::write`] that went well: what was computed elsewhere becomes the value. Bytes that were
    /// written in place are there already, unless somebody has given the variable another value meanwhile.
    #[inline]
    pub fn finish(&self, value: Value) {
        if !value.elements().is_some_and(|t| t.buffer().is_live()) {
            self.set(value);
        }
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Value> {
        self.value.lock()
    }

    /// Sets the value. Bytes that somebody outside sees (pinned ones) are written in place where the new value fits.
    #[inline]
    pub fn set(&self, value: impl Into<Value>) {
        let mut value = value.into();
        if let Value::Dense(t) = &mut value {
            t.settle();
        }
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

    /// Empties the cell.
    pub fn clear(&self) {
        let old = std::mem::take(&mut *self.value.lock());
        drop(old);
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

/// What operators get of integers and of what is not dense.
fn read_others(held: &mut Value) -> Value {
    match held {
        Value::Rows(r) if !r.value.is_exact() => {
            let value = r.value.live();
            rows_at(r, value)
        }
        held => held.clone(),
    }
}

fn rows_at(r: &SelectedRows, value: Tensor) -> Value {
    Value::from(SelectedRows { rows: r.rows.clone(), height: r.height, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(value: Value) -> Tensor {
        value.dense().unwrap().clone()
    }

    /// What an operator in place does with the value that it is given.
    fn add_one(cell: &Cell) {
        let mut value = cell.write().unwrap();
        let Value::Dense(t) = &mut value else { panic!("dense") };
        t.data_mut::<f32>().unwrap().iter_mut().for_each(|v| *v += 1.0);
        cell.finish(value);
    }

    #[test]
    fn a_cell_is_written_in_place_while_others_read() {
        let cell = Cell::new(Tensor::from_slice(&[1f32, 2.0], &[2]).unwrap());
        let at = dense(cell.get()).ptr();
        let (reader, writer) = (cell.read(), cell.write().unwrap());
        assert!(!cell.lock().is_none());
        add_one(&cell);
        assert_eq!((dense(cell.get()).ptr(), dense(reader).data::<f32>()), (at, &[2f32, 3.0][..]));
        drop(writer); // one that failed: nothing is lost
        assert_eq!(cell.tensor().unwrap().data::<f32>(), [2.0, 3.0]);
    }

    #[test]
    fn what_left_the_cell_stays_as_it_is() {
        let cell = Cell::new(Tensor::from_slice(&[1f32, 2.0], &[2]).unwrap());
        add_one(&cell);
        let (kept, other) = (cell.get(), Cell::new(cell.get()));
        add_one(&cell);
        add_one(&other);
        add_one(&cell);
        assert_eq!(dense(kept).data::<f32>(), [2.0, 3.0]);
        assert_eq!(cell.tensor().unwrap().data::<f32>(), [4.0, 5.0]);
        assert_eq!(other.tensor().unwrap().data::<f32>(), [3.0, 4.0]);
        // A live reference that is given to another cell is a snapshot there.
        let third = Cell::new(Value::None);
        third.set(cell.read());
        add_one(&cell);
        assert_eq!(third.tensor().unwrap().data::<f32>(), [4.0, 5.0]);
    }

    #[test]
    fn a_value_set_meanwhile_wins_over_what_was_written_in_place() {
        let cell = Cell::new(Tensor::from_slice(&[1f32], &[1]).unwrap());
        let writer = cell.write().unwrap();
        cell.set(Tensor::from_slice(&[7f32, 8.0], &[2]).unwrap());
        cell.finish(writer);
        assert_eq!(cell.tensor().unwrap().dims(), [2]);
    }

    #[test]
    fn integers_do_not_change_under_who_reads_them() {
        let cell = Cell::new(Tensor::from_slice(&[1i64, 2], &[2]).unwrap());
        let before = cell.read();
        let mut value = cell.write().unwrap();
        let Value::Dense(t) = &mut value else { panic!("dense") };
        t.data_mut::<i64>().unwrap()[0] = 5;
        let (during, seen) = (cell.read(), dense(cell.get()));
        t.data_mut::<i64>().unwrap()[1] = 6;
        cell.finish(value);
        assert_eq!((dense(before).data::<i64>(), seen.data::<i64>()), (&[1i64, 2][..], dense(during).data::<i64>()));
        assert_eq!(cell.tensor().unwrap().data::<i64>(), [5, 6]);
    }

    #[test]
    fn pinned_bytes_are_written_where_they_are() {
        let cell = Cell::new(Tensor::from_slice(&[1f32, 2.0], &[2]).unwrap());
        let seen = cell.export(true).unwrap();
        add_one(&cell);
        let kept = cell.get();
        add_one(&cell);
        // SAFETY: the export keeps two elements.
        let outside = unsafe { std::slice::from_raw_parts(seen.ptr.cast::<f32>(), 2) };
        assert_eq!((outside, cell.tensor().unwrap().data::<f32>()), (&[3f32, 4.0][..], &[3f32, 4.0][..]));
        drop(kept);
    }

    #[test]
    fn a_cell_of_integers_is_whole_for_every_thread() {
        let cell = Cell::new(Tensor::from_slice(&[0i64; 8], &[8]).unwrap());
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        std::thread::scope(|s| {
            s.spawn(|| {
                for round in 1..=rounds {
                    let mut value = cell.write().unwrap();
                    let Value::Dense(t) = &mut value else { panic!("dense") };
                    t.data_mut::<i64>().unwrap().fill(round);
                    cell.finish(value);
                }
            });
            s.spawn(|| {
                for _ in 0..rounds {
                    let seen = dense(cell.read());
                    assert!(seen.data::<i64>().windows(2).all(|w| w[0] == w[1]), "{seen:?}");
                }
            });
            for _ in 0..rounds {
                let kept = dense(cell.get());
                let first = kept.data::<i64>().to_vec();
                std::thread::yield_now();
                assert!(first.windows(2).all(|w| w[0] == w[1]) && kept.data::<i64>() == first, "{first:?}");
            }
        });
        assert_eq!(cell.tensor().unwrap().data::<i64>(), [rounds; 8]);
    }
}
