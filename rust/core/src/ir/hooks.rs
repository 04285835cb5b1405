//! Functions of the operator table that a Program needs. The table lies above this module and sets them once.

use super::attr::AttrType;
use super::{BlockNode, OpNode};
use crate::base::Result;
use crate::err;
use std::sync::OnceLock;

/// The functions of the operator table.
pub struct Hooks {
    /// Sets the defaults of missing attributes, converts the others to their declared types, and checks them.
    pub check_attrs: fn(&OpNode) -> Result<()>,
    /// Sets the kinds (and element types) of the output variables.
    pub infer_var_type: fn(&OpNode, &BlockNode) -> Result<()>,
    /// Sets the shapes and LoD levels of the output variables.
    pub infer_shape: fn(&OpNode, &BlockNode) -> Result<()>,
    /// The type that an operator declares for an attribute.
    pub declared_attr_type: fn(&str, &str) -> Option<AttrType>,
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Sets the hooks; later calls change nothing.
pub fn set(hooks: Hooks) {
    let _ = HOOKS.set(hooks);
}

fn get() -> Result<&'static Hooks> {
    HOOKS.get().ok_or_else(|| err!(PreconditionNotMet, "the operator table was not connected to Programs"))
}

pub fn check_attrs(op: &OpNode) -> Result<()> {
    (get()?.check_attrs)(op)
}

pub fn infer_var_type(op: &OpNode, block: &BlockNode) -> Result<()> {
    (get()?.infer_var_type)(op, block)
}

pub fn infer_shape(op: &OpNode, block: &BlockNode) -> Result<()> {
    (get()?.infer_shape)(op, block)
}

/// `None` if the operator or the attribute is not declared, or the hooks are not set.
pub fn declared_attr_type(op_type: &str, attr: &str) -> Option<AttrType> {
    HOOKS.get().and_then(|hooks| (hooks.declared_attr_type)(op_type, attr))
}
