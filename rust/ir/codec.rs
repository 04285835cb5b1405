//! framework.proto's messages to and from bytes, as protobuf's own C++ code writes them: fields in the order of their
//! numbers, lists of numbers one by one, what was not understood last.

use super::attr::{Attr, AttrMap, AttrType, Scalar};
use super::desc::*;
use super::wire::*;
use crate::base::Result;
use crate::{ensure, err};
use std::borrow::Cow;

/// A message that can be read and written.
pub trait Message: Sized {
    fn decode(bytes: &[u8]) -> Result<Self>;
    fn encode(&self, out: &mut Vec<u8>);

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

/// Walks the fields of a message: `(number, Value pattern) => action`; everything else is kept in `unknown`.
macro_rules! fields {
    ($bytes:expr, $unknown:ident, { $($number:literal, $pat:pat => $action:expr),* $(,)? }) => {{
        let mut $unknown = Vec::new();
        let mut reader = Reader::new($bytes);
        while let Some(field) = reader.field()? {
            match (field.number, field.value) {
                $(($number, $pat) => { $action; })*
                _ => $unknown.extend_from_slice(field.raw),
            }
        }
        $unknown
    }};
}

fn text(bytes: &[u8], what: &str) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(s) => Ok(s.to_string()),
        Err(_) => Err(err!(InvalidArgument, "the {what} is not valid UTF-8")),
    }
}

fn required<T>(value: Option<T>, message: &str, field: &str) -> Result<T> {
    value.ok_or_else(|| err!(InvalidArgument, "the required field {message}.{field} is missing"))
}

/// A message field that comes in several pieces is what the pieces make together.
fn join<'a>(have: &mut Option<Cow<'a, [u8]>>, piece: &'a [u8]) {
    match have {
        None => *have = Some(Cow::Borrowed(piece)),
        Some(bytes) => bytes.to_mut().extend_from_slice(piece),
    }
}

fn decode_joined<T: Message>(bytes: Option<Cow<'_, [u8]>>) -> Result<Option<T>> {
    bytes.map(|b| T::decode(&b)).transpose()
}

/// Numbers of a packed list (lists are written one by one, but may be read either way).
fn packed<T>(bytes: &[u8], out: &mut Vec<T>, mut next: impl FnMut(&mut Reader<'_>) -> Result<T>) -> Result<()> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        out.push(next(&mut reader)?);
    }
    Ok(())
}

impl Message for TensorDesc {
    fn decode(bytes: &[u8]) -> Result<TensorDesc> {
        let (mut data_type, mut dims) = (None, Vec::new());
        let unknown = fields!(bytes, unknown, {
            1, Value::Varint(v) => data_type = Some(VarKind(v as i32)),
            2, Value::Varint(v) => dims.push(v as i64),
            2, Value::Bytes(b) => packed(b, &mut dims, |r| Ok(r.varint()? as i64))?,
        });
        required(data_type, "TensorDesc", "data_type")?;
        Ok(TensorDesc { data_type, dims, unknown })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(VarKind(kind)) = self.data_type {
            put_int(out, 1, kind.into());
        }
        self.dims.iter().for_each(|&d| put_int(out, 2, d));
        out.extend_from_slice(&self.unknown);
    }
}

impl Message for LodTensorDesc {
    fn decode(bytes: &[u8]) -> Result<LodTensorDesc> {
        let (mut tensor, mut lod_level) = (None, None);
        let unknown = fields!(bytes, unknown, {
            1, Value::Bytes(b) => join(&mut tensor, b),
            2, Value::Varint(v) => lod_level = Some(v as i32),
        });
        required(tensor.as_ref(), "LoDTensorDesc", "tensor")?;
        Ok(LodTensorDesc { tensor: decode_joined(tensor)?, lod_level, unknown })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(tensor) = &self.tensor {
            put_message(out, 1, |out| tensor.encode(out));
        }
        if let Some(level) = self.lod_level {
            put_int(out, 2, level.into());
        }
        out.extend_from_slice(&self.unknown);
    }
}

impl Message for ReaderDesc {
    fn decode(bytes: &[u8]) -> Result<ReaderDesc> {
        let mut lod_tensors = Vec::new();
        let unknown = fields!(bytes, unknown, { 1, Value::Bytes(b) => lod_tensors.push(LodTensorDesc::decode(b)?) });
        Ok(ReaderDesc { lod_tensors, unknown })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.lod_tensors.iter().for_each(|t| put_message(out, 1, |out| t.encode(out)));
        out.extend_from_slice(&self.unknown);
    }
}

impl Message for TupleDesc {
    fn decode(bytes: &[u8]) -> Result<TupleDesc> {
        let mut element_types = Vec::new();
        let unknown = fields!(bytes, unknown, {
            1, Value::Varint(v) => element_types.push(VarKind(v as i32)),
            1, Value::Bytes(b) => packed(b, &mut element_types, |r| Ok(VarKind(r.varint()? as i32)))?,
        });
        Ok(TupleDesc { element_types, unknown })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.element_types.iter().for_each(|t| put_int(out, 1, t.0.into()));
        out.extend_from_slice(&self.unknown);
    }
}

