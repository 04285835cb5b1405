//! Trainers that do not connect, trainers that die, and faults of connections.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::channel::{Channel, ChannelError};
use super::connection;
use super::handler::{Connections, Handler};
use super::ledger::{Ledger, Recovery, SyncMode};
use super::tests::faults::{proxy, runs, Random};
use super::tests::{floats, meta, var, Sum};
use super::wire::{Meta, Reply, Request};
use super::{Client, ClientSettings, Incoming, LostTrainer, Outgoing, Server, ServerOptions, Service};
use oar_net::error::Error;
use oar_net::frame::Type;
use oar_net::handshake::{Identity, NO_RANK};
use oar_net::socket::Deadline;
use oar_net::store::Job;

/// Two trainers, without durable state.
fn serving(limit: Duration, lost: LostTrainer) -> ServerOptions {
    let absence = Duration::from_secs(60);
    ServerOptions { mode: SyncMode::Sync, trainers: 2, limit, lost, absence, shared_memory: true, durability: None }
}

fn settings(trainer: u32, job: &Job, silence: Duration) -> ClientSettings {
    let minute = Duration::from_secs(60);
    let (timeout, reconnect) = (minute, minute);
    ClientSettings { trainer, incarnation: 1, job: job.clone(), timeout, reconnect, silence, shared_memory: true }
}

#[test]
fn a_trainer_that_never_connects_is_named() {
    let job = Job::new("absent", b"secret");
    for lost in [LostTrainer::End, LostTrainer::Wait, LostTrainer::Continue] {
        let service = Sum::default();
        let options = ServerOptions { absence: Duration::from_millis(300), ..serving(Duration::from_secs(30), lost) };
        let server = Server::listen(([127, 0, 0, 1], 0).into(), &job, options).unwrap();
        let at = server.address();
        std::thread::scope(|scope| {
            let served = scope.spawn(|| server.serve(&service, &mut || false));
            let client = Client::new(at, settings(0, &job, Duration::from_secs(30)));
            let one = var("w", &[1.0]);
            let one = [Outgoing { meta: one.meta, rows: one.rows, data: one.data }];
            let pushed = client.push(&one, true, Vec::new(), &|m: &Meta| service.allocate(m), &|| Ok(()));
            if lost == LostTrainer::Continue {
                pushed.unwrap();
                client.complete(&|| Ok(())).unwrap();
                served.join().unwrap().unwrap();
            } else {
                let what = format!("the server {at} did not finish within 0.3 s; waiting for trainer 1, never seen");
                assert!(pushed.map(drop).unwrap_err().to_string().contains(&what));
                assert!(served.join().unwrap().unwrap_err().to_string().starts_with(&what));
            }
        });
    }
}

#[test]
fn a_former_process_that_ends_late_hides_no_death() {
    let (service, ledger) = (Sum::default(), Ledger::new(SyncMode::Sync, 1));
    ledger.open(0, 1).unwrap();
    ledger.open(0, 2).unwrap();
    ledger.close(0, 2);
    // Only now is the earlier process's connection found to be dead.
    ledger.close(0, 1);
    std::thread::sleep(Duration::from_millis(2));
    assert!(ledger.check(Duration::ZERO, LostTrainer::End, &service).unwrap().unwrap_err().contains("trainer 0 died"));
}

#[test]
fn a_second_process_does_not_replace_a_trainer_that_is_alive() {
    let (service, job) = (Sum::default(), Job::default());
    let options = ServerOptions { trainers: 1, ..serving(Duration::from_millis(300), LostTrainer::Wait) };
    let server = Server::listen(([127, 0, 0, 1], 0).into(), &job, options).unwrap();
    let at = server.address();
    let process =
        |incarnation| Client::new(at, ClientSettings { incarnation, ..settings(0, &job, Duration::from_secs(30)) });
    let push = |client: &Client| {
        let one = var("w", &[1.0]);
        let one = [Outgoing { meta: one.meta, rows: one.rows, data: one.data }];
        let found = client.push(&one, true, vec!["w".into()], &|m: &Meta| service.allocate(m), &|| Ok(()));
        found.map(|vars| floats(vars[0].data.bytes())[0])
    };
    std::thread::scope(|scope| {
        let served = scope.spawn(|| server.serve(&service, &mut || false));
        let first = process(1);
        assert_eq!(push(&first).unwrap(), 1.0);
        let why = push(&process(2)).unwrap_err().to_string();
        assert!(why.contains("trainer 0 of this server's job is alive and connected from 127.0.0.1:"), "{why}");
        assert_eq!(push(&first).unwrap(), 2.0);
        // Its end makes room for a process that has been waiting.
        let second = scope.spawn(|| {
            let second = process(3);
            let found = push(&second);
            second.complete(&|| Ok(())).unwrap();
            found
        });
        std::thread::sleep(Duration::from_millis(200));
        drop(first);
        assert_eq!(second.join().unwrap().unwrap(), 3.0);
        served.join().unwrap().unwrap();
    });
}

