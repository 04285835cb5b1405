//! Messages over a byte stream: a head and the bytes of its variables, in frames. Over a socket frames carry
//! authentication codes, in files checksums.

use std::io::{IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::connection::{Connection, Stream};
use super::wire::Meta;
use super::{Allocate, Incoming};
use oar_net::error::{Error, Result};
use oar_net::frame::{crc32c, Header, Type, HEADER, MAX_CONTROL};
use oar_net::mac::{Seal, TAG};
use oar_net::shm::map::Map;
use oar_net::socket::{self, moved, Deadline, Moved};

/// Bytes of a data frame, and size of the buffers: data is still in the caches when it is used after the check.
const PIECE: usize = 128 << 10;
/// Payloads of at least this size are written directly, without a copy to the output buffer.
const LARGE: usize = 16 << 10;
/// Limit of the size that a message may announce for one variable.
pub const MAX_VARIABLE: u64 = 1 << 40;

/// Why a message was not received.
pub enum ChannelError {
    /// The wait ended (deadline, interruption), or this process cannot continue.
    Wait(Error),
    Gone(String),
    /// Received bytes are invalid; the connection cannot be used again.
    Refused(String),
}

impl From<Error> for ChannelError {
    fn from(e: Error) -> ChannelError {
        ChannelError::Wait(e)
    }
}

type Got<T> = std::result::Result<T, ChannelError>;

pub struct Channel<S: Stream = Connection> {
    stream: S,
    out: Vec<u8>,
    out_seq: u64,
    input: Vec<u8>,
    /// Range of `input` that was received and not consumed.
    from: usize,
    to: usize,
    in_seq: u64,
    taken: u64,
    /// The keys of the frames' authentication codes, over sockets.
    seal: Option<Box<Seal>>,
    /// The header of the frame being read, and its code.
    head: [u8; HEADER],
    tag: [u8; TAG],
    /// Longest silence of the other end within a message.
    stall_limit: Duration,
}

impl Channel {
    pub fn new(stream: TcpStream) -> Channel {
        socket::unpace(&stream);
        Channel::over(Connection::new(stream))
    }

    /// Switches to shared memory for all further bytes. Nothing may be buffered.
    pub fn share(&mut self, map: Map, server: bool) -> Got<()> {
        if self.from < self.to || !self.out.is_empty() {
            return Err(ChannelError::Refused("bytes were buffered when shared memory was offered".into()));
        }
        self.stream.share(map, server);
        self.seal = None;
        Ok(())
    }

    /// Frames carry authentication codes of these keys, as long as they pass through the socket.
    pub fn sealed(self, seal: Seal) -> Channel {
        Channel { seal: Some(Box::new(seal)), ..self }
    }
}

impl<S: Stream> Channel<S> {
    pub fn over(stream: S) -> Channel<S> {
        let input = vec![0; PIECE + HEADER + TAG];
        Channel {
            stream,
            out: Vec::new(),
            out_seq: 0,
            input,
            from: 0,
            to: 0,
            in_seq: 0,
            taken: 0,
            seal: None,
            head: [0; HEADER],
            tag: [0; TAG],
            stall_limit: Duration::MAX,
        }
    }

    /// A peer that neither sends nor receives for `stall_limit` within a message counts as gone.
    pub fn with_stall_limit(self, stall_limit: Duration) -> Channel<S> {
        Channel { stall_limit, ..self }
    }

    /// Waits for the other end; `since` is the time of its last progress.
    fn wait(&self, flags: PollFlags, since: &mut Option<Instant>, slice: Duration) -> Got<()> {
        let silent = since.get_or_insert_with(Instant::now).elapsed();
        if silent > self.stall_limit {
            return Err(ChannelError::Gone(format!(
                "silent for {:.1} s in the middle of a message",
                silent.as_secs_f64()
            )));
        }
        self.stream.wait(flags, slice)?;
        Ok(())
    }

    pub fn stream(&self) -> &S {
        &self.stream
    }

    pub fn into_stream(self) -> S {
        self.stream
    }

    /// Number of bytes consumed.
    pub fn taken(&self) -> u64 {
        self.taken - (self.to - self.from) as u64
    }

    /// Continues writing after the frames that were read (used for logs).
    pub fn continue_after(&mut self, frames: u64) {
        (self.from, self.to, self.out_seq) = (0, 0, frames);
    }

    /// Number of frames read.
    pub fn frames(&self) -> u64 {
        self.in_seq
    }

    // Sending

    /// Writes the output buffer, then `more`.
    fn flush(&mut self, more: &[u8], deadline: &Deadline<'_>, during: &str) -> Got<()> {
        let (mut done, mut since) = (0, None);
        let n = self.out.len();
        while done < n + more.len() {
            let parts = [IoSlice::new(&self.out[done.min(n)..]), IoSlice::new(&more[done.saturating_sub(n)..])];
            match moved(self.stream.try_write(&parts)) {
                Moved::Some(n) => (done, since) = (done + n, None),
                Moved::Ended(why) => return Err(ChannelError::Gone(why)),
                Moved::Blocked => self.wait(PollFlags::OUT, &mut since, deadline.slice(during, "room to send")?)?,
            }
        }
        self.out.clear();
        Ok(())
    }

    fn frame(&mut self, kind: Type, payload: &[u8], deadline: &Deadline<'_>, during: &str) -> Got<()> {
        let crc = if self.seal.is_none() && self.stream.needs_checksums() { crc32c(payload) } else { 0 };
        let header = Header::with_crc(kind, self.out_seq, payload, crc).encode();
        self.out.extend_from_slice(&header);
        if let Some(seal) = &self.seal {
            self.out.extend_from_slice(&seal.out.tag(self.out_seq, &header, payload));
        }
        self.out_seq += 1;
        if payload.len() >= LARGE {
            return self.flush(payload, deadline, during);
        }
        self.out.extend_from_slice(payload);
        match self.out.len() >= PIECE {
            true => self.flush(&[], deadline, during),
            false => Ok(()),
        }
    }

    /// Sends a head, and for each variable its row numbers and elements.
    pub fn send(
        &mut self,
        kind: Type,
        head: &[u8],
        vars: &[(&[i64], &[u8])],
        deadline: &Deadline<'_>,
        during: &str,
    ) -> Got<()> {
        if head.len() > MAX_CONTROL {
            return Err(ChannelError::Wait(Error::invalid(format!("{during}: too many variables for one message"))));
        }
        self.frame(kind, head, deadline, during)?;
        let mut piece = Vec::new();
        for (rows, data) in vars {
            for rows in rows.chunks(PIECE / 8) {
                piece.clear();
                piece.extend(rows.iter().flat_map(|r| r.to_le_bytes()));
                self.frame(Type::Data, &piece, deadline, during)?;
            }
            for data in data.chunks(PIECE) {
                self.frame(Type::Data, data, deadline, during)?;
            }
        }
        self.flush(&[], deadline, during)
    }

    // Receiving

    /// Whether bytes are available, or become available within `limit`.
    pub fn ready(&self, limit: std::time::Duration) -> Result<bool> {
        if self.from < self.to {
            return Ok(true);
        }
        self.stream.wait(PollFlags::IN, limit)
    }

    /// Ensures at least `n` bytes in the buffer; `n` must fit.
    fn need(&mut self, n: usize, deadline: &Deadline<'_>, during: &str, of: &str) -> Got<()> {
        if self.from + n > self.input.len() {
            self.input.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        let mut since = None;
        while self.to - self.from < n {
            match moved(self.stream.try_read(&mut [IoSliceMut::new(&mut self.input[self.to..])])) {
                Moved::Some(n) => (self.to, self.taken, since) = (self.to + n, self.taken + n as u64, None),
                Moved::Ended(why) => return Err(ChannelError::Gone(why)),
                Moved::Blocked => self.wait(PollFlags::IN, &mut since, deadline.slice(during, of)?)?,
            }
        }
        Ok(())
    }

    fn header(&mut self, bound: usize, deadline: &Deadline<'_>, during: &str, of: &str) -> Got<Header> {
        let n = self.header_bytes();
        self.need(n, deadline, during, of)?;
        let (head, tag) = self.input[self.from..self.from + n].split_at(HEADER);
        self.head.copy_from_slice(head);
        self.tag[..tag.len()].copy_from_slice(tag);
        self.from += n;
        let header =
            Header::decode(&self.head, bound, self.in_seq).map_err(|bad| ChannelError::Refused(bad.to_string()))?;
        self.in_seq += 1;
        Ok(header)
    }

    /// Bytes before a payload.
    fn header_bytes(&self) -> usize {
        HEADER + if self.seal.is_some() { TAG } else { 0 }
    }

    /// Fills `to` with the payload of a frame: buffered bytes first, the rest directly, together with the next header.
    fn payload(&mut self, header: &Header, to: &mut [u8], deadline: &Deadline<'_>, during: &str, of: &str) -> Got<()> {
        let mut done = to.len().min(self.to - self.from);
        to[..done].copy_from_slice(&self.input[self.from..self.from + done]);
        self.from += done;
        let (mut since, n) = (None, self.header_bytes());
        while done < to.len() {
            let (left, next) = (&mut to[done..], &mut self.input[..n]);
            let due = left.len();
            match moved(self.stream.try_read(&mut [IoSliceMut::new(left), IoSliceMut::new(next)])) {
                Moved::Some(n) => {
                    (self.from, self.to) = (0, n.saturating_sub(due));
                    (done, self.taken, since) = (done + n.min(due), self.taken + n as u64, None);
                }
                Moved::Ended(why) => return Err(ChannelError::Gone(why)),
                Moved::Blocked => self.wait(PollFlags::IN, &mut since, deadline.slice(during, of)?)?,
            }
        }
        let right = match &self.seal {
            Some(seal) => seal.incoming.verify(header.seq, &self.head, to, &self.tag),
            None => !self.stream.needs_checksums() || crc32c(to) == header.crc,
        };
        let kind = if self.seal.is_some() { "authentication code" } else { "checksum" };
        match right {
            true => Ok(()),
            false => Err(ChannelError::Refused(format!("frame {} does not match its {kind}", header.seq))),
        }
    }

    /// Receives the head of a message; frames of another kind are refused.
    pub fn head(&mut self, kind: Type, deadline: &Deadline<'_>, during: &str, of: &str) -> Got<Vec<u8>> {
        match self.any_head(deadline, during, of)? {
            (found, head) if found == kind => Ok(head),
            (found, _) => Err(ChannelError::Refused(format!("an unexpected {found:?} frame"))),
        }
    }

    pub fn any_head(&mut self, deadline: &Deadline<'_>, during: &str, of: &str) -> Got<(Type, Vec<u8>)> {
        let header = self.header(MAX_CONTROL, deadline, during, of)?;
        let mut head = vec![0; header.len as usize];
        self.payload(&header, &mut head, deadline, during, of)?;
        Ok((header.kind, head))
    }

    fn data(&mut self, to: &mut [u8], deadline: &Deadline<'_>, during: &str, of: &str) -> Got<()> {
        for piece in to.chunks_mut(PIECE) {
            let header = self.header(PIECE, deadline, during, of)?;
            if header.kind != Type::Data || header.len as usize != piece.len() {
                let what = format!("received a frame of {} bytes, expected {}", header.len, piece.len());
                return Err(ChannelError::Refused(what));
            }
            self.payload(&header, piece, deadline, during, of)?;
        }
        Ok(())
    }

    /// Receives the variables of a head. Variables that `allocate` refuses are read and discarded, so that the connection
    /// stays usable; the reason is the inner error.
    pub fn vars(
        &mut self,
        metas: &[Meta],
        allocate: Allocate<'_>,
        deadline: &Deadline<'_>,
        during: &str,
        of: &str,
    ) -> Got<std::result::Result<Vec<Incoming>, String>> {
        let (mut found, mut refused) = (Vec::new(), None);
        for meta in metas {
            if meta.bytes > MAX_VARIABLE || meta.rows > MAX_VARIABLE / 8 {
                return Err(ChannelError::Refused(format!(
                    "the variable {} of {} bytes exceeds the limit",
                    meta.name, meta.bytes
                )));
            }
            let rows = self.rows(meta.rows, deadline, during, of)?;
            let room = match &refused {
                None => allocate(meta).and_then(|room| match room.bytes().len() as u64 == meta.bytes {
                    true => Ok(room),
                    false => {
                        Err(format!("{} has {} bytes where {} were sent", meta.name, room.bytes().len(), meta.bytes))
                    }
                }),
                Some(_) => Err(String::new()),
            };
            match room {
                Ok(mut data) => {
                    self.data(data.bytes_mut(), deadline, during, of)?;
                    found.push(Incoming { meta: meta.clone(), rows, data });
                }
                Err(why) => {
                    refused.get_or_insert(why);
                    self.skip(meta.bytes, deadline, during, of)?;
                }
            }
        }
        Ok(refused.map_or(Ok(found), Err))
    }

    /// Row numbers; memory grows as they arrive.
    fn rows(&mut self, n: u64, deadline: &Deadline<'_>, during: &str, of: &str) -> Got<Vec<i64>> {
        let (mut left, mut rows, mut piece) = (n as usize, Vec::new(), Vec::new());
        while left > 0 {
            let count = left.min(PIECE / 8);
            piece.resize(count * 8, 0);
            self.data(&mut piece, deadline, during, of)?;
            rows.extend(piece.chunks_exact(8).map(|b| {
                let mut w = [0; 8];
                w.copy_from_slice(b);
                i64::from_le_bytes(w)
            }));
            left -= count;
        }
        Ok(rows)
    }

    fn skip(&mut self, bytes: u64, deadline: &Deadline<'_>, during: &str, of: &str) -> Got<()> {
        let (mut left, mut piece) = (bytes, Vec::new());
        while left > 0 {
            let n = left.min(PIECE as u64) as usize;
            piece.resize(n, 0);
            self.data(&mut piece, deadline, during, of)?;
            left -= n as u64;
        }
        Ok(())
    }
}

/// The borrowed parts of variables, for [`Channel::send`].
pub fn parts(vars: &[super::Outgoing]) -> Vec<(&[i64], &[u8])> {
    vars.iter().map(|v| (&v.rows[..], v.data.bytes())).collect()
}
