//! Recipes: the launches and library calls of an operator call, recorded by its launcher for a key (operator, shapes,
//! data types, attributes) and replayed for later calls of the same key without Python.

use super::driver::{Block, Driver, Function, Launched};
use super::graph::{self, address, Fixed, Replayed, Started, Values};
use crate::error::OrRaise;
use oar_core::base::{DType, Result};
use oar_core::err;
use oar_core::op::attrs::Attrs;
use oar_core::op::backend::DeviceCall;
use oar_core::op::{Op, SlotFlag};
use oar_core::tensor::{generator, Tensor, Value};
use parking_lot::Mutex;
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Limits of the keys, and of the sets of attributes of a key: attributes that change at each call have no recipe.
const MOST_KEYS: usize = 4096;
const MOST_ATTRS: usize = 16;
/// Offsets of the LoD of a tensor in a key.
const MOST_OFFSETS: usize = 256;

type Key = SmallVec<[i64; 48]>;

enum Step {
    Kernel(Launched),
    Library(Function),
}

/// An argument of a kernel or of a function of a library.
enum Arg {
    /// An input (slot, position in it) plus bytes.
    Input(u32, u32, u64),
    /// A buffer plus bytes.
    Buffer(u32, u64),
    /// The bits of a number.
    Number(u64),
    /// The next number of the global generator.
    Drawn,
}

enum Output {
    Buffer(usize, DType),
    /// An input (slot, position in it): the kernels have written it, or the result is its elements.
    Input(u32, u32),
}

pub struct Recipe {
    steps: Vec<(Step, Vec<Arg>)>,
    /// Bytes of results and temporary values.
    buffers: Vec<usize>,
    /// The results with their shapes, by output slot and position in it; absent: none.
    outs: Vec<(usize, usize, Output, Vec<i64>)>,
    long: Mutex<Long>,
}

/// Whether a recipe runs as a graph.
enum Long {
    Never,
    /// From its next replay on.
    Next,
    Graph(Fixed),
}

/// As Python gives an argument (kind, index, offset or bits) and a result (output slot, position in it, kind, index,
/// data type, shape).
type GivenArg = (u8, u64, u64);
/// A kernel or function, the name of a function or the sizes of a launch (grid, block, shared memory), arguments.
type GivenStep = (usize, Option<String>, (u32, u32, u32), u32, u32, Vec<GivenArg>);
type GivenResult = (usize, usize, u8, usize, String, Vec<i64>);

impl Recipe {
    /// From `(steps, bytes of buffers, results)`; see `paddle._cuda.recipe`.
    pub fn from_python(given: &Bound<'_, PyAny>) -> PyResult<Recipe> {
        let (steps, buffers, outs): (Vec<GivenStep>, Vec<usize>, Vec<GivenResult>) = given.extract()?;
        let arg = |(kind, index, more): GivenArg| match kind {
            0 => Arg::Input((index >> 16) as u32, (index & 0xffff) as u32, more),
            1 => Arg::Buffer(index as u32, more),
            2 => Arg::Number(more),
            _ => Arg::Drawn,
        };
        let steps = steps.into_iter().map(|(function, name, (x, y, z), block, shared, args)| {
            let step = match name {
                Some(name) => Step::Library(Function { name, address: function }),
                None => Step::Kernel(Launched { function, grid: [x, y, z], block, shared }),
            };
            (step, args.into_iter().map(arg).collect())
        });
        let out = |(slot, at, kind, index, dtype, dims): GivenResult| {
            if kind != 0 {
                return Ok((slot, at, Output::Input((index >> 16) as u32, (index & 0xffff) as u32), dims));
            }
            let dtype = DType::ALL.into_iter().find(|d| d.name() == dtype);
            let dtype = dtype.ok_or_else(|| err!(Type, "an unknown data type"))?;
            Ok((slot, at, Output::Buffer(index, dtype), dims))
        };
        let outs: Vec<(usize, usize, Output, Vec<i64>)> =
            outs.into_iter().map(out).collect::<Result<_>>().or_raise()?;
        let steps: Vec<(Step, Vec<Arg>)> = steps.collect();
        let is_fixed = |arg: &Arg| !matches!(arg, Arg::Drawn);
        let is_new = outs.iter().all(|out| matches!(out.2, Output::Buffer(..)));
        let is_long = steps.len() >= graph::LONG && is_new && steps.iter().flat_map(|s| &s.1).all(is_fixed);
        Ok(Recipe { steps, buffers, outs, long: Mutex::new(if is_long { Long::Next } else { Long::Never }) })
    }

