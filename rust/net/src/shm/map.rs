//! Memory shared by the ranks of a host: a memfd, passed between processes over a Unix socket. It has no name in the
//! file system and is freed with the last process that maps it.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;

use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage};

use crate::error::{Error, Result};
use crate::os;
use crate::socket::{self, Deadline};

/// A shared mapping, unmapped on drop.
pub struct Map {
    base: *mut u8,
    len: usize,
}

// SAFETY: the mapping is plain memory; `area`, `pair` and the connections of parameter servers order accesses through
// atomics in it.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: base and len are those of the mapping, and no reference to it remains.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.len) };
    }
}

fn failed(what: &str) -> impl Fn(rustix::io::Errno) -> Error + '_ {
    move |e| Error::io(format!("shared memory: {what} (set shared_memory to false to do without)"), e)
}

impl Map {
    pub fn create(len: usize) -> Result<(Map, OwnedFd)> {
        let fd = os::anonymous_memory(len as u64).map_err(failed("memfd"))?;
        Ok((Map::from_fd(&fd, len)?, fd))
    }

    /// Maps memory of another process, which must be sealed and have `len` bytes.
    pub fn from_fd(fd: &OwnedFd, len: usize) -> Result<Map> {
        // Seals before the size: without a seal the size may change after it was read.
        if !os::is_sealed(fd) {
            return Err(Error::invalid("received shared memory whose size is not sealed"));
        }
        let found = rustix::fs::fstat(fd).map_err(failed("fstat"))?;
        if found.st_size != len as i64 {
            return Err(Error::invalid(format!("received shared memory of {} bytes, expected {len}", found.st_size)));
        }
        let user = rustix::process::geteuid();
        if found.st_uid != user.as_raw() {
            return Err(Error::invalid(format!(
                "received shared memory of user {}, expected user {}",
                found.st_uid,
                user.as_raw()
            )));
        }
        // SAFETY: a new mapping at an address chosen by the kernel touches no existing memory.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd, 0)
        };
        Ok(Map { base: base.map_err(failed("mmap"))?.cast(), len })
    }

    pub fn at(&self, off: usize, len: usize) -> *mut u8 {
        assert!(off.checked_add(len).is_some_and(|end| end <= self.len), "outside of the shared memory");
        // SAFETY: inside the mapping, as checked above.
        unsafe { self.base.add(off) }
    }

    /// A word that all processes access as an atomic only.
    pub fn word(&self, off: usize) -> &AtomicU32 {
        assert!(off.is_multiple_of(4));
        // SAFETY: inside the mapping, aligned (a mapping starts at a page), and accessed as an atomic only.
        unsafe { AtomicU32::from_ptr(self.at(off, 4).cast()) }
    }
}

fn unix_socket() -> Result<OwnedFd> {
    os::unix_socket().map_err(failed("socket"))
}

/// Passes memory to other processes through an abstract Unix socket; its random `name` is sent through the store.
pub struct MemorySender {
    socket: OwnedFd,
    pub name: Vec<u8>,
}

impl MemorySender {
    pub fn new() -> Result<MemorySender> {
        let random = socket::random_bytes::<16>()?;
        let name: Vec<u8> =
            b"oar-".iter().copied().chain(random.iter().flat_map(|b| format!("{b:02x}").into_bytes())).collect();
        let socket = unix_socket()?;
        let address = os::unix_address(&name).map_err(failed("name"))?;
        rustix::net::bind(&socket, &address).map_err(failed("bind"))?;
        rustix::net::listen(&socket, 128).map_err(failed("listen"))?;
        Ok(MemorySender { socket, name })
    }

    /// Passes `fd` to `count` processes of this user.
    pub fn send(&self, fd: &OwnedFd, count: usize, deadline: &Deadline<'_>) -> Result<()> {
        let mut given = 0;
        while given < count {
            match os::accept(&self.socket) {
                Ok(to) => {
                    let uid = os::peer_uid(&to).map_err(failed("credentials"))?;
                    // Other users can list the names of such sockets.
                    if uid == rustix::process::geteuid() && send_fd(&to, fd).is_ok() {
                        given += 1;
                    }
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                    let slice = deadline.slice("sharing memory", "ranks of this host")?;
                    let flag = rustix::event::PollFlags::IN;
                    socket::poll(&mut [rustix::event::PollFd::from_borrowed_fd(self.socket.as_fd(), flag)], slice)?;
                }
                Err(e) => return Err(failed("accept")(e)),
            }
        }
        Ok(())
    }
}

fn send_fd(to: &OwnedFd, fd: &OwnedFd) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let data = [std::io::IoSlice::new(b"m")];
    rustix::net::sendmsg(to, &data, &mut control, os::SEND_FLAGS).map_err(failed("sendmsg"))?;
    Ok(())
}

/// Receives the memory from the process that listens under `name`.
pub fn receive(name: &[u8], deadline: &Deadline<'_>) -> Result<OwnedFd> {
    let socket = unix_socket()?;
    let address = os::unix_address(name).map_err(failed("name"))?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            // The listener's queue is full for now.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                std::thread::sleep(deadline.slice("sharing memory", "a rank of this host")?.min(socket::SLICE / 10));
            }
            Err(e) => return Err(failed("connect")(e)),
        }
    }
    let owner = os::peer_uid(&socket).map_err(failed("credentials"))?;
    if owner != rustix::process::geteuid() {
        return Err(Error::invalid(format!("shared memory was offered by user {}", owner.as_raw())));
    }
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut data = [std::io::IoSliceMut::new(&mut byte)];
        match rustix::net::recvmsg(&socket, &mut data, &mut control, os::RECV_FLAGS) {
            Ok(_) => {
                for m in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(mut fds) = m {
                        if let Some(fd) = fds.next() {
                            return Ok(fd);
                        }
                    }
                }
                return Err(Error::invalid("the rank that shares its memory sent none"));
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                let slice = deadline.slice("sharing memory", "a rank of this host")?;
                let flag = rustix::event::PollFlags::IN;
                socket::poll(&mut [rustix::event::PollFd::from_borrowed_fd(socket.as_fd(), flag)], slice)?;
            }
            Err(e) => return Err(failed("recvmsg")(e)),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags};

    #[test]
    #[cfg_attr(miri, ignore = "memfd")]
    fn memory_that_can_be_truncated_is_not_mapped() {
        let fd = rustix::fs::memfd_create("oar-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        let refused = |fd: &OwnedFd, len| Map::from_fd(fd, len).err().unwrap().to_string();
        assert!(refused(&fd, 4096).contains("not sealed"));
        rustix::fs::fcntl_add_seals(&fd, SealFlags::GROW).unwrap();
        assert!(refused(&fd, 4096).contains("not sealed"));
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        assert!(Map::from_fd(&fd, 4096).is_ok());
        assert!(refused(&fd, 8192).contains("expected 8192"));
        let file = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
        assert!(refused(&file, 4096).contains("not sealed"));
    }
}
