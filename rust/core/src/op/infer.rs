//! Shape rules. One rule serves the building of a Program (sizes may be -1, no values) and every run.

use super::{Args, Attrs, InSlot, Op, OutSlot};
use crate::base::{DType, Dims, Result};
use crate::tensor::{Lod, Tensor, Value};
use crate::{bail, ensure};
use std::sync::Arc;

/// What a shape rule knows of a variable: everything but its elements.
#[derive(Clone, Debug)]
pub struct Meta {
    pub dims: Dims,
    pub dtype: DType,
    pub kind: VarKind,
    /// While building: levels of the LoD. In a run `lod` is set instead.
    pub lod_level: i32,
    pub lod: Option<Arc<Lod>>,
    /// False for an output before its rule ran.
    pub known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarKind {
    Dense,
    Rows,
    Array,
    Other,
}

impl Default for Meta {
    fn default() -> Meta {
        Meta { dims: Dims::new(), dtype: DType::F32, kind: VarKind::Dense, lod_level: 0, lod: None, known: false }
    }
}

impl Meta {
    /// Bytes of the elements; unknown sizes count as 0.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.dims.iter().fold(self.dtype.size(), |n, &d| n.saturating_mul(d.max(0) as usize))
    }

    pub fn from_value(value: &Value) -> Option<Meta> {
        let (t, kind) = match value {
            Value::None => return None,
            Value::Dense(t) => (t, VarKind::Dense),
            Value::Rows(r) => (&r.value, VarKind::Rows),
            Value::Array(_) => return Some(Meta { kind: VarKind::Array, known: true, ..Meta::default() }),
            _ => return Some(Meta { kind: VarKind::Other, known: true, ..Meta::default() }),
        };
        let mut dims = Dims::from_slice(t.dims());
        if let Value::Rows(r) = value {
            dims[0] = r.height; // the height of the whole matrix
        }
        let lod_level = t.lod.as_ref().map_or(0, |l| l.len() as i32);
        Some(Meta { dims, dtype: t.dtype(), kind, lod_level, lod: t.lod.clone(), known: true })
    }
}

/// The source of the inputs' metas: values of a run, or variables of a Program being built.
#[derive(Clone, Copy)]
pub enum ShapeInputs<'a> {
    Values(&'a Args),
    Metas(&'a Args<Option<Meta>>),
}

/// Bound of the number of variables of a duplicable output.
const MOST_OUTPUTS: usize = 1 << 20;

/// A call of a shape rule: reads inputs and attributes, sets the outputs' metas.
pub struct ShapeContext<'a> {
    pub op: &'static Op,
    pub ins: ShapeInputs<'a>,
    pub attrs: &'a Attrs,
    pub outs: &'a mut Args<Meta>,
    /// Eager calls: the number of variables of a duplicable output follows from the inputs.
    pub free_outs: bool,
}

impl<'a> ShapeContext<'a> {
    #[inline]
    pub fn attrs<A: 'static>(&self) -> &'a A {
        self.attrs.as_any().downcast_ref().expect("attributes of another operator")
    }

    pub fn has(&self, slot: InSlot) -> bool {
        let slot = slot.0;
        match self.ins {
            ShapeInputs::Values(a) => a.get(slot).is_some(),
            ShapeInputs::Metas(a) => a.slot(slot).first().is_some_and(Option::is_some),
        }
    }

    /// Number of variables in an input slot.
    pub fn count(&self, slot: InSlot) -> usize {
        let slot = slot.0;
        match self.ins {
            ShapeInputs::Values(a) => a.slot(slot).len(),
            ShapeInputs::Metas(a) => a.slot(slot).len(),
        }
    }

    pub fn meta(&self, slot: InSlot, i: usize) -> Result<Meta> {
        let slot = slot.0;
        let meta = match self.ins {
            ShapeInputs::Values(a) => a.slot(slot).get(i).and_then(Meta::from_value),
            ShapeInputs::Metas(a) => a.slot(slot).get(i).cloned().flatten(),
        };
        match meta {
            Some(meta) => Ok(meta),
            None => Err(self.missing(slot)),
        }
    }

    fn missing(&self, slot: usize) -> crate::base::Error {
        let name = self.op.inputs.get(slot).map_or("?", |s| s.name);
        crate::err!(NoValue, "operator {}: input '{name}' is required but holds no value", self.op.name)
    }