/// The trainer's error after `server` has replied to its request for `w`.
fn receives(server: impl FnOnce(Channel) + Send) -> Error {
    let job = Job::new("cut", b"secret");
    let listener = oar_net::socket::listen(([127, 0, 0, 1], 0).into()).unwrap();
    let at = listener.local_addr().unwrap();
    let mut acceptor =
        oar_net::acceptor::Acceptor::new(listener, Arc::new(Identity::new(&job.name, &job.token, 0, NO_RANK))).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let end = Instant::now() + Duration::from_secs(60);
            while Instant::now() < end {
                if let Some(made) = acceptor.turn().into_iter().next() {
                    drop(acceptor);
                    return server(Channel::new(made.stream).sealed(made.seal));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let settings = ClientSettings { shared_memory: false, ..settings(0, &job, Duration::from_millis(400)) };
        let client = Client::new(at, settings);
        let allocate = |m: &Meta| Sum::default().allocate(m);
        client.get(vec!["w".into()], &allocate, &|| Ok(())).map(|_| ()).unwrap_err()
    })
}

#[test]
fn a_server_that_dies_within_an_answer_ends_the_wait() {
    for stays in [false, true] {
        let start = Instant::now();
        let why = receives(move |mut channel| {
            let deadline = Deadline::only(Duration::from_secs(60));
            let mut send = |reply: &Reply| {
                channel.head(Type::Request, &deadline, "a test", "a trainer").ok().unwrap();
                channel.send(Type::Reply, &reply.encode(), &[], &deadline, "a test").ok().unwrap();
            };
            send(&Reply::Opened { life: 1, has: 0, restored: false, lossy: false, keeps: false });
            // The bytes of this variable are never sent.
            send(&Reply::Values { vars: vec![meta("w", 9)] });
            if stays {
                // A stopped host: the connection stays open until the trainer ends it.
                assert!(channel.head(Type::Request, &deadline, "a test", "a trainer").is_err());
            }
        });
        let text = why.to_string();
        assert!(text.contains("trainer 0: receiving w at the server 127.0.0.1:"), "{text}");
        assert!(text.contains("the server died") && text.contains("not durable (FLAGS_ps_state_folder)"), "{text}");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}

// A proxy between trainers and server

/// Steps of two trainers, one of which has a damaged connection; true if all succeeded.
fn storm(seed: u64) -> bool {
    let (service, job) = (Sum::default(), Job::new("storm", b"secret"));
    let limit = Duration::from_secs(6);
    let server = Server::listen(([127, 0, 0, 1], 0).into(), &job, serving(limit, LostTrainer::End)).unwrap();
    let (at, counter, start) = (server.address(), Arc::new(AtomicUsize::new(0)), Instant::now());
    let which = Random(seed).below(2);
    let train = |trainer: u32| -> oar_net::Result<()> {
        let (timeout, reconnect, silence) = (Duration::from_secs(9), Duration::from_secs(5), Duration::from_secs(2));
        // With shared memory the proxy sees the start of the connection only.
        let shared_memory = seed.is_multiple_of(2);
        let job = job.clone();
        let settings = ClientSettings { trainer, incarnation: 1, job, timeout, reconnect, silence, shared_memory };
        let client = Client::new(proxy(at, seed, which, counter.clone()), settings);
        let allocate = |m: &Meta| service.allocate(m);
        for step in 1..=6 {
            let n = 1 + (step * 2741) % 9000;
            let name = format!("w{n}");
            let values = |by: f32| (0..n).map(|i| by * (i % 11) as f32).collect::<Vec<f32>>();
            let send = |name: &str, values: &[f32]| {
                let Incoming { meta, rows, data } = var(name, values);
                Outgoing { meta, rows, data }
            };
            let more = [send(&name, &values(1.0)), send("count", &[1.0])];
            let found = client.push(&more, true, vec![name, "count".into()], &allocate, &|| Ok(()))?;
            let found: Vec<Vec<f32>> = found.iter().map(|v| floats(v.data.bytes())).collect();
            assert_eq!(found, [values(2.0), vec![2.0 * step as f32]], "seed {seed}: a wrong value was accepted");
        }
        client.complete(&|| Ok(()))
    };
    let results: Vec<oar_net::Result<()>> = std::thread::scope(|scope| {
        let served = scope.spawn(|| server.serve(&service, &mut || start.elapsed() > Duration::from_secs(12)));
        let trainers: Vec<_> = (0..2)
            .map(|t| {
                let train = &train;
                scope.spawn(move || train(t))
            })
            .collect();
        let results = trainers.into_iter().map(|t| t.join().unwrap()).collect();
        let _ = served.join().unwrap();
        results
    });
    let took = start.elapsed();
    assert!(took < Duration::from_secs(40), "seed {seed}: {took:?}, {results:?}");
    for e in results.iter().filter_map(|r| r.as_ref().err()) {
        let text = e.to_string();
        assert!(text.contains("trainer ") || text.contains("127.0.0.1"), "seed {seed}: {text}");
    }
    results.iter().all(Result::is_ok)
}

/// OAR_FAULT_SEEDS=1000 for the long run.
#[test]
fn damaged_connections_end_in_right_sums_or_a_named_error() {
    let seeds = runs("OAR_FAULT_SEEDS", 12);
    let (next, whole) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::SeqCst);
                if seed >= seeds {
                    return;
                }
                whole.fetch_add(usize::from(storm(seed as u64)), Ordering::SeqCst);
            });
        }
    });
    println!("{} of {seeds} jobs ended with the right sums, the others with errors", whole.load(Ordering::SeqCst));
    assert!(whole.into_inner() > 0);
}

