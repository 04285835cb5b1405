//! Which rows of a table have changed since a trainer last asked (GEO). The trainer remembers the version that it has, so
//! that an answer which gets lost is given again.

use oar_core::base::Result;
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, err};
use oar_ps::parts::take_rows;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Default)]
struct Log {
    version: i64,
    /// The version that last changed a row.
    rows: HashMap<i64, i64>,
}

#[derive(Default)]
pub struct Changes {
    /// The table that a difference belongs to.
    table: HashMap<String, String>,
    logs: HashMap<String, Mutex<Log>>,
}

/// What a trainer asks about a table (`version_of` and `changed_since` in rust/ps/src/geo.rs).
pub enum Asked {
    Version(String),
    Since(String, i64),
}

impl Asked {
    pub fn parse(name: &str) -> Option<Asked> {
        if let Some(table) = name.strip_suffix("@VERSION") {
            return Some(Asked::Version(table.into()));
        }
        let (table, since) = name.rsplit_once("@CHANGED@")?;
        Some(Asked::Since(table.into(), since.parse().ok()?))
    }
}

impl Changes {
    /// Of `difference:table` pairs; none where trainers do not ask.
    pub fn new(op: &str, pairs: Option<&[String]>) -> Result<Changes> {
        let mut made = Changes::default();
        for text in pairs.unwrap_or_default() {
            let Some((delta, table)) = text.rsplit_once(':') else {
                bail!(InvalidArgument, "operator {op}: {text:?} is no gradient and parameter")
            };
            made.table.insert(delta.to_string(), table.to_string());
            made.logs.insert(table.to_string(), Mutex::default());
        }
        Ok(made)
    }

    pub fn knows(&self, delta: &str) -> bool {
        self.table.contains_key(delta)
    }

    /// These rows have changed.
    pub fn note(&self, delta: &str, rows: &[i64]) {
        if let Some(log) = self.table.get(delta).and_then(|t| self.logs.get(t)) {
            let log = &mut *log.lock();
            log.version += 1;
            log.rows.extend(rows.iter().map(|&row| (row, log.version)));
        }
    }

    /// Of each table: its version, and the versions that last changed its rows.
    pub fn image(&self) -> Vec<(String, i64, Vec<(i64, i64)>)> {
        let one = |(table, log): (&String, &Mutex<Log>)| {
            let log = log.lock();
            let mut rows: Vec<(i64, i64)> = log.rows.iter().map(|(&row, &v)| (row, v)).collect();
            rows.sort_unstable();
            (table.clone(), log.version, rows)
        };
        self.logs.iter().map(one).collect()
    }

    pub fn set_image(&self, table: &str, version: i64, rows: Vec<(i64, i64)>) -> Result<()> {
        let log = self.logs.get(table).ok_or_else(|| err!(NotFound, "the server keeps no changes of '{table}'"))?;
        *log.lock() = Log { version, rows: rows.into_iter().collect() };
        Ok(())
    }

    pub fn answer(&self, asked: &Asked, held: impl Fn(&str) -> Result<Value>) -> Result<Value> {
        let (Asked::Version(name) | Asked::Since(name, _)) = asked;
        let log = self.logs.get(name).ok_or_else(|| err!(NotFound, "the server keeps no changes of '{name}'"))?;
        let since = match asked {
            Asked::Version(_) => return Ok(Value::Dense(Tensor::from_slice(&[log.lock().version], &[1])?)),
            Asked::Since(_, since) => *since,
        };
        let mut rows: Vec<i64> = log.lock().rows.iter().filter(|(_, v)| **v > since).map(|(row, _)| *row).collect();
        rows.sort_unstable();
        let table = held(name)?;
        let table = table.dense()?;
        let height = table.dims().first().copied().unwrap_or(0);
        if let Some(row) = rows.iter().find(|&&r| r < 0 || r >= height) {
            bail!(OutOfRange, "row {row} is not within the {height} rows of '{name}'");
        }
        let places: Vec<usize> = rows.iter().map(|&r| r as usize).collect();
        Ok(SelectedRows { height, value: take_rows(table, &places)?, rows: Arc::new(rows) }.into())
    }
}