    /// The buffers of a replay by a graph; `None`: it is to be replayed step by step.
    fn by_graph(&self, call: &DeviceCall, driver: &Arc<Driver>) -> Result<Option<SmallVec<[Arc<Block>; 4]>>> {
        let Some(mut held) = self.long.try_lock() else { return Ok(None) };
        if let Long::Next = *held {
            // What fails in a capture runs step by step, where an error of its own is raised.
            let made = crate::gil::attached(|_| Fixed::new(self, call, driver));
            *held = made.ok().flatten().map_or(Long::Never, Long::Graph);
        }
        match &*held {
            Long::Graph(fixed) => fixed.run(call).map(Some),
            _ => Ok(None),
        }
    }

    /// Starts the kernels and calls the functions, and sets the results. `memory` makes the memory of a tensor
    /// from a block. `graphs`: a long recipe runs as a graph from its second replay on.
    pub fn replay(
        self: &Arc<Recipe>,
        call: &mut DeviceCall,
        driver: &Arc<Driver>,
        memory: impl Fn(Arc<Block>, usize) -> Box<dyn oar_core::tensor::device::Memory>,
        graphs: bool,
    ) -> Result<()> {
        let by_graph = if graphs && !graph::is_on() { self.by_graph(call, driver)? } else { None };
        let step_by_step = || {
            driver.within(|| {
                let blocks: SmallVec<[Arc<Block>; 4]> =
                    self.buffers.iter().map(|&bytes| driver.alloc(bytes)).collect::<Result<_>>()?;
                let keeps = graph::is_on();
                for (number, (_, args)) in self.steps.iter().enumerate() {
                    let (mut values, mut drawn) = (Values::with_capacity(args.len()), graph::Drawn::new());
                    for arg in args {
                        values.push(match *arg {
                            Arg::Input(slot, i, offset) => address(call, slot, i)? + offset,
                            Arg::Buffer(i, offset) => blocks[i as usize].address + offset,
                            Arg::Number(bits) => bits,
                            Arg::Drawn => {
                                drawn.push(values.len());
                                generator::next_u64()
                            }
                        });
                    }
                    if keeps {
                        graph::step(self.clone(), number, &values, drawn);
                    }
                    self.start(number, &mut values, driver)?;
                }
                Ok(blocks)
            })
        };
        let blocks = by_graph.map_or_else(step_by_step, Ok)?;
        for (slot, at, out, dims) in &self.outs {
            let value = match *out {
                Output::Buffer(i, dtype) => {
                    let block = blocks.get(i).ok_or_else(|| err!(Fatal, "a recipe names a buffer that it lacks"))?;
                    Tensor::from_device(memory(block.clone(), self.buffers[i]), dtype, dims)?
                }
                Output::Input(from, i) => {
                    let input = call.ins.slot(from as usize).get(i as usize).and_then(Value::elements);
                    input.ok_or_else(|| err!(Fatal, "a recipe names an input that it lacks"))?.reshaped(dims)
                }
            };
            if let Some(to) = call.outs.slot_mut(*slot).get_mut(*at) {
                to.value = Value::Dense(value);
            }
        }
        call.ran = true;
        Ok(())
    }
}

impl Started for Recipe {
    fn start(&self, number: usize, values: &mut Values, driver: &Driver) -> Result<()> {
        match &self.steps[number].0 {
            // SAFETY: the arguments are those of the recorded launch of the same kernel.
            Step::Kernel(at) => unsafe { driver.launch(at, values) },
            // SAFETY: as above, of the same function.
            Step::Library(function) => unsafe { function.call(values) },
        }
    }

    fn function(&self, number: usize) -> usize {
        match &self.steps[number].0 {
            Step::Kernel(at) => at.function,
            Step::Library(_) => 0,
        }
    }
}

impl Replayed for Recipe {
    fn operands(&self, call: &DeviceCall) -> Vec<(u32, u32, usize)> {
        let mut found: Vec<(u32, u32, usize)> = Vec::new();
        for arg in self.steps.iter().flat_map(|s| &s.1) {
            if let Arg::Input(slot, at, _) = *arg {
                if !found.iter().any(|f| (f.0, f.1) == (slot, at)) {
                    let value = call.ins.slot(slot as usize).get(at as usize).and_then(Value::elements);
                    found.push((slot, at, value.map_or(0, Tensor::nbytes)));
                }
            }
        }
        found
    }

    fn buffers(&self) -> Vec<(bool, usize)> {
        let is_result = |i: usize| self.outs.iter().any(|o| matches!(o.2, Output::Buffer(at, _) if at == i));
        self.buffers.iter().enumerate().map(|(i, &bytes)| (is_result(i), bytes)).collect()
    }

