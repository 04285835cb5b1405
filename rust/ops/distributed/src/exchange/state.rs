//! A server's whole state as variables: its Program's, tables, changed rows, the random generator.

use super::serving::Serving;
use oar_core::base::Result;
use oar_core::tensor::{generator, SelectedRows, Tensor, Value};
use oar_core::{bail, ensure, err};
use oar_ps::protocol::{Incoming, Outgoing, Pieces};
use oar_ps::reshard::{piece, piece_of, Layout, CHANGED, CLOCKS, RANDOM, ROWS, USAGE, VERSION};
use oar_ps::tables;
use oar_ps::values::{into_value, outgoing};
use std::collections::BTreeMap;
use std::sync::Arc;

fn random() -> Result<Value> {
    let s = generator::get_state();
    let words: Vec<i64> = [s.seed, s.index as u64].into_iter().chain(s.words).map(|w| w as i64).collect();
    Ok(Value::Dense(Tensor::from_slice(&words, &[words.len() as i64])?))
}

fn set_random(value: &Value) -> Result<()> {
    let words = value.dense()?.to_i64s()?;
    let [seed, index, rest @ ..] = &words[..] else {
        bail!(InvalidArgument, "expected the state of a random generator")
    };
    let words = rest.iter().map(|&w| w as u64).collect();
    generator::set_state(&generator::State { seed: *seed as u64, words, index: *index as usize })
}

/// Numbers per row, as SelectedRows.
fn numbers_per_row(rows: Vec<i64>, numbers: &[i64]) -> Result<Value> {
    let value = Tensor::from_slice(numbers, &[rows.len() as i64, 1])?;
    Ok(SelectedRows { height: 0, rows: Arc::new(rows), value }.into())
}

fn numbered(value: &Value) -> Result<Vec<(i64, i64)>> {
    let Value::Rows(r) = value else { bail!(InvalidArgument, "expected SelectedRows, got {}", value.what()) };
    Ok(r.rows.iter().copied().zip(r.value.to_i64s()?).collect())
}

/// The rows of an integer matrix.
fn lines(value: &Value) -> Result<Vec<Vec<i64>>> {
    let t = value.dense()?;
    let width = t.dims().get(1).copied().unwrap_or(0).max(1) as usize;
    Ok(t.to_i64s()?.chunks_exact(width).map(<[i64]>::to_vec).collect())
}

const OP: &str = "listen_and_serv";
const OTHER: &str = "which this server's Program has: the state belongs to another Program";

/// The rows of a table's piece for which `keep` returns true.
fn select_rows(
    table: &str,
    rows: Value,
    usage: Option<Value>,
    keep: impl Fn(i64) -> bool,
) -> Result<tables::TableRows> {
    let Value::Rows(r) = &rows else { bail!(InvalidArgument, "the table '{table}' holds no rows") };
    let usage = usage.as_ref().map(numbered).transpose()?.unwrap_or_default();
    ensure!(usage.len() == r.rows.len(), InvalidArgument, "the table '{table}' has no usage for its rows");
    let mut found = tables::TableRows::default();
    let width = r.value.numel() / r.rows.len().max(1);
    let rows = r.rows.iter().zip(r.value.data::<f32>().chunks_exact(width.max(1))).zip(usage);
    for ((&id, values), (_, note)) in rows.filter(|((id, _), _)| keep(**id)) {
        found.ids.push(id);
        found.data.extend_from_slice(values);
        found.usage.push(note);
    }
    Ok(found)
}

/// Fills the tables that the state has clocks or rows of; entries are freed once they are used.
fn fill_tables(all: &mut BTreeMap<String, Value>, keep: impl Fn(i64) -> bool) -> Result<()> {
    let mut begun: BTreeMap<String, bool> = BTreeMap::new();
    let names: Vec<String> = all.keys().filter(|n| n.starts_with(CLOCKS) || n.starts_with(ROWS)).cloned().collect();
    for name in names {
        let value = all.remove(&name).unwrap_or_default();
        if let Some(table) = name.strip_prefix(CLOCKS) {
            let same = tables::table(OP, table)?.reset(&lines(&value)?)?;
            begun.insert(table.to_string(), same);
        } else if let Some((number, table)) = piece_of(ROWS, &name) {
            let found = tables::table(OP, table)?;
            let same = match begun.get(table) {
                Some(&same) => same,
                None => found.reset(&[])?,
            };
            begun.insert(table.to_string(), same);
            let usage = all.remove(&piece(USAGE, number, table));
            found.put_back(&select_rows(table, value, usage, &keep)?, same)?;
        }
    }
    Ok(())
}

/// Approximate bytes of a piece of a table.
const PIECE: usize = 4 << 20;

/// The rows of a table as variables, piece by piece, while the table changes.
fn pieces_of(mut table: tables::TableSnapshot) -> impl Iterator<Item = Result<Outgoing>> + Send {
    let (mut number, mut usage) = (0, None);
    std::iter::from_fn(move || {
        if let Some(usage) = usage.take() {
            return Some(Ok(usage));
        }
        let image = table.next(PIECE).transpose()?;
        let make = || -> Result<(Outgoing, Outgoing)> {
            let tables::TableRows { ids, data, usage } = image?;
            let value = Tensor::from_slice(&data, &[ids.len() as i64, table.width as i64])?;
            let numbers_per_row = numbers_per_row(ids.clone(), &usage)?;
            let rows = SelectedRows { height: 0, rows: Arc::new(ids), value };
            number += 1;
            let name = |kind| piece(kind, number, &table.name);
            Ok((outgoing(&name(ROWS), rows.into())?, outgoing(&name(USAGE), numbers_per_row)?))
        };
        Some(make().map(|(rows, numbers_per_row)| {
            usage = Some(numbers_per_row);
            rows
        }))
    })
}

