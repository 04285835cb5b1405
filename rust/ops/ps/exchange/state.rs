//! A server's whole state as variables: what its Program declares, tables, which rows have changed, the random generator.

use super::serving::Serving;
use oar_comm::servers::tables;
use oar_comm::servers::values::{arrived, outgoing};
use oar_core::base::Result;
use oar_core::tensor::{generator, SelectedRows, Tensor, Value};
use oar_core::{bail, ensure, err};
use oar_dist::ps::{Incoming, Outgoing};
use std::collections::BTreeMap;
use std::sync::Arc;

const RANDOM: &str = "@RANDOM@";
const ROWS: &str = "@TABLE@";
const COUNTS: &str = "@COUNTS@";
const CHANGED: &str = "@CHANGED@";
const VERSION: &str = "@VERSION@";

fn random() -> Result<Value> {
    let s = generator::get_state();
    let words: Vec<i64> = [s.seed, s.index as u64].into_iter().chain(s.words).map(|w| w as i64).collect();
    Ok(Value::Dense(Tensor::from_slice(&words, &[words.len() as i64])?))
}

fn set_random(value: &Value) -> Result<()> {
    let words = value.dense()?.to_i64s()?;
    let [seed, index, rest @ ..] = &words[..] else { bail!(InvalidArgument, "no state of a random generator") };
    let words = rest.iter().map(|&w| w as u64).collect();
    generator::set_state(&generator::State { seed: *seed as u64, words, index: *index as usize })
}

/// Numbers beside the rows that they belong to.
fn beside(rows: Vec<i64>, numbers: &[i64]) -> Result<Value> {
    let value = Tensor::from_slice(numbers, &[rows.len() as i64, 1])?;
    Ok(SelectedRows { height: 0, rows: Arc::new(rows), value }.into())
}

fn numbered(value: &Value) -> Result<Vec<(i64, i64)>> {
    let Value::Rows(r) = value else { bail!(InvalidArgument, "rows were due, got {}", value.what()) };
    Ok(r.rows.iter().copied().zip(r.value.to_i64s()?).collect())
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

    pub fn state(&self) -> Result<Vec<Outgoing>> {
        let mut all: Vec<(String, Value)> = self.lasting().into_iter().collect();
        all.push((RANDOM.into(), random()?));
        for table in tables::all() {
            let (ids, data, counts) = table.image();
            let counts: Vec<i64> = counts.into_iter().map(i64::from).collect();
            all.push((format!("{COUNTS}{}", table.name), beside(ids.clone(), &counts)?));
            let value = Tensor::from_slice(&data, &[ids.len() as i64, table.width() as i64])?;
            let rows = SelectedRows { height: 0, rows: Arc::new(ids), value };
            all.push((format!("{ROWS}{}", table.name), rows.into()));
        }
        for (table, version, rows) in self.changes.image() {
            let (rows, versions): (Vec<i64>, Vec<i64>) = rows.into_iter().unzip();
            all.push((format!("{CHANGED}{table}"), beside(rows, &versions)?));
            all.push((format!("{VERSION}{table}"), Value::Dense(Tensor::from_slice(&[version], &[1])?)));
        }
        all.into_iter().map(|(name, value)| outgoing(&name, value)).collect()
    }

    pub fn set_state(&self, state: Vec<Incoming>) -> Result<()> {
        let mut here = self.lasting();
        let mut given: BTreeMap<String, Value> = BTreeMap::new();
        for var in state {
            given.insert(var.meta.name.clone(), arrived(var)?);
        }
        let mut rest: Vec<(String, Value)> = Vec::new();
        for (name, value) in given {
            match here.remove(&name) {
                Some(now) => self.put_back(&name, &now, value)?,
                None => rest.push((name, value)),
            }
        }
        if let Some(name) = here.keys().next() {
            bail!(
                NotFound,
                "the state has no variable '{name}', which this server's Program keeps: it is of another one"
            );
        }
        let rest: BTreeMap<String, Value> = rest.into_iter().collect();
        for (name, value) in &rest {
            if name == RANDOM {
                set_random(value)?;
            } else if let Some(table) = name.strip_prefix(ROWS) {
                let counts = rest.get(&format!("{COUNTS}{table}")).map(numbered).transpose()?.unwrap_or_default();
                let Value::Rows(r) = value else { bail!(InvalidArgument, "'{name}' holds no rows") };
                tables::table("listen_and_serv", table)?.set_image(&r.rows, r.value.data::<f32>(), &counts)?;
            } else if let Some(table) = name.strip_prefix(CHANGED) {
                let version = rest.get(&format!("{VERSION}{table}"));
                let version = version.ok_or_else(|| err!(NotFound, "the state has no version of '{table}'"))?;
                let version = version.dense()?.to_i64s()?.first().copied().unwrap_or(0);
                self.changes.set_image(table, version, numbered(value)?)?;
            } else if !name.starts_with(COUNTS) && !name.starts_with(VERSION) {
                // Made after the start: the startup Program does not know it, the main Program must.
                match self.frame.scope.find(name) {
                    Some(cell) => cell.set(value.clone()),
                    None => {
                        bail!(NotFound, "this server's Program has no variable '{name}': the state is of another one")
                    }
                }
            }
        }
        Ok(())
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
            "the state's '{name}' is not what this server's Program has: it is of another one"
        );
        let cell = self.frame.scope.find(name).ok_or_else(|| err!(NotFound, "there is no variable '{name}'"))?;
        cell.set(value);
        Ok(())
    }
}
