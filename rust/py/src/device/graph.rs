//! CUDA graphs of what recipes start: a thread keeps the steps that it replays, with their arguments, in memory of an
//! arena; they are captured afterwards, when none allocates or waits.

use super::driver::{Arena, Block, Driver};
use oar_core::bail;
use oar_core::base::Result;
use oar_core::op::backend::{DeviceCall, Graph};
use oar_core::tensor::{generator, Tensor, Value};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// Steps of a recipe that is worth a graph, and the most memory that graphs of recipes may hold.
pub const LONG: usize = 64;
const MOST_BYTES: usize = 2 << 30;
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// The bits of the arguments of a step.
pub type Values = SmallVec<[u64; 24]>;

/// Steps that graphs start.
pub trait Started: Send + Sync {
    /// Starts a step with the bits of its arguments. Call it within the context.
    fn start(&self, number: usize, values: &mut Values, driver: &Driver) -> Result<()>;
    /// The kernel of a step; 0 for a function of a library.
    fn function(&self, number: usize) -> usize;
}

/// A recipe, as graphs start it.
pub trait Replayed: Started {
    /// Starts all steps with operands (slot, position in it) and buffers at these addresses. Call it within the context.
    fn start_all(&self, driver: &Driver, input: &dyn Fn(u32, u32) -> u64, buffer: &dyn Fn(usize) -> u64) -> Result<()>;
    /// The operands that steps read: slot, position in it, bytes.
    fn operands(&self, call: &DeviceCall) -> Vec<(u32, u32, usize)>;
    /// The buffers: whether each is a result, its bytes.
    fn buffers(&self) -> Vec<(bool, usize)>;
}

/// The address of an operand.
pub fn address(call: &DeviceCall, slot: u32, at: u32) -> Result<u64> {
    let value = call.ins.slot(slot as usize).get(at as usize).and_then(Value::elements);
    match value.and_then(Tensor::on_device) {
        Some((memory, offset)) => Ok((memory.address() + offset) as u64),
        None => bail!(Fatal, "operator {}: input {at} of slot {slot} is not on the device", call.op.name),
    }
}

/// A step that was started.
pub struct Kept {
    recipe: Arc<dyn Started>,
    number: usize,
    values: Values,
    /// The arguments that are drawn anew each time.
    drawn: Drawn,
}

pub type Drawn = SmallVec<[usize; 2]>;

impl Kept {
    pub fn new(recipe: Arc<dyn Started>, number: usize, values: Values) -> Kept {
        Kept { recipe, number, values, drawn: Drawn::new() }
    }

    /// The kernel, and the bits of its arguments.
    pub fn launched(&self) -> (usize, &[u64]) {
        (self.recipe.function(self.number), &self.values)
    }

    fn start(&self, driver: &Driver) -> Result<()> {
        let mut values = self.values.clone();
        for &i in &self.drawn {
            values[i] = generator::next_u64();
        }
        self.recipe.start(self.number, &mut values, driver)
    }
}

struct Keeping {
    driver: Arc<Driver>,
    device: i32,
    arena: Arc<Arena>,
    steps: Vec<Kept>,
    /// Since `kept` was called something happened that a graph does not repeat.
    is_broken: bool,
}

thread_local! {
    static STARTED: RefCell<Option<Keeping>> = const { RefCell::new(None) };
}

/// Keeps what this thread starts on a device from now on; false if it does so already.
pub fn keep(driver: Arc<Driver>, device: i32) -> bool {
    if is_on() {
        return false;
    }
    let arena = Arena::new(driver.clone());
    Arena::serve(Some(arena.clone()));
    STARTED.replace(Some(Keeping { driver, device, arena, steps: Vec::new(), is_broken: false }));
    true
}

pub fn is_on() -> bool {
    STARTED.with_borrow(Option::is_some)
}

