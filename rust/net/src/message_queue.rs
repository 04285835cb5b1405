//! Mailboxes: a process listens at its endpoint and others bring it messages, each of which it gets exactly once.
//! A message is about a topic, a number on which both sides agree, and is given to who asks for that.
//!
//! Messages lie in numbered places of a store. Who brings one puts it, marked by a nonce of its own, into the first
//! free place; a connection that broke before the answer came is made anew, and the nonce tells what lies there already.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use sha2::{Digest, Sha256};

use crate::codec::{Put, Take};
use crate::error::{Error, Result};
use crate::socket::{self, Deadline, SLICE};
use crate::store::{Job, Store};

/// How long one request to a mailbox may take before its connection is given up.
const TRY: Duration = Duration::from_secs(5);
const NONCE: usize = 16;

/// The topic of what the processes with these endpoints tell each other, in whatever order each of them names them.
pub fn topic<'a>(what: &str, members: impl IntoIterator<Item = &'a String>) -> u64 {
    let mut names: Vec<&str> = members.into_iter().map(|name| name.trim()).collect();
    names.sort_unstable();
    let digest = Sha256::digest(format!("{what} {}", names.join(" ")));
    Take(&digest).u64().unwrap_or(0)
}

#[derive(Default)]
struct Inbox {
    /// The number of the next message.
    next: u64,
    /// Those that nobody has asked for yet.
    kept: VecDeque<(u64, Vec<u8>)>,
}

fn place(number: u64) -> String {
    format!("mailbox/{number}")
}

/// The receiving end. Clones are the same mailbox.
#[derive(Clone)]
pub struct MessageQueue {
    store: Store,
    inbox: Arc<Mutex<Inbox>>,
}

impl MessageQueue {
    /// Listen at `bind`; lives until the last clone goes.
    pub fn open(bind: SocketAddr, job: &Job) -> Result<MessageQueue> {
        Ok(MessageQueue { store: Store::host(bind, job)?, inbox: Arc::default() })
    }

    pub fn address(&self) -> SocketAddr {
        self.store.address()
    }

    /// The next message about the topic (`None`: about any), in the order in which they were put down.
    pub fn take(&self, topic: Option<u64>, deadline: &Deadline<'_>) -> Result<Vec<u8>> {
        let during = format!("the wait for a message at {}", self.address());
        let mut others = 0;
        loop {
            let receivers = match others {
                0 => "whoever brings it".to_string(),
                n => format!("whoever brings it ({n} came that are of other rings)"),
            };
            deadline.slice(&during, &receivers)?;
            // Held through the look, so that no two threads take the same message.
            let Some(mut inbox) = self.inbox.try_lock_for(SLICE) else { continue };
            if let Some(at) = inbox.kept.iter().position(|(about, _)| topic.is_none_or(|t| t == *about)) {
                return Ok(inbox.kept.remove(at).map(|(_, message)| message).unwrap_or_default());
            }
            others = inbox.kept.len();
            match self.store.get(&place(inbox.next), SLICE) {
                Ok(message) => {
                    inbox.next += 1;
                    let mut rest = Take(message.get(NONCE..).unwrap_or_default());
                    if let Some(about) = rest.u64() {
                        inbox.kept.push_back((about, rest.0.to_vec()));
                    }
                }
                Err(Error::Timeout { .. }) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// Put `message` down at the mailbox that somebody has opened at `at`, or opens while the deadline lasts.
pub fn deliver(at: SocketAddr, job: &Job, topic: u64, message: &[u8], deadline: &Deadline<'_>) -> Result<()> {
    let mut marked = socket::random_bytes::<NONCE>()?.to_vec();
    marked.extend(Put::default().u64(topic).0);
    marked.extend_from_slice(message);
    let mut number = 0;
    loop {
        let lost = match lay(at, job, &marked, &mut number, deadline) {
            Err(e @ (Error::Store { .. } | Error::Timeout { .. })) => e,
            other => return other,
        };
        // The pause ends with an error once the deadline has.
        let waiting_for = format!("{at} (last attempt: {lost})");
        socket::pause(SLICE, deadline, &format!("bringing a message to {at}"), &waiting_for)?;
    }
}

fn lay(at: SocketAddr, job: &Job, marked: &[u8], number: &mut u64, deadline: &Deadline<'_>) -> Result<()> {
    let store = Store::connect_until(at, job, deadline)?;
    loop {
        let lies = store.compare_and_set(&place(*number), None, marked, TRY.min(deadline.left()))?;
        if lies.as_deref() == Some(marked) {
            return Ok(());
        }
        *number += 1; // another message's place
    }
}
