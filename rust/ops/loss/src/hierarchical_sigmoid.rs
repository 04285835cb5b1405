//! hierarchical_sigmoid: a loss over the nodes on the path from the root of a class tree to a leaf.

use super::elements::{agree, of_size};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, VarKind};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Meta, Op, ShapeContext, OP};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::loss::hierarchical_sigmoid::{complete_tree_path, given_paths, NodeGrads, Nodes, Path};
use std::sync::Arc;

attrs! {
    pub struct TreeAttrs {
        num_classes: i32 = 2, remote_prefetch: bool = false, trainer_id: i32 = 0, height_sections: Vec<i64> = vec![],
        epmap: Vec<String> = vec![], table_names: Vec<String> = vec![], is_sparse: bool = false,
    }
}

slots! {
    mod tree {
        X "X", W "W", LABEL "Label", TABLE "PathTable".dispensable(), CODE "PathCode".dispensable(), BIAS "Bias".dispensable()
        => OUT "Out", PRE "PreOut".intermediate(), W_OUT "W_Out".intermediate()
    }
    mod tree_grad {
        X "X", W "W", BIAS "Bias".dispensable(), LABEL "Label", TABLE "PathTable".dispensable(), CODE "PathCode".dispensable(), PRE "PreOut",
        DOUT "Out@GRAD"
        => DX "X@GRAD", DW "W@GRAD".kernel_allocated(), DBIAS "Bias@GRAD"
    }
}

fn infer_tree(cx: &mut ShapeContext) -> Result<()> {
    use tree::{CODE, LABEL, OUT, PRE, TABLE, W, W_OUT, X};
    let (x, w, label, dtype) = (cx.dims(X)?, cx.dims(W)?, cx.dims(LABEL)?, cx.dtype(X)?);
    let a = cx.attrs::<TreeAttrs>();
    ensure!(
        x.len() == 2 && w.len() == 2 && agree(x[1], w[1]),
        InvalidArgument,
        "operator hierarchical_sigmoid: X and W must be matrices of the same width, got {:?} and {:?}",
        &x[..],
        &w[..]
    );
    ensure!(
        !label.is_empty() && agree(label[0], x[0]) && label[1..].iter().all(|&d| d != 0),
        InvalidArgument,
        "operator hierarchical_sigmoid: Label must have a class for each row of X {:?}, got shape {:?}",
        &x[..],
        &label[..]
    );
    ensure!(
        a.num_classes >= 2,
        InvalidArgument,
        "operator hierarchical_sigmoid: num_classes must be 2 or more, got {}",
        a.num_classes
    );
    if a.remote_prefetch {
        bail!(Unimplemented, "operator hierarchical_sigmoid: remote_prefetch needs a parameter server");
    }
    let length = if cx.has(TABLE) {
        ensure!(cx.has(CODE), NotFound, "operator hierarchical_sigmoid: PathTable needs PathCode, got none");
        let (table, code) = (cx.dims(TABLE)?, cx.dims(CODE)?);
        let fits = table.len() == 2
            && code.len() == 2
            && agree(table[0], x[0])
            && agree(table[0], code[0])
            && agree(table[1], code[1]);
        ensure!(
            fits,
            InvalidArgument,
            "operator hierarchical_sigmoid: PathTable and PathCode must have a row for each row of X {:?}, got {:?} and \
             {:?}",
            &x[..],
            &table[..],
            &code[..]
        );
        table[1]
    } else {
        i64::from(32 - (a.num_classes as u32 - 1).leading_zeros())
    };
    cx.set(OUT, &[x[0], 1], dtype);
    cx.set(PRE, &[x[0], length], dtype);
    // In Paddle this output receives rows of W from a parameter server.
    cx.set(W_OUT, &[0], dtype);
    cx.share_lod(OUT, X);
    Ok(())
}

