//! A proxy that damages the data it forwards, by a seed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// splitmix64
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Number of runs of a test: from an environment variable, else `short`.
pub fn runs(name: &str, short: usize) -> usize {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(short)
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Drop,
    Delay,
    Cut,
    Truncate,
    Flip,
    Reorder,
    Repeat,
    Clog,
}

const FAULTS: [Fault; 9] = [
    Fault::None,
    Fault::Drop,
    Fault::Delay,
    Fault::Cut,
    Fault::Truncate,
    Fault::Flip,
    Fault::Reorder,
    Fault::Repeat,
    Fault::Clog,
];

/// One direction of one connection; the fault occurs at byte `at`.
fn pump(mut from: TcpStream, mut to: TcpStream, fault: Fault, at: usize, mut r: Random) {
    let mut buf = vec![0; 16 << 10];
    let (mut passed, mut struck) = (0, false);
    while let Ok(n @ 1..) = from.read(&mut buf) {
        let mut piece = buf[..n].to_vec();
        if !struck && passed + n > at {
            struck = true;
            let i = at - passed;
            let k = (1 + r.below(64)).min(n - i);
            match fault {
                Fault::None => {}
                Fault::Drop => drop(piece.drain(i..i + k)),
                Fault::Delay => std::thread::sleep(Duration::from_millis(20 + r.below(250) as u64)),
                Fault::Cut => {
                    let _ = to.write_all(&piece[..i]);
                    break;
                }
                Fault::Truncate => {
                    let _ = to.write_all(&piece[..i]);
                    let _ = to.shutdown(Shutdown::Write);
                    // The other direction goes on; further bytes of this one are discarded.
                    while matches!(from.read(&mut buf), Ok(1..)) {}
                    return;
                }
                Fault::Flip => piece[i] ^= 1 << r.below(8),
                Fault::Reorder => {
                    let half = (n - i) / 2;
                    piece[i..i + 2 * half].rotate_left(half);
                }
                Fault::Repeat => {
                    let copy = piece[i..i + k].to_vec();
                    piece.splice(i..i, copy);
                }
                Fault::Clog => {
                    let _ = to.write_all(&piece[..i]);
                    while matches!(from.read(&mut buf), Ok(1..)) {}
                    break;
                }
            }
        }
        passed += n;
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A proxy before `target`; connection number `which` gets the fault, in one direction. Ends with its listener.
pub fn proxy(target: SocketAddr, seed: u64, which: usize, counter: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        // A job makes its connections early; an idle proxy ends.
        listener.set_nonblocking(true).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(12) {
            let Ok((a, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            a.set_nonblocking(false).unwrap();
            let Ok(b) = TcpStream::connect(target) else { continue };
            let mut r = Random(seed);
            let mine = counter.fetch_add(1, Ordering::SeqCst) == which;
            let fault = if mine { FAULTS[r.below(FAULTS.len())] } else { Fault::None };
            // Small offsets hit the handshake, large ones the data.
            let scale = 5 + r.below(13);
            let offset = r.below(1 << scale);
            let (there, back) = if r.below(2) == 0 { (fault, Fault::None) } else { (Fault::None, fault) };
            let (a2, b2) = (a.try_clone().unwrap(), b.try_clone().unwrap());
            std::thread::spawn(move || pump(a, b, there, offset, Random(seed + 1)));
            std::thread::spawn(move || pump(b2, a2, back, offset, Random(seed + 2)));
        }
    });
    at
}
