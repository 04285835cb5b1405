//! Flags that a process may change while it runs (FLAGS_rpc_*, FLAGS_communicator_*), the time limits they set, and the
//! waits in progress.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use oar_net::error::{Error, Result};
use oar_net::fork::PerProcess;

static FLAGS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Sets a flag, which takes precedence over the environment.
pub fn set_flag(name: &str, value: &str) {
    FLAGS.lock().insert(name.to_string(), value.to_string());
}

/// A flag as set, else from the environment, else empty.
pub fn text(name: &str) -> String {
    let set = FLAGS.lock().get(name).cloned();
    set.or_else(|| std::env::var(name).ok()).unwrap_or_default().trim().to_string()
}

/// An integer flag; `default` if it is not set.
pub fn flag(name: &str, default: i64) -> Result<i64> {
    let text = text(name);
    match text.to_ascii_lowercase().as_str() {
        "" => Ok(default),
        "true" | "yes" | "on" => Ok(1),
        "false" | "no" | "off" => Ok(0),
        number => number.parse().map_err(|_| Error::invalid(format!("{name} must be an integer, got {text:?}"))),
    }
}

/// An integer flag of at least `least`.
pub fn at_least(name: &str, default: i64, least: i64) -> Result<u32> {
    let value = flag(name, default)?;
    let fits = u32::try_from(value).ok().filter(|_| value >= least);
    fits.ok_or_else(|| Error::invalid(format!("{name} must be at least {least}, got {value}")))
}

/// Time limits of a request to a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    deadline: Duration,
    retries: u32,
}

impl Limits {
    /// The limits of the current flags.
    pub fn now() -> Result<Limits> {
        let deadline = Duration::from_millis(at_least("FLAGS_rpc_deadline", 180_000, 1)?.into());
        Ok(Limits { deadline, retries: at_least("FLAGS_rpc_retry_times", 3, 0)? })
    }

    /// Limit of one attempt.
    pub fn once(&self) -> Duration {
        self.deadline
    }

    /// Limit of all attempts together.
    pub fn whole(&self) -> Duration {
        self.deadline.saturating_mul(self.retries.saturating_add(1))
    }

    pub fn words(&self) -> String {
        format!("FLAGS_rpc_deadline is {} ms, FLAGS_rpc_retry_times {}", self.deadline.as_millis(), self.retries)
    }
}

#[derive(Default)]
struct Waits {
    next: u64,
    now: HashMap<u64, (String, Instant)>,
}

static WAITS: PerProcess<Mutex<Waits>> = PerProcess::new();

/// A wait in progress, listed by [`report`] until it is dropped.
pub struct Waiting(u64);

impl Waiting {
    pub fn enter(during: &str) -> Waiting {
        let mut all = WAITS.get().lock();
        all.next += 1;
        let number = all.next;
        all.now.insert(number, (during.to_string(), Instant::now()));
        Waiting(number)
    }

    /// Replaces the description of the wait and its start.
    pub fn set(&self, what: String, since: Instant) {
        WAITS.get().lock().now.insert(self.0, (what, since));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITS.get().lock().now.remove(&self.0);
    }
}

/// The waits of this process for servers and trainers, one per line, oldest first.
pub fn report() -> String {
    let all = WAITS.get().lock();
    let mut lines: Vec<_> = all.now.values().collect();
    lines.sort_by_key(|(_, since)| *since);
    let mut text = String::new();
    for (during, since) in lines {
        let _ = writeln!(text, "{during}: for {:.1} s", since.elapsed().as_secs_f64());
    }
    text
}