// Shared memory

/// Two ends of a connection that use shared memory.
fn pair() -> (Channel, Channel) {
    let (here, there) = sockets();
    let (map, fd) = connection::create().unwrap();
    let (mut a, mut b) = (Channel::new(here), Channel::new(there));
    a.share(connection::join(&fd).unwrap(), false).ok().unwrap();
    b.share(map, true).ok().unwrap();
    (a, b)
}

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let there = listener.accept().unwrap().0;
    here.set_nonblocking(true).unwrap();
    there.set_nonblocking(true).unwrap();
    (here, there)
}

fn bytes_of(k: usize) -> Vec<u8> {
    let n = Random(k as u64).below(3 << 20) / (1 + k % 7 * 40);
    (0..n).map(|i| (i * 31 + k) as u8).collect()
}

#[test]
fn messages_pass_through_memory_both_ways() {
    let (mut a, mut b) = pair();
    let send = |channel: &mut Channel, k: usize| {
        let deadline = Deadline::only(Duration::from_secs(60));
        let data = bytes_of(k);
        channel.send(Type::Reply, b"head", &[(&[k as i64], &data)], &deadline, "a test").ok().unwrap();
    };
    let receive = |channel: &mut Channel, k: usize| {
        let deadline = Deadline::only(Duration::from_secs(60));
        let head = channel.head(Type::Reply, &deadline, "a test", "a message").ok().unwrap();
        let m = Meta { rows: 1, kind: super::ValueKind::Rows, bytes: bytes_of(k).len() as u64, ..meta("w", 0) };
        let room = |m: &Meta| Ok(Box::new(vec![0u8; m.bytes as usize]) as Box<dyn super::Buffer>);
        let found = channel.vars(&[m], &room, &deadline, "a test", "a message").ok().unwrap().unwrap();
        assert!(head == b"head" && found[0].rows == [k as i64] && found[0].data.bytes() == bytes_of(k), "message {k}");
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            (0..40).for_each(|k| send(&mut b, k));
            (0..40).for_each(|k| receive(&mut b, k));
        });
        (0..40).for_each(|k| receive(&mut a, k));
        (0..40).for_each(|k| send(&mut a, k));
        // The last bytes are still in the buffer when this end closes.
    });
}

#[test]
fn what_was_said_before_the_end_is_heard_and_then_the_end() {
    let (mut a, b) = pair();
    let deadline = Deadline::only(Duration::from_secs(60));
    a.send(Type::Reply, b"one", &[], &deadline, "a test").ok().unwrap();
    drop(a);
    let mut b = b;
    assert_eq!(b.head(Type::Reply, &deadline, "a test", "a message").ok().unwrap(), b"one");
    assert!(b.ready(Duration::from_secs(1)).unwrap());
    assert!(matches!(b.head(Type::Reply, &deadline, "a test", "a message"), Err(ChannelError::Gone(_))));
    assert!(b.stream().is_over());
    let much = vec![0u8; 4 << 20];
    assert!(matches!(b.send(Type::Reply, b"", &[(&[], &much)], &deadline, "a test"), Err(ChannelError::Gone(_))));
}

