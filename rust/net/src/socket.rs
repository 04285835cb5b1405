//! Non-blocking sockets with deadlines: every wait is split into slices, after each of which deadline and interruption
//! are checked.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Error, Result};
use crate::{fork, os};

/// Longest time that a wait goes without checking its deadline and interruption.
pub const SLICE: Duration = Duration::from_millis(50);

/// The end of a wait, and a check that may end it earlier.
pub struct Deadline<'a> {
    started: Instant,
    until: Instant,
    stop: &'a dyn Fn() -> Result<()>,
}

/// `start + limit`, saturating.
pub fn after(start: Instant, limit: Duration) -> Instant {
    start.checked_add(limit).unwrap_or_else(|| start + Duration::from_secs(365 * 86_400))
}

fn never() -> Result<()> {
    Ok(())
}

impl<'a> Deadline<'a> {
    pub fn new(limit: Duration, stop: &'a dyn Fn() -> Result<()>) -> Deadline<'a> {
        let started = Instant::now();
        Deadline { started, until: after(started, limit), stop }
    }

    pub fn only(limit: Duration) -> Deadline<'static> {
        Deadline::new(limit, &never)
    }

    /// A part of this wait that lasts at most `limit`.
    pub fn within(&self, limit: Duration) -> Deadline<'a> {
        Deadline::new(limit.min(self.left()), self.stop)
    }

    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Duration of the next slice of the wait; an error once the wait is over.
    pub fn slice(&self, during: &str, waiting_for: &str) -> Result<Duration> {
        (self.stop)()?;
        let left = self.left();
        if left.is_zero() {
            return Err(Error::Timeout {
                waited: self.started.elapsed(),
                during: during.to_string(),
                waiting_for: waiting_for.to_string(),
            });
        }
        Ok(left.min(SLICE))
    }
}

pub fn timespec(d: Duration) -> Timespec {
    Timespec { tv_sec: d.as_secs() as _, tv_nsec: d.subsec_nanos() as _ }
}

/// Waits until one of `fds` is ready or the limit has passed; returns early on a signal.
pub fn poll(fds: &mut [PollFd<'_>], limit: Duration) -> Result<()> {
    match rustix::event::poll(fds, Some(&timespec(limit))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(Error::io("poll", e)),
    }
}

fn poll_one(fd: BorrowedFd<'_>, flags: PollFlags, limit: Duration) -> Result<()> {
    poll(&mut [PollFd::from_borrowed_fd(fd, flags)], limit)
}

/// A descriptor by which another thread ends a poll.
pub struct Waker(os::WakeFd);

impl Waker {
    pub fn new() -> Result<Waker> {
        os::WakeFd::new().map(Waker).map_err(|e| Error::io("eventfd", e))
    }

    pub fn wake(&self) {
        self.0.wake();
    }

    pub fn drain(&self) {
        self.0.drain();
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
}

pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut b = [0; N];
    getrandom::fill(&mut b).map_err(|e| Error::io("random numbers", e))?;
    Ok(b)
}

/// Exponential backoff with jitter: each pause is drawn from the upper half of its length, so that clients do not
/// return together.
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { next: Duration::from_millis(4) }
    }
}

impl Backoff {
    pub fn pause(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(Duration::from_millis(400));
        let draw = random_bytes::<4>().map_or(u32::MAX, u32::from_le_bytes);
        full / 2 + full.mul_f64(f64::from(draw) / f64::from(u32::MAX) / 2.0)
    }
}

/// Listens at `at`; port 0 takes a free port, which stays bound.
pub fn listen(at: SocketAddr) -> Result<TcpListener> {
    let make = || -> std::io::Result<TcpListener> {
        let s = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        // A fixed port in TIME_WAIT may be bound again; a port with a live listener may not.
        if at.port() != 0 {
            s.set_reuse_address(true)?;
        }
        s.bind(&at.into())?;
        s.listen(1024)?;
        s.set_nonblocking(true)?;
        fork::close_on_fork(&s);
        Ok(s.into())
    };
    make().map_err(|e| Error::io(format!("cannot listen at {at}"), e))
}

/// Options of every connection: non-blocking, no delay for small frames.
pub fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)
}

/// Disables pacing on connections within a host. A pacing congestion control (bbr) splits data into small packets by a
/// timer, which doubles the kernel's time; reno, which every system has, does not. Buffer sizes are left to the kernel:
/// fixed ones of 4 MiB are not faster between two ranks and evict each other from the caches between more.
pub fn unpace(stream: &TcpStream) {
    let host = |end: std::io::Result<SocketAddr>| end.ok().map(|a| a.ip());
    let (here, there) = (host(stream.local_addr()), host(stream.peer_addr()));
    if here.is_some() && here == there {
        os::set_congestion(stream, "reno");
    }
}

