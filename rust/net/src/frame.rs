//! Frames of a TCP stream: length, type, sequence number, CRC32C of the header and of the payload.
//!
//! A header is checked before its length is used, so a corrupted length can neither allocate nor stall. After a handshake
//! a frame carries a message authentication code between header and payload, instead of the payload's checksum.

pub use crate::codec::HEADER;
use crate::mac::{Mac, TAG};

const MAGIC: u16 = 0x4F52;

/// Largest payload of a data frame.
pub const MAX_DATA: usize = 128 << 10;
/// Largest payload of a control or store frame.
pub const MAX_CONTROL: usize = 1 << 20;

/// CRC-32C (Castagnoli) of the bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Content of a frame. Unknown numbers are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    Data = 1,
    /// A fingerprint: the following data frames belong to this operation.
    Begin = 2,
    Request = 3,
    Reply = 4,
    Beat = 5,
    Failure = 6,
    Bye = 7,
    ReportAsk = 8,
    Report = 9,
}

impl Type {
    fn from_number(n: u8) -> Option<Type> {
        use Type::*;
        [Data, Begin, Request, Reply, Beat, Failure, Bye, ReportAsk, Report].into_iter().find(|t| *t as u8 == n)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub len: u32,
    pub kind: Type,
    pub seq: u64,
    pub crc: u32,
}

/// Why bytes are not a valid frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    #[error("the frame header does not match its checksum")]
    Header,
    #[error("the frame announces {0} bytes, the bound is {1}")]
    TooLong(u32, usize),
    #[error("received frame number {found}, expected {expected}")]
    Sequence { found: u64, expected: u64 },
    #[error("the payload of frame {0} does not match its checksum")]
    Payload(u64),
    #[error("frame {0} does not match its authentication code")]
    Tag(u64),
    #[error("an unexpected {0:?} frame")]
    Unexpected(Type),
    #[error("received a frame of {found} bytes, expected {expected}")]
    Length { found: usize, expected: usize },
}

impl Header {
    pub fn for_payload(kind: Type, seq: u64, payload: &[u8]) -> Header {
        Header::with_crc(kind, seq, payload, crc32c(payload))
    }

    /// For a payload whose checksum is known.
    pub fn with_crc(kind: Type, seq: u64, payload: &[u8], crc: u32) -> Header {
        Header { len: payload.len() as u32, kind, seq, crc }
    }

    pub fn encode(&self) -> [u8; HEADER] {
        let mut b = [0; HEADER];
        b[0..4].copy_from_slice(&self.len.to_le_bytes());
        b[4] = self.kind as u8;
        b[6..8].copy_from_slice(&MAGIC.to_le_bytes());
        b[8..16].copy_from_slice(&self.seq.to_le_bytes());
        b[16..20].copy_from_slice(&self.crc.to_le_bytes());
        let own = crc32c(&b[..20]);
        b[20..24].copy_from_slice(&own.to_le_bytes());
        b
    }

    /// Decodes a header; `bound` is the longest accepted payload, `seq` the expected sequence number.
    pub fn decode(b: &[u8; HEADER], bound: usize, seq: u64) -> Result<Header, Bad> {
        let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        if crc32c(&b[..20]) != word(20) || u16::from_le_bytes([b[6], b[7]]) != MAGIC || b[5] != 0 {
            return Err(Bad::Header);
        }
        let kind = Type::from_number(b[4]).ok_or(Bad::Header)?;
        let found = u64::from(word(8)) | u64::from(word(12)) << 32;
        let header = Header { len: word(0), kind, seq: found, crc: word(16) };
        if header.len as usize > bound {
            return Err(Bad::TooLong(header.len, bound));
        }
        if found != seq {
            return Err(Bad::Sequence { found, expected: seq });
        }
        Ok(header)
    }

    /// Whether the bytes are the header of a frame, of any number and length.
    pub fn is_one(b: &[u8; HEADER]) -> bool {
        b[6..8] == MAGIC.to_le_bytes() && crc32c(&b[..20]).to_le_bytes() == b[20..24]
    }

    pub fn check(&self, payload: &[u8]) -> Result<(), Bad> {
        if crc32c(payload) == self.crc {
            Ok(())
        } else {
            Err(Bad::Payload(self.seq))
        }
    }
}

/// One whole frame of a control or store connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Type,
    pub payload: Vec<u8>,
}

/// Numbers and encodes the frames of one direction of a connection.
#[derive(Debug, Default)]
pub struct Writer {
    seq: u64,
    mac: Option<Mac>,
}

impl Writer {
    /// Frames carry codes of this key.
    pub fn sealed(mac: Mac) -> Writer {
        Writer { seq: 0, mac: Some(mac) }
    }

    pub fn encode(&mut self, kind: Type, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert!(payload.len() <= MAX_CONTROL);
        match &self.mac {
            None => out.extend_from_slice(&Header::for_payload(kind, self.seq, payload).encode()),
            Some(mac) => {
                let header = Header::with_crc(kind, self.seq, payload, 0).encode();
                out.extend_from_slice(&header);
                out.extend_from_slice(&mac.tag(self.seq, &header, payload));
            }
        }
        out.extend_from_slice(payload);
        self.seq += 1;
    }
}

/// Accepts bytes incrementally and returns whole, verified frames. An error is permanent.
#[derive(Debug)]
pub struct Parser {
    bound: usize,
    seq: u64,
    buf: Vec<u8>,
    bad: Option<Bad>,
    mac: Option<Mac>,
}

impl Parser {
    pub fn new(bound: usize) -> Parser {
        Parser { bound, seq: 0, buf: Vec::new(), bad: None, mac: None }
    }

    /// Frames must carry codes of this key.
    pub fn sealed(bound: usize, mac: Mac) -> Parser {
        Parser { mac: Some(mac), ..Parser::new(bound) }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        if self.bad.is_none() {
            self.buf.extend_from_slice(bytes);
        }
    }

    /// Number of buffered bytes that do not form a frame yet.
    pub fn held(&self) -> usize {
        self.buf.len()
    }

    /// The next whole frame; `None` if more bytes are needed.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Frame>, Bad> {
        if let Some(bad) = &self.bad {
            return Err(bad.clone());
        }
        match self.take() {
            Err(bad) => {
                self.buf = Vec::new();
                self.bad = Some(bad.clone());
                Err(bad)
            }
            found => found,
        }
    }

    fn take(&mut self) -> Result<Option<Frame>, Bad> {
        let Some((head, rest)) = self.buf.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let header = Header::decode(head, self.bound, self.seq)?;
        let (tag, rest) = match &self.mac {
            None => (None, rest),
            Some(mac) => match rest.split_first_chunk::<TAG>() {
                None => return Ok(None),
                Some((tag, rest)) => (Some((mac, tag)), rest),
            },
        };
        let Some(payload) = rest.get(..header.len as usize) else {
            return Ok(None);
        };
        match tag {
            None => header.check(payload)?,
            Some((mac, tag)) if mac.verify(self.seq, head, payload, tag) => {}
            Some(_) => return Err(Bad::Tag(self.seq)),
        }
        let payload = payload.to_vec();
        let end = self.buf.len() - rest.len() + payload.len();
        self.buf.drain(..end);
        self.seq += 1;
        Ok(Some(Frame { kind: header.kind, payload }))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn crc32c_known_value() {
        assert_eq!(super::crc32c(b"123456789"), 0xE306_9283);
    }
}
