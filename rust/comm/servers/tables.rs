//! A table: rows by id, each of several values side by side (a parameter and what its optimizer keeps of it).
//!
//! A row begins with values that depend on the seed and its id alone, not on the order in which rows are asked for.

use oar_core::base::{DType, Error, Result};
use oar_core::ir::tensor_file;
use oar_core::tensor::generator;
use oar_core::{bail, ensure, err};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

const SHARDS: usize = 32;
/// Most floats of a row.
const MAX_WIDTH: usize = 1 << 20;

#[derive(Clone, Debug)]
enum Init {
    Constant(f32),
    Uniform(u64, f32, f32),
    Gaussian(u64, f32, f32),
}

/// When a row may be trained.
#[derive(Clone, Debug)]
enum Entry {
    Always,
    /// After it has been asked for so often.
    Count(u32),
    /// By a draw that depends on its id.
    Probability(f32),
}

struct Value {
    name: String,
    dim: usize,
    at: usize,
    init: Init,
}

#[derive(Default)]
struct Shard {
    index: HashMap<i64, u32>,
    data: Vec<f32>,
    counts: Vec<u32>,
}

pub struct Table {
    pub name: String,
    values: Vec<Value>,
    width: usize,
    entry: Entry,
    shards: Vec<Mutex<Shard>>,
}

static TABLES: Mutex<Option<HashMap<String, Arc<Table>>>> = Mutex::new(None);

/// A number that looks random, of another.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// In [0, 1).
fn unit(z: u64) -> f32 {
    (mix(z) >> 40) as f32 / (1u64 << 24) as f32
}

fn seeded(seed: u64) -> u64 {
    mix(if seed == 0 { generator::seed() } else { seed })
}

impl Init {
    fn parse(table: &str, text: &str) -> Result<Init> {
        let parts: Vec<&str> = text.split('&').collect();
        let number = |i: usize| parts.get(i).and_then(|p| p.parse::<f32>().ok()).filter(|v| v.is_finite());
        let found = match parts.first() {
            Some(&"fill_constant") => number(1).map(Init::Constant),
            Some(&("uniform_random" | "gaussian_random")) => {
                let seed = parts.get(1).and_then(|p| p.parse::<u64>().ok());
                match (seed, number(2), number(3)) {
                    (Some(seed), Some(a), Some(b)) if parts[0] == "uniform_random" => Some(Init::Uniform(seed, a, b)),
                    (Some(seed), Some(a), Some(b)) => Some(Init::Gaussian(seed, a, b)),
                    _ => None,
                }
            }
            _ => None,
        };
        found.ok_or_else(|| err!(InvalidArgument, "the table {table}: {text:?} is no initialiser of rows"))
    }

    fn fill(&self, id: i64, to: &mut [f32]) {
        let place = |seed: u64, k: usize| {
            seeded(seed) ^ mix(id as u64).rotate_left(17) ^ (k as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93)
        };
        for (k, v) in to.iter_mut().enumerate() {
            *v = match *self {
                Init::Constant(c) => c,
                Init::Uniform(seed, low, high) => low + (high - low) * unit(place(seed, k)),
                Init::Gaussian(seed, mean, std) => {
                    let (u, w) = (unit(place(seed, 2 * k)), unit(place(seed, 2 * k + 1)));
                    let radius = (-2.0 * (1.0 - u).ln()).sqrt();
                    mean + std * radius * (std::f32::consts::TAU * w).cos()
                }
            };
        }
    }
}

impl Entry {
    fn parse(table: &str, text: &str) -> Result<Entry> {
        let (kind, number) = text.split_once('&').unwrap_or((text, ""));
        let found = match kind {
            "none" => Some(Entry::Always),
            "count_filter" => number.parse().ok().map(Entry::Count),
            "probability" => number.parse().ok().filter(|p: &f32| (0.0..=1.0).contains(p)).map(Entry::Probability),
            _ => None,
        };
        found.ok_or_else(|| err!(InvalidArgument, "the table {table}: {text:?} is no filter of rows"))
    }
}