/// Detects an unreachable peer on an idle connection: the host of a dead process reports it, a dead host does not.
pub fn watch(stream: &TcpStream, limit: Duration) {
    let second = Duration::from_secs(1);
    let alive = socket2::TcpKeepalive::new().with_time((limit / 2).max(second)).with_interval((limit / 6).max(second));
    let socket = socket2::SockRef::from(stream);
    let _ = socket.set_tcp_keepalive(&alive.with_retries(3));
    #[cfg(target_os = "linux")]
    let _ = socket.set_tcp_user_timeout(Some(limit.max(second)));
}

fn connect_once(to: SocketAddr, deadline: &Deadline<'_>) -> Result<std::io::Result<TcpStream>> {
    let begin = || -> std::io::Result<Socket> {
        let s = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        fork::close_on_fork(&s);
        s.set_nonblocking(true)?;
        match s.connect(&to.into()) {
            Err(e) if e.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => Err(e),
            _ => Ok(s),
        }
    };
    let s = match begin() {
        Ok(s) => s,
        Err(e) => return Ok(Err(e)),
    };
    // An attempt without an answer for this long is repeated.
    let attempt = Instant::now() + Duration::from_secs(3);
    loop {
        let slice = deadline.slice("connecting", &to.to_string())?;
        poll_one(s.as_fd(), PollFlags::OUT, slice)?;
        match s.take_error() {
            Ok(Some(e)) | Err(e) => return Ok(Err(e)),
            Ok(None) => {}
        }
        if s.peer_addr().is_ok() {
            let stream: TcpStream = s.into();
            return Ok(tune(&stream).map(|()| stream));
        }
        if Instant::now() > attempt {
            return Ok(Err(ErrorKind::TimedOut.into()));
        }
    }
}

/// Connects, retrying with pauses until the deadline.
pub fn connect(to: SocketAddr, deadline: &Deadline<'_>) -> Result<TcpStream> {
    let mut backoff = Backoff::default();
    loop {
        let cause = match connect_once(to, deadline)? {
            // A port of the ephemeral range can connect to itself while no process listens there.
            Ok(s) if s.local_addr().ok() == s.peer_addr().ok() => ErrorKind::ConnectionRefused.into(),
            Ok(s) => return Ok(s),
            Err(e) => e,
        };
        pause(backoff.pause(), deadline, "connecting", &format!("{to} (last attempt: {cause})"))?;
    }
}

pub fn pause(long: Duration, deadline: &Deadline<'_>, during: &str, waiting_for: &str) -> Result<()> {
    let end = Instant::now() + long;
    loop {
        let slice = deadline.slice(during, waiting_for)?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(slice));
    }
}

/// Outcome of a non-blocking read or write.
pub enum Moved {
    Some(usize),
    Blocked,
    Ended(String),
}

pub fn moved(result: std::io::Result<usize>) -> Moved {
    match result {
        Ok(0) => Moved::Ended("the connection was closed".into()),
        Ok(n) => Moved::Some(n),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Moved::Blocked,
        Err(e) => Moved::Ended(e.to_string()),
    }
}

/// Reads exactly `buf`; the inner error is the connection's, the outer one the deadline's.
pub fn read_exact(
    s: &TcpStream,
    buf: &mut [u8],
    deadline: &Deadline<'_>,
    during: &str,
) -> Result<std::result::Result<(), String>> {
    let mut done = 0;
    while done < buf.len() {
        match moved((&mut &*s).read(&mut buf[done..])) {
            Moved::Some(n) => done += n,
            Moved::Ended(why) => return Ok(Err(why)),
            Moved::Blocked => poll_one(s.as_fd(), PollFlags::IN, deadline.slice(during, "an answer")?)?,
        }
    }
    Ok(Ok(()))
}

pub fn write_all(
    s: &TcpStream,
    buf: &[u8],
    deadline: &Deadline<'_>,
    during: &str,
) -> Result<std::result::Result<(), String>> {
    let mut done = 0;
    while done < buf.len() {
        match moved((&mut &*s).write(&buf[done..])) {
            Moved::Some(n) => done += n,
            Moved::Ended(why) => return Ok(Err(why)),
            Moved::Blocked => poll_one(s.as_fd(), PollFlags::OUT, deadline.slice(during, "room to send")?)?,
        }
    }
    Ok(Ok(()))
}

/// The address to advertise for a listener: its own, or if it is bound to all interfaces, the one that reaches
/// `toward`.
pub fn advertised(listener: &TcpListener, toward: IpAddr) -> Result<SocketAddr> {
    let at = listener.local_addr().map_err(|e| Error::io("listener", e))?;
    Ok(if at.ip().is_unspecified() { SocketAddr::new(toward, at.port()) } else { at })
}

pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Processes with equal keys can share memory: same boot of the same kernel, same network namespace.
pub fn host_key() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/net").map(|p| p.display().to_string()).unwrap_or_default();
    if boot.is_empty() || space.is_empty() {
        // Unknown: a random key, so that no process is taken for one of the same host.
        return random_bytes::<8>().map_or_else(|_| host_name(), |b| format!("{:016x}", u64::from_le_bytes(b)));
    }
    format!("{}:{space}", boot.trim())
}
