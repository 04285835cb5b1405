//! How files are read, and how reading is called off.

use parking_lot::Mutex;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Where lines come from.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub files: Vec<String>,
    /// A shell command that every file goes through; none where it is empty or `cat`.
    pub pipe_command: String,
    /// What brings a file `hdfs:..` or `afs:..`, which is its last argument.
    pub download_command: String,
}

type Running = Arc<Mutex<Child>>;

/// Tells those who read that nobody waits for them any more, and ends their commands.
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

/// Ends a command and what it has started: they are a process group.
fn kill(command: &Running) {
    let mut child = command.lock();
    if matches!(child.try_wait(), Ok(None)) {
        // SAFETY: a plain call. The child has not been waited for, so its number is still its own (the lock is held).
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    }
}

/// Ends the command however its reader ends.
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
        // It was killed or has ended: this takes its status and does not wait.
        let _ = self.child.lock().wait();
        self.stop.remove(&self.child);
    }
}
