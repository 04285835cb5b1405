//! Restarted servers, and corrupted bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::channel::Channel;
use super::handler::{Connections, Handler};
use super::journal::Durability;
use super::ledger::{Ledger, Recovery, SyncMode};
use super::wire::{decode_request, Meta, Request, ValueKind};
use super::{Buffer, Incoming, LostTrainer, Outgoing, Pieces, Service};
use faults::{runs, Random};
use oar_net::error::Error;
use oar_net::frame::Type;
use oar_net::socket::Deadline;

#[path = "../../../net/tests/common/faults.rs"]
pub(super) mod faults;

type Answer<T> = std::result::Result<T, String>;

/// Limit of the bytes of a variable of [`Sum`].
pub(super) const MOST: u64 = 1 << 16;

/// A service whose variables are the sums of what was pushed.
#[derive(Default)]
pub(super) struct Sum(pub(super) Mutex<BTreeMap<String, Vec<f32>>>);

pub(super) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

pub(super) fn meta(name: &str, n: usize) -> Meta {
    let (name, dims, bytes) = (name.to_string(), vec![n as u64], n as u64 * 4);
    Meta { name, kind: ValueKind::Dense, dtype: 5, dims, lod: Vec::new(), height: 0, rows: 0, bytes }
}

pub(super) fn var(name: &str, values: &[f32]) -> Incoming {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Incoming { meta: meta(name, values.len()), rows: Vec::new(), data: Box::new(bytes) }
}

