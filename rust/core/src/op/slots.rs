//! The slots of an operator: their names and flags, and the constants by which rules and kernels read them.

/// A named input or output.
#[derive(Clone, Copy)]
pub struct Slot {
    pub name: &'static str,
    pub flags: u32,
    /// The input that this output may be computed in.
    pub alias: Option<&'static str>,
}

pub const DUPLICABLE: u32 = 1;
pub const DISPENSABLE: u32 = 2;
pub const INTERMEDIATE: u32 = 4;
pub const META_ONLY: u32 = 8;
pub const EXTRA: u32 = 16;
pub const HIDDEN: u32 = 32;
pub const KEEPS: u32 = 64;
pub const SHAPE_OF_FIRST: u32 = 128;
pub const MADE: u32 = 256;

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
    /// The kernel makes the value: it shares the input's bytes, or the size follows from values. Nothing is allocated for
    /// it; the shape rule still says shape, dtype, LoD and kind, with -1 for sizes that only values tell.
    pub const fn made(mut self) -> Slot {
        self.flags |= MADE;
        self
    }
    /// Only its shape and dtype are read, so nobody need keep its bytes (Paddle: no-need-buffer).
    pub const fn meta_only(mut self) -> Slot {
        self.flags |= META_ONLY;
        self
    }
    /// Not part of Paddle's declaration, but written by its kernel; or of our own, for Python's use.
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
    pub const fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// The place of an input slot in the declaration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InSlot(pub usize);

/// The place of an output slot in the declaration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutSlot(pub usize);

/// Declares the slots of operators that have the same ones, as a module with a constant for each:
///
/// ```
/// oar_core::slots! {
///     mod gather { X "X", INDEX "Index", AXIS "Axis".opt() => OUT "Out" }
///     mod gather_grad { INDEX "Index", X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD".made() }
/// }
/// assert_eq!(gather::INS[gather::AXIS.0].name, "Axis");
/// ```
///
/// The operator's declaration then says `inputs: gather::INS, outputs: gather::OUTS`, its kernel `cx.input(gather::X)`.
#[macro_export]
macro_rules! slots {
    ($($(#[$doc:meta])* $vis:vis mod $m:ident {
        $($i:ident $in_name:literal $(. $in_flag:ident ($($in_arg:tt)*))*),* $(,)?
        => $($o:ident $out_name:literal $(. $out_flag:ident ($($out_arg:tt)*))*),* $(,)?
    })*) => {$(
        $(#[$doc])*
        $vis mod $m {
            #![allow(dead_code)]
            use $crate::op::slots::{slot, Slot};
            pub const INS: &[Slot] = &[$(slot($in_name)$(.$in_flag($($in_arg)*))*),*];
            pub const OUTS: &[Slot] = &[$(slot($out_name)$(.$out_flag($($out_arg)*))*),*];
            $crate::count_slots!(InSlot, 0usize; $($i)*);
            $crate::count_slots!(OutSlot, 0usize; $($o)*);
        }
    )*};
}

/// `const X: InSlot = InSlot(0); ...` (used by `slots!`).
#[doc(hidden)]
#[macro_export]
macro_rules! count_slots {
    ($t:ident, $n:expr;) => {};
    ($t:ident, $n:expr; $first:ident $($rest:ident)*) => {
        pub const $first: $crate::op::slots::$t = $crate::op::slots::$t($n);
        $crate::count_slots!($t, $n + 1; $($rest)*);
    };
}
