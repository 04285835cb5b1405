//! Little-endian fields of a byte string: a writer, and a reader that returns `None` past the end.

use crate::error::{Error, Result};

/// Bytes of a frame's header.
pub const HEADER: usize = 24;

/// Decodes hexadecimal text.
pub fn from_hex(text: &str) -> Result<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let pair = |p: &[u8]| match p {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(pair).collect();
    bytes.ok_or_else(|| Error::invalid("a job token is an even number of hexadecimal digits"))
}

#[derive(Default)]
pub struct Put(pub Vec<u8>);

impl Put {
    pub fn u8(mut self, v: u8) -> Put {
        self.0.push(v);
        self
    }

    pub fn u32(mut self, v: u32) -> Put {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }

    pub fn u64(mut self, v: u64) -> Put {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }

    pub fn raw(mut self, v: &[u8]) -> Put {
        self.0.extend_from_slice(v);
        self
    }

    /// Appends the length and the bytes.
    pub fn bytes(self, v: &[u8]) -> Put {
        self.u32(v.len() as u32).raw(v)
    }
}

pub struct Take<'a>(pub &'a [u8]);

impl<'a> Take<'a> {
    pub fn raw(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    pub fn u8(&mut self) -> Option<u8> {
        Some(self.raw(1)?[0])
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.raw(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.raw(8)?.try_into().ok()?))
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()? as usize;
        self.raw(n)
    }

    pub fn text(&mut self) -> Option<String> {
        self.bytes().map(|b| String::from_utf8_lossy(b).into_owned())
    }
}