impl Table {
    /// Of `name:values:sizes:mode:gradient:variables:initialisers:filter`, lists with commas.
    pub fn parse(meta: &str) -> Result<Table> {
        let parts: Vec<&str> = meta.split(':').collect();
        let [name, values, sizes, _mode, _grad, _cached, inits, entry] = parts[..] else {
            bail!(InvalidArgument, "a table is described by 8 fields with colons between, got {meta:?}")
        };
        let (names, sizes): (Vec<&str>, Vec<&str>) = (values.split(',').collect(), sizes.split(',').collect());
        let inits: Vec<&str> = inits.split(',').collect();
        ensure!(
            names.len() == sizes.len() && names.len() == inits.len(),
            InvalidArgument,
            "the table {name}: {} values, {} sizes and {} initialisers",
            names.len(),
            sizes.len(),
            inits.len()
        );
        let (mut found, mut width) = (Vec::new(), 0usize);
        for ((value, size), init) in names.iter().zip(&sizes).zip(&inits) {
            let dim = size.parse::<usize>().ok().filter(|&d| d > 0 && width + d <= MAX_WIDTH);
            let dim = dim.ok_or_else(|| err!(InvalidArgument, "the table {name}: {size:?} is no size of a value"))?;
            found.push(Value { name: value.to_string(), dim, at: width, init: Init::parse(name, init)? });
            width += dim;
        }
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Ok(Table { name: name.to_string(), values: found, width, entry: Entry::parse(name, entry)?, shards })
    }

    /// Where a value lies within a row.
    pub fn value(&self, name: &str) -> Result<(usize, usize)> {
        let found = self.values.iter().find(|v| v.name == name).map(|v| (v.at, v.dim));
        found.ok_or_else(|| err!(NotFound, "the table {} has no value '{name}'", self.name))
    }

    fn shard(&self, id: i64) -> &Mutex<Shard> {
        &self.shards[(mix(id as u64) % SHARDS as u64) as usize]
    }

    /// The row of an id. One that is not there is made where `make` says so.
    pub fn row<T>(&self, id: i64, make: bool, work: impl FnOnce(&mut [f32]) -> T) -> Result<T> {
        let shard = &mut *self.shard(id).lock();
        let at = match shard.index.get(&id) {
            Some(&at) => at,
            None if make => {
                let at = u32::try_from(shard.counts.len()).map_err(|_| err!(OutOfRange, "{} is full", self.name))?;
                let start = shard.data.len();
                shard.data.resize(start + self.width, 0.0);
                for v in &self.values {
                    v.init.fill(id, &mut shard.data[start + v.at..start + v.at + v.dim]);
                }
                shard.counts.push(0);
                shard.index.insert(id, at);
                at
            }
            None => bail!(NotFound, "the table {} has no row {id}", self.name),
        };
        let start = at as usize * self.width;
        Ok(work(&mut shard.data[start..start + self.width]))
    }

    /// Floats of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All rows by rising ids: the ids, the rows side by side, and how often each was asked for.
    pub fn image(&self) -> (Vec<i64>, Vec<f32>, Vec<u32>) {
        let shards: Vec<_> = self.shards.iter().map(|s| s.lock()).collect();
        let mut places: Vec<(i64, usize, usize)> = Vec::new();
        for (k, shard) in shards.iter().enumerate() {
            places.extend(shard.index.iter().map(|(&id, &at)| (id, k, at as usize)));
        }
        places.sort_unstable();
        let mut data = Vec::with_capacity(places.len() * self.width);
        for &(_, k, at) in &places {
            data.extend_from_slice(&shards[k].data[at * self.width..][..self.width]);
        }
        let counts = places.iter().map(|&(_, k, at)| shards[k].counts[at]).collect();
        (places.into_iter().map(|(id, _, _)| id).collect(), data, counts)
    }