pub fn step(recipe: Arc<dyn Started>, number: usize, values: &Values, drawn: Drawn) {
    STARTED.with_borrow_mut(|s| {
        if let Some(s) = s {
            s.steps.push(Kept { recipe, number, values: values.clone(), drawn });
        }
    });
}

/// Something was started, copied or read that a graph does not repeat.
pub fn spoil() {
    STARTED.with_borrow_mut(|s| {
        if let Some(s) = s {
            s.is_broken = true;
        }
    });
}

/// Runs `f`, of which nothing is kept.
pub fn unkept<R>(f: impl FnOnce() -> R) -> R {
    struct Paused(Option<Keeping>);

    impl Drop for Paused {
        fn drop(&mut self) {
            if let Some(mut keeping) = self.0.take() {
                keeping.is_broken = true;
                Arena::serve(Some(keeping.arena.clone()));
                STARTED.replace(Some(keeping));
            }
        }
    }

    let _paused = Paused(STARTED.take());
    Arena::serve(None);
    f()
}

/// The steps kept so far; `None` if something was spoilt since the last call.
pub fn kept() -> Option<usize> {
    STARTED.with_borrow_mut(|s| {
        let s = s.as_mut()?;
        (!std::mem::take(&mut s.is_broken)).then_some(s.steps.len())
    })
}

/// Steps of a graph that is worth one: fewer are started one by one.
const SHORT: usize = 3;

/// Steps of a device in fewer launches.
pub type Join<'a> = &'a dyn Fn(i32, Vec<Kept>) -> Result<Vec<Kept>>;

/// Ends `keep`: each range of the steps as a graph, of what `join` makes of them.
pub fn captured(parts: &[Range<usize>], join: Join) -> Result<Vec<Arc<dyn Graph>>> {
    Arena::serve(None);
    let Some(Keeping { driver, device, arena, steps, .. }) = STARTED.take() else { return Ok(Vec::new()) };
    let mut steps = steps.into_iter().enumerate().peekable();
    let mut graphs: Vec<Arc<dyn Graph>> = Vec::new();
    for part in parts {
        while steps.next_if(|(i, _)| *i < part.start).is_some() {}
        let mut own = Vec::new();
        while let Some((_, step)) = steps.next_if(|(i, _)| *i < part.end) {
            own.push(step);
        }
        graphs.push(Arc::new(Instance::new(&driver, &arena, own, &|steps| join(device, steps))?));
    }
    Ok(graphs)
}

/// What a graph starts at once, or step by step: arguments of a graph cannot be drawn.
enum Piece {
    Graph(usize),
    Steps(Vec<Kept>),
}

struct Instance {
    driver: Arc<Driver>,
    pieces: Vec<Piece>,
    /// What graphs start, and with it the memory that its kernels read.
    started: Vec<Arc<dyn Started>>,
    /// The memory of results and temporary values.
    _arena: Arc<Arena>,
}

impl Instance {
    fn new(
        driver: &Arc<Driver>,
        arena: &Arc<Arena>,
        steps: Vec<Kept>,
        join: &dyn Fn(Vec<Kept>) -> Result<Vec<Kept>>,
    ) -> Result<Instance> {
        let mut made =
            Instance { driver: driver.clone(), pieces: Vec::new(), started: Vec::new(), _arena: arena.clone() };
        let mut fixed = Vec::new();
        for step in steps {
            if step.drawn.is_empty() {
                fixed.push(step);
                continue;
            }
            made.add(join(std::mem::take(&mut fixed))?)?;
            made.add_steps(vec![step]);
        }
        made.add(join(fixed)?)?;
        Ok(made)
    }

    fn add_steps(&mut self, steps: Vec<Kept>) {
        match self.pieces.last_mut() {
            Some(Piece::Steps(before)) => before.extend(steps),
            _ => self.pieces.push(Piece::Steps(steps)),
        }
    }

