//! What the bytes of a connection pass through: a socket, or within a host memory that both ends have mapped.
//!
//! Memory is two rings of bytes, one each way; who finds nothing, or no room, sleeps on a word in it. The socket stays
//! open beside it and says when the other end is gone. Nothing has a name in the file system: the memory goes with the
//! last process that has it.

use std::cell::Cell;
use std::fs::File;
use std::io::{Error as IoError, ErrorKind, IoSlice, IoSliceMut, Read, Result as IoResult, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use oar_net::error::Result;
use oar_net::shm::map::Map;
use oar_net::shm::wait;
use oar_net::socket;

/// What bytes come from and go to.
pub trait Stream: AsFd {
    /// Fill the first, then the second.
    fn try_read(&self, to: &mut [IoSliceMut<'_>]) -> IoResult<usize>;
    fn try_write(&self, from: &[IoSlice<'_>]) -> IoResult<usize>;
    /// Is there something to take (`IN`) or room to give (`OUT`), or does it come within `limit`? True also at the end.
    fn wait(&self, flags: PollFlags, limit: Duration) -> Result<bool> {
        polled(self.as_fd(), flags, limit)
    }
    /// Do payloads carry checksums?
    fn needs_checksums(&self) -> bool {
        true
    }
}

pub fn polled(fd: BorrowedFd<'_>, flags: PollFlags, limit: Duration) -> Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    socket::poll(&mut fds, limit)?;
    Ok(!fds[0].revents().is_empty())
}

impl Stream for File {
    fn try_read(&self, to: &mut [IoSliceMut<'_>]) -> IoResult<usize> {
        (&mut &*self).read_vectored(to)
    }
    fn try_write(&self, from: &[IoSlice<'_>]) -> IoResult<usize> {
        (&mut &*self).write_vectored(from)
    }
}

/// Bytes under way each way; a power of two, so that positions may wrap around.
pub const ROOM: u32 = 1 << 20;
/// Words of a ring, each on a line of its own, then the bytes.
const HEAD: usize = 0;
const READERS: usize = 64;
const TAIL: usize = 128;
const WRITERS: usize = 192;
const BYTES: usize = 4096;
pub const RING: usize = BYTES + ROOM as usize;

/// One direction. The writer moves the head, the reader the tail.
struct Ring {
    at: usize,
}

struct Rings {
    map: Map,
    into: Ring,
    out: Ring,
    gone: Cell<bool>,
}

/// Memory for two ends.
pub fn create() -> Result<(Map, OwnedFd)> {
    Map::create(2 * RING)
}

pub fn join(fd: &OwnedFd) -> Result<Map> {
    Map::of(fd, 2 * RING)
}

impl Rings {
    fn word(&self, ring: &Ring, at: usize) -> &AtomicU32 {
        self.map.word(ring.at + at)
    }

    /// Head, tail and the bytes between them; an error where the other end has written nonsense.
    fn state(&self, ring: &Ring) -> IoResult<(u32, u32, u32)> {
        let tail = self.word(ring, TAIL).load(Ordering::Acquire);
        let head = self.word(ring, HEAD).load(Ordering::Acquire);
        let held = head.wrapping_sub(tail);
        match held <= ROOM {
            true => Ok((head, tail, held)),
            false => Err(IoError::new(ErrorKind::InvalidData, "the shared memory holds no ring any more")),
        }
    }

    /// The places of `n` bytes from a position on, in two pieces: of the second there may be nothing.
    fn places(&self, ring: &Ring, from: u32, n: usize) -> [(*mut u8, usize); 2] {
        let start = (from % ROOM) as usize;
        let first = n.min(ROOM as usize - start);
        let base = ring.at + BYTES;
        [(self.map.at(base + start, first), first), (self.map.at(base, n - first), n - first)]
    }

    fn blocked(&self) -> IoError {
        ErrorKind::WouldBlock.into()
    }

    fn try_write(&self, from: &[IoSlice<'_>]) -> IoResult<usize> {
        let (head, _, held) = self.state(&self.out)?;
        let (mut done, mut free) = (0usize, (ROOM - held) as usize);
        for part in from {
            let n = part.len().min(free);
            let mut left = &part[..n];
            for (to, n) in self.places(&self.out, head.wrapping_add(done as u32), n) {
                let (now, later) = left.split_at(n);
                // SAFETY: places in the mapping that are free: the reader reads them only after the head has moved.
                unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), to, n) };
                left = later;
            }
            (done, free) = (done + n, free - n);
        }
        if done == 0 {
            return if self.gone.get() { Err(ErrorKind::BrokenPipe.into()) } else { Err(self.blocked()) };
        }
        let word = self.word(&self.out, HEAD);
        word.store(head.wrapping_add(done as u32), Ordering::SeqCst);
        wait::wake(word, self.word(&self.out, READERS));
        Ok(done)
    }

    fn try_read(&self, to: &mut [IoSliceMut<'_>]) -> IoResult<usize> {
        let (_, tail, held) = self.state(&self.into)?;
        let (mut done, mut due) = (0usize, held as usize);
        for part in to {
            let n = part.len().min(due);
            let mut left = &mut part[..n];
            for (from, n) in self.places(&self.into, tail.wrapping_add(done as u32), n) {
                let (now, later) = left.split_at_mut(n);
                // SAFETY: places in the mapping that the writer has filled and leaves alone until the tail has moved.
                unsafe { std::ptr::copy_nonoverlapping(from, now.as_mut_ptr(), n) };
                left = later;
            }
            (done, due) = (done + n, due - n);
        }
        if done == 0 {
            return if self.gone.get() { Ok(0) } else { Err(self.blocked()) };
        }
        let word = self.word(&self.into, TAIL);
        word.store(tail.wrapping_add(done as u32), Ordering::SeqCst);
        // A writer that found no room goes on once there is some for several frames.
        if held - done as u32 <= ROOM / 2 {
            wait::wake(word, self.word(&self.into, WRITERS));
        }
        Ok(done)
    }

    /// Something to take, or room to give, or nothing more to come.
    fn is_ready(&self, flags: PollFlags) -> bool {
        let held = |ring| self.state(ring).map(|(_, _, held)| held);
        let some = match flags.contains(PollFlags::IN) {
            true => held(&self.into).map(|n| n > 0),
            false => held(&self.out).map(|n| n < ROOM),
        };
        some.unwrap_or(true) || self.gone.get()
    }

    fn wait(&self, socket: &TcpStream, flags: PollFlags, limit: Duration) -> Result<bool> {
        if self.is_ready(flags) {
            return Ok(true);
        }
        let (ring, word, sleepers) = match flags.contains(PollFlags::IN) {
            true => (&self.into, HEAD, READERS),
            false => (&self.out, TAIL, WRITERS),
        };
        // As the word is while there is nothing to do.
        let seen = match flags.contains(PollFlags::IN) {
            true => self.word(ring, TAIL).load(Ordering::Acquire),
            false => self.word(ring, HEAD).load(Ordering::Acquire).wrapping_sub(ROOM),
        };
        wait::sleep(self.word(ring, word), self.word(ring, sleepers), seen, limit);
        if self.is_ready(flags) {
            return Ok(true);
        }
        self.check(socket)?;
        Ok(self.gone.get())
    }

    /// Nothing comes by the socket any more but its end.
    fn check(&self, socket: &TcpStream) -> Result<()> {
        self.gone.set(polled(socket.as_fd(), PollFlags::IN, Duration::ZERO)?);
        Ok(())
    }
}

pub struct Connection {
    socket: TcpStream,
    rings: Option<Rings>,
}

impl Connection {
    pub fn new(socket: TcpStream) -> Connection {
        Connection { socket, rings: None }
    }

    /// From now on bytes pass through this memory; the two ends say different things about `server`.
    pub fn share(&mut self, map: Map, server: bool) {
        let (up, down) = (Ring { at: 0 }, Ring { at: RING });
        let (into, out) = if server { (up, down) } else { (down, up) };
        self.rings = Some(Rings { map, into, out, gone: Cell::new(false) });
    }

    /// Whether the other end of the memory is gone; a socket tells that to who writes.
    pub fn is_over(&self) -> bool {
        self.rings.as_ref().is_some_and(|r| r.check(&self.socket).is_err() || r.gone.get())
    }

    #[cfg(test)]
    pub fn is_shared(&self) -> bool {
        self.rings.is_some()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream for Connection {
    fn try_read(&self, to: &mut [IoSliceMut<'_>]) -> IoResult<usize> {
        match &self.rings {
            Some(rings) => rings.try_read(to),
            None => (&mut &self.socket).read_vectored(to),
        }
    }

    fn try_write(&self, from: &[IoSlice<'_>]) -> IoResult<usize> {
        match &self.rings {
            Some(rings) => rings.try_write(from),
            None => (&mut &self.socket).write_vectored(from),
        }
    }

    fn wait(&self, flags: PollFlags, limit: Duration) -> Result<bool> {
        match &self.rings {
            Some(rings) => rings.wait(&self.socket, flags, limit),
            None => polled(self.as_fd(), flags, limit),
        }
    }

    /// Nothing in between can change what is in memory.
    fn needs_checksums(&self) -> bool {
        self.rings.is_none()
    }
}
