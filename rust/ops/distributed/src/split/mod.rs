//! Splitting of values for several servers, and concatenation.

mod blocks;
mod ids;
mod trainer;

use oar_core::op::Op;

pub static TABLE: &[&Op] = &[
    &blocks::SPLIT_BYREF,
    &blocks::SPLIT_SELECTED_ROWS,
    &ids::SPLIT_IDS,
    &ids::MERGE_IDS,
    &trainer::REF_BY_TRAINER_ID,
    &trainer::FAKE_INIT,
];
