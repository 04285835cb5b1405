//! Lines of files: read directly, in pieces that threads share, or from the output of a command.

use super::block::Block;
use super::desc::Desc;
use super::parse;
use super::read::{Command, Reading, Stop};
use oar_core::base::{Error, ErrorKind, Result};
use oar_core::{bail, err};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

/// Bytes of a piece of a file that one thread parses.
const PIECE: u64 = 1 << 20;
/// Bytes of a command's output per block.
const PART: usize = 1 << 20;
/// Descriptor of a command's shell that ends with the trainer.
const WATCHED: i32 = 198;
/// A longer line is an error: the file is probably not text.
const LONGEST: usize = 1 << 28;

/// A unit of work for one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The lines that begin in this range of a file.
    Bytes { file: usize, from: u64, to: u64 },
    /// The whole output of a command for a file.
    Whole { file: usize },
}

impl Piece {
    pub fn file(&self) -> usize {
        match *self {
            Piece::Bytes { file, .. } | Piece::Whole { file } => file,
        }
    }
}

fn is_remote(path: &str) -> bool {
    path.starts_with("hdfs:") || path.starts_with("afs:")
}

impl Reading {
    fn piped(&self) -> bool {
        !matches!(self.pipe_command.trim(), "" | "cat")
    }

    fn is_plain(&self, path: &str) -> bool {
        self.columns.is_none() && !self.piped() && !is_remote(path) && !path.ends_with(".gz")
    }

    /// The pieces of a file; with `split` false it is one piece, read in order by one thread.
    pub fn pieces(&self, file: usize, split: bool) -> Result<Vec<Piece>> {
        let path = &self.files[file];
        if !self.is_plain(path) {
            return Ok(vec![Piece::Whole { file }]);
        }
        let meta = std::fs::metadata(path).map_err(|e| cannot(path, &e))?;
        if meta.is_dir() {
            bail!(InvalidArgument, "the data file '{path}' is a folder");
        }
        if !meta.is_file() {
            return Ok(vec![Piece::Whole { file }]);
        }
        let step = if split { PIECE } else { meta.len().max(1) };
        let begins = (0..meta.len()).step_by(step as usize);
        Ok(begins.map(|from| Piece::Bytes { file, from, to: (from + step).min(meta.len()) }).collect())
    }

    /// Parses a piece, and passes on its blocks. `text` is a buffer reused between calls.
    pub fn read(
        &self,
        desc: &Desc,
        piece: Piece,
        text: &mut Vec<u8>,
        stop: &Arc<Stop>,
        take: &mut dyn FnMut(Block) -> Result<()>,
    ) -> Result<()> {
        let path = &self.files[piece.file()];
        match piece {
            Piece::Whole { .. } if self.is_plain(path) => {
                let mut file = File::open(path).map_err(|e| cannot(path, &e))?;
                lines(desc, &mut file, path, stop, take).map(drop)
            }
            Piece::Whole { .. } => match &self.columns {
                Some(read) => read(desc, path, stop, take),
                None => self.through_command(desc, path, stop, take),
            },
            Piece::Bytes { from, to, .. } => {
                let file = File::open(path).map_err(|e| cannot(path, &e))?;
                let mut at = from;
                // A file read in order is split into parts, to limit memory.
                while at < to && !stop.asked() {
                    let end = (at + PIECE).min(to);
                    let block = bytes(desc, &file, path, at..end, text)?;
                    if !block.is_empty() {
                        take(block)?;
                    }
                    at = end;
                }
                Ok(())
            }
        }
    }

    /// The shell command for a file, and whether the file is its standard input.
    fn shell(&self, path: &str) -> (String, bool) {
        let pipe = if self.piped() { Some(format!("( {} )", self.pipe_command)) } else { None };
        let (first, is_input) = match () {
            () if is_remote(path) => (Some(format!("{} \"$1\"", self.download_command)), false),
            () if path.ends_with(".gz") => (Some("zcat".to_string()), true),
            () => (None, true),
        };
        let text = first.into_iter().chain(pipe).collect::<Vec<_>>().join(" | ");
        (format!("set -o pipefail; {text}"), is_input)
    }

