//! The table of operators: the groups. Each group lists its families in its own `lib.rs`.

use oar_core::op::{table, Op};

/// Every operator, by group and family.
pub static TABLES: &[&[&[&Op]]] = &[
    oar_ops_control::TABLES,      // sub-blocks, tensor arrays, feed and fetch, readers, files
    oar_ops_detection::TABLES,    // anchors, boxes, regions of interest
    oar_ops_distributed::TABLES,  // collectives, rings of ranks, parameter servers
    oar_ops_fused::TABLES,        // compositions with a kernel of their own
    oar_ops_loss::TABLES,         // losses and metrics
    oar_ops_math::TABLES,         // elementwise operators, reductions, products, order
    oar_ops_nn::TABLES,           // convolutions, pools, norms, embeddings, images
    oar_ops_optim::TABLES,        // optimizers, SelectedRows
    oar_ops_math::quant::TABLES,  // quantisation
    oar_ops_math::random::TABLES, // random numbers, dropout
    oar_ops_rnn::TABLES,          // recurrent networks, CRF, CTC
    oar_ops_sequence::TABLES,     // LoD sequences
    oar_ops_shape::TABLES,        // constants, shapes, indexing
];

/// Installs the table in the engine ([`table::lookup`]). Call it before the first use of an operator; further calls do nothing.
pub fn install() {
    table::install(TABLES);
}
