//! Operators that involve other processes: rings, collectives, parameter servers.

pub mod collective;
pub mod communicator;
pub mod compress;
pub mod exchange;
pub mod pslib;
pub mod queues;
pub mod split;
pub mod sync_batch_norm;
pub mod tables;

/// The operators of this group, one family per line.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    sync_batch_norm::TABLE, // sync_batch_norm, inplace_abn
    communicator::TABLE,    // rings
    collective::TABLE,      // collectives of Programs
    compress::TABLE,        // dgc
    exchange::TABLE,        // send, recv, listen_and_serv
    queues::TABLE,          // queues within a process
    pslib::TABLE,           // tables of PSLib and BoxPS
    tables::TABLE,          // sparse tables, whose rows are initialized on first access
    split::TABLE,           // splitting of values for servers
];
