//! Typed attributes. `attrs!` declares a struct once, with Paddle's names and defaults; a kernel reads plain fields,
//! all else goes by the schema. An attribute without default is required.

use crate::base::Result;
use crate::ir::{Attr, AttrMap, AttrType};
use crate::{bail, err};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// The attributes of one operator: their names, types, defaults.
pub struct Schema {
    pub fields: &'static [Field],
    /// A new, unshared set of the defaults.
    pub new: fn() -> Attrs,
    /// The shared set of the defaults, for calls that set none.
    pub shared: fn() -> &'static Attrs,
}

pub struct Field {
    pub name: &'static str,
    pub kind: AttrType,
    pub required: bool,
    pub default: fn() -> Option<Attr>,
}

/// A parsed set of attributes, shared by an operator and its gradient.
pub type Attrs = Arc<dyn AttrSet>;

pub trait AttrSet: Any + Send + Sync {
    fn get(&self, field: usize) -> Attr;
    fn set(&mut self, field: usize, value: Attr) -> std::result::Result<(), Attr>;
    fn as_any(&self) -> &dyn Any;
    fn schema(&self) -> &'static Schema;
}

/// A Rust type that an attribute can have.
pub trait AttrValue: Clone + Send + Sync + 'static {
    const KIND: AttrType;
    fn to_attr(&self) -> Attr;
    fn from_attr(a: Attr) -> std::result::Result<Self, Attr>;
    /// The value of a required attribute before it is set.
    fn unset() -> Self;
}

macro_rules! attr_value {
    ($($t:ty, $kind:ident, $a:ident => $from:expr, $($pat:pat $(if $guard:expr)? => $conv:expr),*;)*) => {$(
        impl AttrValue for $t {
            const KIND: AttrType = AttrType::$kind;
            fn to_attr(&self) -> Attr { Attr::$kind(self.clone().into()) }
            fn from_attr(a: Attr) -> std::result::Result<Self, Attr> {
                match a { Attr::$kind($a) => Ok($from), $($pat $(if $guard)? => Ok($conv),)* other => Err(other) }
            }
            fn unset() -> Self { Default::default() }
        }
    )*};
}
// Files and Python may hold a nearby type (an int where a float is declared, an empty list of any type).
attr_value! {
    i32, Int, v => v, Attr::Boolean(b) => b as i32, Attr::Long(n) if n as i32 as i64 == n => n as i32;
    i64, Long, v => v, Attr::Int(n) => n as i64, Attr::Boolean(b) => b as i64;
    f32, Float, v => v, Attr::Int(n) => n as f32, Attr::Long(n) => n as f32, Attr::Boolean(b) => b as i32 as f32;
    bool, Boolean, v => v, Attr::Int(n) if n == 0 || n == 1 => n == 1;
    String, String, v => v,;
    Vec<i32>, Ints, v => v, Attr::Int(n) => vec![n],
        Attr::Longs(v) if v.iter().all(|&n| n as i32 as i64 == n) => v.into_iter().map(|n| n as i32).collect(),
        Attr::Booleans(v) => v.into_iter().map(|n| n as i32).collect(), Attr::Floats(v) if v.is_empty() => vec![];
    Vec<i64>, Longs, v => v, Attr::Ints(v) => v.into_iter().map(|n| n as i64).collect(),
        Attr::Booleans(v) if v.is_empty() => vec![];
    Vec<f32>, Floats, v => v, Attr::Ints(v) => v.into_iter().map(|n| n as f32).collect(), Attr::Float(f) => vec![f],
        Attr::Float64s(v) => v.into_iter().map(|n| n as f32).collect(),
        Attr::Longs(v) => v.into_iter().map(|n| n as f32).collect(), Attr::Booleans(v) if v.is_empty() => vec![];
    Vec<f64>, Float64s, v => v, Attr::Ints(v) => v.into_iter().map(|n| n as f64).collect(),
        Attr::Floats(v) => v.into_iter().map(|n| n as f64).collect(), Attr::Booleans(v) if v.is_empty() => vec![];
    Vec<bool>, Booleans, v => v, Attr::Ints(v) => v.into_iter().map(|n| n != 0).collect();
    Vec<String>, Strings, v => v, Attr::Ints(v) if v.is_empty() => vec![], Attr::Booleans(v) if v.is_empty() => vec![];
}

/// A string that is rarely set: its default costs no allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text(Cow<'static, str>);

