//! Hash index from ids to rows, at 4 bytes per entry: an entry is a row number, and the rows hold their ids.

use super::description::mix;

/// Bits of a row number; the other bits are a tag of the id's hash, so that most mismatches need no access to the row.
const BITS: u32 = 26;
const ROW: u32 = (1 << BITS) - 1;
const EMPTY: u32 = u32::MAX;
/// Limit of rows.
pub const MAX_ROWS: usize = ROW as usize;

/// Open addressing with linear probing; load between 0.82 and 0.88.
#[derive(Default)]
pub struct Index {
    places: Vec<u32>,
    used: usize,
}

fn tag(hash: u64) -> u32 {
    // The lowest bits of the hash select the shard, the upper ones the slot.
    ((hash >> 5) as u32 & (u32::MAX >> BITS)) << BITS
}

impl Index {
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.places.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.places.len() {
            0
        } else {
            at + 1
        }
    }

    fn place(&self, id: i64, id_of: &impl Fn(usize) -> i64) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let hash = mix(id as u64);
        let (mut at, tag) = (self.home(hash), tag(hash));
        loop {
            match self.places[at] {
                EMPTY => return None,
                p if p & !ROW == tag && id_of((p & ROW) as usize) == id => return Some(at),
                _ => at = self.next(at),
            }
        }
    }

    /// The row of an id.
    pub fn find(&self, id: i64, id_of: impl Fn(usize) -> i64) -> Option<usize> {
        self.place(id, &id_of).map(|at| (self.places[at] & ROW) as usize)
    }

    fn put(&mut self, id: i64, row: usize) {
        let hash = mix(id as u64);
        let mut at = self.home(hash);
        while self.places[at] != EMPTY {
            at = self.next(at);
        }
        self.places[at] = tag(hash) | row as u32;
        self.used += 1;
    }

    fn resize(&mut self, places: usize, rows: usize, id_of: &impl Fn(usize) -> i64) {
        self.places = Vec::new(); // frees the old entries before the new ones are allocated
        self.places = vec![EMPTY; places];
        self.used = 0;
        (0..rows).for_each(|row| self.put(id_of(row), row));
    }

    /// Inserts a new id, whose row is the next one.
    pub fn insert(&mut self, id: i64, id_of: impl Fn(usize) -> i64) {
        let rows = self.used;
        if (rows + 1) * 25 > self.places.len() * 22 {
            self.resize((rows + 1) * 50 / 41 + 2, rows, &id_of);
        }
        self.put(id, rows);
    }

    /// Removes an id, which must be present. The last row, of id `last`, takes over its row number.
    pub fn remove(&mut self, id: i64, last: i64, id_of: impl Fn(usize) -> i64) {
        let Some(mut hole) = self.place(id, &id_of) else { return };
        let row = self.places[hole] & ROW;
        if let Some(at) = self.place(last, &id_of) {
            self.places[at] = self.places[at] & !ROW | row;
        }
        // Backward shift: entries up to the next empty slot move up, unless that would be before their home slot.
        let mut at = hole;
        let n = self.places.len();
        loop {
            at = self.next(at);
            let p = self.places[at];
            if p == EMPTY {
                break;
            }
            // `last` has its new number already, and is at its old slot.
            let number = if p & ROW == row { None } else { Some((p & ROW) as usize) };
            let home = self.home(mix(number.map_or(last, &id_of) as u64));
            if (at + n - home) % n >= (at + n - hole) % n {
                self.places[hole] = p;
                hole = at;
            }
        }
        self.places[hole] = EMPTY;
        self.used -= 1;
    }

    /// Frees memory after many rows were removed.
    pub fn shrink(&mut self, id_of: impl Fn(usize) -> i64) {
        if self.used * 2 < self.places.len() {
            self.resize(self.used * 50 / 41 + 2, self.used, &id_of);
        }
    }

    pub fn bytes(&self) -> usize {
        self.places.capacity() * 4
    }
}
