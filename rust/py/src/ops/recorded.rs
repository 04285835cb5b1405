//! A Python function as a node of the tape (`paddle.autograd.PyLayer`).

use crate::error::{wrap, OrRaise};
use crate::gil::attached;
use crate::tensor::object::PyTensor;
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::op::{Args, Op, OP};
use oar_engine::autograd::tape::{next_number, OutInfo, Saved};
use oar_engine::autograd::{EagerVar, GradEdge, Node};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// In no table: it is never called.
static PY_LAYER: Op = Op { name: "py_layer", ..OP };

/// The gradients of all inputs: `f(*gradients of the outputs)`, None for one that did not arrive.
fn call(f: &Py<PyAny>, edges: &[Option<Arc<GradEdge>>], grads: &[Option<EagerVar>]) -> Result<Vec<Option<EagerVar>>> {
    let found = attached(|py| {
        let run = || -> PyResult<Vec<Option<EagerVar>>> {
            let wrapped = |g: &Option<EagerVar>| match g {
                Some(v) => Ok(PyTensor::wrap(py, EagerVar::new(v.cell.get(), true))?.into_any()),
                None => Ok(py.None().into_bound(py)),
            };
            let grads = grads.iter().map(wrapped).collect::<PyResult<Vec<_>>>()?;
            let made: Vec<Option<Bound<'_, PyTensor>>> = f.bind(py).call1(PyTuple::new(py, grads)?)?.extract()?;
            Ok(made.into_iter().map(|t| t.map(|t| EagerVar::new(t.get().held(), true))).collect())
        };
        run().map_err(wrap)
    })?;
    let (want, got) = (edges.len(), found.len());
    ensure!(want == got, InvalidArgument, "py_layer: {want} gradients are needed, backward returned {got}");
    Ok(found)
}

/// Makes `outs` the outputs of one node over `ins`: backward calls `backward` with the gradient (or None) of each of
/// `outs`, and it returns a list with a gradient or None for each of `ins`. Outputs must be new Tensors.
#[pyfunction]
fn record_call(ins: Vec<Bound<'_, PyTensor>>, outs: Vec<Bound<'_, PyTensor>>, backward: Py<PyAny>) -> PyResult<()> {
    let mut edges = Args::new();
    let edge = |v: &EagerVar| (!v.stop_gradient()).then(|| v.track());
    edges.push_slot(ins.iter().map(|t| edge(&t.get().var)));
    let mut infos = Args::new();
    let shapes = outs.iter().map(|t| t.get().var.tensor().map(|t| OutInfo::from_tensor(&t)));
    infos.push_slot(shapes.collect::<Result<Vec<_>>>().or_raise()?);
    let run =
        move |_: Saved, edges: &[Option<Arc<GradEdge>>], grads: &[Option<EagerVar>]| call(&backward, edges, grads);
    let node = Arc::new(Node {
        op: &PY_LAYER,
        attrs: (PY_LAYER.attrs.new)(),
        number: next_number(),
        edges,
        outs: infos,
        saved: Mutex::new(Some(Saved::default())),
        ops: None,
        call: Some(Arc::new(run)),
        ran: AtomicBool::new(false),
    });
    for (i, out) in outs.iter().enumerate() {
        let var = &out.get().var;
        var.set_track(Some(Arc::new(GradEdge::from_output(node.clone(), i as u32))));
        var.set_stop_gradient(Some(false));
    }
    Ok(())
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(record_call, m)?)
}
