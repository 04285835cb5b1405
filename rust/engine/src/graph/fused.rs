//! Runs a group of elementwise steps as one loop over memory. Every condition is checked first; if the operands of a
//! run do not fit, nothing has happened and the steps run one by one, with their own errors.

use super::plan::ExecutionPlan;
use super::plan::{External, Group, GroupStep, Source};
use super::state::State;
use half::{bf16, f16};
use oar_core::base::shape::to_usize;
use oar_core::base::{DType, Dims};
use oar_core::dispatch;
use oar_core::op::infer::{Meta, ShapeContext, ShapeInputs, VarKind};
use oar_core::op::pointwise::Operand;
use oar_core::tensor::{Tensor, Value};
use oar_kernels::formula::fused::{self, Input, Output};
use oar_kernels::shape::strides::broadcast_strides;
use smallvec::SmallVec;

/// With fewer bytes a single operator does not write over its operand: it saves little memory, and in the caches
/// copying a tile first costs more than a second buffer.
const ALONE: usize = 8 << 20;
/// With fewer bytes a short chain stays in the first caches anyway: its steps run one by one.
const SHORT: usize = 64 << 10;
const FEW_LANES: usize = 3;

type List<T> = SmallVec<[T; 4]>;

/// Runs the group, or returns false without effect.
pub fn run(group: &Group, plan: &ExecutionPlan, state: &State, always: bool) -> bool {
    let Value::Dense(probe) = state.read(group.externals[group.probe].var) else { return false };
    let (dtype, bytes) = (probe.dtype(), probe.nbytes());
    let small = match (group.parts.len(), group.chain.lanes().len()) {
        (1, _) => bytes < ALONE,
        (_, lanes) => lanes <= FEW_LANES && bytes < SHORT,
    };
    if !dtype.is_float() || (small && !always) {
        return false;
    }
    drop(probe);
    let mut externals: List<Value> = List::new();
    for e in &group.externals {
        match state.read(e.var) {
            value @ Value::Dense(_) => externals.push(value),
            _ => return false,
        }
    }
    let Some((dims, made)) = shapes(group, plan, state, dtype) else { return false };
    let Some(inner) = group.externals.iter().zip(&externals).map(|(e, v)| place(e, v, dtype, &dims)).collect() else {
        return false;
    };
    compute(group, state, externals, inner, made, dtype, &dims).is_some()
}

/// The shape of the group and the meta of every value in it, by the shape rules of its steps.
fn shapes(group: &Group, plan: &ExecutionPlan, state: &State, dtype: DType) -> Option<(Dims, List<Value>)> {
    let mut made: List<Value> = List::new();
    let mut dims: Option<Dims> = None;
    for (GroupStep { ins, made: outs }, step) in group.parts.iter().zip(&plan.steps[group.steps.clone()]) {
        let value = |s: &Source| match *s {
            Source::Absent => Value::None,
            Source::State(v) => state.read(v),
            Source::Made(m) => made[m as usize].clone(),
        };
        let ins = ins.map(value);
        let mut metas = step.outs.map(|_| Meta::default());
        let mut cx = ShapeContext {
            op: step.op,
            ins: ShapeInputs::Values(&ins),
            attrs: &step.attrs,
            outs: &mut metas,
            free_outs: false,
        };
        (step.op.infer)(&mut cx).ok()?;
        let before = made.len();
        for out in outs {
            let meta = &mut metas.flat[out.out];
            let like = match out.like.as_ref() {
                // A step cannot read its own value.
                Some(Source::Made(m)) if *m as usize >= before => return None,
                Some(source) => Some(match *source {
                    Source::Absent => Value::None,
                    Source::State(v) => state.read(v),
                    Source::Made(m) => made[m as usize].clone(),
                }),
                None => None,
            };
            let (shape, lod) = match (&like, meta.known) {
                (Some(Value::Dense(t)), _) => (Dims::from_slice(t.dims()), t.lod.clone()),
                (None, true) if meta.kind == VarKind::Dense && meta.dtype == dtype => {
                    (Dims::from_slice(&meta.dims), meta.lod.take())
                }
                _ => return None,
            };
            if dims.get_or_insert_with(|| shape.clone()) != &shape {
                return None;
            }
            made.push(Value::Dense(Tensor::shape_only(dtype, &shape).ok()?.with_lod(lod)));
        }
    }
    Some((dims?, made))
}

