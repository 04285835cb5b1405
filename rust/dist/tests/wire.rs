//! Damaged bytes, first into the parsers, then between live ranks.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oar_dist::frame::{Frame, Parser, Type, Writer};
use oar_dist::store::{decode_reply, decode_request};
use oar_dist::{Context, Dtype, Error, Job, Options, ReduceOp, Store};

/// splitmix64
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn runs(name: &str, short: usize) -> usize {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(short)
}

fn mutate(bytes: &mut Vec<u8>, r: &mut Random) {
    let at = r.below(bytes.len());
    match r.below(8) {
        0 | 1 => bytes[at] ^= 1 << r.below(8),
        2 => bytes[at] = r.next() as u8,
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..(at + 1 + r.below(40)).min(bytes.len()))),
        5 => bytes.insert(at, r.next() as u8),
        6 => {
            let copy: Vec<u8> = bytes[at..(at + 1 + r.below(80)).min(bytes.len())].to_vec();
            bytes.splice(at..at, copy);
        }
        _ => {
            let n = 1 + r.below(60);
            if at + 2 * n <= bytes.len() {
                bytes[at..at + 2 * n].rotate_left(n);
            }
        }
    }
    if bytes.is_empty() {
        bytes.push(0);
    }
}

/// OAR_FUZZ_RUNS=1000000 for the long run.
#[test]
fn mutated_frames_are_never_accepted() {
    let mut r = Random(1);
    let kinds = [Type::Data, Type::Begin, Type::Request, Type::Beat, Type::Verdict, Type::Report];
    for _ in 0..runs("OAR_FUZZ_RUNS", 30_000) {
        let mut writer = Writer::default();
        let mut bytes = Vec::new();
        let frames: Vec<Frame> = (0..1 + r.below(4))
            .map(|_| {
                let payload = (0..r.below(60)).map(|_| r.next() as u8).collect::<Vec<_>>();
                Frame { kind: kinds[r.below(kinds.len())], payload }
            })
            .collect();
        frames.iter().for_each(|f| writer.encode(f.kind, &f.payload, &mut bytes));
        (0..1 + r.below(3)).for_each(|_| mutate(&mut bytes, &mut r));
        let mut parser = Parser::new(1 << 10);
        let mut got = Vec::new();
        let mut rest = &bytes[..];
        'all: while !rest.is_empty() {
            let (head, tail) = rest.split_at(1 + r.below(rest.len()));
            parser.feed(head);
            assert!(parser.held() <= bytes.len());
            rest = tail;
            loop {
                match parser.next() {
                    Ok(Some(f)) => got.push(f),
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
        }
        // What came through is what was sent, in order, from the first frame on.
        assert!(got.len() <= frames.len() && got == frames[..got.len()]);
        let _ = decode_request(&bytes);
        let _ = decode_reply(&bytes);
    }
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

/// One direction of one connection; the fault strikes when byte `at` comes by.
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
                    // The other direction goes on; what still comes this way is swallowed.
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

/// A proxy before `target`; the connection number `which` gets the fault, in one direction. Ends with its listener.
fn proxy(target: SocketAddr, seed: u64, which: usize, counter: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        // A job makes its connections early; a proxy that hears nothing for long is not needed any more.
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
            // Small offsets meet the handshake, large ones the data.
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

const OP: Duration = Duration::from_millis(1200);

fn rank(rank: usize, world: usize, store: Store, options: Options) -> Result<(), Error> {
    let context = Context::init(rank, world, store, options)?;
    let group = context.world_group()?;
    let result = (|| {
        for n in [1usize, 300, 20_000, 60_000] {
            let value = |r: usize, i: usize| (r * 3 + i % 11) as i32;
            let bytes = |f: &dyn Fn(usize) -> i32| (0..n).flat_map(|i| f(i).to_ne_bytes()).collect::<Vec<_>>();
            let mut x = bytes(&|i| value(rank, i));
            group.all_reduce(&mut x, Dtype::I32, ReduceOp::Sum)?;
            assert!(x == bytes(&|i| (0..world).map(|r| value(r, i)).sum()), "a wrong sum was accepted");
            let mut x = bytes(&|i| value(rank, i));
            group.broadcast(&mut x, Dtype::I32, n % world)?;
            assert!(x == bytes(&|i| value(n % world, i)), "a wrong broadcast was accepted");
        }
        group.barrier()
    })();
    context.shutdown();
    result
}

fn storm(seed: u64) -> bool {
    let mut r = Random(seed);
    let world = 2 + r.below(2);
    let job = Job::new("faults", b"secret");
    let host = Store::host(([127, 0, 0, 1], 0).into(), &job).unwrap();
    let at = host.address();
    let counter = Arc::new(AtomicUsize::new(0));
    // Connections are counted as they come: control ones first, then those of the group.
    let which = r.below(if world == 2 { 2 } else { 5 });
    let start = Instant::now();
    let results: Vec<Result<(), Error>> = std::thread::scope(|s| {
        let ranks: Vec<_> = (0..world)
            .map(|me| {
                let (job, counter) = (&job, counter.clone());
                s.spawn(move || {
                    let store = Store::connect(at, job, Duration::from_secs(10))?;
                    let options = Options {
                        timeout: OP,
                        init_timeout: Duration::from_secs(3),
                        beat: Duration::from_millis(200),
                        heartbeat_limit: Duration::from_millis(1500),
                        linger: Duration::from_millis(300),
                        shared_memory: false,
                        route: Some(Arc::new(move |_, to| proxy(to, seed, which, counter.clone()))),
                        ..Options::default()
                    };
                    rank(me, world, store, options)
                })
            })
            .collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    });
    let took = start.elapsed();
    assert!(took < Duration::from_secs(11), "seed {seed}: {took:?}, {results:?}");
    for e in results.iter().filter_map(|r| r.as_ref().err()) {
        // A cause that people can act on: somebody's name, or an address.
        let text = e.to_string();
        assert!(text.contains("rank ") || text.contains("127.0.0.1"), "seed {seed}: {text}");
    }
    results.iter().all(Result::is_ok)
}

/// OAR_FAULT_SEEDS=1000 for the long run.
#[test]
fn faults_end_in_the_right_result_or_a_named_error() {
    let seeds = runs("OAR_FAULT_SEEDS", 24) as u64;
    let next = AtomicUsize::new(0);
    let whole = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for _ in 0..6 {
            s.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::SeqCst) as u64;
                if seed >= seeds {
                    return;
                }
                if storm(seed) {
                    whole.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    let whole = whole.into_inner() as u64;
    println!("{whole} of {seeds} runs ended with the right results, the others with errors");
    assert!(whole > 0 && whole < seeds);
}
