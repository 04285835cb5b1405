//! The trainer's side: sessions with several servers, and the communicators that push and pull parameters.

mod base;
pub mod communicator;
mod geo;
mod queues;
pub mod remote;
