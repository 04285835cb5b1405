//! recv, prefetch, distributed_lookup_table: values that a trainer gets from the servers.

use oar_core::base::{DType, Dims, Result};
use oar_core::ir::Attr;
use oar_core::op::attrs::Text;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, SparseKernel, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{attrs, bail, ensure, slots};
use oar_kernels::optimizer::distinct;
use oar_ps::parts::concat;
use oar_ps::trainer::communicator;
use oar_ps::trainer::remote::{fetch, one_each, open, trainer, with_all};
use oar_ps::values::{allocate, into_value, outgoing};
use parking_lot::Mutex;

attrs! {
    pub struct RecvAttrs {
        epmap: Vec<String> = vec![], trainer_id: i32 = 0, with_barrier: bool = true, varnames: Vec<String> = vec![],
        recv_varnames: Vec<String> = vec![], do_not_run: i32 = 0,
    }
    pub struct PrefetchAttrs { trainer_id: i32 = 0, epmap: Vec<String> = vec!["127.0.0.1:6164".into()] }
    pub struct LookupAttrs {
        table_names: Vec<String> = vec!["".into()], endpoints: Vec<String> = vec!["127.0.0.1:6164".into()],
        pserver_num: i32 = 0, is_distributed: bool = false, trainer_id: i32 = 0,
        lookup_table_version: Text = "lookup_table".into(), padding_idx: i64 = -1, dtype: i32 = 5,
    }
}

slots! {
    mod recv { X "X".duplicable() => OUT "Out".duplicable().kernel_allocated() }
    mod prefetch { X "X".duplicable() => OUT "Out".duplicable().kernel_allocated() }
    mod lookup { IDS "Ids".duplicable(), W "W".meta_only() => OUT "Outputs".duplicable().kernel_allocated() }
}

fn run_recv(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<RecvAttrs>();
    if a.do_not_run != 0 {
        return Ok(());
    }
    let (op, me, outs) = (cx.op.name, trainer(cx, a.trainer_id)?, cx.env.names("Out"));
    if !a.recv_varnames.is_empty() {
        if communicator::current().is_some() {
            // The communicator receives concurrently with the steps.
            return Ok(());
        }
        // The blocks of one parameter, which the communicator would concatenate.
        one_each(cx, &a.epmap, a.recv_varnames.len())?;
        let wanted: Vec<_> = a.epmap.iter().cloned().zip(a.recv_varnames.iter().cloned()).collect();
        let parts = fetch(op, me, &wanted)?;
        let tensors = parts.iter().map(Value::dense).collect::<Result<Vec<_>>>()?;
        let whole = concat(op, &tensors)?;
        cx.set_nth(recv::OUT, 0, whole);
        return Ok(());
    }
    one_each(cx, &a.epmap, outs.len())?;
    communicator::all_sent()?;
    let remote = if a.varnames.is_empty() { &outs } else { &a.varnames };
    ensure!(
        remote.len() == outs.len(),
        InvalidArgument,
        "operator {op}: varnames has {} names for {} received variables",
        remote.len(),
        outs.len()
    );
    let wanted: Vec<_> = a.epmap.iter().cloned().zip(remote.iter().cloned()).collect();
    for (i, value) in fetch(op, me, &wanted)?.into_iter().enumerate() {
        cx.set_nth(recv::OUT, i, value);
    }
    Ok(())
}

pub static RECV: Op = Op {
    name: "recv",
    inputs: recv::INS,
    outputs: recv::OUTS,
    attrs: RecvAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(run_recv),
    ..OP
};

/// Looks up ids in several tables with concurrent requests; `None` for a table without ids, which is not requested.
fn look_up(op: &str, me: u32, requests: Vec<(String, String, Value)>) -> Result<Vec<Value>> {
    let sessions = requests.iter().map(|(e, _, _)| open(e, me)).collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = requests.iter().map(|(_, name, _)| name.clone()).collect();
    let ids = requests.into_iter().map(|(_, name, ids)| Ok(Mutex::new(Some(outgoing(&name, ids)?))));
    let ids = ids.collect::<Result<Vec<_>>>()?;
    let found = with_all(op, &sessions, |i, session, stop| match ids[i].lock().take() {
        Some(ids) => session.lookup(&names[i], ids, &allocate, stop),
        None => Err(oar_net::Error::Invalid("ids are sent once".into())),
    })?;
    found.into_iter().map(into_value).collect()
}

