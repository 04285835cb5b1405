//! The protobuf wire format: fields out of a byte slice and into a buffer, independent of any message.

use crate::base::Result;
use crate::{bail, ensure, err};

/// The value of one field.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    /// A group, skipped as a whole.
    Group,
}

/// One field: its number, its value, and its bytes with the tag (kept if the number is unknown).
pub struct Field<'a> {
    pub number: u32,
    pub value: Value<'a>,
    pub raw: &'a [u8],
}

/// Reads the fields of one message.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Nested groups beyond this depth are refused, as protobuf does.
const MAX_GROUP_DEPTH: usize = 100;

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for i in 0..10 {
            let Some(&byte) = self.bytes.get(self.at) else { break };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        bail!(InvalidArgument, "a protobuf message is cut short or holds a number of more than 10 bytes");
    }

    fn take(&mut self, n: u64) -> Result<&'a [u8]> {
        let left = self.bytes.len() - self.at;
        ensure!(n <= left as u64, InvalidArgument, "a protobuf message is cut short: {n} bytes needed, {left} left");
        let out = &self.bytes[self.at..self.at + n as usize];
        self.at += n as usize;
        Ok(out)
    }

    pub fn fixed32(&mut self) -> Result<[u8; 4]> {
        let mut out = [0; 4];
        out.copy_from_slice(self.take(4)?);
        Ok(out)
    }

    pub fn fixed64(&mut self) -> Result<[u8; 8]> {
        let mut out = [0; 8];
        out.copy_from_slice(self.take(8)?);
        Ok(out)
    }

    fn tag(&mut self) -> Result<(u32, u8)> {
        let tag = self.varint()?;
        let number = tag >> 3;
        ensure!(
            (1..1 << 29).contains(&number),
            InvalidArgument,
            "a protobuf message has a field with the number {number}"
        );
        Ok((number as u32, (tag & 7) as u8))
    }

    /// The next field, or None at the end of the message.
    pub fn field(&mut self) -> Result<Option<Field<'a>>> {
        if self.is_empty() {
            return Ok(None);
        }
        let start = self.at;
        let (number, wire) = self.tag()?;
        let value = self.value(number, wire, 0)?;
        Ok(Some(Field { number, value, raw: &self.bytes[start..self.at] }))
    }

    fn value(&mut self, number: u32, wire: u8, depth: usize) -> Result<Value<'a>> {
        Ok(match wire {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.fixed64()?),
            2 => {
                let n = self.varint()?;
                Value::Bytes(self.take(n)?)
            }
            3 => {
                ensure!(depth < MAX_GROUP_DEPTH, InvalidArgument, "a protobuf message is nested too deeply");
                loop {
                    let (inner, wire) = self.tag()?;
                    if wire == 4 {
                        ensure!(inner == number, InvalidArgument, "a protobuf group {number} is closed by {inner}");
                        break;
                    }
                    self.value(inner, wire, depth + 1)?;
                }
                Value::Group
            }
            5 => Value::Fixed32(self.fixed32()?),
            _ => bail!(InvalidArgument, "a protobuf message has a field {number} of the unknown wire type {wire}"),
        })
    }
}

/// Appends a field's tag.
fn tag(out: &mut Vec<u8>, number: u32, wire: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire));
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// int32, int64 and enum fields: negative numbers take ten bytes.
pub fn put_int(out: &mut Vec<u8>, number: u32, value: i64) {
    tag(out, number, 0);
    put_varint(out, value as u64);
}

pub fn put_bool(out: &mut Vec<u8>, number: u32, value: bool) {
    put_int(out, number, i64::from(value));
}

pub fn put_f32(out: &mut Vec<u8>, number: u32, value: f32) {
    tag(out, number, 5);
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_f64(out: &mut Vec<u8>, number: u32, value: f64) {
    tag(out, number, 1);
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    tag(out, number, 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A message field; `write` appends its contents.
pub fn put_message(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    tag(out, number, 2);
    let start = out.len();
    write(out);
    // The length precedes the contents but is known only afterwards.
    let mut length = Vec::with_capacity(5);
    put_varint(&mut length, (out.len() - start) as u64);
    let n = length.len();
    out.extend_from_slice(&length);
    out[start..].rotate_right(n);
}

/// Iterates over the fields of a message: `(number, Value pattern) => action`; everything else is kept in `unknown`.
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

pub(super) use fields;

pub(super) fn text(bytes: &[u8], what: &str) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(s) => Ok(s.to_string()),
        Err(_) => Err(err!(InvalidArgument, "the {what} is not valid UTF-8")),
    }
}

pub(super) fn required<T>(value: Option<T>, message: &str, field: &str) -> Result<T> {
    value.ok_or_else(|| err!(InvalidArgument, "the required field {message}.{field} is missing"))
}

/// Numbers of a packed list (lists are written one by one, but may be read either way).
pub(super) fn packed<T>(
    bytes: &[u8],
    out: &mut Vec<T>,
    mut next: impl FnMut(&mut Reader<'_>) -> Result<T>,
) -> Result<()> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        out.push(next(&mut reader)?);
    }
    Ok(())
}