    fn start_all(&self, driver: &Driver, input: &dyn Fn(u32, u32) -> u64, buffer: &dyn Fn(usize) -> u64) -> Result<()> {
        for (number, (_, args)) in self.steps.iter().enumerate() {
            let value = |arg: &Arg| match *arg {
                Arg::Input(slot, at, offset) => Ok(input(slot, at) + offset),
                Arg::Buffer(i, offset) => Ok(buffer(i as usize) + offset),
                Arg::Number(bits) => Ok(bits),
                Arg::Drawn => Err(err!(Fatal, "a graph draws no numbers")),
            };
            self.start(number, &mut args.iter().map(value).collect::<Result<Values>>()?, driver)?;
        }
        Ok(())
    }
}

/// What is known of a key with some attributes: `None` if its calls have no recipe.
type Known = Option<Arc<Recipe>>;

/// The recipes of a backend.
#[derive(Default)]
pub struct Recipes(Mutex<HashMap<Key, Vec<(Attrs, Known)>>>);

impl Recipes {
    /// `None` if this key is new.
    pub fn get(&self, key: &Key, op: &Op, attrs: &Attrs) -> Option<Known> {
        let held = self.0.lock();
        let all = held.get(key)?;
        let found =
            all.iter().find(|(a, _)| Arc::ptr_eq(a, attrs)).or_else(|| all.iter().find(|(a, _)| same(op, a, attrs)));
        match found {
            Some((_, known)) => Some(known.clone()),
            None => (all.len() >= MOST_ATTRS).then_some(None),
        }
    }

    pub fn put(&self, key: Key, attrs: &Attrs, known: Known) {
        let mut held = self.0.lock();
        if held.len() >= MOST_KEYS {
            held.clear();
        }
        held.entry(key).or_default().push((attrs.clone(), known));
    }
}

fn same(op: &Op, a: &Attrs, b: &Attrs) -> bool {
    (0..op.attrs.fields.len()).all(|i| a.get(i) == b.get(i))
}

/// The key of a call; `None` if it has operands that no recipe takes (SelectedRows, a long LoD), or lists that are
/// written in place.
pub fn key(call: &DeviceCall) -> Option<Key> {
    let mut key = Key::new();
    key.push(call.op as *const Op as i64);
    key.push(call.device.into());
    for slot in 0..call.op.inputs.len() {
        let values = call.ins.slot(slot);
        // An absent slot may have no value or None.
        key.push(values.len() as i64);
        for value in values {
            let t = match value {
                Value::None => {
                    key.push(-1);
                    continue;
                }
                Value::Dense(t) => t,
                _ => return None,
            };
            let place = t.on_device().filter(|_| t.numel() > 0).map(|(memory, offset)| memory.address() + offset);
            // The first input at the same address: the recorded launch does not distinguish them.
            let first = place.and_then(|at| {
                call.ins.flat.iter().position(|v| {
                    v.elements().and_then(Tensor::on_device).is_some_and(|(m, offset)| m.address() + offset == at)
                })
            });
            // Kernels that read words of 16 bytes are chosen by the address.
            let unaligned = place.is_some_and(|at| at % 16 != 0);
            let first = first.map_or(0, |i| i as i64 + 1) | i64::from(unaligned) << 15;
            key.push((t.dtype() as i64) << 32 | (t.rank() as i64) << 16 | first);
            key.extend_from_slice(t.dims());
            if let Some(lod) = t.lod.as_deref().filter(|levels| !levels.is_empty()) {
                push_lod(&mut key, lod)?;
            }
        }
    }
    if call.ins.flat.is_empty() {
        // The attributes of calls without operands say their shapes: few share a key.
        for meta in call.metas.flat.iter() {
            key.extend_from_slice(&meta.dims);
        }
    }
    for (slot, s) in call.op.outputs.iter().enumerate() {
        let outs = call.outs.slot(slot);
        if s.has(SlotFlag::Duplicable) {
            if s.alias.is_some() || outs.iter().any(|o| o.in_place) {
                return None;
            }
            key.push(outs.len() as i64);
            key.extend(outs.iter().map(|o| i64::from(o.wanted)));
            continue;
        }
        let out = outs.first();
        let input = s.alias.and_then(|name| call.op.input(name)).and_then(|i| call.ins.slot(i).first());
        let writable = match (input, out) {
            (Some(Value::Dense(t)), Some(out)) => out.in_place && t.device_may_write(),
            _ => false,
        };
        key.push(i64::from(out.is_some_and(|o| o.wanted)) | i64::from(writable) << 1);
    }
    Some(key)
}

/// Adds the levels of a LoD; `None` if it has more than `MOST_OFFSETS` offsets.
fn push_lod(key: &mut Key, lod: &[Vec<usize>]) -> Option<()> {
    if lod.iter().map(Vec::len).sum::<usize>() > MOST_OFFSETS {
        return None;
    }
    // No size of a dimension is negative: the levels of a tensor cannot be taken for the next one's.
    key.push(-2 - lod.len() as i64);
    for level in lod {
        key.push(level.len() as i64);
        key.extend(level.iter().map(|&at| at as i64));
    }
    Some(())
}