    /// Exactly the rows of an [`Table::image`].
    pub fn set_image(&self, ids: &[i64], data: &[f32], counts: &[(i64, i64)]) -> Result<()> {
        ensure!(
            Some(data.len()) == ids.len().checked_mul(self.width),
            InvalidArgument,
            "the table {} has rows of {} numbers, {} are given for {} rows",
            self.name,
            self.width,
            data.len(),
            ids.len()
        );
        self.shards.iter().for_each(|s| *s.lock() = Shard::default());
        for (&id, from) in ids.iter().zip(data.chunks_exact(self.width)) {
            self.row(id, true, |row| row.copy_from_slice(from))?;
        }
        for &(id, count) in counts {
            let shard = &mut *self.shard(id).lock();
            if let Some(&at) = shard.index.get(&id) {
                shard.counts[at as usize] = u32::try_from(count).unwrap_or(u32::MAX);
            }
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().counts.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A file of SelectedRows for each value, by its name, in `folder`; rows in the order of their ids.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|e| failed("make the folder", folder, &e))?;
        let ids: Vec<i64> =
            self.shards.iter().flat_map(|s| s.lock().index.keys().copied().collect::<Vec<_>>()).collect();
        let ids: Vec<i64> = ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let height = ids.last().map_or(0, |last| last.saturating_add(1));
        for v in &self.values {
            let mut bytes = Vec::with_capacity(ids.len() * v.dim * 4);
            for &id in &ids {
                self.row(id, true, |row| bytes.extend(row[v.at..v.at + v.dim].iter().flat_map(|x| x.to_le_bytes())))?;
            }
            let path = folder.join(&v.name);
            let file = File::create(&path).map_err(|e| failed("write", &path, &e))?;
            let mut file = BufWriter::new(file);
            let dims = [ids.len() as i64, v.dim as i64];
            tensor_file::write_selected_rows(&ids, height, DType::F32, &dims, &bytes, &mut file)?;
            file.flush().map_err(|e| failed("write", &path, &e))?;
        }
        Ok(())
    }

    /// Rows of the files that `save` wrote; where `keep` says no, they are left out.
    pub fn load(&self, folder: &Path, keep: impl Fn(i64) -> bool) -> Result<()> {
        for v in &self.values {
            let path = folder.join(&v.name);
            let file = File::open(&path).map_err(|e| failed("read", &path, &e))?;
            let mut file = BufReader::new(file);
            let (ids, _, header) = tensor_file::read_selected_rows_header(&mut file)?;
            let (dtype, dims) = (header.dtype, header.dims);
            ensure!(
                dtype == DType::F32 && dims[..] == [ids.len() as i64, v.dim as i64],
                InvalidArgument,
                "{}: {} rows of float32 [{}] are due for the table {}, the file has {dtype} {:?}",
                path.display(),
                ids.len(),
                v.dim,
                self.name,
                &dims[..]
            );
            let mut row = vec![0; v.dim * 4];
            for id in ids {
                file.read_exact(&mut row).map_err(|e| failed("read", &path, &e))?;
                if keep(id) {
                    self.row(id, true, |to| {
                        for (x, b) in to[v.at..v.at + v.dim].iter_mut().zip(row.chunks_exact(4)) {
                            *x = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                        }
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Count that the row was asked for.
    pub fn touch(&self, id: i64) {
        let shard = &mut *self.shard(id).lock();
        if let Some(&at) = shard.index.get(&id) {
            let count = &mut shard.counts[at as usize];
            *count = count.saturating_add(1);
        }
    }

    /// May the row be trained?
    pub fn admits(&self, id: i64) -> bool {
        match self.entry {
            Entry::Always => true,
            Entry::Count(n) => {
                let shard = self.shard(id).lock();
                shard.index.get(&id).is_some_and(|&at| shard.counts[at as usize] >= n)
            }
            Entry::Probability(p) => unit(mix(id as u64)) < p,
        }
    }
}

fn failed(what: &str, path: &Path, e: &std::io::Error) -> Error {
    err!(External, "cannot {what} {}: {e}", path.display())
}

/// Makes these tables, all or none; one of that name is replaced.
pub fn install(metas: &[String]) -> Result<()> {
    let made = metas.iter().map(|m| Table::parse(m)).collect::<Result<Vec<_>>>()?;
    let mut tables = TABLES.lock();
    tables.get_or_insert_default().extend(made.into_iter().map(|t| (t.name.clone(), Arc::new(t))));
    Ok(())
}

/// All tables of this process, by their names.
pub fn all() -> Vec<Arc<Table>> {
    let mut found: Vec<_> = TABLES.lock().as_ref().map(|t| t.values().cloned().collect()).unwrap_or_default();
    found.sort_by(|a: &Arc<Table>, b| a.name.cmp(&b.name));
    found
}

pub fn table(op: &str, name: &str) -> Result<Arc<Table>> {
    let tables = TABLES.lock();
    let found = tables.as_ref().and_then(|t| t.get(name)).cloned();
    found.ok_or_else(|| err!(NotFound, "operator {op}: there is no table '{name}': lookup_sparse_table_init makes it"))
}
