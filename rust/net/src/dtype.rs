//! Element types by Paddle's numbers, and reduction operators.

use crate::error::{Error, Result};

macro_rules! dtypes {
    ($($name:ident = $number:literal, $size:literal, $text:literal;)*) => {
        /// Element type of a buffer; the discriminants are Paddle's `VarType` numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Dtype { $($name = $number,)* }

        impl Dtype {
            pub const ALL: &'static [Dtype] = &[$(Dtype::$name,)*];

            /// Bytes of one element.
            pub fn size(self) -> usize {
                match self { $(Dtype::$name => $size,)* }
            }

            pub fn name(self) -> &'static str {
                match self { $(Dtype::$name => $text,)* }
            }

            pub fn from_number(number: u8) -> Result<Dtype> {
                match number {
                    $($number => Ok(Dtype::$name),)*
                    _ => Err(Error::invalid(format!("no element type has the number {number}"))),
                }
            }
        }
    };
}

dtypes! {
    Bool = 0, 1, "bool";
    I16 = 1, 2, "int16";
    I32 = 2, 4, "int32";
    I64 = 3, 8, "int64";
    F16 = 4, 2, "float16";
    F32 = 5, 4, "float32";
    F64 = 6, 8, "float64";
    U8 = 20, 1, "uint8";
    I8 = 21, 1, "int8";
    Bf16 = 22, 2, "bfloat16";
}

impl Dtype {
    /// Type of partial results: half precision accumulates in float32.
    pub fn accumulator(self) -> Dtype {
        if self.is_half() {
            Dtype::F32
        } else {
            self
        }
    }

    pub fn is_half(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::Bf16)
    }
}

/// Reduction operators; the numbers are those of `paddle.distributed.ReduceOp`, followed by AVG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReduceOp {
    Sum = 0,
    Max = 1,
    Min = 2,
    Prod = 3,
    Avg = 4,
}

impl ReduceOp {
    pub const ALL: &'static [ReduceOp] = &[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod, ReduceOp::Avg];

    pub fn name(self) -> &'static str {
        ["sum", "max", "min", "prod", "avg"][self as usize]
    }

    pub fn from_number(number: u8) -> Result<ReduceOp> {
        let found = ReduceOp::ALL.get(number as usize).copied();
        found.ok_or_else(|| Error::invalid(format!("no reduction has the number {number}")))
    }
}
