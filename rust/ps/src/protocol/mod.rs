//! The protocol between trainers and parameter servers: trainers push values and get others back. Data are bytes;
//! operators are unknown here.
//!
//! A [`Server`] keeps a ledger: pushes by trainer, the current step, and what is a resend. A [`Service`] acts on the
//! values. A [`Client`] is a trainer's connection to one server. Requests that change state carry (trainer,
//! incarnation, sequence), so that a resend after a lost connection is recognised and nothing is applied twice.

mod channel;
mod client;
mod connection;
mod handler;
mod journal;
mod ledger;
pub mod limits;
mod log_record;
mod server;
pub mod session;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_connections;
mod wire;

pub use client::{Client, ClientSettings};
pub use journal::{newest_snapshot, read_snapshot, write_snapshot, Durability, Found, LAYOUT, RESHARDED};
pub use ledger::{LostTrainer, SyncMode};
pub use log_record::{LedgerSnapshot, LogRecord};
pub use server::{Server, ServerOptions};
pub use session::Session;
pub use wire::{decode_reply, decode_request, Meta, Reply, Request, ValueKind};

use std::any::Any;

/// Memory of a variable that is sent or received. The receiver decides where its bytes are stored.
pub trait Buffer: Send {
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

impl Buffer for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// A received variable.
pub struct Incoming {
    pub meta: Meta,
    /// Row numbers of the data within the whole matrix; empty for dense variables.
    pub rows: Vec<i64>,
    pub data: Box<dyn Buffer>,
}

/// A variable to send.
pub struct Outgoing {
    pub meta: Meta,
    pub rows: Vec<i64>,
    pub data: Box<dyn Buffer>,
}

/// A state as a sequence of variables.
pub type Pieces = Box<dyn Iterator<Item = std::result::Result<Outgoing, String>> + Send>;

/// Allocates the memory of a variable, or returns why it is refused.
pub type Allocate<'a> = &'a (dyn Fn(&Meta) -> std::result::Result<Box<dyn Buffer>, String> + Sync);

/// What a server does with values. Errors are returned to the requesting trainer; one in [`Service::step`] ends the
/// server.
pub trait Service: Sync {
    /// Memory for a pushed variable.
    fn allocate(&self, meta: &Meta) -> std::result::Result<Box<dyn Buffer>, String>;
    /// Memory for the ids of a lookup.
    fn allocate_ids(&self, meta: &Meta) -> std::result::Result<Box<dyn Buffer>, String>;
    /// Sync mode: takes a step on what all trainers have pushed, in the order of their numbers.
    fn step(&self, pushed: Vec<(u32, Vec<Incoming>)>) -> std::result::Result<(), String>;
    /// Async mode: applies one trainer's push. Runs concurrently with others.
    fn apply(&self, trainer: u32, pushed: Vec<Incoming>) -> std::result::Result<(), String>;
    /// Variables by name, for that trainer.
    fn get(&self, trainer: u32, names: &[String]) -> std::result::Result<Vec<Outgoing>, String>;
    /// The rows of `ids` in the table `name`.
    fn lookup(&self, trainer: u32, name: &str, ids: Incoming) -> std::result::Result<Outgoing, String>;
    /// Memory for a part of a saved state.
    fn allocate_state(&self, meta: &Meta) -> std::result::Result<Box<dyn Buffer>, String>;
    /// The whole state at this moment, for [`Service::restore`]. Nothing else runs during the call; the pieces are
    /// produced later, while the service continues.
    fn capture(&self) -> std::result::Result<Pieces, String>;
    fn restore(&self, state: Vec<Incoming>) -> std::result::Result<(), String>;
    /// Initializes from another job's resharded state; `layout` lists this server's parts.
    fn adopt(&self, state: Vec<Incoming>, layout: &str) -> std::result::Result<(), String>;
    /// Whether reading variables (`None`), or a lookup in that table, changes the state.
    fn remembers(&self, table: Option<&str>) -> bool;
    /// Any other command.
    fn notify(&self, trainer: u32, words: &[String]) -> std::result::Result<Vec<String>, String>;
}
