//! Rows of tables changed since a trainer's last request (geo mode). The trainer sends the version that it has, so a
//! lost reply can be repeated.

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
    /// The version of each row's last change.
    rows: HashMap<i64, i64>,
}

#[derive(Default)]
pub struct Changes {
    /// Table by the name of its difference.
    table: HashMap<String, String>,
    logs: HashMap<String, Mutex<Log>>,
}

/// A request about a table (`version_of` and `changed_since` in rust/ps/src/trainer/geo.rs).
pub enum Query {
    Version(String),
    Since(String, i64),
}

impl Query {
    pub fn parse(name: &str) -> Option<Query> {
        if let Some(table) = name.strip_suffix("@VERSION") {
            return Some(Query::Version(table.into()));
        }
        let (table, since) = name.rsplit_once("@CHANGED@")?;
        Some(Query::Since(table.into(), since.parse().ok()?))
    }
}

impl Changes {
    /// Parses `difference:table` pairs; without pairs no table is tracked.
    pub fn new(op: &str, pairs: Option<&[String]>) -> Result<Changes> {
        let mut made = Changes::default();
        for text in pairs.unwrap_or_default() {
            let Some((delta, table)) = text.rsplit_once(':') else {
                bail!(InvalidArgument, "operator {op}: {text:?} is not a pair gradient:parameter")
            };
            made.table.insert(delta.to_string(), table.to_string());
            made.logs.insert(table.to_string(), Mutex::default());
        }
        Ok(made)
    }

    pub fn knows(&self, delta: &str) -> bool {
        self.table.contains_key(delta)
    }

    /// Records that these rows have changed.
    pub fn record(&self, delta: &str, rows: &[i64]) {
        if let Some(log) = self.table.get(delta).and_then(|t| self.logs.get(t)) {
            let log = &mut *log.lock();
            log.version += 1;
            log.rows.extend(rows.iter().map(|&row| (row, log.version)));
        }
    }

    /// For each table: its version, and the versions of its rows' last changes.
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
        let log =
            self.logs.get(table).ok_or_else(|| err!(NotFound, "the server does not track changes of '{table}'"))?;
        *log.lock() = Log { version, rows: rows.into_iter().collect() };
        Ok(())
    }

    pub fn answer(&self, asked: &Query, held: impl Fn(&str) -> Result<Value>) -> Result<Value> {
        let (Query::Version(name) | Query::Since(name, _)) = asked;
        let log = self.logs.get(name).ok_or_else(|| err!(NotFound, "the server does not track changes of '{name}'"))?;
        let since = match asked {
            Query::Version(_) => return Ok(Value::Dense(Tensor::from_slice(&[log.lock().version], &[1])?)),
            Query::Since(_, since) => *since,
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