/// The nodes of each row's path: the row of W, and the branch taken.
struct Paths {
    nodes: Vec<Path>,
    /// The rows of W that occur in the paths.
    rows: Vec<i64>,
    /// Columns of PreOut: the longest path.
    length: usize,
}

impl Paths {
    fn new(cx: &KernelContext, [x, label, table, code]: [InSlot; 4], weights: usize) -> Result<Paths> {
        let op = cx.op.name;
        let (given, rows) = (cx.input(label)?, cx.input(x)?.dims()[0] as usize);
        ensure!(
            given.numel() >= rows,
            InvalidArgument,
            "operator {op}: Label must have a class for each of the {rows} rows of X, got {given:?}"
        );
        // If Label has several columns, its first N numbers in memory are used, as in 2.0.2.
        let mut labels = given.to_i64s()?;
        labels.truncate(rows);
        let classes = cx.attrs::<TreeAttrs>().num_classes as i64;
        ensure!(classes >= 2, InvalidArgument, "operator {op}: num_classes must be 2 or more, got {classes}");
        let (nodes, length) = if cx.has(table) {
            let (paths, codes) = (cx.input(table)?, cx.input(code)?);
            let length = paths.numel().checked_div(labels.len()).unwrap_or(0);
            let (path, side) = (paths.to_i64s()?, codes.to_i64s()?);
            ensure!(
                path.len() == side.len() && path.len() == length * labels.len(),
                InvalidArgument,
                "operator {op}: PathTable and PathCode must have a row for each label, got {paths:?} and {codes:?}"
            );
            (given_paths(&path, &side, length, labels.len()), length)
        } else {
            if let Some(label) = labels.iter().find(|label| !(0..classes).contains(*label)) {
                bail!(InvalidArgument, "operator {op}: Label must hold classes from 0 to below {classes}, got {label}");
            }
            let paths = labels.iter().map(|&label| complete_tree_path(label, classes)).collect();
            (paths, 64 - (classes as u64 - 1).leading_zeros() as usize)
        };
        let mut rows: Vec<i64> = nodes.iter().flatten().map(|&(n, _)| n as i64).collect();
        rows.sort_unstable();
        rows.dedup();
        if let Some(&row) = rows.last().filter(|&&row| row as usize >= weights) {
            bail!(OutOfRange, "operator {op}: node {row} of a path is not among the {weights} rows of W");
        }
        Ok(Paths { nodes, rows, length })
    }
}

fn run_tree(cx: &mut KernelContext) -> Result<()> {
    use tree::{BIAS, CODE, LABEL, OUT, PRE, TABLE, W, X};
    let (x, w) = (cx.input(X)?, cx.input(W)?);
    let (width, weights) = (x.dims()[1] as usize, w.dims()[0] as usize);
    ensure!(
        w.dtype() == x.dtype(),
        InvalidArgument,
        "operator hierarchical_sigmoid: X and W must have the same data type, got {} and {}",
        x.dtype(),
        w.dtype()
    );
    let paths = Paths::new(cx, [X, LABEL, TABLE, CODE], weights)?;
    let bias = if cx.has(BIAS) { Some(of_size(cx, BIAS, weights, x.dtype())?) } else { None };
    let mut pre = cx.take_out(PRE)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let nodes = Nodes { weight: w.data::<T>(), bias: bias.map(|b| b.data::<T>()), width };
        nodes.forward(x.data::<T>(), &paths.nodes, paths.length, pre.data_mut::<T>()?, cx.out_data::<T>(OUT)?);
    }, other => return cx.unsupported(other));
    cx.set(PRE, pre);
    Ok(())
}