fn run_prefetch(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<PrefetchAttrs>();
    let (op, me, names) = (cx.op.name, trainer(cx, a.trainer_id)?, cx.env.names("X"));
    one_each(cx, &a.epmap, names.len())?;
    let requests = a.epmap.iter().zip(names).zip(cx.values(prefetch::X));
    let requests: Vec<_> = requests.map(|((e, n), v)| (e.clone(), n, v.clone())).collect();
    for (i, value) in look_up(op, me, requests)?.into_iter().enumerate() {
        cx.set_nth(prefetch::OUT, i, value);
    }
    Ok(())
}

pub static PREFETCH: Op = Op {
    name: "prefetch",
    inputs: prefetch::INS,
    outputs: prefetch::OUTS,
    attrs: PrefetchAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(run_prefetch),
    ..OP
};

// distributed_lookup_table

fn infer_lookup(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<LookupAttrs>();
    let w = cx.dims(lookup::W)?;
    ensure!(w.len() == 2, InvalidArgument, "operator {}: 'W' must be a matrix, got {:?}", cx.op.name, &w[..]);
    let dtype = DType::from_proto(a.dtype).unwrap_or(DType::F32);
    for i in 0..cx.count(lookup::IDS) {
        let mut dims = cx.meta(lookup::IDS, i)?.dims;
        // Ids of the first version have shape [.., 1].
        if a.lookup_table_version == "lookup_table" && dims.len() > 1 {
            dims.pop();
        }
        dims.push(w[1]);
        cx.set_nth(lookup::OUT, i, &dims, dtype);
    }
    Ok(())
}

/// Placement of a table's rows on servers.
enum Placement {
    /// By the id's remainder; servers use the whole id.
    Remainder(usize),
    /// Contiguous blocks of rows: the end of each.
    Blocks(Vec<i64>),
}

impl Placement {
    /// Upper bound of ids, if there is one.
    fn height(&self) -> Option<i64> {
        match self {
            Placement::Remainder(_) => None,
            Placement::Blocks(ends) => ends.last().copied(),
        }
    }

    /// Splits ascending ids below the height: the ids for each server, and for each id its server and index in the
    /// reply.
    fn distribute(&self, ids: &[i64]) -> (Vec<Vec<i64>>, Vec<(usize, usize)>) {
        let mut there = Vec::with_capacity(ids.len());
        let by_server = match self {
            Placement::Remainder(n) => {
                let mut by_server: Vec<Vec<i64>> = vec![Vec::new(); *n];
                for &id in ids {
                    let server = (id as u64 % *n as u64) as usize;
                    there.push((server, by_server[server].len()));
                    by_server[server].push(id);
                }
                by_server
            }
            Placement::Blocks(ends) => {
                let (mut start, mut left) = (0, ids);
                let block = |(server, &end): (usize, &i64)| {
                    let (own, later) = left.split_at(left.partition_point(|&id| id < end));
                    let rows = own.iter().map(|id| id - start).collect();
                    there.extend((0..own.len()).map(|at| (server, at)));
                    (start, left) = (end, later);
                    rows
                };
                ends.iter().enumerate().map(block).collect()
            }
        };
        (by_server, there)
    }
}

fn placement(cx: &KernelContext, a: &LookupAttrs) -> Result<Placement> {
    let n = a.table_names.len();
    if a.is_distributed {
        return Ok(Placement::Remainder(n));
    }
    let rows = cx.value(lookup::W)?.elements().and_then(|t| t.dims().first().copied()).unwrap_or(0);
    let sections = match cx.env.desc_attr("height_sections") {
        Some(Attr::Longs(s)) => s,
        Some(Attr::Ints(s)) => s.into_iter().map(i64::from).collect(),
        _ => {
            let part = (rows + n as i64 - 1) / n as i64;
            (0..n as i64).map(|i| part.min(rows - i * part).max(0)).collect()
        }
    };
    let mut end = 0i64;
    let ends: Vec<i64> = sections
        .iter()
        .map(|&s| {
            end = end.saturating_add(s.max(0));
            end
        })
        .collect();
    ensure!(
        ends.len() == n && end == rows,
        InvalidArgument,
        "operator {}: height_sections {sections:?} do not divide the {rows} rows of 'W' among {n} servers",
        cx.op.name
    );
    Ok(Placement::Blocks(ends))
}

