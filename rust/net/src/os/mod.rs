//! What differs between operating systems: shared memory, futexes, wakers, socket options. Elsewhere than on Linux,
//! processes of a host communicate over loopback TCP.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "unix.rs"]
mod system;

pub use system::*;
