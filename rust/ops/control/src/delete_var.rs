//! delete_var: frees the values of the named variables.

use oar_core::op::{Kernel, NoAttrs, Op, SparseKernel, OP};
use oar_core::slots;

slots! {
    mod delete_var { X "X".duplicable() => }
}

pub static DELETE_VAR: Op = Op {
    name: "delete_var",
    inputs: delete_var::INS,
    outputs: delete_var::OUTS,
    attrs: NoAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(|cx| {
        let frame = cx.frame()?;
        for name in cx.env.names("X") {
            if let Some(cell) = frame.scope.find(&name) {
                cell.clear();
            }
        }
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&DELETE_VAR];
