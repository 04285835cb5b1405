//! Linux: sealed memfds, abstract Unix sockets, futexes, eventfd.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Result;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::thread::futex;

use crate::socket::timespec;

/// Whether processes of a host can share memory.
pub const SHARED_MEMORY: bool = true;
/// The event of a peer that has closed its end.
pub const HANGUP: PollFlags = PollFlags::RDHUP;
/// A send to a closed connection is an error, not SIGPIPE.
pub const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;
/// Received descriptors are closed on exec.
pub const RECV_FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// The seals of [`anonymous_memory`].
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Memory of `len` bytes without a name. Sealed: no process can change its size, which would make the others' accesses
/// fault.
pub fn anonymous_memory(len: u64) -> Result<OwnedFd> {
    let fd = rustix::fs::memfd_create("oar", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, len)?;
    rustix::fs::fcntl_add_seals(&fd, SEALS)?;
    Ok(fd)
}

/// Whether no process can change the size of this memory.
pub fn is_sealed(memory: &OwnedFd) -> bool {
    rustix::fs::fcntl_get_seals(memory).is_ok_and(|seals| seals.contains(SEALS))
}

/// A non-blocking Unix stream socket.
pub fn unix_socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// The address of a Unix socket that has no place in the file system.
pub fn unix_address(name: &[u8]) -> Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(name)
}

pub fn accept(listener: &OwnedFd) -> Result<OwnedFd> {
    rustix::net::accept_with(listener, SocketFlags::CLOEXEC)
}

/// The user whose process is at the other end of a Unix socket.
pub fn peer_uid(socket: &OwnedFd) -> Result<rustix::process::Uid> {
    rustix::net::sockopt::socket_peercred(socket).map(|c| c.uid)
}

/// Sleeps while `word` is `seen`, at most `limit`; may return early.
pub fn futex_wait(word: &AtomicU32, seen: u32, limit: Duration) {
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&timespec(limit)));
}

pub fn futex_wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

/// The processors that this process may run on.
pub fn processors(most: usize) -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None);
    set.map_or_else(|_| Vec::new(), |set| (0..most).filter(|&c| set.is_set(c)).collect())
}

/// Sets the congestion control of a connection where the system has it.
pub fn set_congestion(socket: &impl AsFd, name: &str) {
    let _ = rustix::net::sockopt::set_tcp_congestion(socket, name);
}

/// A descriptor by which another thread ends a poll: an eventfd.
pub struct WakeFd(OwnedFd);

impl WakeFd {
    pub fn new() -> Result<WakeFd> {
        use rustix::event::{eventfd, EventfdFlags};
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(WakeFd)
    }

    pub fn wake(&self) {
        // A full counter means that a wake-up is pending already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub fn drain(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Two connected sockets; only system calls, for fork handlers.
pub fn raw_socket_pair() -> Option<[RawFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
    (made == 0).then_some(ends)
}

/// Makes `to` a second descriptor of `from`, closed on exec; only system calls, for fork handlers.
pub fn raw_replace(from: RawFd, to: RawFd) -> bool {
    // SAFETY: a system call on descriptor numbers.
    unsafe { libc::dup3(from, to, libc::O_CLOEXEC) >= 0 }
}
