//! What differs between operating systems: shared memory, futexes, wakers, socket options. Elsewhere than on Linux,
//! processes of a host communicate over loopback TCP.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unix;

#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(not(target_os = "linux"))]
pub use unix::*;
