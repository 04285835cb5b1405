//! A server's durable state: a snapshot, and a log of later changes.
//!
//! Files of the folder:
//! - `snapshot-N`: written under a temporary name, fsynced, renamed, and the folder fsynced.
//! - `log-N`: records of changes after snapshot N.
//! - `ended`: the job is complete.
//! - `layout`: which parts of which variables this server has.
//! - `dealt`, in the parent folder: state for the servers of a new job.
//!
//! Recovery reads the newest snapshot and all logs from its number on. The last log may end within a record, which was
//! never acknowledged, or with bytes that are no record (zeros of a file system that was not unmounted); they are cut off.
//! Bytes that are no record with a record after them are damage, and so are logs without the snapshot before them.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use super::channel::{parts, Channel, ChannelError};
use super::log_record::{LedgerSnapshot, LogRecord};
use super::wire::{decode_reply, Meta, Reply};
use super::{limits, Allocate, Incoming, Pieces, Service};
use oar_net::error::{Error, Result};
use oar_net::frame::{Header, Type, HEADER};
use oar_net::socket::Deadline;

/// Where and how a server keeps its state; from `FLAGS_ps_*`.
#[derive(Clone, Debug)]
pub struct Durability {
    pub folder: PathBuf,
    /// Without a log, changes after the last snapshot are lost.
    pub log: bool,
    /// Steps (pushes in async mode) between two snapshots.
    pub every: u64,
    /// Bytes of the log that trigger a snapshot earlier.
    pub bytes: u64,
    /// Wait for the disk before a reply: state survives a crash of the machine, not of the process only.
    pub fsync: bool,
    /// Lines that list this server's parts, as its Program was built.
    pub layout: String,
}

/// Name of the resharded state in the parent of the servers' folders.
pub const RESHARDED: &str = "dealt";
pub const LAYOUT: &str = "layout";

impl Durability {
    /// Options of the server at `endpoint`; `None` if no folder is configured.
    pub fn from_flags(endpoint: &str) -> Result<Option<Durability>> {
        let base = limits::text("FLAGS_ps_state_folder");
        if base.is_empty() {
            return Ok(None);
        }
        let own: String =
            endpoint.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
        Ok(Some(Durability {
            folder: Path::new(&base).join(format!("server-{own}")),
            log: limits::flag("FLAGS_ps_log", 1)? != 0,
            every: limits::at_least("FLAGS_ps_snapshot_steps", 1000, 1)?.into(),
            bytes: u64::from(limits::at_least("FLAGS_ps_log_megabytes", 1024, 1)?) << 20,
            fsync: limits::flag("FLAGS_ps_log_fsync", 0)? != 0,
            layout: limits::text(&format!("{LAYOUT} {endpoint}")),
        }))
    }
}

pub struct Journal {
    options: Durability,
    /// Held for the server's lifetime: two servers in one folder would corrupt both states.
    _lock: File,
    log: Option<Channel<File>>,
    /// Number of the current log.
    point: u64,
    /// Records that count towards the next snapshot.
    count: u64,
    bytes: u64,
    steps: bool,
    writer: Option<JoinHandle<Result<()>>>,
}

/// The content of a snapshot.
pub struct Found {
    pub image: LedgerSnapshot,
    pub state: Vec<Incoming>,
}

fn bad(what: &str, path: &Path, why: impl std::fmt::Display) -> Error {
    Error::io(format!("cannot {what} {}", path.display()), why)
}

fn damaged(path: &Path, why: &str) -> Error {
    Error::Server(format!(
        "the server's state in {} is damaged ({why}): restore it from a copy, or remove the folder to start without state",
        path.display()
    ))
}

fn cause(lost: ChannelError) -> String {
    match lost {
        ChannelError::Wait(e) => e.to_string(),
        ChannelError::Gone(why) | ChannelError::Refused(why) => why,
    }
}

