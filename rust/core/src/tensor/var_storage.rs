//! Variable storage: the identity of a variable, its value, and the number of changes in place.
//!
//! After its first value a variable always holds one, whatever operator is at work on it. An operator that writes its
//! input in place gets a shared-mutable reference (see [`super::Buffer`]) to the bytes, which the variable keeps; so
//! do operators that read it, which does not keep others from writing. Threads that share a variable may see each
//! other's elements half written, but never a shape that does not fit the bytes, nor freed bytes. `get` returns a
//! copy-on-write reference.
//!
//! Integers and bools are indices and conditions: they never change under a reader. Operators get snapshots of them,
//! so an operator that writes them in place writes a copy, which [`VarStorage::finish`] installs.

use super::alias_group::AliasGroup;
use super::{Export, SelectedRows, Tensor, Value};
use crate::bail;
use crate::base::{DType, Result};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

#[derive(Default)]
pub struct VarStorage {
    value: Mutex<Value>,
    version: AtomicU32,
    /// The variables that share its memory.
    aliases: AliasGroup<VarStorage>,
    /// Held by the thread that copies the bytes in order to write them.
    moving: Mutex<()>,
}

/// The elements of a tensor as foreign code sees them.
pub struct Exported {
    pub ptr: *mut u8,
    pub dims: Vec<i64>,
    pub dtype: DType,
    /// Keeps the bytes alive and in place.
    pub export: Export,
}

// SAFETY: the pointer is into the bytes that `export` keeps.
unsafe impl Send for Exported {}

impl VarStorage {
    pub fn new(value: impl Into<Value>) -> VarStorage {
        VarStorage { value: Mutex::new(value.into()), ..VarStorage::default() }
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

    /// The value for an operator that reads it now. Reading floating-point numbers does not keep others from writing
    /// them in place.
    #[inline]
    pub fn read(&self) -> Value {
        match &mut *self.value.lock() {
            Value::Dense(t) if !t.is_exact() => Value::Dense(t.live()),
            held => read_others(held),
        }
    }

    /// The value for an operator that writes it in place. The variable keeps it; the result goes to
    /// [`VarStorage::finish`].
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

    /// Copies bytes that a snapshot refers to. One thread copies, other writers wait for it; readers do not.
    #[cold]
    fn move_away(&self) -> Result<()> {
        let _one = self.moving.lock();
        let _group = self.aliases.moving();
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
        self.propagate();
        Ok(())
    }

    /// Completes a successful [`VarStorage::write`]: a result computed elsewhere becomes the value. Bytes written in
    /// place are there already, unless the variable was given another value meanwhile.
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

    /// Sets the value. Pinned bytes, which foreign code sees, are written in place where the new value fits.
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
        // The old value is dropped after the lock is released: it may own Python objects.
        let old = std::mem::replace(&mut *held, value);
        drop(held);
        drop(old);
        self.propagate();
    }

    /// Pins the bytes of a dense tensor for foreign code.
    pub fn export(&self, writable: bool) -> Result<Exported> {
        let mut held = self.value.lock();
        match &mut *held {
            Value::Dense(t) => {
                t.fetch()?;
                let export = t.export(writable)?;
                let exported = Exported { ptr: t.ptr(), dims: t.dims().to_vec(), dtype: t.dtype(), export };
                drop(held);
                self.propagate();
                Ok(exported)
            }
            Value::None => bail!(PreconditionNotMet, "the Tensor holds no memory: it has not been initialised"),
            other => bail!(InvalidArgument, "expected a dense Tensor, got {}", other.what()),
        }
    }

    /// Drops the value.
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

    /// Counts a change in place; the aliases' versions count it as well.
    #[inline]
    pub fn bump(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
        if self.has_aliases() {
            self.aliases.for_others(self, |other| {
                self.hand_to(other);
                other.version.fetch_add(1, Ordering::Relaxed);
            });
        }
    }
}