    /// Sizes of an input; SelectedRows have those of the whole matrix.
    #[inline]
    pub fn dims(&self, slot: InSlot) -> Result<Dims> {
        if let ShapeInputs::Values(a) = self.ins {
            if let Some(t) = a.tensor(slot.0) {
                return Ok(Dims::from_slice(t.dims()));
            }
        }
        Ok(self.meta(slot, 0)?.dims)
    }

    #[inline]
    pub fn dtype(&self, slot: InSlot) -> Result<DType> {
        if let ShapeInputs::Values(a) = self.ins {
            if let Some(t) = a.tensor(slot.0) {
                return Ok(t.dtype());
            }
        }
        Ok(self.meta(slot, 0)?.dtype)
    }

    /// The input's tensor in a run; `None` while a Program is built.
    pub fn tensor(&self, slot: InSlot) -> Option<&'a Tensor> {
        let slot = slot.0;
        match self.ins {
            ShapeInputs::Values(a) => a.tensor(slot),
            ShapeInputs::Metas(_) => None,
        }
    }

    pub fn tensors(&self, slot: InSlot) -> Option<Vec<&'a Tensor>> {
        let slot = slot.0;
        match self.ins {
            ShapeInputs::Values(a) => a.slot(slot).iter().map(Value::as_dense).collect(),
            ShapeInputs::Metas(_) => None,
        }
    }

    /// The items of an input's LoDTensorArray in a run; `None` for other inputs.
    pub fn items(&self, slot: InSlot) -> Option<&'a [Value]> {
        match (self.ins, slot) {
            (ShapeInputs::Values(a), InSlot(slot)) => match a.get(slot)? {
                Value::Array(items) => Some(items),
                _ => None,
            },
            (ShapeInputs::Metas(_), _) => None,
        }
    }

    /// Number of variables in an output slot.
    pub fn outs(&self, slot: OutSlot) -> usize {
        let slot = slot.0;
        self.outs.slot(slot).len()
    }

    /// Sets the number of variables of a duplicable output; where the caller named them the number must agree.
    pub fn set_outs(&mut self, slot: OutSlot, n: usize) -> Result<()> {
        let slot = slot.0;
        if self.free_outs {
            // An attribute may hold any number.
            ensure!(
                n <= MOST_OUTPUTS,
                ResourceExhausted,
                "operator {}: {n} outputs are more than {MOST_OUTPUTS}, the most that there can be",
                self.op.name
            );
            self.outs.resize_slot(slot, n, Meta::default);
        }
        let got = self.outs.slot(slot).len();
        ensure!(
            got == n || got == 0,
            InvalidArgument,
            "operator {}: output '{}' must have {n} variables, got {got}",
            self.op.name,
            self.op.outputs[slot].name
        );
        Ok(())
    }

    #[inline]
    pub fn set(&mut self, slot: OutSlot, dims: &[i64], dtype: DType) {
        self.set_nth(slot, 0, dims, dtype);
    }

    /// Outputs of one shape and data type.
    pub fn set_each(&mut self, slots: &[OutSlot], dims: &[i64], dtype: DType) {
        slots.iter().for_each(|&slot| self.set(slot, dims, dtype));
    }

    #[inline]
    pub fn set_nth(&mut self, slot: OutSlot, i: usize, dims: &[i64], dtype: DType) {
        let slot = slot.0;
        if let Some(m) = self.outs.slot_mut(slot).get_mut(i) {
            (m.dims, m.dtype, m.known) = (Dims::from_slice(dims), dtype, true);
        }
    }

    pub fn set_meta(&mut self, slot: OutSlot, i: usize, meta: Meta) {
        let slot = slot.0;
        if let Some(m) = self.outs.slot_mut(slot).get_mut(i) {
            *m = meta;
            m.known = true;
        }
    }

    /// The output has a LoD of this many levels, which the kernel sets.
    pub fn set_levels(&mut self, slot: OutSlot, levels: i32) {
        if let ShapeInputs::Metas(_) = self.ins {
            self.outs.slot_mut(slot.0).iter_mut().for_each(|m| m.lod_level = levels);
        }
    }

    /// The output has the shape and dtype of an input.
    #[inline]
    pub fn like(&mut self, slot: OutSlot, input: InSlot) -> Result<()> {
        let (dims, dtype) = (self.dims(input)?, self.dtype(input)?);
        self.set(slot, &dims, dtype);
        Ok(())
    }

    /// The output has the LoD of an input (Paddle: ShareLoD).
    #[inline]
    pub fn share_lod(&mut self, slot: OutSlot, input: InSlot) {
        let (slot, input) = (slot.0, input.0);
        let (lod, level) = match self.ins {
            ShapeInputs::Values(a) => match a.tensor(input).and_then(|t| t.lod.clone()) {
                Some(lod) => (Some(lod), 0),
                None => return,
            },
            ShapeInputs::Metas(a) => (None, a.slot(input).first().and_then(|m| m.as_ref()).map_or(0, |m| m.lod_level)),
        };
        for m in self.outs.slot_mut(slot) {
            (m.lod, m.lod_level) = (lod.clone(), level);
        }
    }

    /// An error unless the input has this shape. A size of -1 matches any.
    pub fn shaped(&self, slot: InSlot, dims: &[i64]) -> Result<()> {
        let got = self.dims(slot)?;
        let agrees = |(&a, &b): (&i64, &i64)| a == b || a < 0 || b < 0;
        if got.len() == dims.len() && got.iter().zip(dims).all(agrees) {
            return Ok(());
        }
        self.wrong(slot, &format!("of shape {dims:?}"))
    }

    /// As [`ShapeContext::shaped`], but checked in runs only: Programs may declare other shapes.
    pub fn shaped_in_run(&self, slot: InSlot, dims: &[i64]) -> Result<()> {
        match self.tensor(slot) {
            Some(_) => self.shaped(slot, dims),
            None => self.meta(slot, 0).map(|_| ()),
        }
    }

    /// The error of an unsuitable input.
    pub fn wrong<T>(&self, slot: InSlot, expected: &str) -> Result<T> {
        let got = match self.meta(slot, 0) {
            Ok(m) => format!("{} of shape {:?}", m.dtype, &m.dims[..]),
            Err(_) => "nothing".to_string(),
        };
        bail!(
            InvalidArgument,
            "operator {}: input '{}' must be {expected}, got {got}",
            self.op.name,
            self.op.inputs[slot.0].name
        )
    }
}

