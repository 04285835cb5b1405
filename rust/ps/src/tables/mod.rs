//! A sparse table: rows by id, each with several columns (a parameter and its optimizer states).
//!
//! Initial values depend on the seed and the id only, not on the order of accesses. In addition to its values a row
//! takes at most 16 bytes: id, index entry, time of last access, number of accesses.

mod description;
mod index;
mod row_store;
mod shard;
mod spill;
#[cfg(test)]
mod tests;

use crate::files::replace;
use description::{mix, unit, Description, Entry};
use oar_core::base::{DType, Error, Result};
use oar_core::ir::tensor_file;
use oar_core::{bail, ensure, err};
use parking_lot::Mutex;
pub use row_store::TableRows;
use shard::{SavedRow, Shard, ShardSnapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

const SHARDS: usize = 32;
/// A limit of rows is divided among shards of at least this many rows, so that eviction approximates the table's least
/// recently used rows.
const MIN_SHARD_ROWS: usize = 4096;

pub struct Table {
    pub name: String,
    /// The text it was parsed from.
    pub meta: String,
    description: Description,
    shards: Vec<Mutex<Shard>>,
}

/// Sizes of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableSize {
    pub rows: usize,
    /// Number of rows in the spill file.
    pub spilled: usize,
    /// Memory of the rows in memory, including index and usage.
    pub bytes: usize,
}

/// A consistent snapshot of a table. The table can change meanwhile: pages are copied on write.
pub struct TableSnapshot {
    pub name: String,
    pub width: usize,
    pub clocks: Vec<Vec<i64>>,
    shards: Vec<ShardSnapshot>,
}

impl TableSnapshot {
    /// The next rows, about `bytes` in size; `None` at the end.
    pub fn next(&mut self, bytes: usize) -> Result<Option<TableRows>> {
        let mut image = TableRows::default();
        while image.ids.len() * (self.width + 4) * 4 < bytes {
            let Some(shard) = self.shards.last_mut() else { break };
            let more = shard.next(bytes, &mut image);
            if !more.map_err(|e| err!(External, "the table {}: its rows on disk: {e}", self.name))? {
                self.shards.pop();
            }
        }
        Ok((!image.ids.is_empty()).then_some(image))
    }
}

static TABLES: Mutex<BTreeMap<String, Arc<Table>>> = Mutex::new(BTreeMap::new());

impl Table {
    /// Creates a table; the format is that of [`Description::parse`].
    pub fn parse(meta: &str) -> Result<Table> {
        let description = Description::parse(meta)?;
        let shards = description.options.rows.map_or(SHARDS, |rows| (rows / MIN_SHARD_ROWS).clamp(1, SHARDS));
        let bound = description.options.rows.map(|rows| rows / shards);
        let made =
            (0..shards).map(|_| Shard::new(&description, bound).map(Mutex::new)).collect::<std::io::Result<Vec<_>>>();
        let folder = description.options.spill.clone().unwrap_or_default();
        let shards = made.map_err(|e| io_error("write in", &folder, &e))?;
        Ok(Table { name: description.name.clone(), meta: meta.to_string(), description, shards })
    }

    /// Offset and size of a column within a row.
    pub fn value(&self, name: &str) -> Result<(usize, usize)> {
        let found = self.description.values.iter().find(|v| v.name == name).map(|v| (v.at, v.dim));
        found.ok_or_else(|| err!(NotFound, "the table {} has no value '{name}'", self.name))
    }

    /// Floats per row.
    pub fn width(&self) -> usize {
        self.description.width
    }

    fn shard(&self, id: i64) -> &Mutex<Shard> {
        &self.shards[(mix(id as u64) % self.shards.len() as u64) as usize]
    }

    fn spill_failed(&self, e: &std::io::Error) -> Error {
        err!(External, "the table {}: its rows on disk: {e}", self.name)
    }

    fn accessed<T>(&self, id: i64, make: bool, work: impl FnOnce(&mut Shard, usize) -> T) -> Result<Option<T>> {
        let shard = &mut *self.shard(id).lock();
        ensure!(!shard.full(), OutOfRange, "{} is full", self.name);
        let row = shard.access(id, make.then_some(&self.description)).map_err(|e| self.spill_failed(&e))?;
        Ok(row.map(|row| work(shard, row)))
    }

