//! The definition of an operator: one plain static value, read by the eager engine, Programs, gradients and tests.

pub mod args;
pub mod attrs;
pub mod backend;
pub mod call;
pub mod callbacks;
mod finite;
pub mod forward;
pub mod grad;
pub mod infer;
pub mod pointwise;
pub mod profile;
pub mod run;
pub mod slots;
pub mod table;

pub use args::Args;
pub use attrs::{Attrs, NoAttrs, Schema};
pub use grad::{Dst, Fwd, Grad, GradOp, Src};
pub use infer::{Meta, ShapeContext};
pub use run::{Env, KernelContext};
pub use slots::*;

use crate::base::{DTypes, Result};
use crate::tensor::Tensor;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

/// An operator of Paddle: names, slots, attributes, shape rule, CPU kernel, gradient.
pub struct Op {
    pub name: &'static str,
    /// The prefix of its outputs' names in Programs, where Paddle names them after a function of another name.
    pub layer: &'static str,
    pub inputs: &'static [Slot],
    pub outputs: &'static [Slot],
    pub attrs: &'static Schema,
    /// The shape rule: shape, dtype, LoD and kind of every output. Runs while a Program is built and before every
    /// kernel.
    pub infer: fn(&mut ShapeContext) -> Result<()>,
    pub cpu: Kernel,
    pub grad: Grad,
    pub amp: Amp,
    /// What the operator needs that this build does not have (a device, a server); empty for nearly all.
    pub needs: &'static str,
    /// The kernel for inputs that hold SelectedRows.
    pub sparse_kernel: SparseKernel,
    /// The data types that the operands may have.
    pub dtypes: DTypes,
    /// With floating-point operands that pass the shape rule the kernel cannot fail, whatever the values: plans may
    /// remove the operator where its results are not used. Implied for elementwise operators (`pointwise`).
    pub cannot_fail: bool,
    /// A shortcut of an eager call on small operands.
    pub fast_path: Option<FastPath>,
    /// In dygraph mode the first output is a view of the first input with another shape (see `VarStorage::join`).
    pub views: bool,
    /// The elementwise formula, of an operator that computes nothing else.
    pub pointwise: Option<pointwise::PointwiseRule>,
    /// The compiled gradient wiring, made at first use. Never dropped: `..OP` in a static takes no type with a destructor.
    pub wiring: ManuallyDrop<OnceLock<grad::Wiring>>,
}

/// Defaults of the optional columns: `Op { name, .., ..OP }`.
#[allow(clippy::declare_interior_mutable_const)] // a template: every static gets its own
pub const OP: Op = Op {
    name: "",
    layer: "",
    inputs: &[],
    outputs: &[],
    attrs: &attrs::NONE,
    infer: infer::nothing,
    cpu: Kernel::Pure(run::not_there),
    grad: Grad::None,
    amp: Amp::Gray,
    needs: "",
    sparse_kernel: SparseKernel::None,
    dtypes: DTypes::ALL,
    cannot_fail: false,
    fast_path: None,
    views: false,
    pointwise: None,
    wiring: ManuallyDrop::new(OnceLock::new()),
};

/// Computes the first output (with its LoD) from dense tensors on the host, one for each of the first slots, the
/// others absent: the same value as `infer` and `cpu`. `None`: not this simple case, or an error, which the general
/// path reports. Operators that have it have one output, or a second one with `shape_of_first`.
pub type FastPath = fn(&Attrs, &[&Tensor]) -> Option<Tensor>;

/// A kernel: reads inputs, writes outputs.
pub type KernelFn = fn(&mut KernelContext) -> Result<()>;

/// How an operator runs, which decides what plans may do with it.
#[derive(Clone, Copy)]
pub enum Kernel {
    /// Pure computation on its slots: may be reordered, fused, dropped, run on any thread.
    Pure(KernelFn),
    /// Draws from the random generator: draws keep program order.
    Random(KernelFn),
    /// Has side effects (files, Python, printing, other processes): keeps program order and is never removed.
    Host(KernelFn),
    /// Runs a sub-block's plan through `Env`; ordered as `Host`.
    Control(KernelFn),
}

impl Kernel {
    #[inline]
    pub fn function(self) -> KernelFn {
        let (Kernel::Pure(f) | Kernel::Random(f) | Kernel::Host(f) | Kernel::Control(f)) = self;
        f
    }
}

/// Treatment of inputs that hold SelectedRows.
#[derive(Clone, Copy)]
pub enum SparseKernel {
    /// An error.
    None,
    /// The kernel for dense tensors: it reads no elements, or takes values of every kind (assign, while, save).
    Same,
    /// A kernel of its own.
    Own(KernelFn),
}

/// Mixed precision: runs in half precision, must not, or follows its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amp {
    White,
    Black,
    Gray,
}

impl Op {
    pub fn input(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|s| s.name == name)
    }

    pub fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|s| s.name == name)
    }

    /// The prefix of its outputs' names in Programs.
    pub fn layer_name(&self) -> &'static str {
        if self.layer.is_empty() {
            self.name
        } else {
            self.layer
        }
    }

    /// True if the operator has no effect but its outputs.
    #[inline]
    pub fn is_pure(&self) -> bool {
        matches!(self.cpu, Kernel::Pure(_))
    }

    #[inline]
    pub fn draws(&self) -> bool {
        matches!(self.cpu, Kernel::Random(_))
    }
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Op({})", self.name)
    }
}
