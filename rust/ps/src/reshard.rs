//! What the servers of a job had, put together from their snapshots, for the servers of another job.

use super::parts::{concat, take_rows};
use super::values::{allocate, into_value, outgoing};
use crate::protocol::{newest_snapshot, read_snapshot, write_snapshot, LedgerSnapshot, LAYOUT, RESHARDED};
use oar_core::base::{Error, Result};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, ensure, err};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Parts of a state that are no variables of a Program, before the name of what they belong to. Rows of a table, and the notes
/// beside them, come in pieces with a number before that name.
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

/// The number and the table of such a name.
pub fn piece_of<'a>(kind: &str, name: &'a str) -> Option<(usize, &'a str)> {
    let (number, table) = name.strip_prefix(kind)?.split_once('@')?;
    Some((number.parse().ok()?, table))
}

/// Rows of a variable that lie on a server.
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

/// Which parts a server has: a line with its number and how many servers there are; then for each part its name, that of
/// the whole, its first row and how many it has, with tabs between.
pub struct Layout {
    pub server: i64,
    pub servers: i64,
    pub parts: BTreeMap<String, RowRange>,
}

impl Layout {
    pub fn parse(text: &str) -> Result<Layout> {
        let wrong = |line: &str| err!(InvalidArgument, "{line:?} is no line of a server's layout");
        let mut lines = text.lines().map(|l| (l, l.split('\t').collect::<Vec<_>>()));
        let (server, servers) = match lines.next() {
            Some((line, words)) => match words[..] {
                ["server", n, of] => (n.parse().map_err(|_| wrong(line))?, of.parse().map_err(|_| wrong(line))?),
                _ => return Err(wrong(line)),
            },
            None => bail!(
                NotFound,
                "it is not known which parts are this server's: DistributeTranspiler.get_pserver_program says it"
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

/// Rows of several servers, by rising numbers.
fn merge_rows(name: &str, parts: Vec<Value>) -> Result<Value> {
    let mut all = Vec::new();
    for value in parts {
        let Value::Rows(r) = value else { bail!(InvalidArgument, "'{name}' holds no rows") };
        all.push(*r);
    }
    let values: Vec<&Tensor> = all.iter().filter(|r| !r.rows.is_empty()).map(|r| &r.value).collect();
    let Some(first) = all.first() else { bail!(NotFound, "'{name}' is nowhere") };
    if values.is_empty() {
        return Ok(first.clone().into());
    }
    let value = concat("deal", &values)?;
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
    /// What each server has one of, as the first has it.
    replicated: BTreeMap<String, Value>,
}

impl MergedState {
    fn add(&mut self, name: String, value: Value, layout: &Layout) -> Result<()> {
        if [CLOCKS, CHANGED, VERSION].iter().any(|kind| name.starts_with(kind)) || name.contains("@GRAD") {
            // Of those servers and their trainers alone, or of one step.
            return Ok(());
        }
        ensure!(
            !(name.contains(".trainer_") && name.ends_with("_bak")),
            Unimplemented,
            "'{name}' belongs to one trainer (enable_dc_asgd): such a job cannot be dealt"
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
                let what = "are missing, or there twice: the snapshot of a server is missing";
                ensure!(first == next, NotFound, "rows {} to {} of '{name}' {what}", first.min(next), first.max(next));
                next = first + t.dims().first().copied().unwrap_or(0) as usize;
            }
            let parts: Vec<&Tensor> = parts.values().collect();
            all.push((name, Value::Dense(concat("deal", &parts)?)));
        }
        for (name, parts) in self.rows {
            let value = merge_rows(&name, parts)?;
            all.push((name, value));
        }
        Ok(all)
    }
}

/// Put the snapshots below `from` together into what servers of any number begin with whose state is kept in `to`. What it
/// did, in words. Snapshots of different steps are refused unless `uneven`.
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
            "{}: server {} is there twice",
            from.display(),
            layout.server
        );
        seen.push(layout.server);
        servers = layout.servers;
        report.push(format!("{}: {} steps", path.display(), found.image.step));
        if after > 0 {
            report.push(format!(
                "{}: what came after the snapshot ({after} bytes of logs) is not dealt",
                folder.display()
            ));
        }
        steps.push(found.image.step);
        for var in found.state {
            all.add(var.meta.name.clone(), into_value(var)?, &layout)?;
        }
    }
    ensure!(!seen.is_empty(), NotFound, "{} holds no server's snapshot", from.display());
    ensure!(
        seen.len() as i64 == servers,
        NotFound,
        "{}: {} of {servers} servers are there",
        from.display(),
        seen.len()
    );
    ensure!(
        uneven || steps.iter().all(|s| *s == steps[0]),
        InvalidArgument,
        "{}: the snapshots are of different steps ({steps:?}): they come together when the job ends in order",
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