/// Each distinct row is fetched once.
fn run_lookup(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<LookupAttrs>();
    let (op, me, n) = (cx.op.name, trainer(cx, a.trainer_id)?, a.table_names.len());
    ensure!(
        n > 0 && a.endpoints.len() == n,
        InvalidArgument,
        "operator {op}: expected an endpoint for each of the tables {:?}, got {:?}",
        a.table_names,
        a.endpoints
    );
    let width = cx.value(lookup::W)?.elements().and_then(|t| t.dims().get(1).copied()).unwrap_or(0);
    let placement = placement(cx, a)?;
    let groups = cx.inputs(lookup::IDS)?.iter().map(|t| t.to_i64s()).collect::<Result<Vec<_>>>()?;
    let padding = (a.padding_idx != -1).then_some(a.padding_idx);
    let mut wanted = groups.concat();
    wanted.retain(|&id| Some(id) != padding);
    let height = placement.height();
    if let Some(id) = wanted.iter().find(|&&id| height.is_some_and(|h| id < 0 || id >= h)) {
        bail!(OutOfRange, "operator {op}: the id {id} is not within the table's rows")
    }
    let (rows, places) = distinct(&wanted, height.map_or(usize::MAX, |h| h as usize));
    let (by_server, there) = placement.distribute(&rows);
    let requests = by_server.iter().enumerate().filter(|(_, rows)| !rows.is_empty());
    let requests = requests.map(|(i, rows)| {
        let ids = Tensor::from_slice(rows, &[rows.len() as i64, 1])?;
        Ok((a.endpoints[i].clone(), a.table_names[i].clone(), Value::Dense(ids)))
    });
    let found = look_up(op, me, requests.collect::<Result<Vec<_>>>()?)?;
    let dtype = DType::from_proto(a.dtype).unwrap_or(DType::F32);
    let row_bytes = width as usize * dtype.size();
    let mut answers: Vec<&[u8]> = vec![&[]; n];
    for ((server, rows), value) in by_server.iter().enumerate().filter(|(_, rows)| !rows.is_empty()).zip(&found) {
        let t = value.dense()?;
        ensure!(
            t.dims() == [rows.len() as i64, width] && t.dtype() == dtype,
            InvalidArgument,
            "operator {op}: a server replied to {} ids with {} {:?}",
            rows.len(),
            t.dtype(),
            t.dims()
        );
        answers[server] = t.bytes();
    }
    let mut places = places.into_iter();
    for (i, group) in groups.iter().enumerate() {
        let ids = cx.inputs(lookup::IDS)?[i];
        let mut dims = Dims::from_slice(ids.dims());
        if a.lookup_table_version == "lookup_table" && dims.len() > 1 {
            dims.pop();
        }
        dims.push(width);
        let mut out = Tensor::empty(dtype, &dims)?.with_lod(ids.lod.clone());
        for (to, &id) in out.bytes_mut()?.chunks_exact_mut(row_bytes.max(1)).zip(group) {
            match if Some(id) == padding { None } else { places.next() } {
                Some(place) => {
                    let (server, at) = there[place as usize];
                    to.copy_from_slice(&answers[server][at * row_bytes..][..row_bytes]);
                }
                None => to.fill(0),
            }
        }
        cx.set_nth(lookup::OUT, i, out);
    }
    Ok(())
}

pub static DISTRIBUTED_LOOKUP_TABLE: Op = Op {
    name: "distributed_lookup_table",
    inputs: lookup::INS,
    outputs: lookup::OUTS,
    attrs: LookupAttrs::FIELDS,
    infer: infer_lookup,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(run_lookup),
    ..OP
};
