//! A shard: a part of a table under one lock, with eviction and expiry of its rows.

use std::io::Result as IoResult;

use super::description::{Description, Entry};
use super::index::{Index, MAX_ROWS};
use super::row_store::{RowStore, RowStoreSnapshot, Shape, TableRows};
use super::spill::{Spill, SpillSnapshot};

/// Largest age of a stamp: stamps are 16 bits and renewed before they wrap around.
const OLDEST: u64 = 1 << 15;

pub struct Shard {
    index: Index,
    rows: RowStore,
    spill: Option<Spill>,
    bound: usize,
    /// Advances after `step` new rows, and with each day. A row's stamp is the clock's lower half at its last access.
    clock: u64,
    step: u64,
    new: u64,
    renewed: u64,
    /// The clock at the start of each day.
    days: Vec<u64>,
}

/// A row as it is saved.
pub struct SavedRow {
    pub id: i64,
    pub values: Vec<f32>,
    /// Packed usage: count, stamp or day of the last access, and whether the row was in memory.
    pub usage: i64,
}

/// Usage of a row in memory.
fn resident_usage(count: u16, stamp: u16) -> i64 {
    i64::from(count) | i64::from(stamp) << 16
}

/// Usage of a row in the spill file.
fn spilled_usage(count: u16, day: u32) -> i64 {
    i64::from(count) | 1 << 32 | i64::from(day) << 33
}

/// A snapshot of a shard.
pub struct ShardSnapshot {
    rows: RowStoreSnapshot,
    spilled: Option<SpillSnapshot>,
}

impl ShardSnapshot {
    /// Appends rows of about `bytes`; false after the last.
    pub fn next(&mut self, bytes: usize, to: &mut TableRows) -> IoResult<bool> {
        let mut add = |id, values: &[f32], usage| {
            to.ids.push(id);
            to.data.extend_from_slice(values);
            to.usage.push(usage);
        };
        if self.rows.next(bytes, |id, values, count, stamp| add(id, values, resident_usage(count, stamp))) {
            return Ok(true);
        }
        let mut done = 0;
        while let Some(spilled) = self.spilled.as_mut().filter(|_| done < bytes) {
            match spilled.next()? {
                Some((id, day, count, values)) => {
                    add(id, &values, spilled_usage(count, day));
                    done += values.len() * 4;
                }
                None => self.spilled = None,
            }
        }
        Ok(self.spilled.is_some())
    }
}

impl SavedRow {
    pub fn count(&self) -> u16 {
        self.usage as u16
    }
}

impl Shard {
    pub fn new(d: &Description, bound: Option<usize>) -> IoResult<Shard> {
        let counts = match d.entry {
            Entry::Count(most) if most > 255 => 2,
            Entry::Count(_) => 1,
            _ => 0,
        };
        let half = if d.options.half { d.values[0].dim } else { 0 };
        let spill = d.options.spill.as_deref().map(|folder| Spill::new(folder, d.width)).transpose()?;
        let bound = bound.unwrap_or(MAX_ROWS).min(MAX_ROWS);
        // Chosen so that all stamps of a full shard are among the last 16,384 ticks.
        let step = if bound == MAX_ROWS { u64::MAX } else { (bound as u64 >> 14).max(1) };
        Ok(Shard {
            index: Index::default(),
            rows: RowStore::new(Shape { half, width: d.width, counts }),
            spill,
            bound,
            clock: OLDEST,
            step,
            new: 0,
            renewed: OLDEST,
            days: vec![OLDEST],
        })
    }

    pub fn len(&self) -> usize {
        self.rows.len() + self.spilled()
    }

    pub fn spilled(&self) -> usize {
        self.spill.as_ref().map_or(0, Spill::len)
    }

    pub fn bytes(&self) -> usize {
        self.rows.bytes() + self.index.bytes()
    }

    pub fn full(&self) -> bool {
        self.rows.len() >= MAX_ROWS
    }

