//! What an operator is: one plain static value that everybody reads (see ARCHITECTURE.md, "One operator").

pub mod args;
pub mod attrs;
pub mod backend;
pub mod callbacks;
pub mod grad;
pub mod infer;
pub mod parts;
pub mod point;
pub mod profile;
pub mod run;
pub mod table;

pub use args::Args;
pub use attrs::{Attrs, NoAttrs, Schema};
pub use grad::{Dst, Fwd, Grad, GradOp, Src};
pub use infer::{Infer, Meta};
pub use run::{Env, Run};

use crate::base::Result;
use crate::tensor::Tensor;
use std::sync::atomic::AtomicPtr;

/// An operator of Paddle: names, slots, attributes, shape rule, CPU kernel, gradient.
pub struct Op {
    pub name: &'static str,
    pub inputs: &'static [Slot],
    pub outputs: &'static [Slot],
    pub attrs: &'static Schema,
    /// Shapes, dtypes and LoD of the outputs; runs while a Program is built and before every kernel.
    pub infer: fn(&mut Infer) -> Result<()>,
    pub cpu: Kernel,
    pub grad: Grad,
    pub amp: Amp,
    /// Why an output must not be left out of a plan although nobody reads it.
    pub effect: Effect,
    /// The short way of an eager call on small operands.
    pub quick: Option<Quick>,
    /// What it computes element by element, if that is all it does.
    pub point: Option<point::Point>,
    /// The compiled gradient wiring, made at first use.
    pub wiring: AtomicPtr<grad::Wiring>,
}

/// Defaults of the optional parts: `Op { name, .., ..OP }`.
#[allow(clippy::declare_interior_mutable_const)] // a template: every static gets its own
pub const OP: Op = Op {
    name: "",
    inputs: &[],
    outputs: &[],
    attrs: &attrs::NONE,
    infer: infer::nothing,
    cpu: Kernel::Pure(run::not_there),
    grad: Grad::None,
    amp: Amp::Gray,
    effect: Effect::None,
    quick: None,
    point: None,
    wiring: AtomicPtr::new(std::ptr::null_mut()),
};

/// The first output (with its LoD) on dense tensors of the host, one for each of the first slots, the others absent:
/// exactly what `infer` and `cpu` give. `None`: not a simple case, or an error, which the general way will explain.
/// Operators that have it have one output, or besides it one with `shape_of_first`.
pub type Quick = fn(&Attrs, &[&Tensor]) -> Option<Tensor>;

/// How an operator runs.
#[derive(Clone, Copy)]
pub enum Kernel {
    /// Pure computation on its slots: may be reordered, fused, dropped, run on any thread.
    Pure(fn(&mut Run) -> Result<()>),
    /// Touches the world (files, Python, printing, the random generator): keeps program order.
    Host(fn(&mut Run) -> Result<()>),
    /// Runs a sub-block's plan through `Env`.
    Control(fn(&mut Run) -> Result<()>),
}

/// Mixed precision: runs in half precision, must not, or follows its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amp {
    White,
    Black,
    Gray,
}

/// What else an operator does besides computing its outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    None,
    /// Draws from the random generator.
    Random,
    /// Prints, writes files, calls Python, communicates.
    World,
}

/// A named input or output.
#[derive(Clone, Copy)]
pub struct Slot {
    pub name: &'static str,
    pub flags: u8,
    /// The input that this output may be computed in.
    pub alias: Option<&'static str>,
}

pub const DUPLICABLE: u8 = 1;
pub const DISPENSABLE: u8 = 2;
pub const INTERMEDIATE: u8 = 4;
pub const META_ONLY: u8 = 8;
pub const EXTRA: u8 = 16;
pub const HIDDEN: u8 = 32;
pub const KEEPS: u8 = 64;
pub const SHAPE_OF_FIRST: u8 = 128;

pub const fn slot(name: &'static str) -> Slot {
    Slot { name, flags: 0, alias: None }
}

impl Slot {
    /// Takes any number of variables.
    pub const fn many(mut self) -> Slot {
        self.flags |= DUPLICABLE;
        self
    }
    /// May be absent.
    pub const fn opt(mut self) -> Slot {
        self.flags |= DISPENSABLE;
        self
    }
    /// An output kept for the gradient, not a result of the user's.
    pub const fn mid(mut self) -> Slot {
        self.flags |= INTERMEDIATE;
        self
    }
    /// Not returned by the builtin (`XShape`).
    pub const fn hidden(mut self) -> Slot {
        self.flags |= HIDDEN;
        self
    }
    /// `XShape`: a 0, then the sizes of the first input; no elements, the LoD of the input.
    pub const fn shape_of_first(mut self) -> Slot {
        self.flags |= SHAPE_OF_FIRST | INTERMEDIATE | HIDDEN;
        self
    }
    /// The kernel starts from what the output variable holds (`write_to_array`).
    pub const fn keeps(mut self) -> Slot {
        self.flags |= KEEPS;
        self
    }
    /// Only its shape and dtype are read, so nobody need keep its bytes (Paddle: no-need-buffer).
    pub const fn meta_only(mut self) -> Slot {
        self.flags |= META_ONLY;
        self
    }
    /// Not part of Paddle's declaration, but written by its kernel.
    pub const fn extra(mut self) -> Slot {
        self.flags |= EXTRA;
        self
    }
    /// May be written over the input of that name (`ParamOut` over `Param`).
    pub const fn aliases(mut self, input: &'static str) -> Slot {
        self.alias = Some(input);
        self
    }
    #[inline]
    pub const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

impl Op {
    pub fn input(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|s| s.name == name)
    }

    pub fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|s| s.name == name)
    }

    #[inline]
    pub fn is_pure(&self) -> bool {
        matches!(self.cpu, Kernel::Pure(_))
    }
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Op({})", self.name)
    }
}
