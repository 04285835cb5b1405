//! Operators: rings and collectives.

pub mod collective;
pub mod communicator;
pub mod sync_batch_norm;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    sync_batch_norm::TABLE, // sync_batch_norm, inplace_abn
    communicator::TABLE,    // rings
    collective::TABLE,      // collectives of Programs
];
