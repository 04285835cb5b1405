//! Element types, with the numbers of VarType in framework.proto.

use crate::bail;
use crate::base::Result;
use half::{bf16, f16};
use num_complex::Complex;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DType {
    Bool = 0,
    I16 = 1,
    I32 = 2,
    I64 = 3,
    F16 = 4,
    F32 = 5,
    F64 = 6,
    U8 = 20,
    I8 = 21,
    BF16 = 22,
    C64 = 23,
    C128 = 24,
}

impl DType {
    pub const ALL: [DType; 12] = [
        DType::Bool,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::U8,
        DType::I8,
        DType::BF16,
        DType::C64,
        DType::C128,
    ];

    /// The type with this VarType number.
    pub fn from_proto(n: i32) -> Option<DType> {
        DType::ALL.into_iter().find(|t| *t as i32 == n)
    }

    pub fn proto(self) -> i32 {
        self as i32
    }

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// The name Paddle and numpy use.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::F16 => "float16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::U8 => "uint8",
            DType::I8 => "int8",
            DType::BF16 => "bfloat16",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::F32 | DType::F64 | DType::BF16)
    }

    /// Integers; bool is not one.
    pub fn is_integer(self) -> bool {
        matches!(self, DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    #[inline]
    pub fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// The type of a complex number's real and imaginary part; other types map to themselves.
    pub fn real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// The complex type with parts of this type, where there is one.
    pub fn complex(self) -> Option<DType> {
        match self {
            DType::F32 | DType::C64 => Some(DType::C64),
            DType::F64 | DType::C128 => Some(DType::C128),
            _ => None,
        }
    }

    /// The result type of two operands: the first operand's, unless one is complex; then the smallest complex type
    /// that holds both, defined for float32, float64 and complex types only (as in Paddle).
    #[inline]
    pub fn meet(self, other: DType) -> Result<DType> {
        if self == other || !(self.is_complex() || other.is_complex()) {
            return Ok(self);
        }
        match (self.complex(), other.complex()) {
            (Some(DType::C64), Some(DType::C64)) => Ok(DType::C64),
            (Some(_), Some(_)) => Ok(DType::C128),
            _ => bail!(
                Unavailable,
                "only float32, float64, complex64 and complex128 meet in a complex type, got {self} and {other}"
            ),
        }
    }
}

/// A set of data types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DTypes(u32);

impl DTypes {
    pub const ALL: DTypes = DTypes(u32::MAX);
    /// float32 and float64.
    pub const FLOATS: DTypes = DTypes::of(&[DType::F32, DType::F64]);
    /// float16, bfloat16.
    pub const HALVES: DTypes = DTypes::of(&[DType::F16, DType::BF16]);
    /// int32 and int64.
    pub const INDICES: DTypes = DTypes::of(&[DType::I32, DType::I64]);
    /// Every integer type; bool is not one.
    pub const INTEGERS: DTypes = DTypes::of(&[DType::I8, DType::U8, DType::I16, DType::I32, DType::I64]);
    pub const COMPLEX: DTypes = DTypes::of(&[DType::C64, DType::C128]);
    pub const BOOL: DTypes = DTypes::of(&[DType::Bool]);

    pub const fn of(types: &[DType]) -> DTypes {
        let (mut bits, mut i) = (0, 0);
        while i < types.len() {
            bits |= 1 << types[i] as u32;
            i += 1;
        }
        DTypes(bits)
    }

    /// The union of both sets.
    pub const fn union(self, other: DTypes) -> DTypes {
        DTypes(self.0 | other.0)
    }

    #[inline]
    pub const fn has(self, d: DType) -> bool {
        self.0 >> d as u32 & 1 == 1
    }

    pub fn iter(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |&d| self.has(d))
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that tensors can hold: `Tensor::data` makes slices of it from a tensor's bytes.
///
/// # Safety
/// The type has the size of an element of `DTYPE`, an alignment that divides 64 and this size (of a complex number:
/// its part's), no padding and no pointers, and every value that the bytes of such an element can have is a value of
/// the type. That is all bit patterns, except for bool: imported bytes are normalised to 0 or 1
/// (`Tensor::normalise_bools`), and normalised again while foreign code can write them.
pub unsafe trait Element: oar_kernels::types::Plain {
    const DTYPE: DType;
}

macro_rules! element {
    ($($t:ty => $d:ident),*) => {$(
        // SAFETY: numbers (pairs of them, if complex) without padding, of the size that `DType::size` says; bool is 0 or 1.
        unsafe impl Element for $t {
            const DTYPE: DType = DType::$d;
        }
        const _: () = assert!(std::mem::size_of::<$t>() == DType::$d.size() && 64 % std::mem::align_of::<$t>() == 0);
    )*};
}
element!(bool => Bool, i16 => I16, i32 => I32, i64 => I64, f16 => F16, f32 => F32, f64 => F64, u8 => U8, i8 => I8,
    bf16 => BF16, Complex<f32> => C64, Complex<f64> => C128);

/// Runs an expression with `$T` bound to the Rust type of a [`DType`]; types not in the list go to `_`.
///
/// ```ignore
/// dispatch!(x.dtype(), T in [f32, f64, i32, i64], { kernel::<T>(..) }, other => bail!(..))
/// ```
#[macro_export]
macro_rules! dispatch {
    ($dtype:expr, $T:ident in [$($t:ty),+], $body:expr, $other:ident => $else:expr) => {{
        let __d: $crate::base::DType = $dtype;
        $(if __d == <$t as $crate::base::dtype::Element>::DTYPE { type $T = $t; $body } else)+
        { let $other = __d; $else }
    }};
}
