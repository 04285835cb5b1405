//! The gradient operators of an OpDesc, as OpDescs: the tape's wiring, by name.

use super::bind::find_op;
use oar_core::base::Result;
use oar_core::ir::desc::OpDesc;
use oar_core::ir::names::{grad_name, EMPTY, SUFFIX};
use oar_core::ir::BlockNode;
use oar_core::op::attrs::to_map;
use oar_core::op::{Dst, Fwd, Grad, Src};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Attributes that a gradient operator inherits.
const INHERITED: [&str; 3] = ["op_callstack", "op_device", "op_namescope"];

/// The gradient operators and, for each gradient variable they write, the forward variable it belongs to.
pub fn grad_descs(
    desc: &OpDesc,
    no_grad: &HashSet<String>,
    grad_blocks: &[Arc<BlockNode>],
) -> Result<(Vec<OpDesc>, BTreeMap<String, String>)> {
    let op = find_op(&desc.op_type)?;
    let mut descs = match op.grad {
        Grad::None => Vec::new(),
        Grad::Program(make) => make(desc, no_grad, grad_blocks)?,
        _ => by_table(op, desc, no_grad)?,
    };
    let mut owners = BTreeMap::new();
    for g in &mut descs {
        for name in INHERITED {
            if let (Some(v), None) = (desc.attrs.get(name), g.attrs.get(name)) {
                g.attrs.insert(name.to_string(), v.clone());
            }
        }
        for (_, names) in &g.outputs {
            for n in names {
                if let Some(owner) = n.strip_suffix(SUFFIX) {
                    owners.insert(n.clone(), owner.to_string());
                }
            }
        }
    }
    Ok((descs, owners))
}

fn by_table(op: &'static oar_core::op::Op, desc: &OpDesc, no_grad: &HashSet<String>) -> Result<Vec<OpDesc>> {
    let attrs = op.attrs.parse(op.name, &desc.attrs)?;
    let ins: Vec<&[String]> = op.inputs.iter().map(|s| desc.input(s.name).unwrap_or(&[])).collect();
    let outs: Vec<&[String]> = op.outputs.iter().map(|s| desc.output(s.name).unwrap_or(&[])).collect();
    let n_ins: Vec<usize> = ins.iter().map(|s| s.len()).collect();
    let n_outs: Vec<usize> = outs.iter().map(|s| s.len()).collect();
    let wanted = |name: &String| name != EMPTY && !no_grad.contains(&grad_name(name));
    let needs = |slot: usize, i: usize| ins[slot].get(i).is_some_and(wanted);
    let grads = op.grad_ops(&Fwd { op, attrs: &attrs, ins: &n_ins, outs: &n_outs, needs: &needs })?;
    let pick = |names: &[String], i: Option<usize>| -> Vec<String> {
        match i {
            Some(i) => names.get(i..i + 1).unwrap_or(&[]).to_vec(),
            None => names.to_vec(),
        }
    };
    let mut descs = Vec::new();
    for g in grads {
        let mut d = OpDesc::new(g.op.name);
        for (slot, srcs) in g.op.inputs.iter().zip(&g.ins) {
            let names: Vec<String> = srcs
                .iter()
                .flat_map(|src| match *src {
                    Src::In(s, i) => pick(ins[s], i),
                    Src::Out(s, i) => pick(outs[s], i),
                    Src::GradOut(s, i) => pick(outs[s], i).iter().map(|n| grad_name(n)).collect(),
                })
                .collect();
            if !names.is_empty() {
                d.set_input(slot.name, names);
            }
        }
        let mut any = false;
        for (slot, dsts) in g.op.outputs.iter().zip(&g.outs) {
            let names: Vec<String> = dsts
                .iter()
                .flat_map(|&Dst(s, i)| pick(ins[s], i))
                .map(|n| if wanted(&n) { grad_name(&n) } else { EMPTY.to_string() })
                .collect();
            any |= names.iter().any(|n| n != EMPTY);
            if !names.is_empty() {
                d.set_output(slot.name, names);
            }
        }
        if any {
            d.attrs = to_map(&g.attrs);
            descs.push(d);
        }
    }
    Ok(descs)
}