/// The shape of `XShape`: a 0, so that it has no elements, then the sizes of X.
pub fn shape_of_first(x: &[i64]) -> Dims {
    let mut dims = Dims::from_slice(&[0]);
    dims.extend_from_slice(x);
    dims
}

/// The rule of an operator without outputs.
pub fn nothing(_: &mut ShapeContext) -> Result<()> {
    Ok(())
}

/// `Out` (slot 0) has shape and dtype of the first input and shares its LoD.
pub fn like_first(cx: &mut ShapeContext) -> Result<()> {
    cx.like(OutSlot(0), InSlot(0))?;
    cx.share_lod(OutSlot(0), InSlot(0));
    Ok(())
}

/// `Out` (slot 0) has kind (dense, SelectedRows, array), shape, dtype and LoD of the first input.
pub fn kind_of_first(cx: &mut ShapeContext) -> Result<()> {
    let m = cx.meta(InSlot(0), 0)?;
    cx.set_meta(OutSlot(0), 0, m);
    Ok(())
}

/// Every output `X@GRAD` has the meta of the input `X` of the same gradient operator.
pub fn grads_like_inputs(cx: &mut ShapeContext) -> Result<()> {
    for (o, out) in cx.op.outputs.iter().enumerate() {
        let Some(input) = out.name.strip_suffix("@GRAD").and_then(|n| cx.op.input(n)) else { continue };
        let (o, input) = (OutSlot(o), InSlot(input));
        for i in 0..cx.outs(o) {
            let m = cx.meta(input, i.min(cx.count(input).saturating_sub(1)))?;
            cx.set_meta(o, i, m);
        }
    }
    Ok(())
}

/// `X@GRAD` (slot 0) is like `Out@GRAD`, for gradient operators that keep only the output; the slot is found by name.
pub fn like_out_grad(cx: &mut ShapeContext) -> Result<()> {
    let from = InSlot(cx.op.inputs.iter().position(|s| s.name.ends_with("@GRAD")).unwrap_or(0));
    cx.like(OutSlot(0), from)?;
    cx.share_lod(OutSlot(0), from);
    Ok(())
}