#[test]
fn a_ring_that_is_none_ends_the_connection() {
    let (here, _there) = sockets();
    let (map, fd) = connection::create().unwrap();
    let mut a = Channel::new(here);
    a.share(connection::join(&fd).unwrap(), false).ok().unwrap();
    // The head of the ring towards the trainer.
    map.word(connection::RING).store(connection::ROOM + 1, Ordering::SeqCst);
    let deadline = Deadline::only(Duration::from_secs(60));
    let why = a.head(Type::Reply, &deadline, "a test", "a message");
    assert!(matches!(why, Err(ChannelError::Gone(why)) if why.contains("an invalid ring")));
}

#[test]
fn both_ends_must_want_memory() {
    for (server_wants, trainer_wants) in [(true, true), (true, false), (false, true)] {
        let (service, job) = (Sum::default(), Job::new("memory", b"secret"));
        let limit = Duration::from_secs(30);
        let options = ServerOptions { shared_memory: server_wants, trainers: 1, ..serving(limit, LostTrainer::End) };
        let server = Server::listen(([127, 0, 0, 1], 0).into(), &job, options).unwrap();
        let at = server.address();
        std::thread::scope(|scope| {
            let served = scope.spawn(|| server.serve(&service, &mut || false));
            let client = Client::new(at, ClientSettings { shared_memory: trainer_wants, ..settings(0, &job, limit) });
            let one = var("w", &[1.0, 2.0]);
            let one = [Outgoing { meta: one.meta, rows: one.rows, data: one.data }];
            let allocate = |m: &Meta| service.allocate(m);
            let found = client.push(&one, true, vec!["w".into()], &allocate, &|| Ok(())).unwrap();
            assert_eq!(floats(found[0].data.bytes()), [1.0, 2.0]);
            assert_eq!(client.is_shared(), server_wants && trainer_wants);
            client.complete(&|| Ok(())).unwrap();
            served.join().unwrap().unwrap();
        });
    }
}

#[test]
fn a_trainer_may_be_slow_but_not_silent() {
    for stops in [false, true] {
        let (service, ledger) = (Sum::default(), Ledger::new(SyncMode::Async, 1));
        let stall_limit = Duration::from_millis(400);
        let end = Instant::now() + Duration::from_secs(30);
        let stop = || match Instant::now() > end {
            true => Err(Error::Interrupted { during: "a test".into() }),
            false => Ok(()),
        };
        let (mut here, there) = sockets();
        let recovery = Recovery::default();
        let handler = Handler {
            ledger: &ledger,
            service: &service,
            stop: &stop,
            life: 1,
            recovery,
            stall_limit,
            keeps: false,
            shares: false,
            connections: Connections::default(),
        };
        let mut bytes = Vec::new();
        let words = vec!["x".repeat(900)];
        let requests = [Request::Open { trainer: 0, incarnation: 7 }, Request::Notify { words }];
        for (seq, request) in requests.into_iter().enumerate() {
            let head = request.encode();
            bytes.extend_from_slice(&oar_net::frame::Header::for_payload(Type::Request, seq as u64, &head).encode());
            bytes.extend_from_slice(&head);
        }
        std::thread::scope(|scope| {
            let server = scope.spawn(|| handler.run(Channel::new(there), 0));
            let start = Instant::now();
            let pieces = bytes.chunks(bytes.len() / 12);
            for piece in pieces.take(if stops { 6 } else { 99 }) {
                std::io::Write::write_all(&mut here, piece).unwrap();
                std::thread::sleep(Duration::from_millis(100));
            }
            if !stops {
                // Longer than the stall limit altogether; both replies have arrived.
                assert!(start.elapsed() > 2 * stall_limit);
                let mut channel = Channel::new(here);
                let deadline = Deadline::only(Duration::from_secs(20));
                let opened = channel.head(Type::Reply, &deadline, "a test", "an answer").ok().unwrap();
                assert!(matches!(super::decode_reply(&opened), Some(Reply::Opened { .. })));
                assert!(channel.head(Type::Reply, &deadline, "a test", "an answer").is_ok());
                drop(channel);
            }
            server.join().unwrap();
            assert!(Instant::now() < end, "the server waits for a trainer that has stopped");
        });
    }
}
