//! OpDesc.Attr: a name, a type, and one of twenty fields that the type chooses.

use super::attr::{Attr, AttrType, Scalar};
use super::wire::*;
use crate::base::Result;

/// The fields of one attribute message; the attribute's type selects the one that counts.
#[derive(Default)]
struct AttrFields {
    int: i64,
    float: f64,
    single: f32,
    flag: bool,
    bytes: Vec<u8>,
    ints: Vec<i64>,
    singles: Vec<f32>,
    floats: Vec<f64>,
    flags: Vec<bool>,
    texts: Vec<Vec<u8>>,
    scalars: Vec<Scalar>,
}

/// The field of OpDesc.Attr that carries the value of a type, and whether it is a list.
fn value_field(kind: i32) -> Option<(AttrType, u32, bool)> {
    use AttrType::*;
    let rows = [
        (Int, 3, false),
        (Float, 4, false),
        (String, 5, false),
        (Ints, 6, true),
        (Floats, 7, true),
        (Strings, 8, true),
        (Boolean, 10, false),
        (Booleans, 11, true),
        (Block, 12, false),
        (Long, 13, false),
        (Blocks, 14, true),
        (Longs, 15, true),
        (Float64s, 16, true),
        (Var, 17, false),
        (Vars, 18, true),
        (Float64, 19, false),
        (Scalar, 20, false),
        (Scalars, 21, true),
    ];
    rows.into_iter().find(|(t, ..)| *t as i32 == kind)
}

pub(super) fn decode_attr(bytes: &[u8]) -> Result<(String, Attr, Vec<u8>)> {
    let (mut name, mut kind) = (None, None);
    let _ = fields!(bytes, unknown, {
        1, Value::Bytes(b) => name = Some(text(b, "name of an attribute")?),
        2, Value::Varint(v) => kind = Some(v as i32),
    });
    let name = required(name, "OpDesc.Attr", "name")?;
    let kind = required(kind, "OpDesc.Attr", "type")?;
    let (value, extra) = match value_field(kind) {
        Some(row) => decode_value(bytes, row).map_err(|e| e.context(format!("in attribute `{name}`")))?,
        None => (None, Vec::new()),
    };
    Ok((name, value.unwrap_or_else(|| Attr::Foreign(bytes.to_vec())), extra))
}

/// The value of an attribute and the bytes of the fields that do not belong to its type; no value where it cannot be
/// represented (a list with a string that is not UTF-8, a scalar of a newer type).
fn decode_value(bytes: &[u8], (kind, number, list): (AttrType, u32, bool)) -> Result<(Option<Attr>, Vec<u8>)> {
    let mut f = AttrFields::default();
    let mut extra = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field()? {
        match (field.number == number, field.value, kind) {
            (true, Value::Bytes(b), AttrType::Scalar | AttrType::Scalars) => match decode_scalar(b)? {
                Some(scalar) => f.scalars.push(scalar),
                None => return Ok((None, Vec::new())),
            },
            (true, Value::Varint(v), _) => {
                (f.int, f.flag) = (v as i64, v != 0);
                if list {
                    f.ints.push(v as i64);
                    f.flags.push(v != 0);
                }
            }
            (true, Value::Fixed32(b), _) => {
                f.single = f32::from_le_bytes(b);
                f.singles.push(f.single);
            }
            (true, Value::Fixed64(b), _) => {
                f.float = f64::from_le_bytes(b);
                f.floats.push(f.float);
            }
            (true, Value::Bytes(b), AttrType::Ints | AttrType::Longs | AttrType::Blocks | AttrType::Booleans) => {
                packed(b, &mut f.ints, |r| Ok(r.varint()? as i64))?;
                f.flags = f.ints.iter().map(|&v| v != 0).collect();
            }
            (true, Value::Bytes(b), AttrType::Floats) => {
                packed(b, &mut f.singles, |r| Ok(f32::from_le_bytes(r.fixed32()?)))?
            }
            (true, Value::Bytes(b), AttrType::Float64s) => {
                packed(b, &mut f.floats, |r| Ok(f64::from_le_bytes(r.fixed64()?)))?
            }
            (true, Value::Bytes(b), _) if list => f.texts.push(b.to_vec()),
            (true, Value::Bytes(b), _) => f.bytes = b.to_vec(),
            (false, ..) if field.number <= 2 => {}
            _ => extra.extend_from_slice(field.raw),
        }
    }
    let ints = |v: Vec<i64>| v.into_iter().map(|x| x as i32).collect();
    let texts = |v: Vec<Vec<u8>>| v.into_iter().map(String::from_utf8).collect::<std::result::Result<Vec<_>, _>>().ok();
    let value = match kind {
        AttrType::Int => Some(Attr::Int(f.int as i32)),
        AttrType::Float => Some(Attr::Float(f.single)),
        AttrType::String => Some(Attr::text(f.bytes)),
        AttrType::Ints => Some(Attr::Ints(ints(f.ints))),
        AttrType::Floats => Some(Attr::Floats(f.singles)),
        AttrType::Strings => texts(f.texts).map(Attr::Strings),
        AttrType::Boolean => Some(Attr::Boolean(f.flag)),
        AttrType::Booleans => Some(Attr::Booleans(f.flags)),
        AttrType::Block => Some(Attr::Block(f.int as i32)),
        AttrType::Long => Some(Attr::Long(f.int)),
        AttrType::Blocks => Some(Attr::Blocks(ints(f.ints))),
        AttrType::Longs => Some(Attr::Longs(f.ints)),
        AttrType::Float64s => Some(Attr::Float64s(f.floats)),
        AttrType::Var => String::from_utf8(f.bytes).ok().map(Attr::Var),
        AttrType::Vars => texts(f.texts).map(Attr::Vars),
        AttrType::Float64 => Some(Attr::Float64(f.float)),
        AttrType::Scalar => f.scalars.pop().map(Attr::Scalar),
        AttrType::Scalars => Some(Attr::Scalars(f.scalars)),
        AttrType::Foreign => None,
    };
    Ok((value, extra))
}

