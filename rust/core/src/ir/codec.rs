//! framework.proto's messages to and from bytes, as protobuf's C++ code writes them: fields in the order of their
//! numbers, lists of numbers unpacked, unknown fields last.

use super::attr::AttrMap;
use super::codec_attr::{decode_attr, encode_attr};
use super::desc::*;
use super::wire::*;
use crate::base::Result;
use crate::ensure;
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

/// A message field that comes in several pieces is their concatenation.
fn join<'a>(have: &mut Option<Cow<'a, [u8]>>, piece: &'a [u8]) {
    match have {
        None => *have = Some(Cow::Borrowed(piece)),
        Some(bytes) => bytes.to_mut().extend_from_slice(piece),
    }
}

fn decode_joined<T: Message>(bytes: Option<Cow<'_, [u8]>>) -> Result<Option<T>> {
    bytes.map(|b| T::decode(&b)).transpose()
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
            // Operators have a few dozen slots; the bound keeps the search above cheap on damaged files.
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