/// Files do not block.
fn no_deadline() -> Deadline<'static> {
    Deadline::only(Duration::from_secs(1 << 30))
}

/// Makes renames in a folder durable.
fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| bad("write", folder, e))
}

/// The number in the name of a snapshot or log.
fn number(name: &str, kind: &str) -> Option<u64> {
    name.strip_prefix(kind)?.strip_prefix('-')?.parse().ok()
}

/// The numbers of all files of a kind, ascending.
fn numbers(folder: &Path, kind: &str) -> Result<Vec<u64>> {
    let entries = fs::read_dir(folder).map_err(|e| bad("read", folder, e))?;
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let mut found: Vec<u64> = names.filter_map(|n| number(&n, kind)).collect();
    found.sort_unstable();
    Ok(found)
}

fn remove(folder: &Path, kind: &str, below: u64) -> Result<()> {
    for n in numbers(folder, kind)?.into_iter().filter(|&n| n < below) {
        let path = folder.join(format!("{kind}-{n}"));
        fs::remove_file(&path).map_err(|e| bad("remove", &path, e))?;
    }
    Ok(())
}

/// Removes files that a snapshot has superseded.
fn remove_below(folder: &Path, below: u64) -> Result<()> {
    remove(folder, "log", below)?;
    remove(folder, "snapshot", below)
}

/// Writes a file atomically: it appears under its name when complete.
fn write_whole(folder: &Path, name: &str, write: impl FnOnce(File) -> Result<File>) -> Result<()> {
    let (path, part) = (folder.join(name), folder.join(format!("{name}.part")));
    let file = write(File::create(&part).map_err(|e| bad("write", &part, e))?)?;
    file.sync_all().map_err(|e| bad("write", &part, e))?;
    fs::rename(&part, &path).map_err(|e| bad("write", &path, e))?;
    sync_folder(folder)
}

/// Writes a snapshot: the ledger, a message per variable, and an end marker.
pub fn write_snapshot(folder: &Path, name: &str, image: &LedgerSnapshot, state: Pieces) -> Result<()> {
    write_whole(folder, name, |file| {
        let mut out = Channel::over(file);
        let failed = |lost| bad("write", &folder.join(name), cause(lost));
        let deadline = no_deadline();
        out.send(Type::Begin, &image.encode(), &[], &deadline, "a snapshot").map_err(failed)?;
        for var in state {
            let var = var.map_err(|why| bad("write", &folder.join(name), why))?;
            let head = Reply::Values { vars: vec![var.meta.clone()] }.encode();
            let one = [var];
            out.send(Type::Reply, &head, &parts(&one), &deadline, "a snapshot").map_err(failed)?;
        }
        out.send(Type::Bye, &[], &[], &deadline, "a snapshot").map_err(failed)?;
        Ok(out.into_stream())
    })
}

/// The newest snapshot of a server's folder, and the number of log bytes after it.
pub fn newest_snapshot(folder: &Path) -> Result<Option<(PathBuf, u64)>> {
    let Some(&point) = numbers(folder, "snapshot")?.last() else { return Ok(None) };
    let logs = numbers(folder, "log")?.into_iter().filter(|&n| n >= point);
    let bytes = logs.map(|n| fs::metadata(folder.join(format!("log-{n}"))).map_or(0, |m| m.len())).sum();
    Ok(Some((folder.join(format!("snapshot-{point}")), bytes)))
}

