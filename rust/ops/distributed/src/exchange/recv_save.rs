//! Saving of server state: recv_save by a trainer, checkpoint_notify by the servers; and send_and_recv.

use oar_comm::Signals;
use oar_core::base::{DType, Error, Result};
use oar_core::ir::tensor_file::write_lod_tensor;
use oar_core::op::{Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{attrs, bail, ensure, err, slots};
use oar_ps::files::replace;
use oar_ps::parts::concat;
use oar_ps::protocol::session::trainer_of;
use oar_ps::trainer::communicator::all_sent;
use oar_ps::trainer::remote::{distinct, fetch, one_each, open, trainer, with_all};
use oar_ps::values::{allocate, into_value, outgoing};
use std::path::Path;

attrs! {
    pub struct SaveAttrs {
        dtype: i32 = 5, overwrite: bool = true, file_path: String, shape: Vec<i64> = vec![],
        slice_varnames: Vec<String> = vec![], remote_varnames: Vec<String> = vec![],
        slice_shapes: Vec<String> = vec![], endpoints: Vec<String> = vec![], trainer_id: i32 = 0, is_sparse: bool,
        pserver_num: i32 = 0, is_distributed: bool = false,
    }
    pub struct NotifyAttrs {
        endpoints: Vec<String>, dirname: String, varname: String, slice_varnames: Vec<String>,
        remote_varnames: Vec<String>, mode: i32 = 0,
    }
    pub struct BothAttrs {
        send_var_name: String = "".to_string(), recv_var_name: String = "".to_string(), trainer_id: i32 = 0,
        endpoint: String = "127.0.0.1:6164".to_string(),
    }
}

slots! {
    mod both { X "X".duplicable() => OUT "Out".duplicable().kernel_allocated() }
}

fn failed(what: &str, path: &Path, e: &std::io::Error) -> Error {
    err!(External, "cannot {what} {}: {e}", path.display())
}

/// Writes a LoDTensor file, as `load` reads it, and renames it when complete.
pub fn write_tensor(t: &Tensor, path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| failed("create the folder", folder, &e))?;
    }
    let none: &[Vec<u64>] = &[];
    replace(path, |file| write_lod_tensor(t.dtype(), t.dims(), none, t.bytes(), file))
}

// recv_save

fn run_save(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<SaveAttrs>());
    ensure!(!a.file_path.is_empty(), InvalidArgument, "operator {op}: file_path must not be empty");
    let path = Path::new(&a.file_path);
    ensure!(a.overwrite || !path.exists(), AlreadyExists, "operator {op}: {} exists already", path.display());
    let n = a.slice_varnames.len();
    ensure!(
        n > 0 && a.slice_shapes.len() == n && a.remote_varnames.len() == n,
        InvalidArgument,
        "operator {op}: expected as many slice_shapes and remote_varnames as slice_varnames, got {}, {} and {n}",
        a.slice_shapes.len(),
        a.remote_varnames.len()
    );
    one_each(cx, &a.endpoints, n)?;
    let wanted: Vec<_> = a.endpoints.iter().cloned().zip(a.remote_varnames.iter().cloned()).collect();
    all_sent()?;
    // 2.0.2's Programs do not set trainer_id: the process keeps the number that its servers know.
    let me = a.endpoints.first().and_then(|e| trainer_of(e)).map_or_else(|| trainer(cx, a.trainer_id), Ok)?;
    let parts = fetch(op, me, &wanted)?;
    let tensors = parts.iter().map(Value::dense).collect::<Result<Vec<_>>>()?;
    let whole = concat(op, &tensors)?;
    let dtype = DType::from_proto(a.dtype);
    ensure!(
        whole.dims() == &a.shape[..] && Some(whole.dtype()) == dtype,
        InvalidArgument,
        "operator {op}: the servers have {} {:?}, expected {:?} {:?} (attributes shape and dtype)",
        whole.dtype(),
        whole.dims(),
        dtype,
        a.shape
    );
    write_tensor(&whole, path)
}

pub static RECV_SAVE: Op = Op { name: "recv_save", attrs: SaveAttrs::FIELDS, cpu: Kernel::Host(run_save), ..OP };

// checkpoint_notify

fn run_notify(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<NotifyAttrs>());
    ensure!((0..=2).contains(&a.mode), InvalidArgument, "operator {op}: mode must be 0, 1 or 2, got {}", a.mode);
    let n = a.endpoints.len();
    ensure!(
        a.slice_varnames.len() == n && a.remote_varnames.len() == n,
        InvalidArgument,
        "operator {op}: expected as many slice_varnames and remote_varnames as endpoints, got {}, {} and {n}",
        a.slice_varnames.len(),
        a.remote_varnames.len()
    );
    all_sent()?;
    let servers = distinct(&a.endpoints);
    // The operator does not say which trainer this is.
    let sessions = servers.iter().map(|e| open(e, trainer_of(e).unwrap_or(0))).collect::<Result<Vec<_>>>()?;
    with_all(op, &sessions, |i, session, stop| {
        for k in (0..n).filter(|&k| a.endpoints[k] == servers[i]) {
            let path = format!("{}/{}/{}", a.dirname, a.varname, a.slice_varnames[k]);
            session.notify(vec!["checkpoint".into(), path, a.remote_varnames[k].clone()], &allocate, stop)?;
        }
        Ok(())
    })
    .map(drop)
}

pub static CHECKPOINT_NOTIFY: Op =
    Op { name: "checkpoint_notify", attrs: NotifyAttrs::FIELDS, cpu: Kernel::Host(run_notify), ..OP };

// send_and_recv

fn run_both(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<BothAttrs>());
    let (me, names) = (trainer(cx, a.trainer_id)?, cx.env.names("X"));
    let values = cx.values(both::X);
    let at = names.iter().position(|n| *n == a.send_var_name).unwrap_or(0);
    let Some(value) = values.get(at) else { bail!(InvalidArgument, "operator {op}: there is nothing to send") };
    let sent =
        if a.send_var_name.is_empty() { names.get(at).cloned().unwrap_or_default() } else { a.send_var_name.clone() };
    let wanted = match (a.recv_var_name.is_empty(), cx.env.names("Out").first()) {
        (false, _) => a.recv_var_name.clone(),
        (true, Some(name)) => name.clone(),
        (true, None) => bail!(InvalidArgument, "operator {op}: recv_var_name must name the variable to receive"),
    };
    let (session, request) = (open(&a.endpoint, me)?, outgoing(&sent, value.clone())?);
    let signals = Signals::watch();
    let stop = || match signals.stop() {
        true => Err(oar_net::Error::Interrupted { during: format!("operator {op}") }),
        false => Ok(()),
    };
    let received = session.exchange(vec![request], vec![wanted], &allocate, &stop);
    let received = signals.explain(received).map_err(|e| oar_ps::trainer::remote::named(op, e))?;
    let first =
        received.into_iter().next().ok_or_else(|| err!(Unavailable, "operator {op}: the server sent nothing"))?;
    if cx.n_outs(both::OUT) > 0 {
        cx.set_nth(both::OUT, 0, into_value(first)?);
    }
    Ok(())
}

pub static SEND_AND_RECV: Op = Op {
    name: "send_and_recv",
    inputs: both::INS,
    outputs: both::OUTS,
    attrs: BothAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(run_both),
    ..OP
};
