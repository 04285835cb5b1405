//! tree_conv: convolution over trees. Every node reads its descendants down to a depth, weighted by their depth and
//! their position among siblings.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::gemm::{matmul, Gemm};
use oar_kernels::types::Float;

attrs! { pub struct TreeAttrs { max_depth: i32 = 2 } }

slots! {
    mod fwd { NODES "NodesVector", EDGES "EdgeSet", FILTER "Filter" => OUT "Out" }
    mod grad {
        DOUT "Out@GRAD", FILTER "Filter", EDGES "EdgeSet", NODES "NodesVector"
        => DNODES "NodesVector@GRAD", DFILTER "Filter@GRAD"
    }
}

/// Number of weights per node: left, right, top.
const KINDS: usize = 3;

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

/// A node within a patch, and its weights.
struct Read {
    root: usize,
    node: usize,
    weights: [f64; KINDS],
}

/// The patches of all roots of a tree. Nodes are numbered from 1; an edge with 0 ends the list.
fn reads(op: &str, edges: &[i32], nodes: usize, depth: i32) -> Result<Vec<Read>> {
    let count = edges.chunks_exact(2).filter(|e| e[0] != 0 && e[1] != 0).count() + 1;
    ensure!(
        count <= nodes.max(1),
        InvalidArgument,
        "operator {op}: a tree with {} edges has more than the {nodes} nodes of NodesVector",
        count - 1
    );
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
    for e in edges.chunks_exact(2).take_while(|e| e[0] != 0 && e[1] != 0) {
        let inside = |&v: &i32| (1..=count as i64).contains(&(v as i64));
        ensure!(
            e.iter().all(inside),
            InvalidArgument,
            "operator {op}: the nodes of edges must be from 1 to {count}, got {e:?}"
        );
        children[e[0] as usize].push(e[1] as usize);
    }
    let weigh = |index: usize, siblings: usize, level: i32| {
        let top = (depth - level) as f64 / depth as f64;
        let place = if siblings == 1 { 0.5 } else { (index as f64 - 1.0) / (siblings as f64 - 1.0) };
        let left = (1.0 - top) * place;
        [left, (1.0 - top) * (1.0 - left), top]
    };
    let mut found = Vec::new();
    for root in 1..=count.min(nodes) {
        let mut seen = vec![false; count + 1];
        seen[root] = true;
        found.push(Read { root: root - 1, node: root - 1, weights: weigh(1, 1, 0) });
        let mut open = vec![(root, 0)];
        while let Some((node, level)) = open.pop() {
            let below = &children[node];
            for (i, &child) in below.iter().enumerate() {
                if !seen[child] && level + 1 < depth {
                    seen[child] = true;
                    open.push((child, level + 1));
                    let weights = weigh(i + 1, below.len(), level + 1);
                    found.push(Read { root: root - 1, node: child - 1, weights });
                }
            }
        }
    }
    Ok(found)
}

struct Call<'a> {
    nodes: &'a Tensor,
    edges: &'a [i32],
    w: &'a Tensor,
    trees: usize,
    count: usize,
    features: usize,
    columns: usize,
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
    let (d, f) = (nodes.dims(), w.dims());
    Ok(Call {
        trees: d[0] as usize,
        count: d[1] as usize,
        features: d[2] as usize,
        columns: (f[2] * f[3]) as usize,
        depth: cx.attrs::<TreeAttrs>().max_depth,
        nodes,
        edges: edges.data::<i32>(),
        w,
    })
}

impl Call<'_> {
    fn reads(&self, op: &str, tree: usize) -> Result<Vec<Read>> {
        let each = self.edges.len() / self.trees;
        reads(op, &self.edges[tree * each..][..each], self.count, self.depth)
    }

    /// Each root's patch as a row of weighted feature sums, which is multiplied by the filter.
    fn patch<T: Float>(&self, reads: &[Read], nodes: &[T]) -> Vec<T> {
        let mut patch = vec![T::ZERO; self.count * self.features * KINDS];
        for r in reads {
            let from = &nodes[r.node * self.features..][..self.features];
            let to = &mut patch[r.root * self.features * KINDS..][..self.features * KINDS];
            for (to, &v) in to.chunks_exact_mut(KINDS).zip(from) {
                to.iter_mut().zip(r.weights).for_each(|(to, w)| *to += T::from_f64(w) * v);
            }
        }
        patch
    }
}