    fn missing(&self, id: i64) -> Error {
        err!(NotFound, "the table {} has no row {id}", self.name)
    }

    /// Reads the row of an id; `make` initializes a missing row.
    pub fn read<T>(&self, id: i64, make: bool, work: impl FnOnce(&[f32]) -> T) -> Result<T> {
        self.accessed(id, make, |shard, row| shard.read(row, work))?.ok_or_else(|| self.missing(id))
    }

    /// Writes the row of an id, initialized if missing.
    pub fn write<T>(&self, id: i64, work: impl FnOnce(&mut [f32]) -> T) -> Result<T> {
        self.accessed(id, true, |shard, row| shard.change(row, work))?.ok_or_else(|| self.missing(id))
    }

    /// Updates the row of an id. With a limit of rows, an evicted row is skipped.
    pub fn train(&self, id: i64, work: impl FnOnce(&mut [f32])) -> Result<()> {
        match self.accessed(id, false, |shard, row| shard.change(row, work))? {
            None if self.description.options.rows.is_none() => Err(self.missing(id)),
            _ => Ok(()),
        }
    }

    /// Counts an access to the row.
    pub fn touch(&self, id: i64) {
        if matches!(self.description.entry, Entry::Count(_)) {
            self.shard(id).lock().count(id);
        }
    }

    /// Whether the row may be trained.
    pub fn admits(&self, id: i64) -> Result<bool> {
        match self.description.entry {
            Entry::Always => Ok(true),
            Entry::Count(n) => self.shard(id).lock().counted(id).map(|c| c >= n).map_err(|e| self.spill_failed(&e)),
            Entry::Probability(p) => Ok(unit(mix(id as u64)) < p),
        }
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn size(&self) -> TableSize {
        self.shards.iter().map(|s| s.lock()).fold(TableSize::default(), |sum, s| TableSize {
            rows: sum.rows + s.len(),
            spilled: sum.spilled + s.spilled(),
            bytes: sum.bytes + s.bytes(),
        })
    }

    /// Ends a day: removes rows without an access in the last `unseen` days. Returns their number.
    pub fn shrink(&self, unseen: usize) -> Result<usize> {
        ensure!(unseen > 0, InvalidArgument, "the table {}: unseen_days must be at least 1, got {unseen}", self.name);
        Ok(self.shards.iter().map(|s| s.lock().shrink(unseen)).sum())
    }

    /// The ids of all rows, ascending.
    pub fn ids(&self) -> Vec<i64> {
        let all: BTreeSet<i64> = self.shards.iter().flat_map(|s| s.lock().ids()).collect();
        all.into_iter().collect()
    }

    fn saved(&self, id: i64) -> Result<SavedRow> {
        let saved = self.shard(id).lock().save_row(id).map_err(|e| self.spill_failed(&e))?;
        saved.ok_or_else(|| self.missing(id))
    }

    /// A snapshot of the table; the caller ensures that no other thread uses the table until this returns.
    pub fn snapshot(&self) -> TableSnapshot {
        let (clocks, shards) = self.shards.iter().map(|s| s.lock()).map(|s| (s.clocks(), s.snapshot())).unzip();
        TableSnapshot { name: self.name.clone(), width: self.width(), clocks, shards }
    }

    /// Removes all rows. Returns whether `clocks` fit this table, so that rows can be restored with their usage.
    pub fn reset(&self, clocks: &[Vec<i64>]) -> Result<bool> {
        for shard in &self.shards {
            let bound = self.description.options.rows.map(|rows| rows / self.shards.len());
            *shard.lock() = Shard::new(&self.description, bound).map_err(|e| self.spill_failed(&e))?;
        }
        let same = clocks.len() == self.shards.len();
        for (clocks, shard) in clocks.iter().zip(&self.shards).filter(|_| same) {
            shard.lock().set_clocks(clocks);
        }
        Ok(same)
    }

    /// Adds saved rows: with their usage if `same` (see [`Table::reset`]), else as newly accessed.
    pub fn put_back(&self, image: &TableRows, same: bool) -> Result<()> {
        let (n, width, name) = (image.ids.len(), self.width(), &self.name);
        ensure!(
            Some(image.data.len()) == n.checked_mul(width) && image.usage.len() == n,
            InvalidArgument,
            "the table {name} has rows of {width} numbers, got {} numbers and {} usages for {n} rows",
            image.data.len(),
            image.usage.len()
        );
        let rows = image.ids.iter().zip(image.data.chunks_exact(width)).zip(&image.usage);
        for ((&id, values), &usage) in rows {
            let saved = SavedRow { id, values: values.to_vec(), usage };
            let shard = &mut *self.shard(id).lock();
            let done = if same { shard.put_back(&saved) } else { shard.adopt(&saved) };
            done.map_err(|e| self.spill_failed(&e))?;
        }
        Ok(())
    }

    /// Removes these rows. Returns how many existed.
    pub fn forget(&self, ids: &[i64]) -> Result<usize> {
        let gone = ids.iter().map(|&id| self.shard(id).lock().forget(id).map(usize::from));
        gone.sum::<std::io::Result<usize>>().map_err(|e| self.spill_failed(&e))
    }

    /// Names of the columns, which are those of the files of [`Table::save`].
    pub fn columns(&self) -> Vec<&str> {
        self.description.values.iter().map(|v| &*v.name).collect()
    }

    /// Writes a file of SelectedRows per column into `folder`; rows are sorted by id.
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.save_rows(folder, &self.ids())
    }