/// How often each element of an operand is repeated along the result; `None` if the operand does not fit the group.
fn place(e: &External, value: &Value, dtype: DType, dims: &[i64]) -> Option<usize> {
    let t = value.as_dense()?;
    if t.dtype() != dtype || !t.has_bytes() || t.on_device().is_some() {
        return None;
    }
    if t.dims() == dims {
        return Some(1);
    }
    let axis = e.axis?;
    let at = (axis != -1 && t.rank() < dims.len()).then_some(axis as usize);
    let (from, to) = (to_usize(t.dims()), to_usize(dims));
    let strides = broadcast_strides(&from, &to, at)?;
    // Repeated elements, then the operand's own in order, then repeated ones.
    let (mut inner, mut step, mut own) = (1, 1, false);
    for (&stride, &size) in strides.iter().zip(&to).rev() {
        match stride {
            _ if size == 1 => {}
            0 if !own => inner *= size,
            0 => step = isize::MAX,
            s if s == step => {
                own = true;
                step *= size as isize;
            }
            _ => return None,
        }
    }
    (t.numel() > 0).then_some(inner)
}

fn compute(
    group: &Group,
    state: &State,
    mut externals: List<Value>,
    inner: List<usize>,
    made: List<Value>,
    dtype: DType,
    dims: &[i64],
) -> Option<()> {
    let n = made[0].as_dense()?.numel();
    if n == 0 {
        return None;
    }
    let from = |m: usize| group.parts.iter().flat_map(|p| &p.made).nth(m).map(|made| made.from);
    // The lanes whose results are kept; two names may share one.
    let mut lanes: List<u16> = List::new();
    for store in group.stores.iter().filter(|s| !s.shape_only) {
        match from(store.made)? {
            Operand::Lane(l) if !lanes.contains(&l) => lanes.push(l),
            Operand::Lane(_) | Operand::Input(_) => {}
            Operand::Zero => return None,
        }
    }
    // Operands that are not read any more, and not referenced elsewhere, give their bytes to results.
    let mut over: List<u16> = List::new();
    for (i, e) in group.externals.iter().enumerate().filter(|(_, e)| e.take) {
        if over.len() == lanes.len() {
            break;
        }
        externals[i] = Value::None;
        externals[i] = state.take(e.var);
        let whole = |t: &Tensor| {
            t.dims() == dims && t.buffer().len() == t.nbytes() && t.buffer().is_unique() && !t.buffer().is_pinned()
        };
        match &externals[i] {
            Value::Dense(t) if whole(t) => over.push(i as u16),
            value => state.set(e.var, value.clone()),
        }
    }
    let mut results: List<Tensor> = List::new();
    for k in 0..lanes.len() {
        let fresh = match over.get(k) {
            Some(&i) => match std::mem::take(&mut externals[i as usize]) {
                Value::Dense(t) => Ok(t),
                _ => unreachable!("only dense operands are taken"),
            },
            None => Tensor::empty(dtype, dims),
        };
        match fresh {
            Ok(t) => results.push(t),
            Err(_) => {
                // Out of memory: the steps, one by one, may need less.
                for (&i, t) in over.iter().zip(results) {
                    state.set(group.externals[i as usize].var, Value::Dense(t));
                }
                return None;
            }
        }
    }
    dispatch!(dtype, T in [f32, f64, f16, bf16], {
        let inputs: List<Input<T>> = externals
            .iter()
            .zip(&inner)
            .map(|(v, &inner)| Input { data: v.as_dense().map_or(&[][..], |t| t.data::<T>()), inner })
            .collect();
        let mut outputs: List<Output<T>> = List::new();
        for (k, (t, &lane)) in results.iter_mut().zip(&lanes).enumerate() {
            outputs.push(Output { lane, data: t.data_mut::<T>().ok()?, over: over.get(k).copied() });
        }
        if !outputs.is_empty() {
            fused::run(&group.chain, &inputs, &mut outputs, n);
        }
    }, _other => return None);
    for (k, &i) in over.iter().enumerate() {
        let var = group.externals[i as usize].var;
        if group.release.contains(&var) {
            let shape = Tensor::shape_only(dtype, dims).ok()?.with_lod(results[k].lod.take());
            state.set(var, Value::Dense(shape));
        }
    }
    for store in &group.stores {
        let Value::Dense(shape) = &made[store.made] else { continue };
        let value = match from(store.made)? {
            _ if store.shape_only => shape.clone(),
            Operand::Lane(l) => {
                let at = lanes.iter().position(|&kept| kept == l)?;
                results[at].clone().with_lod(shape.lod.clone())
            }
            Operand::Input(i) => externals[i as usize].as_dense()?.clone().with_lod(shape.lod.clone()),
            Operand::Zero => return None,
        };
        state.set(store.var, Value::Dense(value));
    }
    Some(())
}