    fn find(&self, id: i64) -> Option<usize> {
        self.index.find(id, |row| self.rows.id(row))
    }

    /// The clock at a row's last access.
    fn seen(&self, row: usize) -> u64 {
        self.clock - u64::from((self.clock as u16).wrapping_sub(self.rows.stamp(row)))
    }

    fn day(&self, seen: u64) -> u32 {
        self.days.partition_point(|&begun| begun <= seen).saturating_sub(1) as u32
    }

    fn tick(&mut self) {
        self.clock += 1;
        if self.clock - self.renewed < OLDEST / 2 {
            return;
        }
        self.renewed = self.clock;
        for row in 0..self.rows.len() {
            if self.clock - self.seen(row) > OLDEST {
                self.rows.set_stamp(row, (self.clock - OLDEST) as u16);
            }
        }
    }

    fn add(&mut self, id: i64) -> IoResult<usize> {
        if self.rows.len() >= self.bound {
            self.evict((self.bound / 64).max(1))?;
        }
        self.new += 1;
        if self.new >= self.step {
            self.new = 0;
            self.tick();
        }
        Ok(self.push(id))
    }

    fn push(&mut self, id: i64) -> usize {
        let row = self.rows.push(id);
        let rows = &self.rows;
        self.index.insert(id, |row| rows.id(row));
        row
    }

    /// The row of an id, marked as accessed; initialized if `make` is given.
    pub fn access(&mut self, id: i64, make: Option<&Description>) -> IoResult<Option<usize>> {
        let row = match self.find(id) {
            Some(row) => row,
            None => {
                let back = self.spill.as_mut().map_or(Ok(None), |s| s.take(id))?;
                match (back, make) {
                    (Some((count, values)), _) => {
                        let row = self.add(id)?;
                        self.rows.set_count(row, count);
                        self.rows.change(row, |to| to.copy_from_slice(&values));
                        row
                    }
                    (None, Some(d)) => {
                        let row = self.add(id)?;
                        self.rows.change(row, |to| {
                            d.values.iter().for_each(|v| v.init.fill(id, &mut to[v.at..v.at + v.dim]));
                        });
                        row
                    }
                    (None, None) => return Ok(None),
                }
            }
        };
        self.rows.set_stamp(row, self.clock as u16);
        Ok(Some(row))
    }

    pub fn read<T>(&mut self, row: usize, work: impl FnOnce(&[f32]) -> T) -> T {
        self.rows.read(row, work)
    }

    pub fn change<T>(&mut self, row: usize, work: impl FnOnce(&mut [f32]) -> T) -> T {
        self.rows.change(row, work)
    }

    pub fn count(&mut self, id: i64) {
        if let Some(row) = self.find(id) {
            self.rows.set_count(row, self.rows.count(row).saturating_add(1));
        }
    }

    pub fn counted(&self, id: i64) -> IoResult<u16> {
        match (self.find(id), &self.spill) {
            (Some(row), _) => Ok(self.rows.count(row)),
            (None, Some(spill)) => Ok(spill.peek(id)?.map_or(0, |(count, _)| count)),
            (None, None) => Ok(0),
        }
    }

    fn remove(&mut self, row: usize) {
        let (id, last, rows) = (self.rows.id(row), self.rows.id(self.rows.len() - 1), &self.rows);
        self.index.remove(id, last, |row| rows.id(row));
        self.rows.swap_remove(row);
    }

    /// Removes a row; returns whether it existed.
    pub fn forget(&mut self, id: i64) -> IoResult<bool> {
        match self.find(id) {
            Some(row) => {
                self.remove(row);
                Ok(true)
            }
            None => Ok(self.spill.as_mut().map_or(Ok(None), |s| s.take(id))?.is_some()),
        }
    }