impl Serving<'_> {
    /// Variables that outlive a step, by name.
    fn lasting(&self) -> BTreeMap<String, Value> {
        let declared = self.frame.program.block(0).map(|b| b.all_vars()).unwrap_or_default();
        let names = declared.iter().map(|v| v.read().name.clone());
        let passing = |name: &String| self.received.contains(name) || self.by_grad.contains_key(name);
        let value = |name: String| {
            let value = self.frame.scope.find(&name)?.get();
            let holds = match &value {
                Value::Dense(t) => t.has_bytes(),
                Value::Rows(r) => r.value.has_bytes(),
                _ => false,
            };
            holds.then_some((name, value))
        };
        names.filter(|n| !passing(n)).filter_map(value).collect()
    }

    pub fn state(&self) -> Result<Pieces> {
        let mut all: Vec<(String, Value)> = self.lasting().into_iter().collect();
        all.push((RANDOM.into(), random()?));
        for (table, version, rows) in self.changes.image() {
            let (rows, versions): (Vec<i64>, Vec<i64>) = rows.into_iter().unzip();
            all.push((format!("{CHANGED}{table}"), numbers_per_row(rows, &versions)?));
            all.push((format!("{VERSION}{table}"), Value::Dense(Tensor::from_slice(&[version], &[1])?)));
        }
        let mut snapshots = Vec::new();
        for snapshot in tables::all().iter().map(|t| t.snapshot()) {
            let (n, clocks) = (snapshot.clocks.len() as i64, snapshot.clocks.concat());
            let each = clocks.len() as i64 / n.max(1);
            let clocks = Value::Dense(Tensor::from_slice(&clocks, &[n, each])?);
            all.push((format!("{CLOCKS}{}", snapshot.name), clocks));
            snapshots.push(snapshot);
        }
        let pieces = all.into_iter().map(|(name, value)| outgoing(&name, value));
        let pieces = pieces.chain(snapshots.into_iter().flat_map(pieces_of));
        Ok(Box::new(pieces.map(|piece| piece.map_err(|e| e.message().to_string()))))
    }

    pub fn set_state(&self, state: Vec<Incoming>) -> Result<()> {
        let mut here = self.lasting();
        let mut rest: BTreeMap<String, Value> = BTreeMap::new();
        for var in state {
            let name = var.meta.name.clone();
            let value = into_value(var)?;
            match here.remove(&name) {
                Some(now) => self.put_back(&name, &now, value)?,
                None => drop(rest.insert(name, value)),
            }
        }
        if let Some(name) = here.keys().next() {
            bail!(NotFound, "the state has no variable '{name}', {OTHER}");
        }
        fill_tables(&mut rest, |_| true)?;
        for (name, value) in &rest {
            if name == RANDOM {
                set_random(value)?;
            } else if let Some(table) = name.strip_prefix(CHANGED) {
                let version = rest.get(&format!("{VERSION}{table}"));
                let version = version.ok_or_else(|| err!(NotFound, "the state has no version of '{table}'"))?;
                let version = version.dense()?.to_i64s()?.first().copied().unwrap_or(0);
                self.changes.set_image(table, version, numbered(value)?)?;
            } else if !name.starts_with(VERSION) {
                // Created after the start: the startup Program does not know it, the main Program must.
                match self.frame.scope.find(name) {
                    Some(cell) => cell.set(value.clone()),
                    None => bail!(NotFound, "this server's Program has no variable '{name}', {OTHER}"),
                }
            }
        }
        Ok(())
    }

    /// Takes this server's part of another job's resharded state.
    pub fn take_part(&self, state: Vec<Incoming>, layout: &str) -> Result<()> {
        let layout = Layout::parse(layout)?;
        let all: Result<BTreeMap<String, Value>> =
            state.into_iter().map(|var| Ok((var.meta.name.clone(), into_value(var)?))).collect();
        let mut all = all?;
        for (name, now) in self.lasting() {
            let part = layout.parts.get(&name);
            let whole = all.get(part.map_or(&name, |p| &p.whole));
            let whole = whole.ok_or_else(|| err!(NotFound, "the state has no variable '{name}', {OTHER}"))?;
            let value = match (part, whole) {
                (Some(p), Value::Dense(t)) => Value::Dense(p.slice(&name, t)?),
                _ => whole.clone(),
            };
            self.put_back(&name, &now, value)?;
        }
        fill_tables(&mut all, |id| id.rem_euclid(layout.servers) == layout.server)
    }

    fn put_back(&self, name: &str, now: &Value, value: Value) -> Result<()> {
        let same = match (now, &value) {
            (Value::Dense(a), Value::Dense(b)) => a.dtype() == b.dtype() && a.dims() == b.dims(),
            (Value::Rows(a), Value::Rows(b)) => a.value.dtype() == b.value.dtype(),
            _ => false,
        };
        ensure!(
            same,
            InvalidArgument,
            "the state's '{name}' does not match this server's Program: the state belongs to another Program"
        );
        let cell = self.frame.scope.find(name).ok_or_else(|| err!(NotFound, "there is no variable '{name}'"))?;
        cell.set(value);
        Ok(())
    }
}