    fn add(&mut self, steps: Vec<Kept>) -> Result<()> {
        match steps.len() {
            0 => {}
            1..SHORT => self.add_steps(steps),
            _ => {
                let driver = self.driver.clone();
                let graph = driver.capture(&mut || steps.iter().try_for_each(|step| step.start(&driver)))?;
                self.pieces.push(Piece::Graph(graph));
                self.started.extend(steps.into_iter().map(|step| step.recipe));
            }
        }
        Ok(())
    }
}

impl Graph for Instance {
    fn launch(&self) -> Result<()> {
        for piece in &self.pieces {
            match piece {
                Piece::Graph(graph) => self.driver.start_graph(*graph)?,
                Piece::Steps(steps) => {
                    self.driver.within(|| steps.iter().try_for_each(|step| step.start(&self.driver)))?
                }
            }
        }
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        for piece in &self.pieces {
            if let Piece::Graph(graph) = piece {
                self.driver.free_graph(*graph);
            }
        }
    }
}

/// A long recipe as a graph, with memory of its own for operands, results and temporary values: operands are copied to
/// it, results from it.
pub struct Fixed {
    driver: Arc<Driver>,
    graph: usize,
    /// Operands: slot, position in it, memory, bytes.
    inputs: Vec<(u32, u32, Arc<Block>, usize)>,
    /// The buffers of the recipe; whether each is a result, its bytes.
    buffers: Vec<(Arc<Block>, bool, usize)>,
    bytes: usize,
}

impl Fixed {
    /// Captures a recipe for calls with the operands of this one; `None` if graphs hold too much memory.
    pub fn new(recipe: &dyn Replayed, call: &DeviceCall, driver: &Arc<Driver>) -> Result<Option<Fixed>> {
        let (operands, buffers) = (recipe.operands(call), recipe.buffers());
        let bytes: usize = operands.iter().map(|o| o.2).chain(buffers.iter().map(|b| b.1)).sum();
        if BYTES.load(Relaxed) + bytes > MOST_BYTES {
            return Ok(None);
        }
        let (inputs, buffers) = driver.within(|| {
            let input = |(slot, at, bytes)| Ok((slot, at, driver.alloc(bytes)?, bytes));
            let buffer = |(is_result, bytes)| Ok((driver.alloc(bytes)?, is_result, bytes));
            let inputs = operands.into_iter().map(input).collect::<Result<Vec<_>>>()?;
            Ok((inputs, buffers.into_iter().map(buffer).collect::<Result<Vec<_>>>()?))
        })?;
        let place = |slot, at| inputs.iter().find(|i| (i.0, i.1) == (slot, at)).map_or(0, |i| i.2.address);
        let at = |i: usize| buffers[i].0.address;
        let graph = driver.capture(&mut || recipe.start_all(driver, &place, &at))?;
        BYTES.fetch_add(bytes, Relaxed);
        Ok(Some(Fixed { driver: driver.clone(), graph, inputs, buffers, bytes }))
    }

    /// Runs it on the operands of a call; returns the buffers, of which results are new memory.
    pub fn run(&self, call: &DeviceCall) -> Result<SmallVec<[Arc<Block>; 4]>> {
        let driver = &self.driver;
        driver.within(|| {
            for (slot, at, to, bytes) in &self.inputs {
                // SAFETY: the key of the recipe holds the sizes of the operands.
                unsafe { driver.copy(to.address, address(call, *slot, *at)?, *bytes)? };
            }
            driver.start_graph(self.graph)?;
            let result = |(held, is_result, bytes): &(Arc<Block>, bool, usize)| {
                if !is_result {
                    return Ok(held.clone());
                }
                let own = driver.alloc(*bytes)?;
                if *bytes > 0 {
                    // SAFETY: both blocks have as many bytes.
                    unsafe { driver.copy(own.address, held.address, *bytes)? };
                }
                Ok(own)
            };
            self.buffers.iter().map(result).collect()
        })
    }
}

impl Drop for Fixed {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.bytes, Relaxed);
        self.driver.free_graph(self.graph);
    }
}
