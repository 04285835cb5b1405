//! Errors between processes: variants that concern another rank name it, its host, and the operation in progress.

use std::fmt;
use std::time::Duration;

/// A rank and the host it runs on, as errors print them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub rank: usize,
    pub host: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} on {}", self.rank, self.host)
    }
}

/// Errors between processes. Clonable, since one failure is returned by every affected operation.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The peer's process ended without a shutdown message.
    #[error("{peer} died (its connection closed without a shutdown message){last}; this rank was in {during}")]
    Died { peer: Peer, last: Last, during: String },
    /// The peer sent no heartbeat for the whole limit.
    #[error("{peer} has been silent for {seconds:.1} s (stopped, or cut off){last}; this rank was in {during}")]
    Silent { peer: Peer, seconds: f64, last: Last, during: String },
    /// The peer shut down in order while this rank still waits for it.
    #[error("{peer} has finished and left, but this rank waits for it in {during}")]
    Left { peer: Peer, during: String },
    /// The peer reported a failure.
    #[error("{peer} failed: {reason}; this rank was in {during}")]
    PeerFailed { peer: Peer, reason: String, during: String },
    /// Two ranks called different operations.
    #[error("ranks disagree: {a} called {a_call}, but {b} called {b_call}")]
    Mismatch { a: Peer, a_call: String, b: Peer, b_call: String },
    /// A deadline passed.
    #[error("{during} did not finish within {:.1} s; waiting for {waiting_for}", waited.as_secs_f64())]
    Timeout { waited: Duration, during: String, waiting_for: String },
    /// The interrupt flag was raised, or the caller's check requested a stop.
    #[error("{during} was interrupted")]
    Interrupted { during: String },
    /// Received bytes do not match their checksum or protocol.
    #[error("damaged data from {peer}: {what}; this rank was in {during}")]
    Corrupt { peer: Peer, what: String, during: String },
    /// A connection to a peer was lost for an unknown reason.
    #[error("lost the connection to {peer}: {what}; this rank was in {during}")]
    Lost { peer: Peer, what: String, during: String },
    /// An earlier operation of the group failed on this rank.
    #[error("this group is broken since an earlier failure: {cause}")]
    Broken { cause: String },
    /// A parameter server, or a trainer that uses one, cannot continue.
    #[error("{0}")]
    Server(String),
    /// A handshake was refused.
    #[error("{address} refused the connection: {reason}")]
    Refused { address: String, reason: String },
    /// The rendezvous store could not be reached or answered with an error.
    #[error("rendezvous store at {address}: {what}")]
    Store { address: String, what: String },
    /// An argument is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The group or context has been closed.
    #[error("{0} is closed")]
    Closed(String),
    /// The operating system refused something.
    #[error("{what}: {cause}")]
    Io { what: String, cause: String },
}

/// The peer's last known operation; empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Last(pub String);

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ", last seen in {}", self.0)
    }
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn io(what: impl Into<String>, cause: impl fmt::Display) -> Error {
        Error::Io { what: what.into(), cause: cause.to_string() }
    }

    pub fn invalid(what: impl Into<String>) -> Error {
        Error::Invalid(what.into())
    }

    /// The same failure, with `now` as the operation in progress on this rank.
    pub fn during(mut self, now: &str) -> Error {
        match &mut self {
            Error::Died { during, .. }
            | Error::Silent { during, .. }
            | Error::Left { during, .. }
            | Error::PeerFailed { during, .. }
            | Error::Timeout { during, .. }
            | Error::Interrupted { during }
            | Error::Corrupt { during, .. }
            | Error::Lost { during, .. } => *during = now.to_string(),
            _ => {}
        }
        self
    }

    /// A short name of the kind, stable for tests and bindings.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Died { .. } => "died",
            Error::Silent { .. } => "silent",
            Error::Left { .. } => "left",
            Error::PeerFailed { .. } => "peer_failed",
            Error::Mismatch { .. } => "mismatch",
            Error::Timeout { .. } => "timeout",
            Error::Interrupted { .. } => "interrupted",
            Error::Corrupt { .. } => "corrupt",
            Error::Lost { .. } => "lost",
            Error::Broken { .. } => "broken",
            Error::Server(_) => "server",
            Error::Refused { .. } => "refused",
            Error::Store { .. } => "store",
            Error::Invalid(_) => "invalid",
            Error::Closed(_) => "closed",
            Error::Io { .. } => "io",
        }
    }
}