// Aliases: variables that share their memory, made by reshape and the like in dygraph mode (2.0.2's views).
//
// Each has its own shape and a shared-mutable reference to the common bytes, so a write in place is seen by all. A
// variable that gets other bytes (a snapshot refers to the old ones, or a new value was set) passes them to its
// aliases. A change in place counts up the versions of all. The tape records a change only at the variable where it
// was made: the history of its aliases would give wrong derivatives, so they are marked stale and give no gradients.
impl VarStorage {
    /// Makes a variable whose value is another shape of the bytes of `base` an alias of it. Otherwise nothing happens.
    /// Pinned bytes are not shared by operators: the value is a copy then, which is dropped.
    pub fn join(self: &Arc<VarStorage>, base: &Arc<VarStorage>) {
        // A thread that copies the bytes now does not see the new alias yet.
        let _still = base.moving.lock();
        base.aliases.add_alias(base, self, &self.aliases, || {
            let (mut mine, mut held) = (self.value.lock(), base.value.lock());
            let (Value::Dense(view), Value::Dense(t)) = (&mut *mine, &mut *held) else { return false };
            let same = t.buffer.same(&view.buffer) && t.offset == view.offset;
            let copied = t.buffer.is_pinned() && !t.buffer.is_read_only() && t.dtype() == view.dtype();
            if !(same || copied) || t.nbytes() != view.nbytes() {
                return false;
            }
            // A snapshot would keep the bytes as they are: drop it before the shared-mutable reference is made.
            let Ok(nothing) = Tensor::shape_only(view.dtype, &[]) else { return false };
            view.move_to(nothing);
            view.move_to(t.live());
            self.version.store(base.version(), Ordering::Relaxed);
            true
        });
    }

    /// True if the variable shares, or shared, its memory.
    #[inline]
    pub fn has_aliases(&self) -> bool {
        self.aliases.is_some()
    }