    /// Evicts the least recently accessed rows; ties are broken by lower id.
    fn evict(&mut self, n: usize) -> IoResult<()> {
        let mut all: Vec<(u64, i64)> = (0..self.rows.len()).map(|row| (self.seen(row), self.rows.id(row))).collect();
        if n < all.len() {
            all.select_nth_unstable(n);
            all.truncate(n);
        }
        all.sort_unstable();
        for (seen, id) in all {
            let Some(row) = self.find(id) else { continue };
            let (day, count) = (self.day(seen), self.rows.count(row));
            if let Some(spill) = &mut self.spill {
                self.rows.read(row, |values| spill.put(id, day, count, values))?;
            }
            self.remove(row);
        }
        Ok(())
    }

    /// Ends a day: removes rows without an access in the last `unseen` days (1 is the current day). Returns their
    /// number.
    pub fn shrink(&mut self, unseen: usize) -> usize {
        let today = self.days.len();
        let mut gone = 0;
        if let Some(first) = today.checked_sub(unseen) {
            let begun = self.days[first];
            for row in (0..self.rows.len()).rev() {
                if self.seen(row) < begun {
                    self.remove(row);
                    gone += 1;
                }
            }
            gone += self.spill.as_mut().map_or(0, |s| s.expire(first as u32));
            let rows = &self.rows;
            self.index.shrink(|row| rows.id(row));
        }
        self.tick();
        self.days.push(self.clock);
        gone
    }

    // Saving and restoring

    pub fn snapshot(&self) -> ShardSnapshot {
        ShardSnapshot { rows: self.rows.snapshot(), spilled: self.spill.as_ref().map(Spill::snapshot) }
    }

    pub fn ids(&self) -> Vec<i64> {
        let spilled = self.spill.iter().flat_map(Spill::ids);
        (0..self.rows.len()).map(|row| self.rows.id(row)).chain(spilled).collect()
    }

    /// A row for saving; does not count as an access.
    pub fn save_row(&mut self, id: i64) -> IoResult<Option<SavedRow>> {
        if let Some(row) = self.find(id) {
            let values = self.rows.read(row, <[f32]>::to_vec);
            return Ok(Some(SavedRow {
                id,
                values,
                usage: resident_usage(self.rows.count(row), self.rows.stamp(row)),
            }));
        }
        let Some(spill) = &self.spill else { return Ok(None) };
        let Some((count, values)) = spill.peek(id)? else { return Ok(None) };
        Ok(Some(SavedRow { id, values, usage: spilled_usage(count, spill.day(id)) }))
    }

    pub fn put_back(&mut self, saved: &SavedRow) -> IoResult<()> {
        match &mut self.spill {
            Some(spill) if saved.usage >> 32 & 1 == 1 => {
                spill.put(saved.id, (saved.usage >> 33) as u32, saved.count(), &saved.values)
            }
            _ => {
                let row = self.push(saved.id);
                self.rows.change(row, |to| to.copy_from_slice(&saved.values));
                self.rows.set_count(row, saved.count());
                self.rows.set_stamp(row, (saved.usage >> 16) as u16);
                Ok(())
            }
        }
    }

    /// Adds a row of another table, as newly accessed.
    pub fn adopt(&mut self, saved: &SavedRow) -> IoResult<()> {
        let row = match self.find(saved.id) {
            Some(row) => row,
            None => self.add(saved.id)?,
        };
        self.rows.change(row, |to| to.copy_from_slice(&saved.values));
        self.rows.set_count(row, saved.count());
        self.rows.set_stamp(row, self.clock as u16);
        Ok(())
    }

    pub fn clocks(&self) -> Vec<i64> {
        [self.clock, self.new, self.renewed].iter().chain(&self.days).map(|&n| n as i64).collect()
    }

    pub fn set_clocks(&mut self, clocks: &[i64]) {
        if let [clock, new, renewed, days @ ..] = clocks {
            (self.clock, self.new, self.renewed) = (*clock as u64, *new as u64, *renewed as u64);
            self.days = days.iter().map(|&n| n as u64).collect();
        }
    }
}