    /// As [`Table::save`], for these rows.
    pub fn save_rows(&self, folder: &Path, ids: &[i64]) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|e| io_error("make the folder", folder, &e))?;
        let height = ids.last().map_or(0, |last| last.saturating_add(1));
        for v in &self.description.values {
            let mut bytes = Vec::with_capacity(ids.len() * v.dim * 4);
            for &id in ids {
                let row = self.saved(id)?.values;
                bytes.extend(row[v.at..v.at + v.dim].iter().flat_map(|x| x.to_le_bytes()));
            }
            let dims = [ids.len() as i64, v.dim as i64];
            replace(&folder.join(&v.name), |file| {
                tensor_file::write_selected_rows(ids, height, DType::F32, &dims, &bytes, file)
            })?;
        }
        Ok(())
    }

    /// Loads rows from the files of `save`; only ids for which `keep` returns true.
    pub fn load(&self, folder: &Path, keep: impl Fn(i64) -> bool) -> Result<()> {
        for v in &self.description.values {
            let path = folder.join(&v.name);
            let file = File::open(&path).map_err(|e| io_error("read", &path, &e))?;
            let mut file = BufReader::new(file);
            let (ids, _, header) = tensor_file::read_selected_rows_header(&mut file)?;
            let (dtype, dims) = (header.dtype, header.dims);
            ensure!(
                dtype == DType::F32 && dims[..] == [ids.len() as i64, v.dim as i64],
                InvalidArgument,
                "{}: expected {} rows of float32 [{}] for the table {}, the file has {dtype} {:?}",
                path.display(),
                ids.len(),
                v.dim,
                self.name,
                &dims[..]
            );
            let mut row = vec![0; v.dim * 4];
            for id in ids {
                file.read_exact(&mut row).map_err(|e| io_error("read", &path, &e))?;
                if keep(id) {
                    self.write(id, |to| {
                        for (x, b) in to[v.at..v.at + v.dim].iter_mut().zip(row.chunks_exact(4)) {
                            *x = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                        }
                    })?;
                }
            }
        }
        Ok(())
    }
}

fn io_error(what: &str, path: &Path, e: &std::io::Error) -> Error {
    err!(External, "cannot {what} {}: {e}", path.display())
}

/// Creates these tables, all or none; a table of the same name is replaced.
pub fn install(metas: &[String]) -> Result<()> {
    let made = metas.iter().map(|m| Table::parse(m)).collect::<Result<Vec<_>>>()?;
    TABLES.lock().extend(made.into_iter().map(|t| (t.name.clone(), Arc::new(t))));
    Ok(())
}

/// All tables of this process, sorted by name.
pub fn all() -> Vec<Arc<Table>> {
    TABLES.lock().values().cloned().collect()
}

pub fn table(op: &str, name: &str) -> Result<Arc<Table>> {
    match TABLES.lock().get(name) {
        Some(found) => Ok(found.clone()),
        None => bail!(NotFound, "operator {op}: there is no table '{name}': call lookup_sparse_table_init first"),
    }
}
