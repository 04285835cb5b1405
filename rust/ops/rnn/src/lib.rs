//! Recurrent network operators, CRF, CTC and decoding.

pub mod attention_lstm;
pub mod chunk_eval;
pub mod crf;
pub mod ctc_align;
pub mod edit_distance;
pub mod fusion_lstm_gru;
pub mod fusion_sequence;
pub mod gather_tree;
pub mod gru;
mod lod;
pub mod lstm;
pub mod lstm_unit;
pub mod rnn;
pub mod warpctc;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    rnn::TABLE,             // SimpleRNN, LSTM, GRU
    gather_tree::TABLE,     // the sequences of a beam search
    lstm::TABLE,            // LSTM over sequences with LoD
    lstm_unit::TABLE,       // a step of it
    gru::TABLE,             // GRU over sequences with LoD, a step of it
    fusion_lstm_gru::TABLE, // these with their input products
    attention_lstm::TABLE,  // LSTM with attention
    fusion_sequence::TABLE, // pooled, expanded, convolved sequences at once
    crf::TABLE,             // linear chain CRF
    chunk_eval::TABLE,      // chunks of tags
    warpctc::TABLE,         // connectionist temporal classification
    ctc_align::TABLE,       // labels of an alignment
    edit_distance::TABLE,   // edits between sequences
];