/// Reads a snapshot; `allocate` provides the memory of each variable.
pub fn read_snapshot(path: &Path, allocate: Allocate<'_>) -> Result<Found> {
    let file = File::open(path).map_err(|e| bad("read", path, e))?;
    let mut input = Channel::over(file);
    let deadline = no_deadline();
    let failed = |lost| damaged(path, &cause(lost));
    let head = input.head(Type::Begin, &deadline, "a snapshot", "it").map_err(failed)?;
    let image = LedgerSnapshot::decode(&head).ok_or_else(|| damaged(path, "its head does not parse"))?;
    let mut state = Vec::new();
    loop {
        let (kind, head) = input.any_head(&deadline, "a snapshot", "it").map_err(failed)?;
        let metas = match (kind, decode_reply(&head)) {
            (Type::Bye, None) => return Ok(Found { image, state }),
            (Type::Reply, Some(Reply::Values { vars })) => vars,
            _ => return Err(damaged(path, "a message does not parse")),
        };
        let vars = input.vars(&metas, allocate, &deadline, "a snapshot", "it").map_err(failed)?;
        state.extend(vars.map_err(|why| Error::Server(format!("{}: {why}", path.display())))?);
    }
}

/// Applies a record read by [`Journal::replay`].
pub type Replay<'a> = &'a mut dyn FnMut(LogRecord, Vec<Incoming>) -> std::result::Result<(), String>;

impl Journal {
    /// Opens the journal in the folder, and reads its snapshot. [`Journal::replay`] must follow.
    pub fn open(options: Durability, steps: bool, service: &dyn Service) -> Result<(Journal, Option<Found>)> {
        let folder = &options.folder;
        fs::create_dir_all(folder).map_err(|e| bad("create the folder", folder, e))?;
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(|e| bad("write", &path, e))?;
        oar_net::fork::close_on_fork(&lock);
        if lock.try_lock().is_err() {
            return Err(Error::Server(format!("another server keeps its state in {}", folder.display())));
        }
        let ended = folder.join("ended");
        if ended.exists() {
            remove_below(folder, u64::MAX)?;
            fs::remove_file(&ended).map_err(|e| bad("remove", &ended, e))?;
            sync_folder(folder)?;
        }
        if !options.layout.is_empty() {
            write_whole(folder, LAYOUT, |mut file| {
                let written = file.write_all(options.layout.as_bytes());
                written.map(|()| file).map_err(|e| bad("write", &folder.join(LAYOUT), e))
            })?;
        }
        if !options.log {
            // A log of an earlier configuration belongs to another state.
            remove(folder, "log", u64::MAX)?;
        }
        let found = match numbers(folder, "snapshot")?.last() {
            None => None,
            Some(&point) => {
                let allocate = |meta: &Meta| service.allocate_state(meta);
                Some((point, read_snapshot(&folder.join(format!("snapshot-{point}")), &allocate)?))
            }
        };
        let point = found.as_ref().map_or(0, |(point, _)| *point);
        let logs = numbers(folder, "log")?;
        // Log 0 begins without a snapshot.
        if let (None, Some(&first @ 1..)) = (&found, logs.first()) {
            let path = folder.join(format!("log-{first}"));
            return Err(damaged(&path, "it continues a snapshot that is not there"));
        }
        let (count, bytes) = (0, 0);
        let journal = Journal { options, _lock: lock, log: None, point, count, bytes, steps, writer: None };
        Ok((journal, found.map(|(_, found)| found)))
    }

    /// The resharded state of another job, for servers without a state of their own.
    pub fn resharded(&self, service: &dyn Service) -> Result<Option<Vec<Incoming>>> {
        let Some(path) = self.options.folder.parent().map(|p| p.join(RESHARDED)).filter(|p| p.exists()) else {
            return Ok(None);
        };
        let found = read_snapshot(&path, &|meta: &Meta| service.allocate_state(meta))?;
        Ok(Some(found.state))
    }

    pub fn layout(&self) -> &str {
        &self.options.layout
    }

    fn log_path(&self, point: u64) -> PathBuf {
        self.options.folder.join(format!("log-{point}"))
    }