impl Message for VarType {
    fn decode(bytes: &[u8]) -> Result<VarType> {
        let (mut kind, mut rows, mut lod, mut array, mut reader, mut tuple) = (None, None, None, None, None, None);
        let unknown = fields!(bytes, unknown, {
            1, Value::Varint(v) => kind = Some(VarKind(v as i32)),
            2, Value::Bytes(b) => join(&mut rows, b),
            3, Value::Bytes(b) => join(&mut lod, b),
            4, Value::Bytes(b) => join(&mut array, b),
            5, Value::Bytes(b) => join(&mut reader, b),
            7, Value::Bytes(b) => join(&mut tuple, b),
        });
        Ok(VarType {
            kind: required(kind, "VarType", "type")?,
            selected_rows: decode_joined(rows)?,
            lod_tensor: decode_joined(lod)?,
            tensor_array: decode_joined(array)?,
            reader: decode_joined(reader)?,
            tuple: decode_joined(tuple)?,
            unknown,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        fn put<T: Message>(out: &mut Vec<u8>, number: u32, message: &Option<T>) {
            if let Some(m) = message {
                put_message(out, number, |out| m.encode(out));
            }
        }
        put_int(out, 1, self.kind.0.into());
        put(out, 2, &self.selected_rows);
        put(out, 3, &self.lod_tensor);
        put(out, 4, &self.tensor_array);
        put(out, 5, &self.reader);
        put(out, 7, &self.tuple);
        out.extend_from_slice(&self.unknown);
    }
}

impl Message for VarDesc {
    fn decode(bytes: &[u8]) -> Result<VarDesc> {
        let (mut name, mut var_type, mut persistable, mut need_check_feed) = (None, None, None, None);
        let unknown = fields!(bytes, unknown, {
            1, Value::Bytes(b) => name = Some(text(b, "name of a variable")?),
            2, Value::Bytes(b) => join(&mut var_type, b),
            3, Value::Varint(v) => persistable = Some(v != 0),
            4, Value::Varint(v) => need_check_feed = Some(v != 0),
        });
        let name = required(name, "VarDesc", "name")?;
        let var_type = decode_joined(var_type).map_err(|e| e.context(format!("in variable `{name}`")))?;
        Ok(VarDesc { name, var_type: required(var_type, "VarDesc", "type")?, persistable, need_check_feed, unknown })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, 1, self.name.as_bytes());
        put_message(out, 2, |out| self.var_type.encode(out));
        for (number, flag) in [(3, self.persistable), (4, self.need_check_feed)] {
            if let Some(flag) = flag {
                put_bool(out, number, flag);
            }
        }
        out.extend_from_slice(&self.unknown);
    }
}

fn decode_slot(bytes: &[u8], slots: &mut Vec<SlotArgs>) -> Result<()> {
    let (mut name, mut args) = (None, Vec::new());
    let _ = fields!(bytes, unknown, {
        1, Value::Bytes(b) => name = Some(text(b, "name of a slot")?),
        2, Value::Bytes(b) => args.push(text(b, "name of a variable")?),
    });
    let name = required(name, "OpDesc.Var", "parameter")?;
    match slots.iter_mut().find(|(n, _)| *n == name) {
        Some((_, have)) => have.extend(args),
        None => {
            // No operator has more than a few dozen; the bound keeps the search above cheap on damaged files.
            ensure!(slots.len() < 4096, InvalidArgument, "an operator with more than 4096 slots");
            slots.push((name, args));
        }
    }
    Ok(())
}

fn encode_slots(out: &mut Vec<u8>, number: u32, slots: &[SlotArgs]) {
    for (name, args) in slots {
        put_message(out, number, |out| {
            put_bytes(out, 1, name.as_bytes());
            args.iter().for_each(|a| put_bytes(out, 2, a.as_bytes()));
        });
    }
}

impl Message for OpDesc {
    fn decode(bytes: &[u8]) -> Result<OpDesc> {
        let mut op = OpDesc::default();
        let (mut op_type, mut attrs) = (None, Vec::new());
        let unknown = fields!(bytes, unknown, {
            1, Value::Bytes(b) => decode_slot(b, &mut op.inputs)?,
            2, Value::Bytes(b) => decode_slot(b, &mut op.outputs)?,
            3, Value::Bytes(b) => op_type = Some(text(b, "type of an operator")?),
            4, Value::Bytes(b) => attrs.push(decode_attr(b)?),
            5, Value::Varint(v) => op.is_target = Some(v != 0),
        });
        op.op_type = required(op_type, "OpDesc", "type")?;
        op.attrs = AttrMap::from_file(attrs);
        op.unknown = unknown;
        Ok(op)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        encode_slots(out, 1, &self.inputs);
        encode_slots(out, 2, &self.outputs);
        put_bytes(out, 3, self.op_type.as_bytes());
        for (name, value, extra) in self.attrs.to_file() {
            put_message(out, 4, |out| encode_attr(out, name, value, extra));
        }
        if let Some(flag) = self.is_target {
            put_bool(out, 5, flag);
        }
        out.extend_from_slice(&self.unknown);
    }
}

/// What the fields of one attribute message hold; the attribute's type says which of them counts.
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

fn decode_attr(bytes: &[u8]) -> Result<(String, Attr, Vec<u8>)> {
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
/// held (a text in a list that is not UTF-8, a scalar of a newer type).
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
        AttrType::String => Some(match String::from_utf8(f.bytes) {
            Ok(s) => Attr::String(s),
            Err(e) => Attr::Bytes(e.into_bytes()),
        }),
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

/// None for a type that is not known here.
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

fn encode_attr(out: &mut Vec<u8>, name: &str, value: &Attr, extra: &[u8]) {
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

impl Message for BlockDesc {
    fn decode(bytes: &[u8]) -> Result<BlockDesc> {
        let (mut idx, mut parent_idx, mut forward_block_idx) = (None, None, None);
        let (mut vars, mut ops) = (Vec::new(), Vec::new());
        let unknown = fields!(bytes, unknown, {
            1, Value::Varint(v) => idx = Some(v as i32),
            2, Value::Varint(v) => parent_idx = Some(v as i32),
            3, Value::Bytes(b) => vars.push(VarDesc::decode(b)?),
            4, Value::Bytes(b) => ops.push(OpDesc::decode(b)?),
            5, Value::Varint(v) => forward_block_idx = Some(v as i32),
        });
        let idx = required(idx, "BlockDesc", "idx")?;
        let parent_idx = required(parent_idx, "BlockDesc", "parent_idx")?;
        Ok(BlockDesc { idx, parent_idx, forward_block_idx, vars, ops, unknown })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_int(out, 1, self.idx.into());
        put_int(out, 2, self.parent_idx.into());
        self.vars.iter().for_each(|v| put_message(out, 3, |out| v.encode(out)));
        self.ops.iter().for_each(|o| put_message(out, 4, |out| o.encode(out)));
        if let Some(idx) = self.forward_block_idx {
            put_int(out, 5, idx.into());
        }
        out.extend_from_slice(&self.unknown);
    }
}

impl Message for Version {
    fn decode(bytes: &[u8]) -> Result<Version> {
        let mut version = None;
        let unknown = fields!(bytes, unknown, { 1, Value::Varint(v) => version = Some(v as i64) });
        Ok(Version { version, unknown })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(v) = self.version {
            put_int(out, 1, v);
        }
        out.extend_from_slice(&self.unknown);
    }
}

impl Message for OpVersion {
    fn decode(bytes: &[u8]) -> Result<OpVersion> {
        let (mut op_name, mut version) = (None, None);
        let unknown = fields!(bytes, unknown, {
            1, Value::Bytes(b) => op_name = Some(text(b, "name of an operator")?),
            2, Value::Bytes(b) => {
                let _ = fields!(b, unknown, { 1, Value::Varint(v) => version = Some(v as i32) });
            },
        });
        let op_name = required(op_name, "OpVersionPair", "op_name")?;
        Ok(OpVersion { op_name, version: required(version, "OpVersion", "version")?, unknown })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, 1, self.op_name.as_bytes());
        put_message(out, 2, |out| put_int(out, 1, self.version.into()));
        out.extend_from_slice(&self.unknown);
    }
}

impl Message for OpVersionMap {
    fn decode(bytes: &[u8]) -> Result<OpVersionMap> {
        let mut pairs = Vec::new();
        let unknown = fields!(bytes, unknown, { 1, Value::Bytes(b) => pairs.push(OpVersion::decode(b)?) });
        Ok(OpVersionMap { pairs, unknown })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.pairs.iter().for_each(|p| put_message(out, 1, |out| p.encode(out)));
        out.extend_from_slice(&self.unknown);
    }
}

impl Message for ProgramDesc {
    fn decode(bytes: &[u8]) -> Result<ProgramDesc> {
        let (mut blocks, mut version, mut map) = (Vec::new(), None, None);
        let unknown = fields!(bytes, unknown, {
            1, Value::Bytes(b) => {
                let at = blocks.len();
                blocks.push(BlockDesc::decode(b).map_err(|e| e.context(format!("in block {at} of a ProgramDesc")))?);
            },
            4, Value::Bytes(b) => join(&mut version, b),
            5, Value::Bytes(b) => join(&mut map, b),
        });
        ensure!(blocks.len() <= i32::MAX as usize, InvalidArgument, "a ProgramDesc of {} blocks", blocks.len());
        Ok(ProgramDesc { blocks, version: decode_joined(version)?, op_version_map: decode_joined(map)?, unknown })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.blocks.iter().for_each(|b| put_message(out, 1, |out| b.encode(out)));
        if let Some(version) = &self.version {
            put_message(out, 4, |out| version.encode(out));
        }
        if let Some(map) = &self.op_version_map {
            put_message(out, 5, |out| map.encode(out));
        }
        out.extend_from_slice(&self.unknown);
    }
}
