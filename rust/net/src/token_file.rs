//! Tokens of listeners that were started without `OAR_JOB_TOKEN`: files of mode 0600 in `/tmp/oar-UID` (`/dev/shm/oar-UID`
//! if that cannot be written), by which processes of the same user on the same host prove that they may connect.
//!
//! The name of a file has the listener's port and its number, which its challenges carry. A file is locked as long as
//! its listener lives; files without a lock are left over from killed processes, and the next listener removes them.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::codec::from_hex;
use crate::error::{Error, Result};
use crate::fork::ForkGeneration;
use crate::socket;

/// How several hosts or users share a token, as errors say it.
pub const HOW: &str = "set OAR_JOB_TOKEN to the same value for all processes of the job \
                       (`openssl rand -hex 32` makes one)";
const SUFFIX: &str = ".token";
/// Hosts remove old files of /tmp, usually after ten days.
const REFRESH: Duration = Duration::from_secs(3600);

/// The token of a listener; its file is removed on drop.
pub struct TokenFile {
    pub token: Vec<u8>,
    /// The listener's number, never 0.
    pub number: u64,
    path: PathBuf,
    lock: File,
    refreshed: Instant,
    generation: ForkGeneration,
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The folders of this user's files, in order of preference.
pub fn folders() -> [PathBuf; 2] {
    ["/tmp", "/dev/shm"].map(|parent| PathBuf::from(format!("{parent}/oar-{}", user())))
}

fn bad(what: &str, path: &Path, why: impl std::fmt::Display) -> Error {
    Error::io(format!("cannot {what} {}", path.display()), why)
}

/// Belongs to this user, and no other user may use it.
fn is_private(found: &fs::Metadata) -> bool {
    found.uid() == user() && found.mode() & 0o077 == 0
}

/// Creates a folder, or checks that it is private.
fn private_folder(folder: PathBuf) -> Result<PathBuf> {
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(bad("create the folder", &folder, e)),
        _ => {}
    }
    let found = fs::symlink_metadata(&folder).map_err(|e| bad("read", &folder, e))?;
    match found.is_dir() && is_private(&found) {
        true => Ok(folder),
        false => Err(Error::invalid(format!(
            "{} must be a folder of mode 0700 of user {}, for the tokens of listeners: remove it, or {HOW}",
            folder.display(),
            user()
        ))),
    }
}

fn name(port: u16, number: u64) -> String {
    format!("{port}-{number:016x}{SUFFIX}")
}

/// Removes the files of killed listeners.
fn remove_stale(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.to_string_lossy().ends_with(SUFFIX) && File::open(&path).is_ok_and(|f| f.try_lock().is_ok()) {
            let _ = fs::remove_file(&path);
        }
    }
}

fn write(folder: &Path, name: &str, token: &[u8]) -> Result<(PathBuf, File)> {
    // Locked before it has its name.
    let (path, part) = (folder.join(name), folder.join(format!("{name}.part")));
    let failed = |e| bad("write", &part, e);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part).map_err(failed)?;
    let text: String = token.iter().map(|b| format!("{b:02x}")).collect();
    let done = file.try_lock().map_err(std::io::Error::from).and_then(|()| writeln!(file, "{text}"));
    done.and_then(|()| fs::rename(&part, &path)).map_err(|e| {
        let _ = fs::remove_file(&part);
        failed(e)
    })?;
    Ok((path, file))
}

impl TokenFile {
    /// Makes a token for the listener at this port.
    pub fn create(port: u16) -> Result<TokenFile> {
        let [first, second] = folders();
        TokenFile::create_in(port, first).or_else(|e| TokenFile::create_in(port, second).map_err(|_| e))
    }

    fn create_in(port: u16, folder: PathBuf) -> Result<TokenFile> {
        let folder = private_folder(folder)?;
        remove_stale(&folder);
        let token = socket::random_bytes::<32>()?.to_vec();
        let number = u64::from_le_bytes(socket::random_bytes::<8>()?).max(1);
        let (path, lock) = write(&folder, &name(port, number), &token)?;
        Ok(TokenFile { token, number, path, lock, refreshed: Instant::now(), generation: ForkGeneration::now() })
    }

    /// Keeps the file young, and writes it again if it was removed.
    pub fn refresh(&mut self) {
        if self.refreshed.elapsed() < REFRESH || self.generation.is_forked() {
            return;
        }
        self.refreshed = Instant::now();
        if self.path.exists() {
            let _ = self.lock.set_modified(std::time::SystemTime::now());
        } else if let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) {
            let folder = private_folder(folder.to_path_buf());
            if let Ok((_, lock)) = folder.and_then(|f| write(&f, &name.to_string_lossy(), &self.token)) {
                self.lock = lock;
            }
        }
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        if !self.generation.is_forked() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The token of the listener with this number behind this port; the inner error says why this process has none.
pub fn read(port: u16, number: u64) -> std::result::Result<Vec<u8>, String> {
    let mut all = folders().into_iter().map(|folder| folder.join(name(port, number)));
    let found = all.find_map(|path| {
        let open = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        Some((open.ok()?, path))
    });
    let (file, path) = found.ok_or_else(|| {
        format!(
            "it accepts processes of its own user on its own host, and left no token for user {} in {}: {HOW}",
            user(),
            folders()[0].display()
        )
    })?;
    if !file.metadata().is_ok_and(|m| m.is_file() && is_private(&m)) {
        return Err(format!("{} must be a file of mode 0600 of user {}", path.display(), user()));
    }
    let mut text = String::new();
    let read = file.take(4096).read_to_string(&mut text);
    let token = read.ok().and_then(|_| from_hex(text.trim()).ok()).filter(|t| !t.is_empty());
    token.ok_or_else(|| format!("{} holds no token", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lives_as_long_as_its_listener() {
        let file = TokenFile::create(1).unwrap();
        let path = file.path.clone();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(&folders()[0]).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(read(1, file.number).unwrap(), file.token);
        assert!(read(2, file.number).unwrap_err().contains("OAR_JOB_TOKEN"), "another port");
        // A second listener leaves it alone.
        let other = TokenFile::create(1).unwrap();
        assert!(path.exists() && other.token != file.token);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn files_of_killed_listeners_are_removed() {
        let folder = private_folder(folders()[0].clone()).unwrap();
        let left = folder.join(name(2, 77));
        fs::write(&left, "00\n").unwrap();
        drop(TokenFile::create(3).unwrap());
        assert!(!left.exists());
    }

    #[test]
    fn a_removed_file_comes_back() {
        let mut file = TokenFile::create(4).unwrap();
        fs::remove_file(&file.path).unwrap();
        file.refreshed = Instant::now().checked_sub(2 * REFRESH).unwrap();
        file.refresh();
        assert_eq!(read(4, file.number).unwrap(), file.token);
    }
}
