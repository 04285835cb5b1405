//! listen_and_serv, the operator of a server's Program.

use super::blocks::Blocks;
use super::changes::Changes;
use super::serving::Serving;
use oar_comm::{error, Signals};
use oar_core::base::{Error, ErrorKind, Result};
use oar_core::ir::attr::AttrType;
use oar_core::ir::Attr;
use oar_core::op::attrs::AttrValue;
use oar_core::op::run::Frame;
use oar_core::op::{Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::{attrs, bail, ensure, slots};
use oar_net::rings;
use oar_ps::protocol::limits::Limits;
use oar_ps::protocol::{Durability, LostTrainer, Server, ServerOptions, SyncMode};
use oar_ps::trainer::remote::named;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// The indices of sub-blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockList(pub Vec<i32>);

impl AttrValue for BlockList {
    const KIND: AttrType = AttrType::Blocks;
    fn to_attr(&self) -> Attr {
        Attr::Blocks(self.0.clone())
    }
    fn from_attr(a: Attr) -> std::result::Result<Self, Attr> {
        match a {
            Attr::Blocks(list) | Attr::Ints(list) => Ok(BlockList(list)),
            other => Err(other),
        }
    }
    fn unset() -> Self {
        BlockList::default()
    }
}

attrs! {
    pub struct ListenAttrs {
        endpoint: String = "127.0.0.1:6164".to_string(), pserver_id: i32 = -1, grad_to_block_id: Vec<String> = vec![],
        distributed_mode: i32 = 0, dc_asgd: bool = false, optimize_blocks: BlockList = BlockList::default(),
        prefetch_var_name_to_block_id: Vec<String> = vec![], sparse_grad_to_param: Vec<String> = vec![],
        Fanin: i32 = 1, checkpint_block_id: i32 = -1, lr_decay_block_id: i32 = -1, rpc_get_thread_num: i32 = 1,
        rpc_send_thread_num: i32 = 1, rpc_prefetch_thread_num: i32 = 1,
    }
}

attrs! {
    pub struct FederatedAttrs {
        endpoint: String = "127.0.0.1:6164".to_string(), sync_mode: bool = true, Fanin: i32 = 1,
        optimize_blocks: BlockList = BlockList::default(),
    }
}

slots! {
    mod listen { X "X".duplicable() => }
}

/// `name:block` pairs; names may hold colons.
fn pairs(op: &str, list: &[String]) -> Result<Vec<(String, i32)>> {
    let pair = |text: &String| {
        let found = text.rsplit_once(':').and_then(|(n, b)| Some((n.to_string(), b.parse().ok()?)));
        match found {
            Some(pair) => Ok(pair),
            None => bail!(InvalidArgument, "operator {op}: {text:?} is not a pair name:block"),
        }
    };
    // 2.0.2's layer passes an empty text for an empty list.
    list.iter().filter(|text| !text.is_empty()).map(pair).collect()
}

/// `OAR_PS_LOST_TRAINER`: the policy for lost trainers.
fn lost_policy(op: &str) -> Result<LostTrainer> {
    match std::env::var("OAR_PS_LOST_TRAINER").unwrap_or_default().as_str() {
        "" | "end" => Ok(LostTrainer::End),
        "wait" => Ok(LostTrainer::Wait),
        "continue" => Ok(LostTrainer::Continue),
        other => {
            bail!(InvalidArgument, "operator {op}: OAR_PS_LOST_TRAINER must be end, wait or continue, got {other:?}")
        }
    }
}

/// Creates the variables of block 0: blocks run in separate scopes, and share values through these.
fn declare(frame: &Frame) {
    let mut root = frame.scope.clone();
    while let Some(parent) = root.parent() {
        root = parent;
    }
    for var in frame.program.block(0).map(|b| b.all_vars()).unwrap_or_default() {
        let desc = var.read();
        if frame.scope.find(&desc.name).is_none() {
            if desc.is_persistable() {
                root.var(&desc.name)
            } else {
                frame.scope.var(&desc.name)
            };
        }
    }
}

/// `/tmp/paddle.PID.port`, by which 2.0.2's servers announce that they listen, and at which port; removed when the
/// server ends.
struct PortFile(PathBuf);

impl PortFile {
    /// `None` if the file cannot be written: scripts that know the port do not need it.
    fn new(port: u16) -> Option<PortFile> {
        let at = PathBuf::from(format!("/tmp/paddle.{}.port", std::process::id()));
        // Renamed when complete, since readers poll for it; created exclusively, so that links of other users are not
        // followed.
        let part = at.with_extension(format!("{port}.part"));
        let mut file = File::options().write(true).create_new(true).open(&part).ok()?;
        let done = writeln!(file, "{port}").and_then(|()| std::fs::rename(&part, &at));
        if done.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        done.ok().map(|()| PortFile(at))
    }
}

impl Drop for PortFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn serve(cx: &mut KernelContext) -> Result<()> {
    serve_as(cx, cx.attrs::<ListenAttrs>())
}

/// Federated learning: trainers receive, train, and send their parameters in common steps. (2.0.2 reads `sync_mode` and
/// serves in steps in any case.)
fn serve_federation(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<FederatedAttrs>();
    let (endpoint, optimize_blocks) = (a.endpoint.clone(), a.optimize_blocks.clone());
    ensure!(
        !optimize_blocks.0.is_empty(),
        InvalidArgument,
        "operator {}: optimize_blocks must name at least one block",
        cx.op.name
    );
    serve_as(cx, &ListenAttrs { endpoint, optimize_blocks, Fanin: a.Fanin, ..ListenAttrs::default() })
}

fn serve_as(cx: &KernelContext, a: &ListenAttrs) -> Result<()> {
    let (op, frame) = (cx.op.name, cx.frame()?);
    declare(&frame);
    ensure!(a.Fanin > 0, InvalidArgument, "operator {op}: Fanin must be the number of trainers, got {}", a.Fanin);
    // 0: gradients are averaged in common steps; otherwise each is applied on arrival.
    let mode = match a.distributed_mode {
        0 => SyncMode::Sync,
        1..=3 => SyncMode::Async,
        other => bail!(InvalidArgument, "operator {op}: distributed_mode must be 0 to 3, got {other}"),
    };
    let job = rings::JobEnvironment::from_env().map_err(error)?.job;
    let o = rings::options_from_env().map_err(error)?;
    let lr_block = (a.lr_decay_block_id >= 0).then_some(a.lr_decay_block_id);
    let by_grad = pairs(op, &a.grad_to_block_id)?.into_iter().map(|(n, b)| (n, (b, Mutex::new(()))));
    let serving = Serving {
        env: cx.env,
        blocks: Blocks::new(&frame.program, a.optimize_blocks.0.iter().copied().filter(|b| Some(*b) != lr_block)),
        frame,
        received: cx.env.names("X"),
        lr_block,
        by_grad: by_grad.collect(),
        lookups: pairs(op, &a.prefetch_var_name_to_block_id)?.into_iter().collect::<HashMap<_, _>>(),
        dc_asgd: a.dc_asgd,
        lr: Mutex::new(()),
        changes: Changes::new(op, (a.distributed_mode == 3).then_some(&a.sparse_grad_to_param[..]))?,
    };
    if mode == SyncMode::Async {
        // The learning rate for the first gradients.
        serving.set_rate()?;
    }
    let at = rings::resolve(&a.endpoint).map_err(|e| named(op, error(e)))?;
    let options = ServerOptions {
        mode,
        trainers: a.Fanin as u32,
        limit: o.heartbeat_limit,
        shared_memory: o.shared_memory,
        lost: lost_policy(op)?,
        absence: Limits::now().map_err(|e| named(op, error(e)))?.whole().max(o.init_timeout),
        durability: Durability::from_flags(&a.endpoint).map_err(|e| named(op, error(e)))?,
    };
    let server = Server::listen(at, &job, options).map_err(|e| named(op, error(e)))?;
    let _port_file = PortFile::new(server.address().port());
    let signals = Signals::watch();
    let result = server.serve(&serving, &mut || signals.stop());
    signals.explain(result).map_err(|e: Error| match e.kind() {
        ErrorKind::Interrupted => e,
        _ => named(op, e),
    })
}

pub static LISTEN_AND_SERV: Op = Op {
    name: "listen_and_serv",
    inputs: listen::INS,
    attrs: ListenAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Control(serve),
    ..OP
};

pub static FL_LISTEN_AND_SERV: Op = Op {
    name: "fl_listen_and_serv",
    inputs: listen::INS,
    attrs: FederatedAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Control(serve_federation),
    ..OP
};
