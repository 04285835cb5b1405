//! A table's description: the columns of a row, their initializers, which rows are trained, and storage options.

use oar_core::base::Result;
use oar_core::tensor::generator;
use oar_core::{bail, ensure, err};
use std::path::PathBuf;

/// Limit of floats per row.
const MAX_WIDTH: usize = 1 << 20;

#[derive(Clone, Debug)]
pub enum Init {
    Constant(f32),
    Uniform(u64, f32, f32),
    Gaussian(u64, f32, f32),
}

/// Admission: when a row may be trained.
#[derive(Clone, Debug)]
pub enum Entry {
    Always,
    /// After this many accesses.
    Count(u16),
    /// By a random draw that depends on its id.
    Probability(f32),
}

/// A named range of each row: the parameter, or an optimizer state.
pub struct Column {
    pub name: String,
    pub dim: usize,
    pub at: usize,
    pub init: Init,
}

/// Storage options, such as `rows=1000000&spill=FOLDER&float16=1`; absent ones are off.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Limit of rows in memory; the least recently accessed rows are evicted.
    pub rows: Option<usize>,
    /// Folder to which evicted rows are spilled; without one they are dropped and initialized again.
    pub spill: Option<PathBuf>,
    /// Stores the first column, the parameter, as float16; optimizer states stay float32.
    pub half: bool,
}

pub struct Description {
    pub name: String,
    pub values: Vec<Column>,
    pub width: usize,
    pub entry: Entry,
    pub options: Options,
}

/// The splitmix64 finalizer, used as a hash.
pub fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Uniform in [0, 1).
pub fn unit(z: u64) -> f32 {
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
        found.ok_or_else(|| err!(InvalidArgument, "the table {table}: {text:?} is not an initializer of rows"))
    }

    pub fn fill(&self, id: i64, to: &mut [f32]) {
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
        let why = "not a filter of rows (none, count_filter& up to 65535, or probability& from 0 to 1)";
        found.ok_or_else(|| err!(InvalidArgument, "the table {table}: {text:?} is {why}"))
    }
}

impl Options {
    fn parse(table: &str, text: &str) -> Result<Options> {
        let mut found = Options::default();
        for part in text.split('&').filter(|p| !p.is_empty()) {
            let number = |n: &str| n.parse().ok().filter(|&n: &usize| n > 0);
            match part.split_once('=') {
                Some(("rows", n)) if number(n).is_some() => found.rows = number(n),
                Some(("spill", folder)) if !folder.is_empty() => found.spill = Some(folder.into()),
                Some(("float16", "0" | "1")) => found.half = part.ends_with('1'),
                _ => bail!(
                    InvalidArgument,
                    "the table {table}: the options are rows=NUMBER, spill=FOLDER and float16=0 or 1, got {part:?}"
                ),
            }
        }
        ensure!(
            found.spill.is_none() || found.rows.is_some(),
            InvalidArgument,
            "the table {table}: spill needs rows, the number of rows that stay in memory"
        );
        Ok(found)
    }
}

impl Description {
    /// Parses `name:values:sizes:mode:gradient:variables:initializers:filter`, with comma-separated lists; an optional
    /// ninth field holds [`Options`].
    pub fn parse(meta: &str) -> Result<Description> {
        let parts: Vec<&str> = meta.splitn(9, ':').collect();
        let [name, values, sizes, _mode, _grad, _cached, inits, entry, ref page_mut @ ..] = parts[..] else {
            bail!(InvalidArgument, "a table is described by 8 fields separated by colons, got {meta:?}")
        };
        let (names, sizes): (Vec<&str>, Vec<&str>) = (values.split(',').collect(), sizes.split(',').collect());
        let inits: Vec<&str> = inits.split(',').collect();
        ensure!(
            names.len() == sizes.len() && names.len() == inits.len(),
            InvalidArgument,
            "the table {name}: {} values, {} sizes and {} initializers",
            names.len(),
            sizes.len(),
            inits.len()
        );
        let (mut found, mut width) = (Vec::new(), 0usize);
        for ((value, size), init) in names.iter().zip(&sizes).zip(&inits) {
            let dim = size.parse::<usize>().ok().filter(|&d| d > 0 && width + d <= MAX_WIDTH);
            let dim =
                dim.ok_or_else(|| err!(InvalidArgument, "the table {name}: {size:?} is not a size of a value"))?;
            found.push(Column { name: value.to_string(), dim, at: width, init: Init::parse(name, init)? });
            width += dim;
        }
        let options = Options::parse(name, page_mut.first().copied().unwrap_or_default())?;
        Ok(Description { name: name.to_string(), values: found, width, entry: Entry::parse(name, entry)?, options })
    }
}
