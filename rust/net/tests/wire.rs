//! Corrupted bytes, first into the parsers, then between live ranks.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::faults::{proxy, runs, Random};
use oar_net::frame::{crc32c, Frame, Parser, Type, Writer, HEADER};
use oar_net::mac::{Mac, TAG};
use oar_net::store::{decode_reply, decode_request};
use oar_net::{Context, Dtype, Error, Job, Options, ReduceOp, Store};

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
    let kinds = [Type::Data, Type::Begin, Type::Request, Type::Beat, Type::Failure, Type::Report];
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
        // Frames that parse are those that were sent, in order, from the first one on.
        assert!(got.len() <= frames.len() && got == frames[..got.len()]);
        let _ = decode_request(&bytes);
        let _ = decode_reply(&bytes);
    }
}

/// Makes every header's checksum right again, and with `order` its number, as an attacker with knowledge of the format does.
fn forge(bytes: &mut [u8], order: bool) {
    let (mut at, mut seq) = (0, 0u64);
    while let Some(head) = bytes.get_mut(at..at + HEADER) {
        if order {
            head[8..16].copy_from_slice(&seq.to_le_bytes());
        }
        let crc = crc32c(&head[..20]);
        head[20..24].copy_from_slice(&crc.to_le_bytes());
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        (at, seq) = (at + HEADER + TAG + len, seq + 1);
    }
}

/// All frames that a parser accepts, fed in pieces.
fn accepted(parser: &mut Parser, bytes: &[u8], r: &mut Random) -> Vec<Frame> {
    let (mut got, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(1 + r.below(rest.len()));
        parser.feed(head);
        rest = tail;
        loop {
            match parser.next() {
                Ok(Some(f)) => got.push(f),
                Ok(None) => break,
                Err(_) => return got,
            }
        }
    }
    got
}

/// OAR_FUZZ_RUNS=1000000 for the long run.
#[test]
fn frames_with_codes_are_neither_changed_nor_moved() {
    let mut r = Random(2);
    let kinds = [Type::Data, Type::Begin, Type::Request, Type::Reply];
    let (ours, theirs) = (Mac::new(b"connector"), Mac::new(b"acceptor"));
    let (mut changed, mut whole) = (0, 0);
    for _ in 0..runs("OAR_FUZZ_RUNS", 20_000) {
        let frames: Vec<Frame> = (0..2 + r.below(4))
            .map(|_| {
                let payload = (0..r.below(60)).map(|_| r.next() as u8).collect::<Vec<_>>();
                Frame { kind: kinds[r.below(kinds.len())], payload }
            })
            .collect();
        let mut writer = Writer::sealed(ours.clone());
        let mut each: Vec<Vec<u8>> = frames
            .iter()
            .map(|f| {
                let mut bytes = Vec::new();
                writer.encode(f.kind, &f.payload, &mut bytes);
                bytes
            })
            .collect();
        let sent = each.concat();
        let (a, b) = (r.below(each.len()), r.below(each.len()));
        match r.below(6) {
            // Another order, a repetition, a gap, a frame of the other direction.
            0 => each.swap(a, b),
            1 => each.insert(a, each[b].clone()),
            2 => drop(each.remove(a)),
            3 => {
                let mut reflected = Writer::sealed(theirs.clone());
                for (at, f) in frames.iter().enumerate().take(a + 1) {
                    let mut bytes = Vec::new();
                    reflected.encode(f.kind, &f.payload, &mut bytes);
                    if at == a {
                        each[a] = bytes;
                    }
                }
            }
            _ => {
                let mut bytes = each.concat();
                (0..1 + r.below(3)).for_each(|_| mutate(&mut bytes, &mut r));
                each = vec![bytes];
            }
        }
        let mut bytes = each.concat();
        let order = r.below(2) == 0;
        forge(&mut bytes, order);
        let got = accepted(&mut Parser::sealed(1 << 10, ours.clone()), &bytes, &mut r);
        assert!(got.len() <= frames.len() && got == frames[..got.len()]);
        changed += usize::from(bytes != sent);
        whole += usize::from(bytes != sent && got == frames && bytes.len() == sent.len());
    }
    assert_eq!(whole, 0, "of {changed} changed streams were accepted as they were");
    println!("{changed} changed streams, none accepted");
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
    // Connections are counted in order: control ones first, then those of the group.
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
        // An error that names a rank, a host or an address.
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
