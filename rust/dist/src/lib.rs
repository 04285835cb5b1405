//! Processes that work together: rendezvous, transports, collectives. Moves bytes and knows no operator.

mod codec;
pub mod dtype;
pub mod error;
pub mod fingerprint;
pub mod frame;
pub mod hello;
pub mod net;
pub mod store;

pub use dtype::{Dtype, ReduceOp};
pub use error::{Error, Peer, Result};
pub use store::{Job, Store};