    /// True if a recorded operator changed it through an alias.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.aliases.is_stale()
    }

    /// Marks the aliases stale, after a recorded operator gave this variable another value.
    #[inline]
    pub fn mark_aliases_stale(&self) {
        if self.has_aliases() {
            self.aliases.for_others(self, |other| other.aliases.mark_stale());
        }
    }

    /// Passes the bytes to the aliases that do not have them yet.
    #[inline]
    fn propagate(&self) {
        if self.has_aliases() {
            self.aliases.for_others(self, |other| self.hand_to(other));
        }
    }

    #[cold]
    fn hand_to(&self, other: &VarStorage) {
        // Never holds the locks of two variables, except in `join`, whose variable is not shared yet.
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

/// What operators get of integers and of values that are not dense.
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

    /// An operator in place.
    fn add_one(cell: &VarStorage) {
        let mut value = cell.write().unwrap();
        let Value::Dense(t) = &mut value else { panic!("dense") };
        t.data_mut::<f32>().unwrap().iter_mut().for_each(|v| *v += 1.0);
        cell.finish(value);
    }

    #[test]
    fn a_variable_is_written_in_place_while_others_read() {
        let cell = VarStorage::new(Tensor::from_slice(&[1f32, 2.0], &[2]).unwrap());
        let at = dense(cell.get()).ptr();
        let (reader, writer) = (cell.read(), cell.write().unwrap());
        assert!(!cell.lock().is_none());
        add_one(&cell);
        assert_eq!((dense(cell.get()).ptr(), dense(reader).data::<f32>()), (at, &[2f32, 3.0][..]));
        drop(writer); // a failed write loses nothing
        assert_eq!(cell.tensor().unwrap().data::<f32>(), [2.0, 3.0]);
    }

    #[test]
    fn a_snapshot_keeps_its_elements() {
        let cell = VarStorage::new(Tensor::from_slice(&[1f32, 2.0], &[2]).unwrap());
        add_one(&cell);
        let (kept, other) = (cell.get(), VarStorage::new(cell.get()));
        add_one(&cell);
        add_one(&other);
        add_one(&cell);
        assert_eq!(dense(kept).data::<f32>(), [2.0, 3.0]);
        assert_eq!(cell.tensor().unwrap().data::<f32>(), [4.0, 5.0]);
        assert_eq!(other.tensor().unwrap().data::<f32>(), [3.0, 4.0]);
        // A shared-mutable reference that is set in another variable becomes a snapshot there.
        let third = VarStorage::new(Value::None);
        third.set(cell.read());
        add_one(&cell);
        assert_eq!(third.tensor().unwrap().data::<f32>(), [4.0, 5.0]);
    }

    #[test]
    fn a_value_set_meanwhile_wins_over_what_was_written_in_place() {
        let cell = VarStorage::new(Tensor::from_slice(&[1f32], &[1]).unwrap());
        let writer = cell.write().unwrap();
        cell.set(Tensor::from_slice(&[7f32, 8.0], &[2]).unwrap());
        cell.finish(writer);
        assert_eq!(cell.tensor().unwrap().dims(), [2]);
    }

    #[test]
    fn integers_do_not_change_under_a_reader() {
        let cell = VarStorage::new(Tensor::from_slice(&[1i64, 2], &[2]).unwrap());
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
        let cell = VarStorage::new(Tensor::from_slice(&[1f32, 2.0], &[2]).unwrap());
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
    fn integers_are_whole_for_every_thread() {
        let cell = VarStorage::new(Tensor::from_slice(&[0i64; 8], &[8]).unwrap());
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

    fn view(base: &Arc<VarStorage>, dims: &[i64]) -> Arc<VarStorage> {
        let view = Arc::new(VarStorage::new(base.tensor().unwrap().reshaped(dims)));
        view.join(base);
        view
    }

    fn first(cell: &VarStorage) -> f32 {
        cell.tensor().unwrap().data::<f32>()[0]
    }

    fn write(cell: &VarStorage, to: f32) {
        let mut value = cell.write().unwrap();
        let Value::Dense(t) = &mut value else { panic!("dense") };
        t.data_mut::<f32>().unwrap()[0] = to;
        cell.finish(value);
        cell.bump();
    }

    #[test]
    fn aliases_see_writes_in_place() {
        let base = Arc::new(VarStorage::new(numbers(6)));
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
    fn a_snapshot_stays_and_aliases_move_together() {
        let base = Arc::new(VarStorage::new(numbers(4)));
        let a = view(&base, &[2, 2]);
        let kept = base.get();
        let late = view(&base, &[4, 1]);
        write(&a, 9.0);
        write(&late, 8.0);
        assert_eq!(kept.dense().unwrap().data::<f32>()[0], 0.0);
        assert_eq!([first(&base), first(&a), first(&late)], [8.0; 3]);
        base.set(numbers(4));
        assert_eq!([first(&a), first(&late)], [0.0; 2]);
        base.set(numbers(2)); // another size: no longer shared
        write(&base, 5.0);
        assert_eq!([first(&base), first(&a)], [5.0, 0.0]);
    }

    #[test]
    fn integers_are_shared_too() {
        let base = Arc::new(VarStorage::new(Tensor::from_slice(&[1i64, 2], &[2]).unwrap()));
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
    fn recorded_changes_mark_aliases_stale() {
        let base = Arc::new(VarStorage::new(numbers(2)));
        let a = view(&base, &[2, 1]);
        a.bump();
        assert!(!base.is_stale());
        a.mark_aliases_stale();
        assert!(base.is_stale() && !a.is_stale());
    }

    #[test]
    fn the_copy_of_pinned_bytes_is_joined() {
        let base = Arc::new(VarStorage::new(numbers(2)));
        let export = base.export(true).unwrap();
        let a = Arc::new(VarStorage::new(base.tensor().unwrap().deep_copy().unwrap()));
        a.join(&base);
        add_one(&a);
        assert!(a.has_aliases() && base.lock().dense().unwrap().ptr() == a.lock().dense().unwrap().ptr());
        assert_eq!(base.lock().dense().unwrap().data::<f32>(), [1.0, 2.0]);
        drop(export);
        add_one(&base);
        assert_eq!(a.tensor().unwrap().data::<f32>(), [2.0, 3.0]);
    }
}
