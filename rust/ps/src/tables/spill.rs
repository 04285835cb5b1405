//! Rows evicted from memory, in an unlinked file of this process.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Result as IoResult;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

pub struct Spill {
    file: Arc<File>,
    /// Slot in the file, and day of the last access, by id.
    places: HashMap<i64, (u32, u32)>,
    free: Vec<u32>,
    /// Number of slots in the file.
    end: u32,
    width: usize,
}

/// A snapshot of the spilled rows: freed slots are not reused while it exists.
pub struct SpillSnapshot {
    file: Arc<File>,
    places: std::vec::IntoIter<(i64, (u32, u32))>,
    width: usize,
}

impl SpillSnapshot {
    /// The next row: id, day of the last access, count and values.
    pub fn next(&mut self) -> IoResult<Option<(i64, u32, u16, Vec<f32>)>> {
        let Some((id, (place, day))) = self.places.next() else { return Ok(None) };
        let (count, values) = get(&self.file, self.width, place)?;
        Ok(Some((id, day, count, values)))
    }
}

fn get(file: &File, width: usize, place: u32) -> IoResult<(u16, Vec<f32>)> {
    let size = 4 + 4 * width;
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, u64::from(place) * size as u64)?;
    let mut words = bytes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
    let count = words.next().map_or(0, u32::from_le_bytes) as u16;
    Ok((count, words.map(f32::from_le_bytes).collect()))
}

impl Spill {
    /// Creates the file in `folder` and unlinks it; it ends with this process.
    pub fn new(folder: &Path, width: usize) -> IoResult<Spill> {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        fs::create_dir_all(folder)?;
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = folder.join(format!("rows-{}-{number}.part", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok(Spill { file: Arc::new(file), places: HashMap::new(), free: Vec::new(), end: 0, width })
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    fn bytes(&self) -> usize {
        4 + 4 * self.width
    }

    pub fn put(&mut self, id: i64, day: u32, count: u16, values: &[f32]) -> IoResult<()> {
        let free = if Arc::strong_count(&self.file) > 1 { None } else { self.free.pop() };
        let place = free.unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        });
        let mut bytes = u32::from(count).to_le_bytes().to_vec();
        bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        self.file.write_all_at(&bytes, u64::from(place) * self.bytes() as u64)?;
        self.places.insert(id, (place, day));
        Ok(())
    }

    fn get(&self, place: u32) -> IoResult<(u16, Vec<f32>)> {
        get(&self.file, self.width, place)
    }

    pub fn snapshot(&self) -> SpillSnapshot {
        let places: Vec<_> = self.places.iter().map(|(&id, &place)| (id, place)).collect();
        SpillSnapshot { file: self.file.clone(), places: places.into_iter(), width: self.width }
    }

    /// Removes and returns a row.
    pub fn take(&mut self, id: i64) -> IoResult<Option<(u16, Vec<f32>)>> {
        let Some(&(place, _)) = self.places.get(&id) else { return Ok(None) };
        let found = self.get(place)?;
        self.forget(id);
        Ok(Some(found))
    }

    pub fn peek(&self, id: i64) -> IoResult<Option<(u16, Vec<f32>)>> {
        self.places.get(&id).map(|&(place, _)| self.get(place)).transpose()
    }

    fn forget(&mut self, id: i64) {
        if let Some((place, _)) = self.places.remove(&id) {
            self.free.push(place);
        }
    }

    pub fn ids(&self) -> impl Iterator<Item = i64> + '_ {
        self.places.keys().copied()
    }

    pub fn day(&self, id: i64) -> u32 {
        self.places.get(&id).map_or(0, |&(_, day)| day)
    }

    /// Removes rows whose last access was before that day; returns their number.
    pub fn expire(&mut self, before: u32) -> usize {
        let old: Vec<i64> = self.places.iter().filter(|(_, (_, day))| *day < before).map(|(&id, _)| id).collect();
        old.iter().for_each(|&id| self.forget(id));
        old.len()
    }
}
