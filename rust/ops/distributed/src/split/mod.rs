//! Splitting of values for several servers, and concatenation.

mod ref_by_trainer_id;
mod split_byref;
mod split_ids;

use oar_core::op::Op;

pub static TABLE: &[&Op] = &[
    &split_byref::SPLIT_BYREF,
    &split_byref::SPLIT_SELECTED_ROWS,
    &split_ids::SPLIT_IDS,
    &split_ids::MERGE_IDS,
    &ref_by_trainer_id::REF_BY_TRAINER_ID,
    &ref_by_trainer_id::FAKE_INIT,
];
