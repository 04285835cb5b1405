//! A cell is what a variable is: an identity, a value, and how often the value was changed in place.
//!
//! From its first value on a cell always holds one, whoever works on it. An operator that writes its input in place
//! gets a live reference (see [`super::Buffer`]) to the bytes that the cell goes on holding; so do operators that read it,
//! which does not keep others from writing. Threads that share a cell may see each other's elements half written, but
//! never a shape that is not the bytes', nor bytes that were given back. What leaves (`get`) is a snapshot.
//!
//! Integers and bools are indices and conditions: they never change under who reads them. Operators get snapshots of
//! them, so that one that writes them in place writes a copy, which [`Cell::finish`] installs.

use super::kin::Kin;
use super::{Export, SelectedRows, Tensor, Value};
use crate::bail;
use crate::base::{DType, Result};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

#[derive(Default)]
pub struct Cell {
    value: Mutex<Value>,
    version: AtomicU32,
    /// Those that share its memory.
    kin: Kin<Cell>,
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
        Cell { value: Mutex::new(value.into()), ..Cell::default() }
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
        let _kin = self.kin.moving();
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
        drop(held);
        self.tell();
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
        self.tell();
    }

    /// Pins the bytes of a dense tensor for somebody outside, and says where and what they are.
    pub fn export(&self, writable: bool) -> Result<Exported> {
        let mut held = self.value.lock();
        match &mut *held {
            Value::Dense(t) => {
                t.fetch()?;
                let export = t.export(writable)?;
                let exported = Exported { ptr: t.ptr(), dims: t.dims().to_vec(), dtype: t.dtype(), export };
                drop(held);
                self.tell();
                Ok(exported)
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

    /// After a change in place: the kin have it, too.
    #[inline]
    pub fn bump(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
        if self.has_kin() {
            self.kin.for_others(self, |other| {
                self.hand_to(other);
                other.version.fetch_add(1, Ordering::Relaxed);
            });
        }
    }
}

// Cells that share their memory: a variable and what reshape and its like made of it in dygraph mode (2.0.2's views).
//
// Each has a shape of its own, and a live reference to the bytes of all, so that what one writes in place the others see. A
// cell that gets other bytes (somebody keeps the old ones, or a new value was set) hands them to its kin. A change in place
// counts up the versions of all. The tape, however, knows of a change only where it was made: a variable that was
// changed through one of its kin has a history that says nothing of it, and gives no gradients any more.
impl Cell {
    /// Makes a cell, whose value is another shape of the bytes of `base`, one of its kin. Nothing, if it is not. Of pinned
    /// bytes, which no operator shares, it is a copy, and goes.
    pub fn join(self: &Arc<Cell>, base: &Arc<Cell>) {
        // Who copies the bytes now does not know yet that others will have them.
        let _still = base.moving.lock();
        base.kin.admit(base, self, &self.kin, || {
            let (mut mine, mut held) = (self.value.lock(), base.value.lock());
            let (Value::Dense(view), Value::Dense(t)) = (&mut *mine, &mut *held) else { return false };
            let same = t.buffer.same(&view.buffer) && t.offset == view.offset;
            let copied = t.buffer.is_pinned() && !t.buffer.is_read_only() && t.dtype() == view.dtype();
            if !(same || copied) || t.nbytes() != view.nbytes() {
                return false;
            }
            // A snapshot would keep the bytes as they are: it goes before the live reference comes.
            let Ok(nothing) = Tensor::shape_only(view.dtype, &[]) else { return false };
            view.move_to(nothing);
            view.move_to(t.live());
            self.version.store(base.version(), Ordering::Relaxed);
            true
        });
    }

    /// Do others share its memory, or did they?
    #[inline]
    pub fn has_kin(&self) -> bool {
        self.kin.is_some()
    }

    /// Was it changed by a recorded operator on one of its kin?
    #[inline]
    pub fn is_overtaken(&self) -> bool {
        self.kin.is_overtaken()
    }

    /// After a recorded operator gave it another value: the histories of its kin say nothing of that.
    #[inline]
    pub fn overtake_kin(&self) {
        if self.has_kin() {
            self.kin.for_others(self, |other| other.kin.overtake());
        }
    }

    /// Hands the bytes to the kin, if they are not theirs already.
    #[inline]
    fn tell(&self) {
        if self.has_kin() {
            self.kin.for_others(self, |other| self.hand_to(other));
        }
    }

    #[cold]
    fn hand_to(&self, other: &Cell) {
        // Never the locks of two cells at a time but in `join`, whose cell nobody else has.
        let mine = match &mut *self.value.lock() {
            Value::Dense(t) => t.live(),
            _ => return,
        };
        let mut held = other.value.lock();
        let Value::Dense(t) = &mut *held else { return };
        let fits = (t.dtype(), t.numel()) == (mine.dtype(), mine.numel());
        if fits && !(t.buffer.same(&mine.buffer) && t.offset == mine.offset) && !t.buffer.is_pinned() {
            t.move_to(mine);
        }
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

    fn numbers(n: i64) -> Tensor {
        let data: Vec<f32> = (0..n).map(|v| v as f32).collect();
        Tensor::from_slice(&data, &[n]).unwrap()
    }

    fn view(base: &Arc<Cell>, dims: &[i64]) -> Arc<Cell> {
        let view = Arc::new(Cell::new(base.tensor().unwrap().reshaped(dims)));
        view.join(base);
        view
    }

    fn first(cell: &Cell) -> f32 {
        cell.tensor().unwrap().data::<f32>()[0]
    }

    fn write(cell: &Cell, to: f32) {
        let mut value = cell.write().unwrap();
        let Value::Dense(t) = &mut value else { panic!("dense") };
        t.data_mut::<f32>().unwrap()[0] = to;
        cell.finish(value);
        cell.bump();
    }

    #[test]
    fn kin_see_what_is_written_in_place() {
        let base = Arc::new(Cell::new(numbers(6)));
        let (a, b) = (view(&base, &[2, 3]), view(&base, &[3, 2]));
        let at = base.tensor().unwrap().ptr();
        write(&a, 7.0);
        assert_eq!([first(&base), first(&a), first(&b)], [7.0; 3]);
        assert_eq!((base.tensor().unwrap().ptr(), b.tensor().unwrap().ptr()), (at, at));
        assert_eq!([base.version(), a.version(), b.version()], [1; 3]);
        assert_eq!(view(&b, &[6]).version(), 1);
        assert_eq!((a.tensor().unwrap().dims(), b.tensor().unwrap().dims()), (&[2i64, 3][..], &[3i64, 2][..]));
    }

    #[test]
    fn a_snapshot_stays_and_the_kin_move_together() {
        let base = Arc::new(Cell::new(numbers(4)));
        let a = view(&base, &[2, 2]);
        let kept = base.get();
        let late = view(&base, &[4, 1]);
        write(&a, 9.0);
        write(&late, 8.0);
        assert_eq!(kept.dense().unwrap().data::<f32>()[0], 0.0);
        assert_eq!([first(&base), first(&a), first(&late)], [8.0; 3]);
        base.set(numbers(4));
        assert_eq!([first(&a), first(&late)], [0.0; 2]);
        base.set(numbers(2)); // another size: it goes its own way
        write(&base, 5.0);
        assert_eq!([first(&base), first(&a)], [5.0, 0.0]);
    }

    #[test]
    fn integers_are_shared_too() {
        let base = Arc::new(Cell::new(Tensor::from_slice(&[1i64, 2], &[2]).unwrap()));
        let a = view(&base, &[2, 1]);
        let seen = base.read();
        let mut value = a.write().unwrap();
        let Value::Dense(t) = &mut value else { panic!("dense") };
        t.data_mut::<i64>().unwrap()[0] = 5;
        a.finish(value);
        assert_eq!(base.tensor().unwrap().data::<i64>(), [5, 2]);
        assert_eq!(seen.dense().unwrap().data::<i64>(), [1, 2]);
    }

    #[test]
    fn recorded_changes_overtake_the_others() {
        let base = Arc::new(Cell::new(numbers(2)));
        let a = view(&base, &[2, 1]);
        a.bump();
        assert!(!base.is_overtaken());
        a.overtake_kin();
        assert!(base.is_overtaken() && !a.is_overtaken());
    }

    #[test]
    fn the_copy_of_pinned_bytes_is_joined() {
        let base = Arc::new(Cell::new(numbers(2)));
        let export = base.export(true).unwrap();
        let a = Arc::new(Cell::new(base.tensor().unwrap().deep_copy().unwrap()));
        a.join(&base);
        add_one(&a);
        assert!(a.has_kin() && base.lock().dense().unwrap().ptr() == a.lock().dense().unwrap().ptr());
        assert_eq!(base.lock().dense().unwrap().data::<f32>(), [1.0, 2.0]);
        drop(export);
        add_one(&base);
        assert_eq!(a.tensor().unwrap().data::<f32>(), [2.0, 3.0]);
    }
}
