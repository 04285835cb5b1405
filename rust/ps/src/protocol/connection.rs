//! The byte stream of a connection: a socket, or memory that both ends have mapped (on one host).
//!
//! The memory holds two ring buffers, one per direction; a futex per ring wakes the end that waits for data or space.
//! The socket stays open to detect the end of the other process. The memory has no name in the file system and is freed
//! with the last process that maps it.

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

/// A non-blocking byte stream.
pub trait Stream: AsFd {
    /// Fills the buffers in order.
    fn try_read(&self, to: &mut [IoSliceMut<'_>]) -> IoResult<usize>;
    fn try_write(&self, from: &[IoSlice<'_>]) -> IoResult<usize>;
    /// Waits at most `limit` until bytes are available (`IN`) or can be written (`OUT`). True also at the end of the
    /// stream.
    fn wait(&self, flags: PollFlags, limit: Duration) -> Result<bool> {
        polled(self.as_fd(), flags, limit)
    }
    /// Whether payloads carry checksums.
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

/// Capacity per direction; a power of two, so that positions wrap around.
pub const ROOM: u32 = 1 << 20;
/// Offsets of a ring's words, each on its own cache line, and of its bytes.
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
    closed: Cell<bool>,
}

/// Creates the memory of a connection.
pub fn create() -> Result<(Map, OwnedFd)> {
    Map::create(2 * RING)
}

pub fn join(fd: &OwnedFd) -> Result<Map> {
    Map::from_fd(fd, 2 * RING)
}

impl Rings {
    fn word(&self, ring: &Ring, at: usize) -> &AtomicU32 {
        self.map.word(ring.at + at)
    }

    /// Head, tail and the number of bytes between them; an error if the other end has written invalid values.
    fn state(&self, ring: &Ring) -> IoResult<(u32, u32, u32)> {
        let tail = self.word(ring, TAIL).load(Ordering::Acquire);
        let head = self.word(ring, HEAD).load(Ordering::Acquire);
        let held = head.wrapping_sub(tail);
        match held <= ROOM {
            true => Ok((head, tail, held)),
            false => Err(IoError::new(ErrorKind::InvalidData, "the shared memory holds an invalid ring")),
        }
    }

    /// Addresses of `n` bytes from a position on, in two pieces; the second may be empty.
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
                // SAFETY: free space of the mapping: the reader reads it only after the head has moved.
                unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), to, n) };
                left = later;
            }
            (done, free) = (done + n, free - n);
        }
        if done == 0 {
            return if self.closed.get() { Err(ErrorKind::BrokenPipe.into()) } else { Err(self.blocked()) };
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
                // SAFETY: bytes of the mapping that the writer has written and does not change before the tail has
                // moved.
                unsafe { std::ptr::copy_nonoverlapping(from, now.as_mut_ptr(), n) };
                left = later;
            }
            (done, due) = (done + n, due - n);
        }
        if done == 0 {
            return if self.closed.get() { Ok(0) } else { Err(self.blocked()) };
        }
        let word = self.word(&self.into, TAIL);
        word.store(tail.wrapping_add(done as u32), Ordering::SeqCst);
        // A waiting writer is woken once there is space for several frames.
        if held - done as u32 <= ROOM / 2 {
            wait::wake(word, self.word(&self.into, WRITERS));
        }
        Ok(done)
    }

    /// Bytes available, space available, or the end of the stream.
    fn is_ready(&self, flags: PollFlags) -> bool {
        let held = |ring| self.state(ring).map(|(_, _, held)| held);
        let some = match flags.contains(PollFlags::IN) {
            true => held(&self.into).map(|n| n > 0),
            false => held(&self.out).map(|n| n < ROOM),
        };
        some.unwrap_or(true) || self.closed.get()
    }

    fn wait(&self, socket: &TcpStream, flags: PollFlags, limit: Duration) -> Result<bool> {
        if self.is_ready(flags) {
            return Ok(true);
        }
        let (ring, word, sleepers) = match flags.contains(PollFlags::IN) {
            true => (&self.into, HEAD, READERS),
            false => (&self.out, TAIL, WRITERS),
        };
        // The word's value while there is nothing to do.
        let seen = match flags.contains(PollFlags::IN) {
            true => self.word(ring, TAIL).load(Ordering::Acquire),
            false => self.word(ring, HEAD).load(Ordering::Acquire).wrapping_sub(ROOM),
        };
        wait::sleep(self.word(ring, word), self.word(ring, sleepers), seen, limit);
        if self.is_ready(flags) {
            return Ok(true);
        }
        self.check(socket)?;
        Ok(self.closed.get())
    }

    /// In shared-memory mode nothing but its end arrives on the socket.
    fn check(&self, socket: &TcpStream) -> Result<()> {
        self.closed.set(polled(socket.as_fd(), PollFlags::IN, Duration::ZERO)?);
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

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Switches to this memory; exactly one of the two ends passes `server`.
    pub fn share(&mut self, map: Map, server: bool) {
        let (up, down) = (Ring { at: 0 }, Ring { at: RING });
        let (into, out) = if server { (up, down) } else { (down, up) };
        self.rings = Some(Rings { map, into, out, closed: Cell::new(false) });
    }

    /// Whether the other end of the memory is closed; with a socket, writing detects it.
    pub fn is_over(&self) -> bool {
        self.rings.as_ref().is_some_and(|r| r.check(&self.socket).is_err() || r.closed.get())
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

    /// Memory is not corrupted in transit.
    fn needs_checksums(&self) -> bool {
        self.rings.is_none()
    }
}
