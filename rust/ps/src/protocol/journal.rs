//! A server's state on the disk: a snapshot, and a log of what came after it.
//!
//! `snapshot-N` stands under its name once it is whole (written beside, fsync, rename, fsync of the folder); `log-N` holds
//! what happened after its point. What is read again after a death: the newest snapshot, and all logs from its number on.
//! The last may end within a note: that tail was never answered, and is cut off. `ended` says that the job is over, `layout`
//! which parts of which variables these are. `dealt`, beside the folders of the servers, is what new ones begin with.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use super::channel::{parts, Channel, ChannelError};
use super::log_record::{LedgerSnapshot, LogRecord};
use super::wire::{decode_reply, Meta, Reply};
use super::{limits, Allocate, Incoming, Pieces, Service};
use oar_net::error::{Error, Result};
use oar_net::frame::Type;
use oar_net::socket::Deadline;

/// Where a server keeps its state, and how. `FLAGS_ps_*` say it.
#[derive(Clone, Debug)]
pub struct Durability {
    pub folder: PathBuf,
    /// Without a log, what came after the last snapshot is lost.
    pub log: bool,
    /// Steps (pushes, where trainers are free) from one snapshot to the next.
    pub every: u64,
    /// Bytes of the log that make a snapshot due before.
    pub bytes: u64,
    /// Wait for the disk before an answer: outlives the machine, not the process alone.
    pub fsync: bool,
    /// Lines of what the server has parts of, as its Program was made.
    pub layout: String,
}

/// Of the servers whose folders lie there.
pub const RESHARDED: &str = "dealt";
pub const LAYOUT: &str = "layout";

impl Durability {
    /// Of the server at `endpoint`; none where no folder is named.
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
    /// Held as long as this server lives: two of them in one folder would end both states.
    _lock: File,
    log: Option<Channel<File>>,
    /// The number of the log that is written.
    point: u64,
    /// Since its beginning.
    count: u64,
    bytes: u64,
    steps: bool,
    writer: Option<JoinHandle<Result<()>>>,
}

/// What the disk had.
pub struct Found {
    pub image: LedgerSnapshot,
    pub state: Vec<Incoming>,
}

fn bad(what: &str, path: &Path, why: impl std::fmt::Display) -> Error {
    Error::io(format!("cannot {what} {}", path.display()), why)
}

fn damaged(path: &Path, why: &str) -> Error {
    Error::Server(format!(
        "the server's state in {} is damaged ({why}): put back what was there, or remove the folder to begin anew",
        path.display()
    ))
}

fn word(lost: ChannelError) -> String {
    match lost {
        ChannelError::Wait(e) => e.to_string(),
        ChannelError::Gone(why) | ChannelError::Refused(why) => why,
    }
}

/// Files never let anybody wait.
fn no_deadline() -> Deadline<'static> {
    Deadline::only(Duration::from_secs(1 << 30))
}

/// Make the names in a folder last.
fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| bad("write", folder, e))
}

/// The number in the name of a snapshot or log.
fn number(name: &str, kind: &str) -> Option<u64> {
    name.strip_prefix(kind)?.strip_prefix('-')?.parse().ok()
}

/// The numbers of all files of a kind, rising.
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

/// A snapshot makes all before it superfluous.
fn remove_below(folder: &Path, below: u64) -> Result<()> {
    remove(folder, "log", below)?;
    remove(folder, "snapshot", below)
}

/// A file that stands under its name once it is whole.
fn write_whole(folder: &Path, name: &str, write: impl FnOnce(File) -> Result<File>) -> Result<()> {
    let (path, part) = (folder.join(name), folder.join(format!("{name}.part")));
    let file = write(File::create(&part).map_err(|e| bad("write", &part, e))?)?;
    file.sync_all().map_err(|e| bad("write", &part, e))?;
    fs::rename(&part, &path).map_err(|e| bad("write", &path, e))?;
    sync_folder(folder)
}