/// `None` for an unknown type.
fn decode_scalar(bytes: &[u8]) -> Result<Option<Scalar>> {
    let (mut kind, mut flag, mut int, mut float, mut complex) = (None, false, 0, 0.0, (0.0, 0.0));
    let _ = fields!(bytes, unknown, {
        1, Value::Varint(v) => kind = Some(v),
        2, Value::Varint(v) => flag = v != 0,
        3, Value::Varint(v) => int = v as i64,
        4, Value::Fixed64(b) => float = f64::from_le_bytes(b),
        5, Value::Bytes(b) => {
            let _ = fields!(b, unknown, {
                1, Value::Fixed64(b) => complex.0 = f64::from_le_bytes(b),
                2, Value::Fixed64(b) => complex.1 = f64::from_le_bytes(b),
            });
        },
    });
    Ok(match required(kind, "Scalar", "type")? {
        1 => Some(Scalar::Boolean(flag)),
        2 => Some(Scalar::Long(int)),
        3 => Some(Scalar::Float64(float)),
        4 => Some(Scalar::Complex(complex.0, complex.1)),
        _ => None,
    })
}

fn encode_scalar(out: &mut Vec<u8>, scalar: Scalar) {
    match scalar {
        Scalar::Boolean(v) => {
            put_int(out, 1, 1);
            put_bool(out, 2, v);
        }
        Scalar::Long(v) => {
            put_int(out, 1, 2);
            put_int(out, 3, v);
        }
        Scalar::Float64(v) => {
            put_int(out, 1, 3);
            put_f64(out, 4, v);
        }
        Scalar::Complex(re, im) => {
            put_int(out, 1, 4);
            put_message(out, 5, |out| {
                put_f64(out, 1, re);
                put_f64(out, 2, im);
            });
        }
    }
}

pub(super) fn encode_attr(out: &mut Vec<u8>, name: &str, value: &Attr, extra: &[u8]) {
    if let Attr::Foreign(raw) = value {
        return out.extend_from_slice(raw);
    }
    put_bytes(out, 1, name.as_bytes());
    put_int(out, 2, value.kind() as i64);
    match value {
        Attr::Int(v) => put_int(out, 3, (*v).into()),
        Attr::Float(v) => put_f32(out, 4, *v),
        Attr::String(v) => put_bytes(out, 5, v.as_bytes()),
        Attr::Bytes(v) => put_bytes(out, 5, v),
        Attr::Ints(v) => v.iter().for_each(|&v| put_int(out, 6, v.into())),
        Attr::Floats(v) => v.iter().for_each(|&v| put_f32(out, 7, v)),
        Attr::Strings(v) => v.iter().for_each(|v| put_bytes(out, 8, v.as_bytes())),
        Attr::Boolean(v) => put_bool(out, 10, *v),
        Attr::Booleans(v) => v.iter().for_each(|&v| put_bool(out, 11, v)),
        Attr::Block(v) => put_int(out, 12, (*v).into()),
        Attr::Long(v) => put_int(out, 13, *v),
        Attr::Blocks(v) => v.iter().for_each(|&v| put_int(out, 14, v.into())),
        Attr::Longs(v) => v.iter().for_each(|&v| put_int(out, 15, v)),
        Attr::Float64s(v) => v.iter().for_each(|&v| put_f64(out, 16, v)),
        Attr::Var(v) => put_bytes(out, 17, v.as_bytes()),
        Attr::Vars(v) => v.iter().for_each(|v| put_bytes(out, 18, v.as_bytes())),
        Attr::Float64(v) => put_f64(out, 19, *v),
        Attr::Scalar(v) => put_message(out, 20, |out| encode_scalar(out, *v)),
        Attr::Scalars(v) => v.iter().for_each(|&v| put_message(out, 21, |out| encode_scalar(out, v))),
        Attr::Foreign(_) => {}
    }
    out.extend_from_slice(extra);
}
