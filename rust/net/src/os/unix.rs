//! Systems without memfds and futexes, macOS among them: memory is not shared, and `SHARED_MEMORY` says so to callers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::{Errno, FdFlags, Result};
use rustix::net::{RecvFlags, SendFlags, SocketAddrUnix};

/// Whether processes of a host can share memory.
pub const SHARED_MEMORY: bool = false;
/// The event of a peer that has closed its end.
pub const HANGUP: PollFlags = PollFlags::HUP;
pub const SEND_FLAGS: SendFlags = SendFlags::empty();
pub const RECV_FLAGS: RecvFlags = RecvFlags::empty();

pub fn anonymous_memory(_len: u64) -> Result<OwnedFd> {
    Err(Errno::NOSYS)
}

pub fn is_sealed(_memory: &OwnedFd) -> bool {
    false
}

pub fn unix_socket() -> Result<OwnedFd> {
    Err(Errno::NOSYS)
}

pub fn unix_address(_name: &[u8]) -> Result<SocketAddrUnix> {
    Err(Errno::NOSYS)
}

pub fn accept(_listener: &OwnedFd) -> Result<OwnedFd> {
    Err(Errno::NOSYS)
}

pub fn peer_uid(_socket: &OwnedFd) -> Result<rustix::process::Uid> {
    Err(Errno::NOSYS)
}

/// Callers check the word again after each slice.
pub fn futex_wait(_word: &AtomicU32, _seen: u32, limit: Duration) {
    std::thread::sleep(limit.min(Duration::from_micros(200)));
}

pub fn futex_wake(_word: &AtomicU32) {}

/// The processors that this process may run on: all, since the system has no affinity.
pub fn processors(most: usize) -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, |n| n.get()).min(most)).collect()
}

/// Connections keep the system's congestion control.
pub fn set_congestion(_socket: &impl AsFd, _name: &str) {}

/// A descriptor by which another thread ends a poll: a pipe.
pub struct WakeFd {
    read: OwnedFd,
    write: OwnedFd,
}

impl WakeFd {
    pub fn new() -> Result<WakeFd> {
        let (read, write) = rustix::pipe::pipe()?;
        for end in [&read, &write] {
            rustix::io::fcntl_setfd(end, FdFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(end, true)?;
        }
        Ok(WakeFd { read, write })
    }

    pub fn wake(&self) {
        // A full pipe means that a wake-up is pending already.
        let _ = rustix::io::write(&self.write, &[1]);
    }

    pub fn drain(&self) {
        while rustix::io::read(&self.read, &mut [0u8; 64]).is_ok_and(|n| n == 64) {}
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

/// Two connected sockets; only system calls, for fork handlers.
pub fn raw_socket_pair() -> Option<[RawFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) };
    (made == 0).then_some(ends)
}

/// Makes `to` a second descriptor of `from`, closed on exec; only system calls, for fork handlers.
pub fn raw_replace(from: RawFd, to: RawFd) -> bool {
    // SAFETY: system calls on descriptor numbers.
    unsafe { libc::dup2(from, to) >= 0 && libc::fcntl(to, libc::F_SETFD, libc::FD_CLOEXEC) >= 0 }
}
