//! The parameter server: trainers push values to servers and get others back. Moves bytes and knows no operator.
//!
//! A [`Server`] keeps the books: who has pushed what, which step all are in, what came before and comes again. What is
//! done with the values is its [`Service`]'s affair. A [`Client`] is a trainer's end of one connection; whatever it sends
//! that changes something carries (trainer, incarnation, sequence), so that a resend after a lost connection is recognised
//! and nothing is applied twice.

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

/// Bytes that arrive, or are on their way. Whoever receives a variable says where its bytes go.
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

/// A variable that has arrived.
pub struct Incoming {
    pub meta: Meta,
    /// Which rows of the matrix the data are; of dense variables none.
    pub rows: Vec<i64>,
    pub data: Box<dyn Buffer>,
}

/// A variable to send.
pub struct Outgoing {
    pub meta: Meta,
    pub rows: Vec<i64>,
    pub data: Box<dyn Buffer>,
}

/// A state in pieces.
pub type Pieces = Box<dyn Iterator<Item = std::result::Result<Outgoing, String>> + Send>;

/// Makes room for the bytes of a variable, or says why there is none.
pub type Allocate<'a> = &'a (dyn Fn(&Meta) -> std::result::Result<Box<dyn Buffer>, String> + Sync);

/// What a server does with values. Errors are told to the trainer that asked; one in [`Service::step`] ends the server.
pub trait Service: Sync {
    /// Room for what a trainer sends.
    fn allocate(&self, meta: &Meta) -> std::result::Result<Box<dyn Buffer>, String>;
    /// Room for the ids of a lookup.
    fn allocate_ids(&self, meta: &Meta) -> std::result::Result<Box<dyn Buffer>, String>;
    /// What all trainers have pushed for one step, in the order of their numbers.
    fn step(&self, pushed: Vec<(u32, Vec<Incoming>)>) -> std::result::Result<(), String>;
    /// What one trainer has pushed, where trainers take no common steps. Runs beside others.
    fn apply(&self, trainer: u32, pushed: Vec<Incoming>) -> std::result::Result<(), String>;
    /// Variables by name, for that trainer.
    fn get(&self, trainer: u32, names: &[String]) -> std::result::Result<Vec<Outgoing>, String>;
    /// What `ids` find in the table `name`.
    fn lookup(&self, trainer: u32, name: &str, ids: Incoming) -> std::result::Result<Outgoing, String>;
    /// Room for a part of its state.
    fn allocate_state(&self, meta: &Meta) -> std::result::Result<Box<dyn Buffer>, String>;
    /// Its whole state, as it is now: with that, [`Service::restore`] goes on where this one is. Nothing else runs
    /// meanwhile; the pieces are made later, one after the other, while it goes on.
    fn capture(&self) -> std::result::Result<Pieces, String>;
    fn restore(&self, state: Vec<Incoming>) -> std::result::Result<(), String>;
    /// Begin with what the servers of another job had together; `layout` says which parts are this one's.
    fn adopt(&self, state: Vec<Incoming>, layout: &str) -> std::result::Result<(), String>;
    /// Does giving a variable change the state, or a lookup in that table?
    fn remembers(&self, table: Option<&str>) -> bool;
    /// Anything else, by words.
    fn notify(&self, trainer: u32, words: &[String]) -> std::result::Result<Vec<String>, String>;
}
