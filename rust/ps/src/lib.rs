//! Parameter servers: the protocol between trainers and servers, the tables of a server, the communicators of a trainer.

pub mod files;
pub mod merge;
pub mod parts;
pub mod protocol;
pub mod reshard;
pub mod tables;
pub mod trainer;
pub mod values;
