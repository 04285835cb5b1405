//! Message queues: a process listens at its endpoint, other processes deliver messages, and each message is received
//! exactly once. A message has a topic, a number that sender and receiver derive from the same names.
//!
//! Messages are stored under consecutive numbers of a store. A sender puts its message, marked with a nonce, under the
//! first free number. If the connection breaks before the reply it connects again; the nonce identifies its own
//! message.

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

/// Time limit of one request; the connection is given up afterwards.
const TRY: Duration = Duration::from_secs(5);
const NONCE: usize = 16;

/// The topic shared by the processes with these endpoints, independent of their order.
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
    /// Messages of other topics, not yet taken.
    kept: VecDeque<(u64, Vec<u8>)>,
}

fn key(number: u64) -> String {
    format!("message/{number}")
}

/// The receiving end. Clones share the queue.
#[derive(Clone)]
pub struct MessageQueue {
    store: Store,
    inbox: Arc<Mutex<Inbox>>,
}

impl MessageQueue {
    /// Listens at `bind` until the last clone is dropped.
    pub fn open(bind: SocketAddr, job: &Job) -> Result<MessageQueue> {
        Ok(MessageQueue { store: Store::host(bind, job)?, inbox: Arc::default() })
    }

    pub fn address(&self) -> SocketAddr {
        self.store.address()
    }

    /// The next message of the topic (`None`: of any topic), in order of delivery.
    pub fn take(&self, topic: Option<u64>, deadline: &Deadline<'_>) -> Result<Vec<u8>> {
        let during = format!("the wait for a message at {}", self.address());
        let mut others = 0;
        loop {
            let sender = match others {
                0 => "its sender".to_string(),
                n => format!("its sender ({n} messages of other rings arrived)"),
            };
            deadline.slice(&during, &sender)?;
            // The lock is held during the request, so that no two threads take the same message.
            let Some(mut inbox) = self.inbox.try_lock_for(SLICE) else { continue };
            if let Some(at) = inbox.kept.iter().position(|(about, _)| topic.is_none_or(|t| t == *about)) {
                return Ok(inbox.kept.remove(at).map(|(_, message)| message).unwrap_or_default());
            }
            others = inbox.kept.len();
            match self.store.get(&key(inbox.next), SLICE) {
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

/// Delivers `message` to the queue at `at`, which must open before the deadline.
pub fn deliver(at: SocketAddr, job: &Job, topic: u64, message: &[u8], deadline: &Deadline<'_>) -> Result<()> {
    let mut marked = socket::random_bytes::<NONCE>()?.to_vec();
    marked.extend(Put::default().u64(topic).0);
    marked.extend_from_slice(message);
    let mut number = 0;
    loop {
        let lost = match put(at, job, &marked, &mut number, deadline) {
            Err(e @ (Error::Store { .. } | Error::Timeout { .. })) => e,
            other => return other,
        };
        // The pause returns an error once the deadline has passed.
        let waiting_for = format!("{at} (last attempt: {lost})");
        socket::pause(SLICE, deadline, &format!("delivering a message to {at}"), &waiting_for)?;
    }
}

fn put(at: SocketAddr, job: &Job, marked: &[u8], number: &mut u64, deadline: &Deadline<'_>) -> Result<()> {
    let store = Store::connect_until(at, job, deadline)?;
    loop {
        let stored = store.compare_and_set(&key(*number), None, marked, TRY.min(deadline.left()))?;
        if stored.as_deref() == Some(marked) {
            return Ok(());
        }
        *number += 1; // the number is taken by another message
    }
}
