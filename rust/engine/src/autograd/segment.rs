//! A range of the tape as one node, recorded again when backward reaches it (recompute).

use super::engine::{self, Request};
use super::tape::{next_number, OutInfo, Saved};
use super::{EagerVar, GradEdge, Node};
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::op::{Args, Op, OP};
use oar_core::tensor::{Value, VarStorage};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// In no table: it is never called.
static SEGMENT: Op = Op { name: "recompute", ..OP };

/// Variables from before call `since` to which gradients of `outs` flow: leaves, and outputs of earlier calls.
fn boundary(outs: &[EagerVar], since: u64) -> Vec<Arc<GradEdge>> {
    let (mut found, mut places, mut nodes) = (Vec::new(), HashSet::new(), HashSet::new());
    let mut open: Vec<Arc<GradEdge>> = outs.iter().filter(|v| !v.stop_gradient()).map(EagerVar::track).collect();
    open.reverse();
    while let Some(track) = open.pop() {
        match track.producer() {
            Some((node, _)) if node.number >= since => {
                if nodes.insert(node.number) {
                    open.extend(node.edges.flat.iter().rev().flatten().cloned());
                }
            }
            producer => {
                let place =
                    producer.map_or((Arc::as_ptr(&track) as usize, None), |(n, i)| (n.number as usize, Some(i)));
                if places.insert(place) {
                    found.push(track);
                }
            }
        }
    }
    found
}

/// `outs` as outputs of one node for all calls from number `since` on. When backward reaches it, `again` computes them
/// once more and returns the number at which the new calls begin; what the calls saved is not kept until then. `None`
/// if no gradient flows.
pub fn close(
    outs: &[EagerVar],
    since: u64,
    again: impl Fn() -> Result<(Vec<EagerVar>, u64)> + Send + Sync + 'static,
) -> Result<Vec<Option<EagerVar>>> {
    let tracks = boundary(outs, since);
    if tracks.is_empty() {
        return Ok(outs.iter().map(|_| None).collect());
    }
    let flows: Vec<usize> = (0..outs.len()).filter(|&i| !outs[i].stop_gradient()).collect();
    let mut infos = Args::new();
    infos.push_slot(
        flows.iter().map(|&i| outs[i].tensor().map(|t| OutInfo::from_tensor(&t))).collect::<Result<Vec<_>>>()?,
    );
    let mut edges = Args::new();
    edges.push_slot(tracks.into_iter().map(Some));
    let (n, places) = (outs.len(), flows.clone());
    let call = move |_: Saved,
                     wanted: &[Option<Arc<GradEdge>>],
                     grads: &[Option<EagerVar>]|
          -> Result<Vec<Option<EagerVar>>> {
        let (outs, since) = again()?;
        ensure!(
            outs.len() == n,
            InvalidArgument,
            "recompute: the function gave {n} tensors first, and {} when it ran again",
            outs.len()
        );
        let given = places.iter().zip(grads).filter(|(_, grad)| grad.is_some());
        let (outputs, grads): (Vec<_>, Vec<_>) = given.map(|(&i, grad)| (outs[i].clone(), grad.clone())).unzip();
        let inputs: Vec<_> = wanted
            .iter()
            .map(|t| EagerVar::from_parts(Arc::new(VarStorage::new(Value::None)), t.clone(), false))
            .collect();
        engine::run(&Request {
            outputs: &outputs,
            grads: &grads,
            retain_graph: false,
            create_graph: false,
            inputs: Some(&inputs),
            stop_at: &[],
            allow_unused: true,
            since,
        })
    };
    let node = Arc::new(Node {
        op: &SEGMENT,
        attrs: (SEGMENT.attrs.new)(),
        number: next_number(),
        edges,
        outs: infos,
        saved: Mutex::new(Some(Saved::default())),
        ops: None,
        call: Some(Arc::new(call)),
        ran: AtomicBool::new(false),
    });
    let mut made: Vec<Option<EagerVar>> = outs.iter().map(|_| None).collect();
    for (k, &i) in flows.iter().enumerate() {
        let track = Arc::new(GradEdge::from_output(node.clone(), k as u32));
        made[i] = Some(EagerVar::from_parts(outs[i].cell.clone(), Some(track), false));
    }
    Ok(made)
}
