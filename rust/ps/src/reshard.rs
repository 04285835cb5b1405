//! Resharding: combines the snapshots of a job's servers into a state for the servers of another job.

use super::parts::{concat, take_rows};
use super::values::{allocate, into_value, outgoing};
use crate::protocol::{newest_snapshot, read_snapshot, write_snapshot, LedgerSnapshot, LAYOUT, RESHARDED};
use oar_core::base::{Error, Result};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, ensure, err};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Prefixes of state entries that are not variables of a Program, followed by the name they belong to. Rows of a table
/// and their usage are split into numbered pieces.
pub const RANDOM: &str = "@RANDOM@";
pub const ROWS: &str = "@TABLE@";
pub const USAGE: &str = "@NOTES@";
pub const CLOCKS: &str = "@CLOCKS@";
pub const CHANGED: &str = "@CHANGED@";
pub const VERSION: &str = "@VERSION@";

/// The name of a piece of a table.
pub fn piece(kind: &str, number: usize, table: &str) -> String {
    format!("{kind}{number}@{table}")
}

/// The number and the table in such a name.
pub fn piece_of<'a>(kind: &str, name: &'a str) -> Option<(usize, &'a str)> {
    let (number, table) = name.strip_prefix(kind)?.split_once('@')?;
    Some((number.parse().ok()?, table))
}

/// The rows of a variable that a server holds.
pub struct RowRange {
    pub whole: String,
    pub first: usize,
    pub rows: usize,
}

impl RowRange {
    pub fn slice(&self, name: &str, whole: &Tensor) -> Result<Tensor> {
        let there = whole.dims().first().copied().unwrap_or(0) as usize;
        ensure!(
            self.first.checked_add(self.rows).is_some_and(|end| end <= there),
            OutOfRange,
            "'{name}' is rows {} to {} of '{}', which has {there}",
            self.first,
            self.first.saturating_add(self.rows),
            self.whole
        );
        take_rows(whole, &(self.first..self.first + self.rows).collect::<Vec<_>>())
    }
}

/// The parts of a server. Text format: a line `server`, number, count; then a line per part: its name, the whole
/// variable's name, first row, number of rows; separated by tabs.
pub struct Layout {
    pub server: i64,
    pub servers: i64,
    pub parts: BTreeMap<String, RowRange>,
}

impl Layout {
    pub fn parse(text: &str) -> Result<Layout> {
        let wrong = |line: &str| err!(InvalidArgument, "{line:?} is not a line of a server's layout");
        let mut lines = text.lines().map(|l| (l, l.split('\t').collect::<Vec<_>>()));
        let (server, servers) = match lines.next() {
            Some((line, words)) => match words[..] {
                ["server", n, of] => (n.parse().map_err(|_| wrong(line))?, of.parse().map_err(|_| wrong(line))?),
                _ => return Err(wrong(line)),
            },
            None => bail!(
                NotFound,
                "the parts of this server are unknown: they are set by DistributeTranspiler.get_pserver_program"
            ),
        };
        ensure!((0..servers).contains(&server), InvalidArgument, "there is no server {server} of {servers}");
        let part = |(line, words): (&str, Vec<&str>)| match words[..] {
            [name, whole, first, rows] => {
                let (first, rows) = (first.parse().map_err(|_| wrong(line))?, rows.parse().map_err(|_| wrong(line))?);
                Ok((name.to_string(), RowRange { whole: whole.to_string(), first, rows }))
            }
            _ => Err(wrong(line)),
        };
        Ok(Layout { server, servers, parts: lines.map(part).collect::<Result<_>>()? })
    }
}

fn failed(path: &Path, e: impl std::fmt::Display) -> Error {
    err!(External, "{}: {e}", path.display())
}

/// The rows of several servers, in ascending order.
fn merge_rows(name: &str, parts: Vec<Value>) -> Result<Value> {
    let mut all = Vec::new();
    for value in parts {
        let Value::Rows(r) = value else { bail!(InvalidArgument, "'{name}' holds no rows") };
        all.push(*r);
    }
    let values: Vec<&Tensor> = all.iter().filter(|r| !r.rows.is_empty()).map(|r| &r.value).collect();
    let Some(first) = all.first() else { bail!(NotFound, "no server has '{name}'") };
    if values.is_empty() {
        return Ok(first.clone().into());
    }
    let value = concat("reshard", &values)?;
    let rows: Vec<i64> = all.iter().flat_map(|r| r.rows.iter().copied()).collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&at| rows[at]);
    let value = take_rows(&value, &order)?;
    let rows = order.iter().map(|&at| rows[at]).collect();
    Ok(SelectedRows { rows: Arc::new(rows), height: first.height, value }.into())
}