    /// Applies the records after the snapshot, and continues writing at their end. Returns the number of records.
    pub fn replay(&mut self, service: &dyn Service, apply: Replay<'_>) -> Result<u64> {
        if !self.options.log {
            return Ok(0);
        }
        let last = numbers(&self.options.folder, "log")?.last().copied().unwrap_or(self.point).max(self.point);
        let mut records = 0;
        for point in self.point..=last {
            let path = self.log_path(point);
            // The newest log may not exist yet; earlier ones must.
            let file = OpenOptions::new().read(true).write(true).create(point == last).truncate(false).open(&path);
            let file = file.map_err(|e| bad("read", &path, e))?;
            let mut log = Channel::over(file);
            self.count = 0;
            let whole = self.read_log(&path, &mut log, (point == last, service), &mut |record, vars| {
                records += 1;
                apply(record, vars)
            })?;
            self.bytes = whole;
            self.log = Some(log);
        }
        self.point = last;
        sync_folder(&self.options.folder)?;
        Ok(records)
    }

    /// Reads all records of a file; returns the offset of its valid end.
    fn read_log(
        &mut self,
        path: &Path,
        log: &mut Channel<File>,
        (last, service): (bool, &dyn Service),
        apply: Replay<'_>,
    ) -> Result<u64> {
        let size = log.stream().metadata().map_err(|e| bad("read", path, e))?.len();
        let (mut whole, mut frames) = (0, 0);
        let deadline = no_deadline();
        while whole < size {
            match read_record(log, service, &deadline) {
                Ok((record, vars)) => {
                    (whole, frames) = (log.taken(), log.frames());
                    self.count += u64::from(record.counts(self.steps));
                    let vars = vars.map_err(|why| damaged(path, &why))?;
                    apply(record, vars).map_err(|why| Error::Server(format!("{}: {why}", path.display())))?;
                }
                // A process or machine that died while writing leaves an incomplete record, zeros or garbage.
                Err(ChannelError::Gone(_)) if last => {
                    cut_off(path, log.stream(), whole, size, "an incomplete record")?;
                    break;
                }
                Err(lost) => {
                    if last && !has_frame(path, log.stream(), whole)? {
                        cut_off(path, log.stream(), whole, size, "no record")?;
                        break;
                    }
                    return Err(damaged(path, &format!("after byte {whole}: {}", cause(lost))));
                }
            }
        }
        (&mut log.stream()).seek(SeekFrom::Start(whole)).map_err(|e| bad("read", path, e))?;
        log.continue_after(frames);
        Ok(whole)
    }

    /// Writes a record. With `answered`, a reply depends on it.
    pub fn write(&mut self, record: &LogRecord, vars: &[Incoming], answered: bool) -> std::result::Result<(), String> {
        self.count += u64::from(record.counts(self.steps));
        let Some(log) = &mut self.log else { return Ok(()) };
        let data: Vec<(&[i64], &[u8])> = vars.iter().map(|v| (&v.rows[..], v.data.bytes())).collect();
        let sent = log.send(Type::Begin, &record.encode(), &data, &no_deadline(), "a log");
        sent.map_err(|lost| format!("the server's log cannot be written: {}", cause(lost)))?;
        self.bytes += data.iter().map(|(rows, data)| (rows.len() * 8 + data.len()) as u64).sum::<u64>();
        if answered && self.options.fsync {
            log.stream().sync_data().map_err(|e| format!("the server's log cannot be written: {e}"))?;
        }
        Ok(())
    }

    /// Whether a snapshot is due; an error if the last one failed.
    pub fn due(&mut self) -> std::result::Result<bool, String> {
        if self.count < self.options.every && self.bytes < self.options.bytes {
            return Ok(false);
        }
        if self.writer.as_ref().is_some_and(|w| !w.is_finished()) {
            return Ok(false);
        }
        self.written().map(|()| true)
    }

