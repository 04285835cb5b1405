//! Requests to several servers at once, interruptible by signals.

use crate::protocol::{session, Incoming, Session};
use crate::values::{allocate, into_value};
use oar_comm::{error, Signals};
use oar_core::base::{Error, ErrorKind, Result};
use oar_core::ir::Attr;
use oar_core::op::KernelContext;
use oar_core::tensor::Value;
use oar_core::{ensure, err};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::Thread;
use std::time::Duration;

/// The servers of an operator's variables: the attribute, or its name of 1.x (`before`).
pub fn endpoints(cx: &KernelContext, declared: &[String], before: &str) -> Vec<String> {
    match cx.env.desc_attr(before) {
        Some(Attr::Strings(list)) if !list.is_empty() => list,
        _ => declared.to_vec(),
    }
}

pub fn trainer(cx: &KernelContext, id: i32) -> Result<u32> {
    u32::try_from(id).map_err(|_| err!(InvalidArgument, "operator {}: trainer_id {id} is negative", cx.op.name))
}

/// Checks that there are as many endpoints as variables.
pub fn one_each(cx: &KernelContext, endpoints: &[String], vars: usize) -> Result<()> {
    ensure!(
        endpoints.len() == vars,
        InvalidArgument,
        "operator {}: an endpoint is needed for each of {vars} variables, got {endpoints:?}",
        cx.op.name
    );
    Ok(())
}

pub fn open(endpoint: &str, trainer: u32) -> Result<Arc<Session>> {
    session::session(endpoint, trainer).map_err(error)
}

/// Removes duplicates, keeping the first of each.
pub fn distinct(endpoints: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for e in endpoints {
        if !found.contains(e) {
            found.push(e.clone());
        }
    }
    found
}

type Stop<'a> = &'a dyn Fn() -> oar_net::Result<()>;

/// Longest time that a wait goes without checking for signals.
const SLICE: Duration = Duration::from_millis(20);

/// Signals the end of a thread when dropped.
struct Ended<'a>(&'a AtomicUsize, &'a Thread);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
        self.1.unpark();
    }
}

/// Runs `request` with every session concurrently; results are in the order of the sessions. Returns the first failure
/// after all have ended.
pub fn with_all<T: Send>(
    op: &str,
    sessions: &[Arc<Session>],
    request: impl Fn(usize, &Session, Stop<'_>) -> oar_net::Result<T> + Sync,
) -> Result<Vec<T>> {
    let (signals, stopped) = (Signals::watch(), AtomicBool::new(false));
    let interrupted = || Err(oar_net::Error::Interrupted { during: format!("operator {op}") });
    let mut results: Vec<Option<oar_net::Result<T>>> = Vec::new();
    let (done, waiter) = (AtomicUsize::new(0), std::thread::current());
    std::thread::scope(|scope| {
        let (request, stopped, done, waiter) = (&request, &stopped, &done, &waiter);
        let count = sessions.len().saturating_sub(1);
        let others: Vec<_> = sessions
            .iter()
            .enumerate()
            .skip(1)
            .map(|(i, session)| {
                scope.spawn(move || {
                    let stop = || match stopped.load(Ordering::Acquire) {
                        true => Err(oar_net::Error::Interrupted { during: "a request to servers".into() }),
                        false => Ok(()),
                    };
                    let _ended = Ended(done, waiter);
                    request(i, session, &stop)
                })
            })
            .collect();
        // This thread checks signals, also for the others.
        let stop = || match signals.stop() {
            true => {
                stopped.store(true, Ordering::Release);
                interrupted()
            }
            false => Ok(()),
        };
        results.extend(sessions.first().map(|session| Some(request(0, session, &stop))));
        while done.load(Ordering::Acquire) < count && !stopped.load(Ordering::Acquire) {
            let _ = stop();
            std::thread::park_timeout(SLICE);
        }
        results.extend(others.into_iter().map(|thread| thread.join().ok()));
    });
    let joined: oar_net::Result<Vec<T>> = results
        .into_iter()
        .map(|r| r.unwrap_or_else(|| Err(oar_net::Error::Broken { cause: "an internal error".into() })))
        .collect();
    signals.explain(joined).map_err(|e| named(op, e))
}

/// Prefixes an error with the operator's name; a signal's error is unchanged.
pub fn named(op: &str, e: Error) -> Error {
    match e.kind() {
        ErrorKind::Interrupted => e,
        kind => Error::new(kind, format!("operator {op}: {}", e.message())),
    }
}

/// Fetches variables by (server, name), with one message per server.
pub fn fetch(op: &str, me: u32, wanted: &[(String, String)]) -> Result<Vec<Value>> {
    let servers = distinct(&wanted.iter().map(|(e, _)| e.clone()).collect::<Vec<_>>());
    let sessions = servers.iter().map(|e| open(e, me)).collect::<Result<Vec<_>>>()?;
    let found = with_all(op, &sessions, |i, session, stop| {
        let names: Vec<String> = wanted.iter().filter(|(e, _)| *e == servers[i]).map(|(_, n)| n.clone()).collect();
        session.receive(&names, &allocate, stop)
    })?;
    let mut lists: HashMap<&str, std::vec::IntoIter<Incoming>> =
        servers.iter().map(String::as_str).zip(found.into_iter().map(Vec::into_iter)).collect();
    let next = |(e, n): &(String, String)| {
        let var = lists.get_mut(e.as_str()).and_then(Iterator::next);
        into_value(var.ok_or_else(|| err!(Fatal, "operator {op}: the server sent no value for '{n}'"))?)
    };
    wanted.iter().map(next).collect()
}