#[derive(Default)]
struct MergedState {
    /// Parts of dense variables by their first rows.
    sharded: BTreeMap<String, BTreeMap<usize, Tensor>>,
    rows: BTreeMap<String, Vec<Value>>,
    /// Variables that every server has, as of the first server.
    replicated: BTreeMap<String, Value>,
}

impl MergedState {
    fn add(&mut self, name: String, value: Value, layout: &Layout) -> Result<()> {
        if [CLOCKS, CHANGED, VERSION].iter().any(|kind| name.starts_with(kind)) || name.contains("@GRAD") {
            // Specific to those servers and trainers, or to one step.
            return Ok(());
        }
        ensure!(
            !(name.contains(".trainer_") && name.ends_with("_bak")),
            Unimplemented,
            "'{name}' belongs to one trainer (enable_dc_asgd): such a job cannot be resharded"
        );
        match (layout.parts.get(&name), value) {
            (Some(part), Value::Dense(t)) => {
                self.sharded.entry(part.whole.clone()).or_default().insert(part.first, t);
            }
            (_, value @ Value::Rows(_)) => self.rows.entry(name).or_default().push(value),
            (_, value) => drop(self.replicated.entry(name).or_insert(value)),
        }
        Ok(())
    }

    fn whole(self) -> Result<Vec<(String, Value)>> {
        let mut all: Vec<(String, Value)> = self.replicated.into_iter().collect();
        for (name, parts) in self.sharded {
            let mut next = 0;
            for (&first, t) in &parts {
                let what = "are missing or duplicated: the snapshot of a server is missing";
                ensure!(first == next, NotFound, "rows {} to {} of '{name}' {what}", first.min(next), first.max(next));
                next = first + t.dims().first().copied().unwrap_or(0) as usize;
            }
            let parts: Vec<&Tensor> = parts.values().collect();
            all.push((name, Value::Dense(concat("reshard", &parts)?)));
        }
        for (name, parts) in self.rows {
            let value = merge_rows(&name, parts)?;
            all.push((name, value));
        }
        Ok(all)
    }
}

/// Combines the snapshots below `from` into a state for any number of servers whose folders are below `to`. Returns a
/// report. Snapshots of different steps are refused unless `uneven`.
pub fn reshard(from: &Path, to: &Path, uneven: bool) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(from).map_err(|e| failed(from, e))?;
    let mut folders: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_dir()).collect();
    folders.sort();
    let (mut all, mut report, mut steps, mut seen) = (MergedState::default(), Vec::new(), Vec::new(), Vec::new());
    let mut servers = 0;
    for folder in &folders {
        let Some((path, after)) = newest_snapshot(folder).map_err(|e| failed(folder, e))? else { continue };
        let layout = folder.join(LAYOUT);
        let layout = Layout::parse(&std::fs::read_to_string(&layout).map_err(|e| failed(&layout, e))?)?;
        let found = read_snapshot(&path, &allocate).map_err(|e| failed(&path, e))?;
        ensure!(
            !seen.contains(&layout.server),
            InvalidArgument,
            "{}: there are two snapshots of server {}",
            from.display(),
            layout.server
        );
        seen.push(layout.server);
        servers = layout.servers;
        report.push(format!("{}: {} steps", path.display(), found.image.step));
        if after > 0 {
            report.push(format!(
                "{}: changes after the snapshot ({after} bytes of logs) are not included",
                folder.display()
            ));
        }
        steps.push(found.image.step);
        for var in found.state {
            all.add(var.meta.name.clone(), into_value(var)?, &layout)?;
        }
    }
    ensure!(!seen.is_empty(), NotFound, "{} holds no server's snapshot", from.display());
    ensure!(seen.len() as i64 == servers, NotFound, "{}: found {} of {servers} servers", from.display(), seen.len());
    ensure!(
        uneven || steps.iter().all(|s| *s == steps[0]),
        InvalidArgument,
        "{}: the snapshots are of different steps ({steps:?}): they are of one step once the job has ended in order",
        from.display()
    );
    let state = all.whole()?;
    report.push(format!("{}: {} variables", to.join(RESHARDED).display(), state.len()));
    std::fs::create_dir_all(to).map_err(|e| failed(to, e))?;
    let image = LedgerSnapshot { step: steps[0], ..LedgerSnapshot::default() };
    let pieces = state.into_iter().map(|(name, value)| outgoing(&name, value).map_err(|e| e.message().to_string()));
    write_snapshot(to, RESHARDED, &image, Box::new(pieces)).map_err(|e| failed(to, e))?;
    Ok(report)
}