    fn through_command(
        &self,
        desc: &Desc,
        path: &str,
        stop: &Arc<Stop>,
        take: &mut dyn FnMut(Block) -> Result<()>,
    ) -> Result<()> {
        let (text, is_input) = self.shell(path);
        let input = match is_input {
            true => Stdio::from(File::open(path).map_err(|e| cannot(path, &e))?),
            false => Stdio::null(),
        };
        let mut shell = std::process::Command::new("bash");
        // A trainer that is killed leaves no command behind: a member of the group reads a pipe that ends with the trainer.
        let (watched, alive) = std::io::pipe().map_err(|e| err!(External, "a pipe for the data file '{path}': {e}"))?;
        let text =
            format!("{{ read -r <&{WATCHED}; kill -KILL -- -$$; }} <&- >/dev/null 2>&1 & exec {WATCHED}<&-; {text}");
        shell.args(["-c", &text, "bash", path]).stdin(input).stdout(Stdio::piped()).process_group(0);
        let from = watched.as_raw_fd();
        // SAFETY: the closure makes one system call, which is allowed between fork and exec, on a descriptor that this
        // function keeps open until the command has begun.
        unsafe {
            shell.pre_exec(move || match libc::dup2(from, WATCHED) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let mut child =
            shell.spawn().map_err(|e| err!(External, "cannot start bash for the data file '{path}': {e}"))?;
        drop(watched);
        let _alive = alive;
        let out = child.stdout.take();
        let command = Command::new(child, stop);
        let Some(mut out) = out else { bail!(Fatal, "the command for '{path}' has no output to read") };
        let mut instances = 0;
        let read = lines(desc, &mut out, path, stop, &mut |block| {
            instances += block.len();
            take(block)
        });
        drop(out);
        if stop.asked() || read.is_err() {
            return read.map(drop);
        }
        let status = command.child.lock().wait().map_err(Error::from)?;
        let said = self.say(path, status);
        match status.code() {
            _ if status.success() => Ok(()),
            // As in 2.0.2, a command that is not found leaves the data set without this file's instances.
            Some(126 | 127) if instances == 0 => {
                eprintln!("paddle: {said}: the file counts as empty");
                Ok(())
            }
            _ => bail!(External, "{said} after {instances} instances"),
        }
    }

    fn say(&self, path: &str, status: ExitStatus) -> String {
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => format!("was killed by signal {signal}"),
            (None, Some(code)) if code > 128 => format!("ended with status {code} (signal {})", code - 128),
            (None, code) => format!("ended with status {}", code.unwrap_or(-1)),
        };
        let first = if is_remote(path) { format!("{} | ", self.download_command) } else { String::new() };
        format!("the pipe command `{first}{}` for the data file '{path}' {how}", self.pipe_command)
    }
}

fn cannot(path: &str, e: &std::io::Error) -> Error {
    let kind = match e.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        _ => ErrorKind::External,
    };
    Error::new(kind, format!("cannot read the data file '{path}': {e}"))
}

fn damaged(path: &str, line: usize, what: &str) -> Error {
    err!(InvalidArgument, "{path}:{line}: {what}")
}

fn newline(text: &[u8]) -> Option<usize> {
    // SAFETY: memchr reads within the slice, and returns an address in it or null.
    let found = unsafe { libc::memchr(text.as_ptr().cast(), b'\n'.into(), text.len()) };
    (!found.is_null()).then(|| found as usize - text.as_ptr() as usize)
}

/// Parses whole lines. The error is the line's index, from 0, and what is wrong.
fn parse_all(desc: &Desc, text: &[u8], block: &mut Block) -> std::result::Result<usize, (usize, String)> {
    let mut n = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = newline(rest).unwrap_or(rest.len());
        parse::line(desc, &rest[..end], block).map_err(|what| (n, what))?;
        rest = rest.get(end + 1..).unwrap_or_default();
        n += 1;
    }
    Ok(n)
}

