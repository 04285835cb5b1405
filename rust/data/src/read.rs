//! How files are read, and how reading is cancelled.

use super::block::Block;
use super::desc::Desc;
use oar_core::base::Result;
use parking_lot::Mutex;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Reads a file with columns: calls the function for each block of rows, in order, until the end or `Stop`.
pub type ColumnReader =
    Arc<dyn Fn(&Desc, &str, &Stop, &mut dyn FnMut(Block) -> Result<()>) -> Result<()> + Send + Sync>;

/// The source of instances.
#[derive(Clone, Default)]
pub struct Reading {
    pub files: Vec<String>,
    /// A shell command that filters every file; none if empty or `cat`.
    pub pipe_command: String,
    /// Command that outputs a file `hdfs:..` or `afs:..`, given as its last argument.
    pub download_command: String,
    /// Reads all files in place of the commands: they have columns, not lines.
    pub columns: Option<ColumnReader>,
}

type Running = Arc<Mutex<Child>>;

/// Cancels readers whose output is no longer needed, and kills their commands.
#[derive(Default)]
pub struct Stop {
    asked: AtomicBool,
    commands: Mutex<Vec<Running>>,
}

impl Stop {
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
        self.commands.lock().iter().for_each(kill);
    }

    pub(crate) fn add(&self, command: Running) {
        self.commands.lock().push(command.clone());
        if self.asked() {
            kill(&command);
        }
    }

    pub(crate) fn remove(&self, command: &Running) {
        self.commands.lock().retain(|c| !Arc::ptr_eq(c, command));
    }
}

/// Kills a command and its children, which are a process group.
fn kill(command: &Running) {
    let mut child = command.lock();
    if matches!(child.try_wait(), Ok(None)) {
        // SAFETY: no memory is passed. The child has not been waited for, so its pid is still its own (the lock is
        // held).
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    }
}

/// A running command; killed on drop.
pub(crate) struct Command {
    pub child: Running,
    stop: Arc<Stop>,
}

impl Command {
    pub fn new(child: Child, stop: &Arc<Stop>) -> Command {
        let child = Arc::new(Mutex::new(child));
        stop.add(child.clone());
        Command { child, stop: stop.clone() }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        kill(&self.child);
        // It was killed or has ended: this collects its status without waiting.
        let _ = self.child.lock().wait();
        self.stop.remove(&self.child);
    }
}
