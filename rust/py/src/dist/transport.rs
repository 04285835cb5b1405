//! A transport whose messages are moved by a Python object, such as MPI's by mpi4py.
//!
//! A Python function creates the object for each group: `make(id, numbers)`, with the group's id and the members'
//! numbers in the job. The object has a `name`; members are given by group rank:
//!
//! - `send(to, message)` starts to send; `sent(to)` returns whether the bytes have left, and makes progress.
//! - `receive(of)` returns the next message (a bytearray), or None while it is incomplete.

use crate::gil::{attached_until_exit, wait_at_exit};
use oar_net::fingerprint::{Fingerprint, BYTES};
use oar_net::{rings, Error, Interest, MakeTransport, Membership, Result, Transport};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Piece size, as over TCP: piece boundaries decide the order of some sums.
const SEGMENT: usize = 1 << 20;
/// Polling interval of a wait: there is nothing to sleep on.
const LOOK: Duration = Duration::from_micros(50);
/// Messages sent before a member left may arrive for this long.
const GRACE: Duration = Duration::from_millis(500);

struct Moved {
    party: Membership,
    name: &'static str,
    mover: Py<PyAny>,
    doing: Fingerprint,
    /// By rank: whether the operation's first message was sent, was received; whether one is in progress.
    announced: Vec<bool>,
    heard: Vec<bool>,
    sending: Vec<bool>,
}

impl Moved {
    fn new(party: Membership, make: &Py<PyAny>) -> Result<Moved> {
        let world = party.numbers.len();
        let (name, mover) = call(|py| -> PyResult<(String, Py<PyAny>)> {
            let mover = make.call1(py, (party.id, party.numbers.clone()))?;
            let name: String = mover.getattr(py, "name")?.extract(py)?;
            Ok((name, mover))
        })?;
        // Leaked once per kind of transport, of which there are few.
        let name: &'static str = if name == "mpi" { "mpi" } else { Box::leak(name.into_boxed_str()) };
        let none = || vec![false; world];
        Ok(Moved { party, name, mover, doing: Fingerprint::NONE, announced: none(), heard: none(), sending: none() })
    }

    fn receive(&self, from: usize) -> Result<Option<Vec<u8>>> {
        call(|py| -> PyResult<Option<Vec<u8>>> {
            let found: Option<Py<PyByteArray>> = self.mover.call_method1(py, "receive", (from,))?.extract(py)?;
            Ok(found.map(|bytes| bytes.bind(py).to_vec()))
        })
    }

    fn damaged(&self, from: usize, what: String) -> Error {
        Error::Corrupt { peer: self.party.peer(from), what, during: self.doing.to_string() }
    }
}

/// Calls the Python object. An exception, and the end of the interpreter, are errors of the transport.
fn call<T>(function: impl for<'py> FnOnce(Python<'py>) -> PyResult<T>) -> Result<T> {
    let failed = |cause| Error::Io { what: "the transport".into(), cause };
    let called = attached_until_exit(function).ok_or_else(|| failed("the interpreter ends".into()))?;
    called.map_err(|e| failed(e.to_string()))
}

impl Transport for Moved {
    fn name(&self) -> &'static str {
        self.name
    }

    fn segment(&self) -> usize {
        SEGMENT
    }

    fn begin(&mut self, doing: &Fingerprint, _limit: Duration) {
        self.doing = *doing;
        self.announced.fill(false);
        self.heard.fill(false);
    }

    fn try_send(&mut self, to: usize, bytes: &[u8]) -> Result<bool> {
        call(|py| -> PyResult<bool> {
            if !self.sending[to] {
                // The first message of an operation carries its fingerprint.
                let head: &[u8] = if self.announced[to] { &[] } else { &self.doing.0 };
                let message = PyBytes::new_with(py, head.len() + bytes.len(), |room| {
                    room[..head.len()].copy_from_slice(head);
                    room[head.len()..].copy_from_slice(bytes);
                    Ok(())
                })?;
                self.mover.call_method1(py, "send", (to, message))?;
                (self.announced[to], self.sending[to]) = (true, true);
            }
            let sent: bool = self.mover.call_method1(py, "sent", (to,))?.extract(py)?;
            self.sending[to] = !sent;
            Ok(sent)
        })
    }

    fn try_recv(&mut self, from: usize, into: &mut [u8]) -> Result<bool> {
        let left = self.party.left(from, &self.doing);
        let mut message = self.receive(from)?;
        if left.is_some() {
            // Messages sent before it left may still arrive.
            let until = Instant::now() + GRACE;
            while message.is_none() && Instant::now() < until {
                std::thread::sleep(LOOK);
                message = self.receive(from)?;
            }
        }
        let Some(message) = message else { return left.map_or(Ok(false), Err) };
        let body = if self.heard[from] {
            &message[..]
        } else {
            let Some((head, body)) = message.split_at_checked(BYTES) else {
                return Err(self.damaged(from, format!("a first message of {} bytes", message.len())));
            };
            let theirs = Fingerprint::from_slice(head).unwrap_or(Fingerprint::NONE);
            if theirs != self.doing {
                return Err(self.party.mismatch(&self.doing, from, &theirs));
            }
            self.heard[from] = true;
            body
        };
        if body.len() != into.len() {
            return Err(self.damaged(from, format!("received {} bytes, expected {}", body.len(), into.len())));
        }
        into.copy_from_slice(body);
        Ok(true)
    }

    fn wait(&mut self, _wants: &[Interest], limit: Duration) -> Result<()> {
        std::thread::sleep(LOOK.min(limit));
        Ok(())
    }
}

/// A Python function as a factory of transports.
pub fn over_python(py: Python<'_>, make: Py<PyAny>) -> PyResult<MakeTransport> {
    wait_at_exit(py)?;
    Ok(Arc::new(move |party| Ok(Box::new(Moved::new(party, &make)?) as Box<dyn Transport>)))
}

/// Sets the transport of groups created from now on (None: shared memory and TCP).
#[pyfunction]
#[pyo3(signature = (make))]
fn go_over(py: Python<'_>, make: Option<Py<PyAny>>) -> PyResult<()> {
    rings::set_transport(make.map(|make| over_python(py, make)).transpose()?);
    Ok(())
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(go_over, m)?)
}