fn run_tree_grad(cx: &mut KernelContext) -> Result<()> {
    use tree_grad::{BIAS, CODE, DBIAS, DOUT, DW, DX, LABEL, PRE, TABLE, W, X};
    let (x, w, sparse) = (cx.input(X)?, cx.input(W)?, cx.attrs::<TreeAttrs>().is_sparse);
    ensure!(
        x.rank() == 2 && w.rank() == 2,
        InvalidArgument,
        "operator hierarchical_sigmoid_grad: X and W must have two dimensions, got {x:?} and {w:?}"
    );
    let (width, weights) = (x.dims()[1] as usize, w.dims()[0] as usize);
    let paths = Paths::new(cx, [X, LABEL, TABLE, CODE], weights)?;
    let n = paths.nodes.len();
    let (pre, dout) = (of_size(cx, PRE, n * paths.length, x.dtype())?, of_size(cx, DOUT, n, x.dtype())?);
    ensure!(
        w.dtype() == x.dtype()
            && x.numel() == n * width
            && (!sparse || cx.has(TABLE))
            && (!cx.wants(DBIAS) || cx.has(BIAS)),
        InvalidArgument,
        "operator hierarchical_sigmoid_grad: X and W must be of one data type and fit Label, and is_sparse needs \
         PathTable, got {x:?} and {w:?}"
    );
    // The row that accumulates the gradient of a node's weights.
    let kept = if sparse { paths.rows.len() } else { weights };
    let place = |node: usize| if sparse { paths.rows.partition_point(|&r| r < node as i64) } else { node };
    let mut dw = Tensor::empty(x.dtype(), &[kept as i64, width as i64])?;
    let mut dx = cx.take_out(DX).ok();
    let mut dbias = if cx.wants(DBIAS) { Some(cx.take_out(DBIAS)?) } else { None };
    ensure!(
        dbias.as_ref().is_none_or(|t| t.numel() >= weights && t.dtype() == x.dtype()),
        InvalidArgument,
        "operator hierarchical_sigmoid_grad: Bias must have {weights} elements of X's data type, got {:?}",
        dbias.as_ref().map(Tensor::dims)
    );
    dispatch!(x.dtype(), T in [f32, f64], {
        let nodes = Nodes { weight: w.data::<T>(), bias: None, width };
        let mut grads = NodeGrads {
            weight: dw.data_mut::<T>()?,
            bias: dbias.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
            x: dx.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
        };
        grads.weight.fill(0.0);
        grads.bias.iter_mut().chain(&mut grads.x).for_each(|d| d.fill(0.0));
        nodes.backward(x.data::<T>(), &paths.nodes, (pre.data::<T>(), paths.length), dout.data::<T>(), place, grads);
    }, other => return cx.unsupported(other));
    if let Some(dx) = dx {
        cx.set(DX, dx);
    }
    if let Some(dbias) = dbias {
        cx.set(DBIAS, dbias);
    }
    if sparse {
        cx.set(DW, SelectedRows { rows: Arc::new(paths.rows), height: weights as i64, value: dw });
    } else {
        cx.set(DW, dw);
    }
    Ok(())
}

pub static TREE: Op = Op {
    name: "hierarchical_sigmoid",
    inputs: tree::INS,
    outputs: tree::OUTS,
    dtypes: DTypes::FLOATS,
    attrs: TreeAttrs::FIELDS,
    infer: infer_tree,
    cpu: Kernel::Pure(run_tree),
    grad: Grad::By(&TREE_GRAD),
    ..OP
};

pub static TREE_GRAD: Op = Op {
    name: "hierarchical_sigmoid_grad",
    inputs: tree_grad::INS,
    outputs: tree_grad::OUTS,
    dtypes: DTypes::FLOATS,
    attrs: TreeAttrs::FIELDS,
    infer: |cx| {
        grads_like_inputs(cx)?;
        if cx.attrs::<TreeAttrs>().is_sparse {
            let w = cx.meta(tree_grad::W, 0)?;
            cx.set_meta(tree_grad::DW, 0, Meta { kind: VarKind::Rows, ..w });
        }
        Ok(())
    },
    cpu: Kernel::Pure(run_tree_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&TREE, &TREE_GRAD];
