//! What trainers do with parameter servers, whichever operator asks for it.

mod base;
pub mod communicator;
pub mod deal;
mod geo;
pub mod merge;
pub mod parts;
mod queues;
pub mod remote;
pub mod tables;
pub mod values;
