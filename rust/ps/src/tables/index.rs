//! Where the row of an id is, at 4 bytes an entry: entries are numbers of rows, and the rows know their ids.

use super::description::mix;

/// Bits of a row's number; the others are bits of its hash, so that most wrong rows are not looked at.
const BITS: u32 = 26;
const ROW: u32 = (1 << BITS) - 1;
const EMPTY: u32 = u32::MAX;
/// Most rows.
pub const MAX_ROWS: usize = ROW as usize;

/// Open addressing, one place after the other; between 0.82 and 0.88 of the places are taken.
#[derive(Default)]
pub struct Index {
    places: Vec<u32>,
    used: usize,
}

fn tag(hash: u64) -> u32 {
    // The lowest bits choose the shard, the upper ones the place.
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
        self.places = Vec::new(); // the old ones go before the new ones come
        self.places = vec![EMPTY; places];
        self.used = 0;
        (0..rows).for_each(|row| self.put(id_of(row), row));
    }

    /// An id that is not there yet gets the row after all others.
    pub fn insert(&mut self, id: i64, id_of: impl Fn(usize) -> i64) {
        let rows = self.used;
        if (rows + 1) * 25 > self.places.len() * 22 {
            self.resize((rows + 1) * 50 / 41 + 2, rows, &id_of);
        }
        self.put(id, rows);
    }

    /// Forget an id, which is there. Its row is taken by the last one, whose id is `last`.
    pub fn remove(&mut self, id: i64, last: i64, id_of: impl Fn(usize) -> i64) {
        let Some(mut hole) = self.place(id, &id_of) else { return };
        let row = self.places[hole] & ROW;
        if let Some(at) = self.place(last, &id_of) {
            self.places[at] = self.places[at] & !ROW | row;
        }
        // Those behind it, up to the next free place, move up unless that would be before their home.
        let mut at = hole;
        let n = self.places.len();
        loop {
            at = self.next(at);
            let p = self.places[at];
            if p == EMPTY {
                break;
            }
            // `last` has its new number already, and stands where it stood.
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

    /// Give memory back after many rows have gone.
    pub fn shrink(&mut self, id_of: impl Fn(usize) -> i64) {
        if self.used * 2 < self.places.len() {
            self.resize(self.used * 50 / 41 + 2, self.used, &id_of);
        }
    }

    pub fn bytes(&self) -> usize {
        self.places.capacity() * 4
    }
}
