//! Mailboxes: a process listens at its endpoint and others bring it messages, each of which it gets exactly once.
//!
//! Messages lie in numbered places of a store. Who brings one puts it, marked by a nonce of its own, into the first
//! free place; a connection that broke before the answer came is made anew, and the nonce tells what lies there already.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::net::{self, Deadline, SLICE};
use crate::store::{Job, Store};

/// How long one request to a mailbox may take before its connection is given up.
const TRY: Duration = Duration::from_secs(5);
const NONCE: usize = 16;

fn place(number: u64) -> String {
    format!("mailbox/{number}")
}

/// The receiving end. Clones are the same mailbox.
#[derive(Clone)]
pub struct Mailbox {
    store: Store,
    /// The number of the next message.
    next: Arc<Mutex<u64>>,
}

impl Mailbox {
    /// Listen at `bind`; lives until the last clone goes.
    pub fn open(bind: SocketAddr, job: &Job) -> Result<Mailbox> {
        Ok(Mailbox { store: Store::host(bind, job)?, next: Arc::default() })
    }

    pub fn address(&self) -> SocketAddr {
        self.store.address()
    }

    /// The next message, in the order in which they were put down.
    pub fn take(&self, deadline: &Deadline<'_>) -> Result<Vec<u8>> {
        let during = format!("the wait for a message at {}", self.address());
        loop {
            deadline.slice(&during, "whoever brings it")?;
            // Held through the look, so that no two threads take the same message.
            let Some(mut next) = self.next.try_lock_for(SLICE) else { continue };
            match self.store.get(&place(*next), SLICE) {
                Ok(mut message) => {
                    *next += 1;
                    return Ok(message.split_off(NONCE.min(message.len())));
                }
                Err(Error::Timeout { .. }) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// Put `message` down at the mailbox that somebody has opened at `at`, or opens while the deadline lasts.
pub fn deliver(at: SocketAddr, job: &Job, message: &[u8], deadline: &Deadline<'_>) -> Result<()> {
    let mut marked = net::random_bytes::<NONCE>()?.to_vec();
    marked.extend_from_slice(message);
    let mut number = 0;
    loop {
        let lost = match lay(at, job, &marked, &mut number, deadline) {
            Err(e @ (Error::Store { .. } | Error::Timeout { .. })) => e,
            other => return other,
        };
        // The pause ends with an error once the deadline has.
        let waiting_for = format!("{at} (last attempt: {lost})");
        net::pause(SLICE, deadline, &format!("bringing a message to {at}"), &waiting_for)?;
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
