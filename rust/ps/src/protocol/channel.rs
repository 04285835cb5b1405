//! One end of a connection: messages of a head and the bytes of its variables, in checked frames. Files hold the same.

use std::io::{IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::connection::{Connection, Stream};
use super::wire::Meta;
use super::{Allocate, Incoming};
use oar_net::error::{Error, Result};
use oar_net::frame::{crc32c, Header, Type, HEADER, MAX_CONTROL};
use oar_net::shm::map::Map;
use oar_net::socket::{self, moved, Deadline, Moved};

/// Bytes of a data frame, and of the buffers: what has been checked is still in the caches when it is used.
const PIECE: usize = 128 << 10;
/// Frames from so many bytes on are not gathered, but go from where they lie.
const LARGE: usize = 16 << 10;
/// Most bytes that a message may announce for one variable.
pub const MAX_VARIABLE: u64 = 1 << 40;

/// Why a message did not come: the connection is gone, or what came is no message.
pub enum ChannelError {
    /// The wait is over (deadline, interruption), or the process cannot go on.
    Wait(Error),
    Gone(String),
    /// What arrived is refused; the connection is of no more use.
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
    /// What of `input` has been read and not yet taken.
    from: usize,
    to: usize,
    in_seq: u64,
    taken: u64,
    /// How long the other end may stay silent in the middle of a message.
    stall_limit: Duration,
}

impl Channel {
    pub fn new(stream: TcpStream) -> Channel {
        socket::unpace(&stream);
        Channel::over(Connection::new(stream))
    }

    /// What comes next passes through memory of both ends. Nothing may be under way.
    pub fn share(&mut self, map: Map, server: bool) -> Got<()> {
        if self.from < self.to || !self.out.is_empty() {
            return Err(ChannelError::Refused("bytes were under way when the memory came".into()));
        }
        self.stream.share(map, server);
        Ok(())
    }
}

impl<S: Stream> Channel<S> {
    pub fn over(stream: S) -> Channel<S> {
        let input = vec![0; PIECE + HEADER];
        Channel {
            stream,
            out: Vec::new(),
            out_seq: 0,
            input,
            from: 0,
            to: 0,
            in_seq: 0,
            taken: 0,
            stall_limit: Duration::MAX,
        }
    }

    /// An end that says nothing, or takes nothing, for so long in the middle of a message is gone.
    pub fn with_stall_limit(self, stall_limit: Duration) -> Channel<S> {
        Channel { stall_limit, ..self }
    }

    /// Wait for the other end; `since` is when it was last heard of.
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

    /// Bytes that were read and are no part of what is still to be taken.
    pub fn taken(&self) -> u64 {
        self.taken - (self.to - self.from) as u64
    }

    /// What is written from now on continues what has been read.
    pub fn go_on(&mut self, frames: u64) {
        (self.from, self.to, self.out_seq) = (0, 0, frames);
    }

    /// Whole frames that were read.
    pub fn frames(&self) -> u64 {
        self.in_seq
    }

    // Sending

    /// What has been gathered, and `more` after it.
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
        let crc = if self.stream.needs_checksums() { crc32c(payload) } else { 0 };
        self.out.extend_from_slice(&Header::with_crc(kind, self.out_seq, payload, crc).encode());
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

    /// A head, and the bytes of its variables: for each its rows and its elements.
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

    /// Has something arrived, or does within `limit`?
    pub fn ready(&self, limit: std::time::Duration) -> Result<bool> {
        if self.from < self.to {
            return Ok(true);
        }
        self.stream.wait(PollFlags::IN, limit)
    }

    /// At least `n` bytes in the buffer; `n` fits.
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
        self.need(HEADER, deadline, during, of)?;
        let mut bytes = [0; HEADER];
        bytes.copy_from_slice(&self.input[self.from..self.from + HEADER]);
        self.from += HEADER;
        let header =
            Header::decode(&bytes, bound, self.in_seq).map_err(|bad| ChannelError::Refused(bad.to_string()))?;
        self.in_seq += 1;
        Ok(header)
    }

    /// Fill `to` with the payload of a frame: what is not in the buffer comes to where it belongs, and the next header with it.
    fn payload(&mut self, header: &Header, to: &mut [u8], deadline: &Deadline<'_>, during: &str, of: &str) -> Got<()> {
        let mut done = to.len().min(self.to - self.from);
        to[..done].copy_from_slice(&self.input[self.from..self.from + done]);
        self.from += done;
        let mut since = None;
        while done < to.len() {
            let (left, next) = (&mut to[done..], &mut self.input[..HEADER]);
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
        match !self.stream.needs_checksums() || crc32c(to) == header.crc {
            true => Ok(()),
            false => {
                Err(ChannelError::Refused(format!("the payload of frame {} does not match its checksum", header.seq)))
            }
        }
    }

    /// The head of a message: frames of other kinds are refused.
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
                let what = format!("a frame of {} bytes came where {} were due", header.len, piece.len());
                return Err(ChannelError::Refused(what));
            }
            self.payload(&header, piece, deadline, during, of)?;
        }
        Ok(())
    }

    /// The variables of a head. What `place` refuses is read past, so that the connection stays of use; the reason is the
    /// inner error then.
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
                return Err(ChannelError::Refused(format!("the variable {} of {} bytes", meta.name, meta.bytes)));
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

    /// Row numbers; memory is taken as they arrive.
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

/// The borrowed parts of variables, as [`Channel::send`] takes them.
pub fn parts(vars: &[super::Outgoing]) -> Vec<(&[i64], &[u8])> {
    vars.iter().map(|v| (&v.rows[..], v.data.bytes())).collect()
}
