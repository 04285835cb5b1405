//! Attribute values of operators, with the type numbers of framework.proto's AttrType.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum AttrType {
    Int = 0,
    Float = 1,
    String = 2,
    Ints = 3,
    Floats = 4,
    Strings = 5,
    Boolean = 6,
    Booleans = 7,
    Block = 8,
    Long = 9,
    Blocks = 10,
    Longs = 11,
    Float64s = 12,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    Int(i32),
    Float(f32),
    String(String),
    Ints(Vec<i32>),
    Floats(Vec<f32>),
    Strings(Vec<String>),
    Boolean(bool),
    Booleans(Vec<bool>),
    /// Index of a block of the same Program.
    Block(i32),
    Long(i64),
    Blocks(Vec<i32>),
    Longs(Vec<i64>),
    Float64s(Vec<f64>),
}

pub type AttrMap = BTreeMap<String, Attr>;

impl Attr {
    pub fn kind(&self) -> AttrType {
        match self {
            Attr::Int(_) => AttrType::Int,
            Attr::Float(_) => AttrType::Float,
            Attr::String(_) => AttrType::String,
            Attr::Ints(_) => AttrType::Ints,
            Attr::Floats(_) => AttrType::Floats,
            Attr::Strings(_) => AttrType::Strings,
            Attr::Boolean(_) => AttrType::Boolean,
            Attr::Booleans(_) => AttrType::Booleans,
            Attr::Block(_) => AttrType::Block,
            Attr::Long(_) => AttrType::Long,
            Attr::Blocks(_) => AttrType::Blocks,
            Attr::Longs(_) => AttrType::Longs,
            Attr::Float64s(_) => AttrType::Float64s,
        }
    }
}
