//! Slots of an operator: names, flags, and the constants by which shape rules and kernels read them.

/// A named input or output.
#[derive(Clone, Copy)]
pub struct Slot {
    pub name: &'static str,
    flags: u16,
    /// The input whose memory this output may be written to.
    pub alias: Option<&'static str>,
}

/// Properties of a slot. `Slot`'s methods of the same names set them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum SlotFlag {
    /// Takes any number of variables.
    Duplicable = 1,
    /// May be absent.
    Dispensable = 2,
    /// An output kept for the gradient, not a result for the user.
    Intermediate = 4,
    /// Only shape and dtype are read: the bytes need not be kept (Paddle: no-need-buffer).
    MetaOnly = 8,
    /// Not part of Paddle's declaration, but written by its kernel; or Oar's own, used by Python.
    Extra = 16,
    /// Not returned by the builtin (`XShape`).
    NotReturned = 32,
    /// The kernel starts from the value that the output variable holds (`write_to_array`).
    InPlace = 64,
    /// `XShape`: a 0, then the sizes of the first input; no elements, the LoD of the input.
    ShapeOfFirst = 128,
    /// The kernel allocates the value: it shares the input's bytes, or the size depends on values. The shape rule still
    /// states shape, dtype, LoD and kind, with -1 for sizes that depend on values.
    KernelAllocated = 256,
}

pub const fn slot(name: &'static str) -> Slot {
    Slot { name, flags: 0, alias: None }
}

impl Slot {
    const fn with(mut self, flag: SlotFlag) -> Slot {
        self.flags |= flag as u16;
        self
    }
    pub const fn duplicable(self) -> Slot {
        self.with(SlotFlag::Duplicable)
    }
    pub const fn dispensable(self) -> Slot {
        self.with(SlotFlag::Dispensable)
    }
    pub const fn intermediate(self) -> Slot {
        self.with(SlotFlag::Intermediate)
    }
    pub const fn meta_only(self) -> Slot {
        self.with(SlotFlag::MetaOnly)
    }
    pub const fn extra(self) -> Slot {
        self.with(SlotFlag::Extra)
    }
    pub const fn not_returned(self) -> Slot {
        self.with(SlotFlag::NotReturned)
    }
    pub const fn in_place(self) -> Slot {
        self.with(SlotFlag::InPlace)
    }
    /// Intermediate and not returned as well.
    pub const fn shape_of_first(self) -> Slot {
        self.with(SlotFlag::ShapeOfFirst).intermediate().not_returned()
    }
    pub const fn kernel_allocated(self) -> Slot {
        self.with(SlotFlag::KernelAllocated)
    }
    /// May be written over the input of that name (`ParamOut` over `Param`).
    pub const fn aliases(mut self, input: &'static str) -> Slot {
        self.alias = Some(input);
        self
    }
    #[inline]
    pub const fn has(&self, flag: SlotFlag) -> bool {
        self.flags & flag as u16 != 0
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
///     mod gather { X "X", INDEX "Index", AXIS "Axis".dispensable() => OUT "Out" }
///     mod gather_grad { INDEX "Index", X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
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