impl std::ops::Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for Text {
    fn from(s: &'static str) -> Text {
        Text(Cow::Borrowed(s))
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl Text {
    pub fn as_str(&self) -> &str {
        self
    }
}

impl AttrValue for Text {
    const KIND: AttrType = AttrType::String;
    fn to_attr(&self) -> Attr {
        Attr::String(self.to_string())
    }
    fn from_attr(a: Attr) -> std::result::Result<Self, Attr> {
        String::from_attr(a).map(|s| Text(Cow::Owned(s)))
    }
    fn unset() -> Self {
        Text::default()
    }
}

/// A string of any bytes, such as the contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blob(pub Vec<u8>);

impl AttrValue for Blob {
    const KIND: AttrType = AttrType::String;
    fn to_attr(&self) -> Attr {
        Attr::text(self.0.clone())
    }
    fn from_attr(a: Attr) -> std::result::Result<Self, Attr> {
        match a {
            Attr::String(s) => Ok(Blob(s.into_bytes())),
            Attr::Bytes(b) => Ok(Blob(b)),
            other => Err(other),
        }
    }
    fn unset() -> Self {
        Blob::default()
    }
}

/// The index of a sub-block; -1 when unset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockRef(pub i32);

impl AttrValue for BlockRef {
    const KIND: AttrType = AttrType::Block;
    fn to_attr(&self) -> Attr {
        Attr::Block(self.0)
    }
    fn from_attr(a: Attr) -> std::result::Result<Self, Attr> {
        match a {
            Attr::Block(n) | Attr::Int(n) => Ok(BlockRef(n)),
            other => Err(other),
        }
    }
    fn unset() -> Self {
        BlockRef(-1)
    }
}

/// Declares attribute structs: `attrs! { pub struct SoftmaxAttrs { axis: i32 = -1, .. } }`.
/// The struct gets `SCHEMA`, and a field without default is required.
#[macro_export]
macro_rules! attrs {
    ($($(#[$doc:meta])* $vis:vis struct $name:ident { $($field:ident : $t:ty $(= $default:expr)?),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone)]
        #[allow(non_snake_case, dead_code)]
        $vis struct $name { $(pub $field: $t),* }

        impl Default for $name {
            #[allow(unused_mut, unused_assignments)]
            fn default() -> Self {
                $name { $($field: { let mut v = <$t as $crate::op::attrs::AttrValue>::unset(); $(v = $default;)? v }),* }
            }
        }

        #[allow(unused_mut, unused_assignments, unused_variables)]
        impl $name {
            $vis const SCHEMA: $crate::op::attrs::Schema = $crate::op::attrs::Schema {
                fields: &[$($crate::op::attrs::Field {
                    name: stringify!($field),
                    kind: <$t as $crate::op::attrs::AttrValue>::KIND,
                    required: true $(&& $crate::op::attrs::has_default(stringify!($default)))?,
                    default: || {
                        let mut d = None;
                        $(let v: $t = $default; d = Some($crate::op::attrs::AttrValue::to_attr(&v));)?
                        d
                    },
                }),*],
                new: || std::sync::Arc::new(<$name>::default()),
                shared: || {
                    static SHARED: std::sync::OnceLock<$crate::op::attrs::Attrs> = std::sync::OnceLock::new();
                    SHARED.get_or_init(|| std::sync::Arc::new(<$name>::default()))
                },
            };
            $vis const FIELDS: &'static $crate::op::attrs::Schema = &Self::SCHEMA;
        }

        impl $crate::op::attrs::AttrSet for $name {
            #[allow(unused_mut, unused_assignments, unused_variables)]
            fn get(&self, field: usize) -> $crate::ir::Attr {
                let mut i = 0;
                $(if i == field { return $crate::op::attrs::AttrValue::to_attr(&self.$field); } i += 1;)*
                unreachable!("no attribute {field}")
            }
            #[allow(unused_mut, unused_assignments, unused_variables)]
            fn set(&mut self, field: usize, value: $crate::ir::Attr) -> std::result::Result<(), $crate::ir::Attr> {
                let mut i = 0;
                $(if i == field {
                    self.$field = $crate::op::attrs::AttrValue::from_attr(value)?;
                    return Ok(());
                } i += 1;)*
                Err(value)
            }
            fn as_any(&self) -> &dyn std::any::Any { self }
            fn schema(&self) -> &'static $crate::op::attrs::Schema { Self::FIELDS }
        }
    )*};
}

/// `false` for any text: marks a field that has a default (used by `attrs!`).
pub const fn has_default(_: &str) -> bool {
    false
}

/// The set, which must not be shared yet, to be filled in.
#[inline]
pub fn unshared(attrs: &mut Attrs) -> &mut dyn AttrSet {
    Arc::get_mut(attrs).expect("attributes are filled in before they are shared")
}

attrs! {
    /// For operators without attributes.
    pub struct NoAttrs {}
}
pub static NONE: Schema = NoAttrs::SCHEMA;

/// Attributes that every operator of a Program carries and no kernel reads.
pub const COMMON: [&str; 8] =
    ["op_role", "op_role_var", "op_namescope", "op_callstack", "op_device", "with_quant_attr", "is_test", "use_mkldnn"];

impl Schema {
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }

    /// Parses the attributes of an OpDesc. Names that the operator does not declare stay in the desc.
    pub fn parse(&self, op: &str, map: &AttrMap) -> Result<Attrs> {
        let mut attrs = (self.new)();
        let set = unshared(&mut attrs);
        for (i, field) in self.fields.iter().enumerate() {
            match map.get(field.name) {
                Some(value) => set.set(i, value.clone().plain()).map_err(|got| mismatch(op, field, &got))?,
                None if field.required => {
                    bail!(InvalidArgument, "operator {op}: attribute '{}' is required but was not given", field.name)
                }
                None => {}
            }
        }
        Ok(attrs)
    }

    /// The same attributes, by name, for an operator with another schema (a gradient operator).
    pub fn convert(&'static self, op: &str, from: &Attrs) -> Result<Attrs> {
        let theirs = from.schema();
        if std::ptr::eq(theirs.fields, self.fields) {
            return Ok(from.clone());
        }
        let mut attrs = (self.new)();
        let set = unshared(&mut attrs);
        for (i, field) in self.fields.iter().enumerate() {
            if let Some(j) = theirs.field(field.name) {
                set.set(i, from.get(j)).map_err(|got| mismatch(op, field, &got))?;
            }
        }
        Ok(attrs)
    }
}

pub fn mismatch(op: &str, field: &Field, got: &Attr) -> crate::base::Error {
    err!(
        InvalidArgument,
        "operator {op}: attribute '{}' must be of type {:?}, got {:?} ({got:?})",
        field.name,
        field.kind,
        got.kind()
    )
}

/// Every attribute of a parsed set by name, for an OpDesc.
pub fn to_map(attrs: &Attrs) -> AttrMap {
    attrs.schema().fields.iter().enumerate().map(|(i, f)| (f.name.to_string(), attrs.get(i))).collect()
}