fn part<T>(all: &[T], i: usize, parts: usize) -> &[T] {
    let each = all.len() / parts;
    &all[i * each..][..each]
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (op, c) = (cx.op.name, look(cx, [fwd::NODES, fwd::EDGES, fwd::FILTER])?);
    fn compute<T: Float + Gemm + oar_core::base::dtype::Element>(op: &str, c: &Call, out: &mut [T]) -> Result<()> {
        let (each, depth) = (c.count * c.columns, c.features * KINDS);
        for tree in 0..c.trees {
            let patch = c.patch(&c.reads(op, tree)?, part(c.nodes.data::<T>(), tree, c.trees));
            let out = &mut out[tree * each..][..each];
            matmul((c.count, c.columns, depth), &patch, false, c.w.data::<T>(), false, out);
        }
        Ok(())
    }
    dispatch!(c.nodes.dtype(), T in [f32, f64], compute::<T>(op, &c, cx.out_data::<T>(fwd::OUT)?),
        other => cx.unsupported(other))
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (op, c) = (cx.op.name, look(cx, [grad::NODES, grad::EDGES, grad::FILTER])?);
    let dout = cx.input(grad::DOUT)?;
    ensure!(
        dout.dtype() == c.nodes.dtype() && dout.numel() == c.trees * c.count * c.columns,
        InvalidArgument,
        "operator {op}: the gradient of Out must be {} with a row for each node, got {dout:?}",
        c.nodes.dtype()
    );
    let outs = cx.each_out([grad::DNODES, grad::DFILTER]);
    fn compute<T: Float + Gemm + oar_core::base::dtype::Element>(
        op: &str,
        c: &Call,
        dout: &[T],
        [dnodes, dw]: [Option<&mut Tensor>; 2],
    ) -> Result<()> {
        let depth = c.features * KINDS;
        let mut dnodes = dnodes.map(|t| t.data_mut::<T>()).transpose()?;
        let mut dw = dw.map(|t| t.data_mut::<T>()).transpose()?;
        dnodes.iter_mut().chain(&mut dw).for_each(|d| d.fill(T::ZERO));
        let mut both = vec![T::ZERO; depth * c.columns];
        let mut dpatch = vec![T::ZERO; c.count * depth];
        for tree in 0..c.trees {
            let (reads, d) = (c.reads(op, tree)?, part(dout, tree, c.trees));
            if let Some(dw) = &mut dw {
                let patch = c.patch(&reads, part(c.nodes.data::<T>(), tree, c.trees));
                matmul((depth, c.columns, c.count), &patch, true, d, false, &mut both);
                dw.iter_mut().zip(&both).for_each(|(to, &v)| *to += v);
            }
            if let Some(dnodes) = &mut dnodes {
                matmul((c.count, depth, c.columns), d, false, c.w.data::<T>(), true, &mut dpatch);
                let dnodes = &mut dnodes[tree * c.count * c.features..][..c.count * c.features];
                for r in &reads {
                    let from = &dpatch[r.root * depth..][..depth];
                    let to = &mut dnodes[r.node * c.features..][..c.features];
                    for (to, from) in to.iter_mut().zip(from.chunks_exact(KINDS)) {
                        from.iter().zip(r.weights).for_each(|(&v, w)| *to += T::from_f64(w) * v);
                    }
                }
            }
        }
        Ok(())
    }
    dispatch!(c.nodes.dtype(), T in [f32, f64], compute::<T>(op, &c, dout.data::<T>(), outs),
        other => cx.unsupported(other))
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
