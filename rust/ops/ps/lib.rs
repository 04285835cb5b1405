//! Operators of trainers and parameter servers.

pub mod compress;
pub mod exchange;
pub mod outside;
pub mod pipeline;
pub mod split;
pub mod tables;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    compress::TABLE, // dgc
    exchange::TABLE, // send, recv, listen_and_serv
    pipeline::TABLE, // queues within a process
    outside::TABLE,  // tables of PSLib and BoxPS
    tables::TABLE,   // tables of rows made when they are asked for
    split::TABLE,    // values cut up for servers
];