/// A snapshot: the books, then a message for each variable, then the end.
pub fn write_snapshot(folder: &Path, name: &str, image: &LedgerSnapshot, state: Pieces) -> Result<()> {
    write_whole(folder, name, |file| {
        let mut out = Channel::over(file);
        let failed = |lost| bad("write", &folder.join(name), word(lost));
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

/// The newest snapshot of a server's folder, and how many bytes of logs came after it.
pub fn newest_snapshot(folder: &Path) -> Result<Option<(PathBuf, u64)>> {
    let Some(&point) = numbers(folder, "snapshot")?.last() else { return Ok(None) };
    let logs = numbers(folder, "log")?.into_iter().filter(|&n| n >= point);
    let bytes = logs.map(|n| fs::metadata(folder.join(format!("log-{n}"))).map_or(0, |m| m.len())).sum();
    Ok(Some((folder.join(format!("snapshot-{point}")), bytes)))
}

/// Read a snapshot. `place` makes room for each variable.
pub fn read_snapshot(path: &Path, allocate: Allocate<'_>) -> Result<Found> {
    let file = File::open(path).map_err(|e| bad("read", path, e))?;
    let mut input = Channel::over(file);
    let deadline = no_deadline();
    let failed = |lost| damaged(path, &word(lost));
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

/// What [`Journal::open`] is to do with a note that it reads.
pub type Replay<'a> = &'a mut dyn FnMut(LogRecord, Vec<Incoming>) -> std::result::Result<(), String>;

impl Journal {
    /// The journal in the folder, and what it had. The notes are read by [`Journal::replay`], which comes next.
    pub fn open(options: Durability, steps: bool, service: &dyn Service) -> Result<(Journal, Option<Found>)> {
        let folder = &options.folder;
        fs::create_dir_all(folder).map_err(|e| bad("make the folder", folder, e))?;
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
            // One that was written before tells of another past.
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
        let (count, bytes) = (0, 0);
        let journal = Journal { options, _lock: lock, log: None, point, count, bytes, steps, writer: None };
        Ok((journal, found.map(|(_, found)| found)))
    }

    /// What another job's servers had, for those that begin with it.
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

    /// Do again what came after the snapshot, and go on writing where it ends. Says how many notes there were.
    pub fn replay(&mut self, service: &dyn Service, apply: Replay<'_>) -> Result<u64> {
        if !self.options.log {
            return Ok(0);
        }
        let last = numbers(&self.options.folder, "log")?.last().copied().unwrap_or(self.point).max(self.point);
        let mut records = 0;
        for point in self.point..=last {
            let path = self.log_path(point);
            // The newest is missing where none was written before; any other one was removed.
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

    /// Read all notes of a file; its end is where the next one is to be written.
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
                // A death while a note was written leaves its beginning.
                Err(ChannelError::Gone(_)) if last => {
                    let cut = size - whole;
                    eprintln!("oar: the last {cut} bytes of {} are no whole note: they are cut off", path.display());
                    log.stream().set_len(whole).map_err(|e| bad("write", path, e))?;
                    break;
                }
                Err(lost) => return Err(damaged(path, &format!("after byte {whole}: {}", word(lost)))),
            }
        }
        (&mut log.stream()).seek(SeekFrom::Start(whole)).map_err(|e| bad("read", path, e))?;
        log.go_on(frames);
        Ok(whole)
    }

    /// Write a note down. With `answered`, somebody is told of it next.
    pub fn write(&mut self, record: &LogRecord, vars: &[Incoming], answered: bool) -> std::result::Result<(), String> {
        self.count += u64::from(record.counts(self.steps));
        let Some(log) = &mut self.log else { return Ok(()) };
        let data: Vec<(&[i64], &[u8])> = vars.iter().map(|v| (&v.rows[..], v.data.bytes())).collect();
        let sent = log.send(Type::Begin, &record.encode(), &data, &no_deadline(), "a log");
        sent.map_err(|lost| format!("the server's log cannot be written: {}", word(lost)))?;
        self.bytes += data.iter().map(|(rows, data)| (rows.len() * 8 + data.len()) as u64).sum::<u64>();
        if answered && self.options.fsync {
            log.stream().sync_data().map_err(|e| format!("the server's log cannot be written: {e}"))?;
        }
        Ok(())
    }

    /// Is it time for a snapshot? An error where the last one failed.
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

    /// A snapshot of this state; what comes next goes into a new log. Another thread writes it.
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

    /// Wait until the last snapshot is on the disk.
    pub fn wait(&mut self) -> Result<()> {
        self.written().map_err(Error::Server)
    }

    /// The job is over: its last state stays, and nobody goes on from it.
    pub fn end(&mut self, image: LedgerSnapshot, state: Pieces) -> Result<()> {
        self.wait()?;
        self.begin(image, state)?;
        self.wait()?;
        let path = self.options.folder.join("ended");
        File::create(&path).and_then(|f| f.sync_all()).map_err(|e| bad("write", &path, e))?;
        sync_folder(&self.options.folder)
    }

    /// Does a server that is started again lack something?
    pub fn lossy(&self) -> bool {
        !self.options.log
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Nobody writes in this folder once its lock is free.
        let _ = self.written();
    }
}

type Vars = std::result::Result<Vec<Incoming>, String>;

fn read_record(
    log: &mut Channel<File>,
    service: &dyn Service,
    deadline: &Deadline<'_>,
) -> std::result::Result<(LogRecord, Vars), ChannelError> {
    let head = log.head(Type::Begin, deadline, "a log", "it")?;
    let record = LogRecord::decode(&head).ok_or_else(|| ChannelError::Refused("a note does not parse".into()))?;
    let allocate = |meta: &Meta| match &record {
        LogRecord::Looked { .. } => service.allocate_ids(meta),
        _ => service.allocate(meta),
    };
    let vars = log.vars(record.vars(), &allocate, deadline, "a log", "it")?;
    Ok((record, vars))
}
