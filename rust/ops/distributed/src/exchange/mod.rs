//! Exchange between trainers and servers: operators of trainers, and the server's operator.

mod blocks;
mod changes;
mod listen;
mod receive;
mod save;
mod send;
mod serving;
mod state;

use oar_core::op::Op;

pub static TABLE: &[&Op] = &[
    &send::SEND,
    &send::SEND_BARRIER,
    &send::FETCH_BARRIER,
    &receive::RECV,
    &receive::PREFETCH,
    &receive::DISTRIBUTED_LOOKUP_TABLE,
    &listen::LISTEN_AND_SERV,
    &listen::FL_LISTEN_AND_SERV,
    &save::RECV_SAVE,
    &save::CHECKPOINT_NOTIFY,
    &save::SEND_AND_RECV,
];