    fn written(&mut self) -> std::result::Result<(), String> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let result = writer.join().unwrap_or_else(|_| Err(Error::Broken { cause: "an internal error".into() }));
        result.map_err(|e| format!("the server's snapshot failed: {e}"))
    }

    /// Starts a snapshot of this state on another thread; later records go to a new log.
    pub fn snapshot(&mut self, image: LedgerSnapshot, state: Pieces) -> std::result::Result<(), String> {
        self.begin(image, state).map_err(|e| e.to_string())
    }

    fn begin(&mut self, image: LedgerSnapshot, state: Pieces) -> Result<()> {
        let (folder, point) = (self.options.folder.clone(), self.point + 1);
        if let Some(before) = &self.log {
            before.stream().sync_data().map_err(|e| bad("write", &self.log_path(self.point), e))?;
        }
        if self.options.log {
            let path = self.log_path(point);
            let file = File::create(&path).map_err(|e| bad("write", &path, e))?;
            self.log = Some(Channel::over(file));
            sync_folder(&folder)?;
        }
        (self.point, self.count, self.bytes) = (point, 0, 0);
        let work = move || {
            write_snapshot(&folder, &format!("snapshot-{point}"), &image, state)?;
            remove_below(&folder, point)
        };
        let thread = std::thread::Builder::new().name("oar-snapshot".into()).spawn(work);
        self.writer = Some(thread.map_err(|e| Error::io("a thread", e))?);
        Ok(())
    }

    /// Waits until the last snapshot is on disk.
    pub fn wait(&mut self) -> Result<()> {
        self.written().map_err(Error::Server)
    }

    /// Writes the final state of a complete job; no server continues from it.
    pub fn end(&mut self, image: LedgerSnapshot, state: Pieces) -> Result<()> {
        self.wait()?;
        self.begin(image, state)?;
        self.wait()?;
        let path = self.options.folder.join("ended");
        File::create(&path).and_then(|f| f.sync_all()).map_err(|e| bad("write", &path, e))?;
        sync_folder(&self.options.folder)
    }

    /// Whether a restarted server may lack acknowledged updates.
    pub fn lossy(&self) -> bool {
        !self.options.log
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // The writer must have finished when the lock is released.
        let _ = self.written();
    }
}

/// Cuts a log at its last whole record, and says so.
fn cut_off(path: &Path, log: &File, whole: u64, size: u64, what: &str) -> Result<()> {
    eprintln!("oar: the last {} bytes of {} are {what} and are cut off", size - whole, path.display());
    log.set_len(whole).map_err(|e| bad("write", path, e))
}

/// Whether the header of a frame begins anywhere from `at` on.
fn has_frame(path: &Path, log: &File, at: u64) -> Result<bool> {
    const PART: usize = 1 << 20;
    let mut window = vec![0; PART + HEADER];
    let (mut at, mut kept) = (at, 0);
    loop {
        let n = log.read_at(&mut window[kept..], at).map_err(|e| bad("read", path, e))?;
        let bytes = &window[..kept + n];
        if bytes.windows(HEADER).any(|b| b.first_chunk().is_some_and(Header::is_one)) {
            return Ok(true);
        }
        if n == 0 {
            return Ok(false);
        }
        let (end, rest) = (kept + n, (kept + n).min(HEADER - 1));
        window.copy_within(end - rest..end, 0);
        (at, kept) = (at + n as u64, rest);
    }
}

type Vars = std::result::Result<Vec<Incoming>, String>;

fn read_record(
    log: &mut Channel<File>,
    service: &dyn Service,
    deadline: &Deadline<'_>,
) -> std::result::Result<(LogRecord, Vars), ChannelError> {
    let head = log.head(Type::Begin, deadline, "a log", "it")?;
    let record = LogRecord::decode(&head).ok_or_else(|| ChannelError::Refused("a record does not parse".into()))?;
    let allocate = |meta: &Meta| match &record {
        LogRecord::LookedUp { .. } => service.allocate_ids(meta),
        _ => service.allocate(meta),
    };
    let vars = log.vars(record.vars(), &allocate, deadline, "a log", "it")?;
    Ok((record, vars))
}
