//! Checks the inputs of a gradient operator against its forward operator. Backward and plans pass what the forward
//! operator left; a caller of the builtin may pass anything. The forward's shape rule, evaluated on the forward inputs
//! that the gradient operator has, states what `Out` and `Out@GRAD` must be.

use super::infer::{ShapeContext, ShapeInputs, VarKind};
use super::{Args, Attrs, Meta, Op, SlotFlag, Src};
use crate::bail;
use crate::base::{Dims, Result};

/// An error if the inputs of the gradient operator `op` fit none of the operators in `forwards`.
pub fn check(op: &'static Op, attrs: &Attrs, ins: &Args, forwards: &[&'static Op]) -> Result<()> {
    let mut result = Ok(());
    for fwd in forwards {
        result = fits(fwd, op, attrs, ins);
        if result.is_ok() {
            break;
        }
    }
    result
}

fn fits(fwd: &'static Op, op: &'static Op, attrs: &Attrs, ins: &Args) -> Result<()> {
    let Some(w) = fwd.wired() else { return Ok(()) };
    let slot_of = |src: Src| w.ins.iter().position(|s| *s == Some(src));
    let expected = outputs(fwd, op, attrs, ins, &slot_of)
        .map_err(|e| e.context(format!("[operator < {} >, of which {} is the gradient]", fwd.name, op.name)))?;
    for (slot, src) in w.ins.iter().enumerate() {
        // The variable that this one is the gradient of, or a value for.
        let (rule, origin, of) = match *src {
            Some(Src::In(i, _)) => (None, None, fwd.inputs[i].name),
            Some(Src::Out(o, _)) => (Some(o), None, fwd.outputs[o].name),
            Some(Src::GradOut(o, _)) => (Some(o), slot_of(Src::Out(o, None)), fwd.outputs[o].name),
            None => continue,
        };
        let named = || {
            let of = of.strip_suffix("@GRAD")?;
            let input = fwd.input(of).and_then(|i| slot_of(Src::In(i, None)));
            input.or(fwd.output(of).and_then(|o| slot_of(Src::Out(o, None))))
        };
        let like = origin.or_else(named);
        for (i, got) in ins.slot(slot).iter().enumerate() {
            let Some(got) = Meta::from_value(got) else { continue };
            let by_rule = rule.and_then(|o| expected.as_ref()?.slot(o).get(i)).filter(|m| m.known);
            let name = op.inputs[slot].name;
            if let Some(m) = by_rule {
                alike(op, name, &got, m, || format!("by the shape rule of {}", fwd.name))?;
            }
            let other = like.and_then(|s| Some((s, Meta::from_value(ins.slot(s).get(i)?)?)));
            if let Some((s, m)) = other {
                alike(op, name, &got, &m, || format!("like input '{}'", op.inputs[s].name))?;
            }
        }
    }
    Ok(())
}

/// The forward's outputs by its shape rule; `None` where the gradient operator lacks inputs that the rule reads.
fn outputs(
    fwd: &'static Op,
    op: &'static Op,
    attrs: &Attrs,
    ins: &Args,
    slot_of: &dyn Fn(Src) -> Option<usize>,
) -> Result<Option<Args<Meta>>> {
    if fwd.attrs.fields.iter().any(|f| f.required && op.attrs.field(f.name).is_none()) {
        return Ok(None);
    }
    let (mut values, mut metas) = (Args::new(), Args::new());
    let mut whole = true;
    for (i, s) in fwd.inputs.iter().enumerate() {
        let Some(slot) = slot_of(Src::In(i, None)) else {
            // `XShape` holds the shape of X.
            let shape = fwd.outputs.iter().position(|s| s.has(SlotFlag::ShapeOfFirst)).filter(|_| i == 0);
            let shape = shape.and_then(|o| ins.get(slot_of(Src::Out(o, None))?)).and_then(Meta::from_value);
            let Some(shape) = shape.filter(|m| !m.dims.is_empty()) else { return Ok(None) };
            metas.push_one(Some(Meta { dims: Dims::from_slice(&shape.dims[1..]), ..shape }));
            whole = false;
            continue;
        };
        let vars = ins.slot(slot);
        if vars.iter().any(|v| !v.is_none()) {
            values.push_slot(vars.iter().cloned());
            metas.push_slot(vars.iter().map(Meta::from_value));
        } else if s.has(SlotFlag::Dispensable) {
            values.push_slot([]);
            metas.push_slot([]);
        } else {
            return Ok(None);
        }
    }
    let mut outs: Args<Meta> = Args::new();
    for (o, s) in fwd.outputs.iter().enumerate() {
        let wired = slot_of(Src::GradOut(o, None)).or(slot_of(Src::Out(o, None)));
        let n = if s.has(SlotFlag::Duplicable) { wired.map_or(0, |k| ins.slot(k).len()) } else { 1 };
        outs.push_slot((0..n).map(|_| Meta::default()));
    }
    let attrs = fwd.attrs.convert(fwd.name, attrs)?;
    // Twice: as in a run, with LoD and values, and as in a Program, for outputs that the kernel allocates.
    if whole {
        infer(fwd, ShapeInputs::Values(&values), &attrs, &mut outs)?;
    }
    if outs.flat.iter().any(|m| !m.known) {
        let mut built = outs.map(|_| Meta::default());
        infer(fwd, ShapeInputs::Metas(&metas), &attrs, &mut built)?;
        let unknown = outs.flat.iter_mut().zip(built.flat).filter(|(m, _)| !m.known);
        unknown.for_each(|(m, b)| *m = b);
    }
    Ok(Some(outs))
}

fn infer(op: &'static Op, ins: ShapeInputs, attrs: &Attrs, outs: &mut Args<Meta>) -> Result<()> {
    (op.infer)(&mut ShapeContext { op, ins, attrs, outs, free_outs: false })
}

fn alike(op: &Op, name: &str, got: &Meta, expected: &Meta, why: impl Fn() -> String) -> Result<()> {
    let tensor = |m: &Meta| matches!(m.kind, VarKind::Dense | VarKind::Rows);
    if !tensor(got) || !tensor(expected) {
        return Ok(());
    }
    let same = |(a, b): (&i64, &i64)| a == b || *a < 0 || *b < 0;
    let fits = got.dims.len() == expected.dims.len() && got.dims.iter().zip(&expected.dims).all(same);
    if !fits {
        bail!(
            InvalidArgument,
            "operator {}: input '{name}' must have the shape {:?} ({}), got {:?}",
            op.name,
            &expected.dims[..],
            why(),
            &got.dims[..]
        );
    }
    if got.dtype != expected.dtype {
        bail!(
            InvalidArgument,
            "operator {}: input '{name}' must be {} ({}), got {}",
            op.name,
            expected.dtype,
            why(),
            got.dtype
        );
    }
    Ok(())
}