impl Service for Sum {
    fn allocate(&self, m: &Meta) -> Answer<Box<dyn Buffer>> {
        match m.bytes <= MOST && m.bytes.is_multiple_of(4) && m.rows <= MOST {
            true => Ok(Box::new(vec![0; m.bytes as usize])),
            false => Err(format!("{} bytes", m.bytes)),
        }
    }
    fn allocate_ids(&self, m: &Meta) -> Answer<Box<dyn Buffer>> {
        self.allocate(m)
    }
    fn step(&self, pushed: Vec<(u32, Vec<Incoming>)>) -> Answer<()> {
        pushed.into_iter().try_for_each(|(trainer, vars)| self.apply(trainer, vars))
    }
    fn apply(&self, _: u32, pushed: Vec<Incoming>) -> Answer<()> {
        for v in pushed {
            let more = floats(v.data.bytes());
            let mut all = self.0.lock();
            let sum = all.entry(v.meta.name).or_insert_with(|| vec![0.0; more.len()]);
            sum.iter_mut().zip(more).for_each(|(s, m)| *s += m);
        }
        Ok(())
    }
    fn get(&self, _: u32, names: &[String]) -> Answer<Vec<Outgoing>> {
        let all = self.0.lock();
        let one = |name: &String| {
            let Incoming { meta, rows, data } = var(name, all.get(name).ok_or_else(|| format!("no {name}"))?);
            Ok(Outgoing { meta, rows, data })
        };
        names.iter().map(one).collect()
    }
    fn lookup(&self, trainer: u32, name: &str, _: Incoming) -> Answer<Outgoing> {
        self.get(trainer, &[name.to_string()])?.pop().ok_or_else(String::new)
    }
    fn notify(&self, _: u32, _: &[String]) -> Answer<Vec<String>> {
        Ok(Vec::new())
    }
    fn allocate_state(&self, m: &Meta) -> Answer<Box<dyn Buffer>> {
        self.allocate(m)
    }
    fn capture(&self) -> Answer<Pieces> {
        let names: Vec<String> = self.0.lock().keys().cloned().collect();
        Ok(Box::new(self.get(0, &names)?.into_iter().map(Ok)))
    }
    fn restore(&self, state: Vec<Incoming>) -> Answer<()> {
        *self.0.lock() = state.into_iter().map(|v| (v.meta.name, floats(v.data.bytes()))).collect();
        Ok(())
    }
    fn adopt(&self, state: Vec<Incoming>, layout: &str) -> Answer<()> {
        self.restore(state.into_iter().filter(|v| layout.contains(&v.meta.name)).collect())
    }
    fn remembers(&self, table: Option<&str>) -> bool {
        table.is_some()
    }
}

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("oar-ps-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
    fn how(&self, every: u64, log: bool) -> Durability {
        Durability { folder: self.0.clone(), log, every, bytes: 1 << 30, fsync: false, layout: String::new() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn quiet(what: String) -> Answer<()> {
    Err(format!("unexpected wait: {what}"))
}

/// Steps `from..to` of one trainer: step `k` adds 2^k to one half of `w`, and in a second push to the other.
fn train(ledger: &Ledger, service: &Sum, from: u64, to: u64) -> Answer<()> {
    for k in from..to {
        let bit = (1u64 << k) as f32;
        ledger.push((0, 7), 2 * k + 1, false, vec![var("w", &[bit, 0.0])], &mut quiet, service)?;
        ledger.push((0, 7), 2 * k + 2, true, vec![var("w", &[0.0, bit])], &mut quiet, service)?;
    }
    Ok(())
}

fn begin(mode: SyncMode, how: Durability) -> oar_net::Result<(Ledger, Recovery, Sum)> {
    let service = Sum::default();
    let (ledger, recovery) = Ledger::durable(mode, 1, how, &service)?;
    Ok((ledger, recovery, service))
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn newest_log(folder: &Path) -> PathBuf {
    let names = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let newest = names.filter_map(|n| n.strip_prefix("log-")?.parse::<u64>().ok()).max().unwrap();
    folder.join(format!("log-{newest}"))
}

#[test]
fn a_server_goes_on_where_it_was() {
    let folder = Folder::new("goes-on");
    for life in 0..4 {
        let (ledger, recovery, service) = begin(SyncMode::Sync, folder.how(3, true)).unwrap();
        assert_eq!(recovery, Recovery { restored: life > 0, lossy: false });
        assert_eq!(ledger.open(0, 7).unwrap(), 10 * life);
        train(&ledger, &service, 5 * life, 5 * life + 5).unwrap();
        // A resend of an acknowledged push is recognised in every run.
        let resent = vec![var("w", &[0.0, 9.0])];
        ledger.push((0, 7), 10 * life + 10, true, resent, &mut quiet, &service).unwrap();
        assert_eq!(service.0.lock()["w"], [(1 << (5 * life + 5)) as f32 - 1.0; 2]);
        assert_eq!(ledger.progress(0).unwrap(), 5 * life + 5);
    }
    let (ledger, _, service) = begin(SyncMode::Sync, folder.how(3, true)).unwrap();
    ledger.open(0, 7).unwrap();
    ledger.complete((0, 7), &service).unwrap();
    ledger.finish(&service).unwrap();
    drop(ledger);
    assert!(!begin(SyncMode::Sync, folder.how(3, true)).unwrap().1.restored, "a job that is over is no past");
}

#[test]
fn a_log_may_end_anywhere() {
    let (folder, other) = (Folder::new("torn"), Folder::new("torn-copy"));
    let (ledger, _, service) = begin(SyncMode::Sync, folder.how(100, true)).unwrap();
    ledger.open(0, 7).unwrap();
    train(&ledger, &service, 0, 3).unwrap();
    drop(ledger);
    let size = std::fs::metadata(newest_log(&folder.0)).unwrap().len();
    let mut seen = BTreeSet::new();
    for cut in 0..=size {
        copy(&folder.0, &other.0);
        let log = newest_log(&other.0);
        std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(cut).unwrap();
        let (ledger, _, service) = begin(SyncMode::Sync, other.how(100, true)).unwrap();
        let has = ledger.open(0, 7).unwrap();
        // Missing pushes are sent again, in order.
        for seq in has.max(1)..=6 {
            let bit = (1u64 << ((seq - 1) / 2)) as f32;
            let (barrier, w) = if seq % 2 == 0 { (true, [0.0, bit]) } else { (false, [bit, 0.0]) };
            ledger.push((0, 7), seq, barrier, vec![var("w", &w)], &mut quiet, &service).unwrap();
        }
        assert_eq!(service.0.lock()["w"], [7.0; 2], "cut after {cut} of {size} bytes");
        seen.insert(has);
    }
    assert_eq!(seen, (0..=6).collect());
}

#[test]
fn a_log_without_its_snapshot_is_refused_at_start() {
    let folder = Folder::new("no-snapshot");
    let (ledger, _, service) = begin(SyncMode::Sync, folder.how(4, true)).unwrap();
    ledger.open(0, 7).unwrap();
    train(&ledger, &service, 0, 6).unwrap();
    drop(ledger);
    let snapshot = std::fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().path());
    let snapshot = snapshot.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with("snapshot-"));
    snapshot.for_each(|p| std::fs::remove_file(p).unwrap());
    for _ in 0..2 {
        let why = begin(SyncMode::Sync, folder.how(4, true)).err().unwrap().to_string();
        assert!(why.contains("it continues a snapshot that is not there"), "{why}");
    }
}

#[test]
fn damaged_state_is_refused() {
    let (folder, other) = (Folder::new("damaged"), Folder::new("damaged-copy"));
    let (ledger, _, service) = begin(SyncMode::Sync, folder.how(4, true)).unwrap();
    ledger.open(0, 7).unwrap();
    train(&ledger, &service, 0, 6).unwrap();
    drop(ledger);
    let mut r = Random(5);
    for _ in 0..150 {
        copy(&folder.0, &other.0);
        let files = std::fs::read_dir(&other.0).unwrap().map(|e| e.unwrap().path());
        // The lock file is empty.
        let files: Vec<PathBuf> = files.filter(|p| std::fs::metadata(p).unwrap().len() > 0).collect();
        let path = &files[r.below(files.len())];
        let mut bytes = std::fs::read(path).unwrap();
        let at = r.below(bytes.len());
        let behind = bytes.len() - at;
        bytes[at] ^= 1 << r.below(8);
        std::fs::write(path, bytes).unwrap();
        match begin(SyncMode::Sync, other.how(4, true)) {
            Err(Error::Server(why)) => {
                assert!(why.contains("damaged"), "{why}");
            }
            Err(other) => panic!("{other}"),
            // A bit of the last record's header: bytes that are no record end the log, and are cut off.
            Ok(_) => assert!(path.ends_with("log-2") && behind <= 41, "{behind} bytes before the end of {path:?}"),
        }
    }
}

#[test]
fn without_a_log_it_says_what_is_lost() {
    let folder = Folder::new("no-log");
    let (ledger, _, service) = begin(SyncMode::Sync, folder.how(4, false)).unwrap();
    ledger.open(0, 7).unwrap();
    train(&ledger, &service, 0, 6).unwrap();
    drop(ledger);
    let (ledger, recovery, service) = begin(SyncMode::Sync, folder.how(4, false)).unwrap();
    assert_eq!(recovery, Recovery { restored: true, lossy: true });
    assert_eq!(ledger.open(0, 7).unwrap(), 8);
    assert_eq!(service.0.lock()["w"], [15.0; 2]);
    train(&ledger, &service, 6, 7).unwrap();
    assert_eq!(service.0.lock()["w"], [79.0; 2]);
    drop(ledger);
    assert!(begin(SyncMode::Async, folder.how(4, false)).is_err(), "another mode");
}

#[test]
fn free_trainers_and_lookups_are_written_down() {
    let folder = Folder::new("free");
    for life in 0..3u64 {
        let (ledger, _, service) = begin(SyncMode::Async, folder.how(5, true)).unwrap();
        assert_eq!(ledger.open(0, 7).unwrap(), 7 * life);
        for k in 7 * life..7 * life + 7 {
            ledger.apply((0, 7), k + 1, vec![var("w", &[(1 << k) as f32])], &mut quiet, &service).unwrap();
        }
        ledger.record_lookup(0, "w", var("ids", &[1.0]), &service).unwrap();
        assert_eq!(service.0.lock()["w"], [(1 << (7 * life + 7)) as f32 - 1.0]);
    }
}

#[test]
fn a_trainer_that_is_started_again_sends_what_only_some_have() {
    let service = Sum::default();
    let ledger = Ledger::new(SyncMode::Sync, 2);
    let part = |client, seq| {
        let mut on_wait = |_: String| Err("waits".to_string());
        ledger.push(client, seq, true, vec![var("w", &[1.0])], &mut on_wait, &service)
    };
    ledger.open(0, 1).unwrap();
    ledger.open(1, 1).unwrap();
    assert!(part((0, 1), 1).is_err(), "waits for the other");
    // The new incarnation has seen no step complete: this server has one part of it, another server none.
    ledger.open(0, 2).unwrap();
    assert_eq!(ledger.progress(0).unwrap(), 1);
    assert!(ledger.resume((0, 2), 2).unwrap_err().contains("but has sent 1"));
    ledger.resume((0, 2), 0).unwrap();
    assert!(part((0, 2), 1).is_err());
    part((1, 1), 1).unwrap();
    assert_eq!(service.0.lock()["w"], [2.0]);
    assert!(ledger.resume((0, 2), 0).is_err(), "too late");
    assert!(part((0, 2), 2).is_err());
    part((1, 1), 2).unwrap();
    assert_eq!((service.0.lock()["w"][0], ledger.progress(0).unwrap()), (4.0, 2));
}

#[test]
fn a_trainer_that_was_given_up_comes_back_only_as_a_new_one() {
    let service = Sum::default();
    let ledger = Ledger::new(SyncMode::Sync, 2);
    let part = |client, seq, barrier| {
        let mut on_wait = |_: String| Err("waits".to_string());
        ledger.push(client, seq, barrier, vec![var("w", &[1.0])], &mut on_wait, &service)
    };
    ledger.open(0, 1).unwrap();
    ledger.open(1, 1).unwrap();
    part((1, 1), 1, false).unwrap();
    ledger.close(1, 1);
    std::thread::sleep(Duration::from_millis(2));
    assert!(ledger.check(Duration::ZERO, LostTrainer::Wait, &service).is_none());
    assert!(ledger.check(Duration::ZERO, LostTrainer::Continue, &service).is_none());
    part((0, 1), 1, true).unwrap();
    assert_eq!(service.0.lock()["w"], [1.0], "half a part of a step counts for nothing");
    ledger.open(1, 1).unwrap();
    assert!(part((1, 1), 2, true).unwrap_err().contains("given up"));
    ledger.open(1, 2).unwrap();
    assert!(part((1, 2), 1, true).unwrap_err().contains("waits"));
    part((0, 1), 2, true).unwrap();
    assert_eq!(service.0.lock()["w"], [3.0]);
    ledger.close(1, 1);
    ledger.close(1, 2);
    std::thread::sleep(Duration::from_millis(2));
    let ended = ledger.check(Duration::ZERO, LostTrainer::End, &service);
    assert!(ended.unwrap().unwrap_err().contains("trainer 1 died"));
}

// Corrupted bytes

fn requests() -> Vec<Request> {
    vec![
        Request::Open { trainer: 0, incarnation: 7 },
        Request::Push { seq: 1, barrier: true, want: vec!["w".into()], vars: vec![meta("w", 4), meta("v", 2)] },
        Request::Get { names: vec!["w".into()] },
        Request::Lookup { name: "w".into(), ids: meta("ids", 2) },
        Request::Barrier { seq: 9 },
        Request::Notify { words: vec!["resume".into(), "1".into()] },
        Request::Complete,
    ]
}

fn mutate(bytes: &mut Vec<u8>, r: &mut Random) {
    for _ in 0..1 + r.below(3) {
        let at = r.below(bytes.len());
        match r.below(6) {
            0 | 1 => bytes[at] ^= 1 << r.below(8),
            2 => bytes[at] = r.next() as u8,
            3 => bytes.truncate(at.max(1)),
            4 => bytes.insert(at, r.next() as u8),
            _ => bytes.extend_from_within(at..),
        }
    }
}

/// OAR_FUZZ_RUNS=1000000 for the long run.
#[test]
fn mutated_requests_are_what_they_say_or_nothing() {
    let (mut r, all) = (Random(11), requests());
    for _ in 0..runs("OAR_FUZZ_RUNS", 50_000) {
        let mut bytes = all[r.below(all.len())].encode();
        mutate(&mut bytes, &mut r);
        if let Some(request) = decode_request(&bytes) {
            assert_eq!(request.encode(), bytes, "two encodings of {request:?}");
        }
    }
}

/// Messages with valid checksums and mutated heads, and mutated streams: the server neither panics nor hangs, and
/// accepts nothing that its service refuses.
#[test]
fn a_conversation_survives_mutated_messages() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut r, all) = (Random(13), requests());
    for _ in 0..runs("OAR_FUZZ_RUNS", 600) / 3 {
        let (service, ledger) = (Sum::default(), Ledger::new(SyncMode::Sync, 1));
        let end = Instant::now() + Duration::from_secs(5);
        let stop = || match Instant::now() > end {
            true => Err(Error::Interrupted { during: "a test".into() }),
            false => Ok(()),
        };
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let there = listener.accept().unwrap().0;
        there.set_nonblocking(true).unwrap();
        let handler = Handler {
            ledger: &ledger,
            service: &service,
            stop: &stop,
            life: 1,
            recovery: Recovery::default(),
            keeps: false,
            stall_limit: Duration::from_secs(60),
            shares: false,
            connections: Connections::default(),
        };
        std::thread::scope(|scope| {
            let server = scope.spawn(|| handler.run(Channel::new(there), 0));
            let mut channel = Channel::new(here);
            let deadline = Deadline::only(Duration::from_secs(5));
            let data = [0u8; 24];
            for k in 0..3 + r.below(5) {
                let request = if k == 0 { &all[0] } else { &all[r.below(all.len() - 1)] };
                let mut head = request.encode();
                if r.below(3) == 0 {
                    mutate(&mut head, &mut r);
                }
                let parts: Vec<(&[i64], &[u8])> =
                    request.vars().iter().map(|m| (&[][..], &data[..m.bytes as usize])).collect();
                if channel.send(Type::Request, &head, &parts, &deadline, "a test").is_err() {
                    break;
                }
            }
            drop(channel);
            server.join().unwrap();
        });
        assert!(Instant::now() < end, "it waited for something that never came");
        assert!(service.0.lock().values().all(|v| v.len() as u64 * 4 <= MOST));
    }
}
