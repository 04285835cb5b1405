//! Exchange between trainers and servers: operators of trainers, and the server's operator.

mod blocks;
mod changes;
mod checkpoint;
mod listen_and_serv;
mod recv;
mod recv_save;
mod send;
mod serving;
mod state;

use oar_core::op::Op;

pub static TABLE: &[&Op] = &[
    &send::SEND,
    &send::SEND_BARRIER,
    &send::FETCH_BARRIER,
    &recv::RECV,
    &recv::PREFETCH,
    &recv::DISTRIBUTED_LOOKUP_TABLE,
    &listen_and_serv::LISTEN_AND_SERV,
    &listen_and_serv::FL_LISTEN_AND_SERV,
    &recv_save::RECV_SAVE,
    &recv_save::CHECKPOINT_NOTIFY,
    &recv_save::SEND_AND_RECV,
];