/// Parses the lines that begin in this range of a file.
fn bytes(desc: &Desc, file: &File, path: &str, at: Range<u64>, text: &mut Vec<u8>) -> Result<Block> {
    let Range { start: from, end: to } = at;
    text.resize((to - from) as usize, 0);
    let read = |buffer: &mut [u8], at| -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match file.read_at(&mut buffer[done..], at + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(cannot(path, &e)),
            }
        }
        Ok(done)
    };
    let n = read(text, from)?;
    text.truncate(n);
    let mut begin = 0;
    if from > 0 {
        let mut before = [0];
        read(&mut before, from - 1)?;
        if before[0] != b'\n' {
            match newline(text) {
                Some(i) => begin = i + 1,
                None => return Ok(Block::default()),
            }
        }
    }
    if begin == text.len() {
        return Ok(Block::default());
    }
    // The last line may continue after the piece.
    let mut more = [0; 1 << 12];
    while text.last() != Some(&b'\n') {
        let n = read(&mut more, from + text.len() as u64)?;
        let line = newline(&more[..n]).map_or(n, |i| i + 1);
        text.extend_from_slice(&more[..line]);
        if n == 0 {
            break;
        }
        if text.len() > LONGEST + PIECE as usize {
            bail!(InvalidArgument, "{path}: a line around byte {to} is longer than {LONGEST} bytes");
        }
    }
    let mut block = Block::for_text(text.len());
    if let Err((line, what)) = parse_all(desc, &text[begin..], &mut block) {
        let before = lines_before(file, from + begin as u64).map_err(|e| cannot(path, &e))?;
        return Err(damaged(path, before + line + 1, &what));
    }
    Ok(block)
}

/// Number of lines before a byte of a file, for an error message: reads the file again.
fn lines_before(file: &File, to: u64) -> std::io::Result<usize> {
    let mut buffer = vec![0; 1 << 16];
    let (mut at, mut lines) = (0, 0);
    while at < to {
        let most = ((to - at) as usize).min(buffer.len());
        let n = file.read_at(&mut buffer[..most], at)?;
        if n == 0 {
            break;
        }
        lines += buffer[..n].iter().filter(|&&c| c == b'\n').count();
        at += n as u64;
    }
    Ok(lines)
}

/// Parses a stream to its end; returns the number of lines.
fn lines(
    desc: &Desc,
    input: &mut dyn Read,
    path: &str,
    stop: &Stop,
    take: &mut dyn FnMut(Block) -> Result<()>,
) -> Result<usize> {
    let (mut text, mut number) = (vec![0_u8; PART], 0);
    let mut held = 0;
    loop {
        if held == text.len() {
            if held > LONGEST {
                bail!(InvalidArgument, "{path}:{}: a line is longer than {LONGEST} bytes", number + 1);
            }
            text.resize(held * 2, 0);
        }
        let n = match input.read(&mut text[held..]) {
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(cannot(path, &e)),
        };
        if stop.asked() {
            return Ok(number);
        }
        let (scanned, end) = (held, n == 0);
        held += n;
        let whole = match end {
            true => held,
            false => match text[scanned..held].iter().rposition(|&c| c == b'\n') {
                // Small writes of a command are accumulated, unless no more data is available.
                Some(i) if held >= PART / 2 || n < 4096 => scanned + i + 1,
                _ => continue,
            },
        };
        if whole > 0 {
            let mut block = Block::default();
            number += parse_all(desc, &text[..whole], &mut block)
                .map_err(|(line, what)| damaged(path, number + line + 1, &what))?;
            take(block)?;
            text.copy_within(whole..held, 0);
            held -= whole;
        }
        if end {
            return Ok(number);
        }
    }
}
