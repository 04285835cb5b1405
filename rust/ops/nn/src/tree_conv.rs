//! tree_conv: convolution over trees. Every node reads its descendants down to a depth, weighted by their depth and
//! their position among siblings.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Error, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::conv::tree_conv::{TreeConv, TreeError, KINDS};

attrs! { pub struct TreeAttrs { max_depth: i32 = 2 } }

slots! {
    mod fwd { NODES "NodesVector", EDGES "EdgeSet", FILTER "Filter" => OUT "Out" }
    mod grad {
        DOUT "Out@GRAD", FILTER "Filter", EDGES "EdgeSet", NODES "NodesVector"
        => DNODES "NodesVector@GRAD", DFILTER "Filter@GRAD"
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, depth) = (cx.op.name, cx.attrs::<TreeAttrs>().max_depth);
    let (nodes, edges, w) = (cx.dims(fwd::NODES)?, cx.dims(fwd::EDGES)?, cx.dims(fwd::FILTER)?);
    let agree = |a: i64, b: i64| a == b || a < 0 || b < 0;
    ensure!(depth > 1, InvalidArgument, "operator {op}: max_depth must be above 1, got {depth}");
    ensure!(
        nodes.len() == 3 && edges.len() == 3 && agree(edges[2], 2) && agree(edges[0], nodes[0]),
        InvalidArgument,
        "operator {op}: NodesVector must have shape [N, nodes, features] and EdgeSet [N, edges, 2], got {:?} and {:?}",
        &nodes[..],
        &edges[..]
    );
    ensure!(
        w.len() == 4 && agree(w[1], KINDS as i64) && agree(w[0], nodes[2]),
        InvalidArgument,
        "operator {op}: Filter must have shape [{}, {KINDS}, outputs, filters], got {:?}",
        nodes[2],
        &w[..]
    );
    let dtype = cx.dtype(fwd::NODES)?;
    cx.set(fwd::OUT, &[nodes[0], nodes[1], w[2], w[3]], dtype);
    Ok(())
}

/// The checked tensors of a call.
struct Call<'a> {
    nodes: &'a Tensor,
    edges: &'a [i32],
    w: &'a Tensor,
    depth: i32,
}

fn look<'a>(cx: &KernelContext<'a>, [nodes, edges, w]: [InSlot; 3]) -> Result<Call<'a>> {
    let (nodes, edges, w) = (cx.input(nodes)?, cx.input(edges)?, cx.input(w)?);
    ensure!(
        edges.dtype() == DType::I32 && w.dtype() == nodes.dtype(),
        InvalidArgument,
        "operator {}: EdgeSet must be int32 and Filter {} as NodesVector is, got {} and {}",
        cx.op.name,
        nodes.dtype(),
        edges.dtype(),
        w.dtype()
    );
    Ok(Call { nodes, edges: edges.data::<i32>(), w, depth: cx.attrs::<TreeAttrs>().max_depth })
}

impl Call<'_> {
    fn sizes<T: Element>(&self) -> TreeConv<'_, T> {
        let (d, f) = (self.nodes.dims(), self.w.dims());
        TreeConv {
            nodes: self.nodes.data::<T>(),
            edges: self.edges,
            w: self.w.data::<T>(),
            trees: d[0] as usize,
            count: d[1] as usize,
            features: d[2] as usize,
            columns: (f[2] * f[3]) as usize,
            depth: self.depth,
        }
    }

    fn refused(&self, op: &str, e: TreeError) -> Error {
        match e {
            TreeError::Edges(edges) => err!(
                InvalidArgument,
                "operator {op}: a tree with {edges} edges has more than the {} nodes of NodesVector",
                self.nodes.dims()[1]
            ),
            TreeError::Edge { edge, nodes } => {
                err!(InvalidArgument, "operator {op}: the nodes of edges must be from 1 to {nodes}, got {edge:?}")
            }
        }
    }
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (op, c) = (cx.op.name, look(cx, [fwd::NODES, fwd::EDGES, fwd::FILTER])?);
    dispatch!(c.nodes.dtype(), T in [f32, f64], {
        c.sizes::<T>().forward(cx.out_data::<T>(fwd::OUT)?).map_err(|e| c.refused(op, e))
    }, other => cx.unsupported(other))
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (op, c) = (cx.op.name, look(cx, [grad::NODES, grad::EDGES, grad::FILTER])?);
    let dout = cx.input(grad::DOUT)?;
    let (rows, columns) = ((c.nodes.dims()[0] * c.nodes.dims()[1]) as usize, (c.w.dims()[2] * c.w.dims()[3]) as usize);
    ensure!(
        dout.dtype() == c.nodes.dtype() && dout.numel() == rows * columns,
        InvalidArgument,
        "operator {op}: the gradient of Out must be {} with a row for each node, got {dout:?}",
        c.nodes.dtype()
    );
    let [dnodes, dw] = cx.each_out([grad::DNODES, grad::DFILTER]);
    dispatch!(c.nodes.dtype(), T in [f32, f64], {
        let dnodes = dnodes.map(|t| t.data_mut::<T>()).transpose()?;
        let dw = dw.map(|t| t.data_mut::<T>()).transpose()?;
        c.sizes::<T>().backward(dout.data::<T>(), dnodes, dw).map_err(|e| c.refused(op, e))
    }, other => cx.unsupported(other))
}

pub static TREE_CONV: Op = Op {
    name: "tree_conv",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: TreeAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&TREE_CONV_GRAD),
    ..OP
};

pub static TREE_CONV_GRAD: Op = Op {
    name: "tree_conv_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: TreeAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&TREE_CONV, &TREE_CONV_GRAD];
