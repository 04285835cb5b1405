//! Binds OpDescs to the operator table while a Program is built: attributes, kinds, shapes.

use oar_core::base::{DType, Dims, Result};
use oar_core::ir::desc::{OpDesc, VarKind as IrKind};
use oar_core::ir::hooks::{self, Hooks};
use oar_core::ir::{AttrType, BlockNode, OpNode};
use oar_core::op::infer::{Meta, ShapeContext, ShapeInputs, VarKind};
use oar_core::op::table;
use oar_core::op::{Args, Op, SlotFlag};

/// Connects Programs to the operator table.
pub fn connect() {
    hooks::set(Hooks {
        check_attrs,
        infer_var_type,
        infer_shape,
        declared_attr_type: |op, attr| {
            // carried by every operator; an empty list has no element type
            if matches!(attr, "op_role_var" | "op_callstack") {
                return Some(AttrType::Strings);
            }
            let op = table::lookup(op)?;
            op.attrs.field(attr).map(|i| op.attrs.fields[i].kind)
        },
    });
}

pub fn find_op(name: &str) -> Result<&'static Op> {
    table::need(name)
}

fn check_attrs(node: &OpNode) -> Result<()> {
    let desc = node.read().clone();
    let Some(op) = table::lookup(&desc.op_type) else { return Ok(()) };
    let parsed = op.attrs.parse(op.name, &desc.attrs)?;
    for (i, field) in op.attrs.fields.iter().enumerate() {
        let value = parsed.get(i);
        if field.kind != AttrType::Block && desc.attrs.get(field.name) != Some(&value) {
            node.set_attr(field.name, value);
        }
    }
    Ok(())
}

/// The block's description of a variable.
pub fn meta_of(block: &BlockNode, name: &str) -> Option<Meta> {
    let var = block.find_var_recursive(name)?;
    let var = var.read();
    let kind = match var.var_type.kind {
        IrKind::LOD_TENSOR => VarKind::Dense,
        IrKind::SELECTED_ROWS => VarKind::Rows,
        IrKind::LOD_TENSOR_ARRAY => VarKind::Array,
        _ => VarKind::Other,
    };
    Some(Meta {
        dims: var.shape().map(Dims::from_slice).unwrap_or_default(),
        dtype: var.dtype().unwrap_or(DType::F32),
        kind,
        lod_level: var.lod_level().unwrap_or(0),
        lod: None,
        known: true,
    })
}

/// The outputs of an operator by its shape rule. `counts` has the number of variables of each output slot; without it
/// the rule determines those of the duplicable slots.
fn inferred(desc: &OpDesc, block: &BlockNode, counts: Option<&[usize]>) -> Result<Args<Meta>> {
    let op = find_op(&desc.op_type)?;
    let attrs = op.attrs.parse(op.name, &desc.attrs)?;
    let mut ins = Args::new();
    for s in op.inputs {
        ins.push_slot(desc.input(s.name).unwrap_or(&[]).iter().map(|n| meta_of(block, n)));
    }
    let mut metas = Args::new();
    for (i, s) in op.outputs.iter().enumerate() {
        let n = counts.map_or(usize::from(!s.has(SlotFlag::Duplicable)), |counts| counts[i]);
        metas.push_slot((0..n).map(|_| Meta::default()));
    }
    let free_outs = counts.is_none();
    let mut cx = ShapeContext { op, ins: ShapeInputs::Metas(&ins), attrs: &attrs, outs: &mut metas, free_outs };
    (op.infer)(&mut cx).map_err(|e| e.context(format!("[operator < {} > while the Program is built]", op.name)))?;
    Ok(metas)
}

/// The outputs of an operator by its shape rule, with the names of their variables.
fn infer(desc: &OpDesc, block: &BlockNode) -> Result<(Args<Meta>, Args<String>)> {
    let op = find_op(&desc.op_type)?;
    let mut names = Args::new();
    for s in op.outputs {
        names.push_slot(desc.output(s.name).unwrap_or(&[]).iter().cloned());
    }
    let counts: Vec<usize> = (0..op.outputs.len()).map(|i| names.slot(i).len()).collect();
    Ok((inferred(desc, block, Some(&counts))?, names))
}

/// The number of variables of each duplicable output, from inputs and attributes by the shape rule.
pub fn output_counts(node: &OpNode, block: &BlockNode) -> Result<Vec<(&'static str, usize)>> {
    let desc = node.read().clone();
    let metas = inferred(&desc, block, None)?;
    let outputs = find_op(&desc.op_type)?.outputs.iter().enumerate();
    Ok(outputs.filter(|(_, s)| s.has(SlotFlag::Duplicable)).map(|(i, s)| (s.name, metas.slot(i).len())).collect())
}

fn infer_var_type(node: &OpNode, block: &BlockNode) -> Result<()> {
    // If the rule cannot run yet, the kinds stay as declared.
    let desc = node.read().clone();
    let Ok((metas, names)) = infer(&desc, block) else { return Ok(()) };
    // An operator without inputs does not determine the kind: tables stay as declared.
    let from_nothing = desc.inputs.iter().all(|(_, names)| names.is_empty());
    for (meta, name) in metas.flat.iter().zip(&names.flat) {
        let (true, Some(var)) = (meta.known, block.find_var_recursive(name)) else { continue };
        let kind = match meta.kind {
            VarKind::Rows => IrKind::SELECTED_ROWS,
            VarKind::Array => IrKind::LOD_TENSOR_ARRAY,
            VarKind::Dense if var.kind() == IrKind::SELECTED_ROWS && !from_nothing => IrKind::LOD_TENSOR,
            _ => var.kind(),
        };
        if var.kind() != kind {
            let old = meta_of(block, name).unwrap_or_default();
            var.set_kind(kind)?;
            if !old.dims.is_empty() {
                var.set_shape(&old.dims)?;
            }
        }
        if matches!(meta.kind, VarKind::Dense | VarKind::Rows) {
            var.set_data_type(meta.dtype.into())?;
        }
    }
    Ok(())
}

fn infer_shape(node: &OpNode, block: &BlockNode) -> Result<()> {
    let desc = node.read().clone();
    let (metas, names) = infer(&desc, block)?;
    for (meta, name) in metas.flat.iter().zip(&names.flat) {
        let (true, Some(var)) = (meta.known, block.find_var_recursive(name)) else { continue };
        match var.kind() {
            IrKind::LOD_TENSOR => {
                var.set_shape(&meta.dims)?;
                var.set_data_type(meta.dtype.into())?;
                if meta.lod_level > 0 {
                    var.set_lod_level(meta.lod_level)?;
                }
            }
            IrKind::SELECTED_ROWS => {
                var.set_shape(&meta.dims)?;
                var.set_data_type(meta.dtype.into())?;
            }
            IrKind::LOD_TENSOR_ARRAY if !meta.dims.is_empty() => {
                var.set_shape(&meta.dims)?;
                var.set_data_type(meta.dtype.into())?;
                if meta.lod_level > 0 {
                    var.set_lod_level(meta.lod_level)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
