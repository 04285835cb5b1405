//! Lookups in tables of Baidu's PSLib and BoxPS, and pushes of their gradients. 2.0.2's public sources only call these
//! libraries. The operators have shapes and gradients, so that Programs with them can be read, built and rewritten;
//! running one is an error that names the library.

use oar_core::base::{DType, Result};
use oar_core::ir::desc::OpDesc;
use oar_core::ir::names::grad_name;
use oar_core::ir::BlockNode;
use oar_core::op::infer::Meta;
use oar_core::op::run::not_there;
use oar_core::op::{Grad, InSlot, Kernel, Op, OutSlot, ShapeContext, OP};
use oar_core::{attrs, ensure, slots};
use std::collections::HashSet;
use std::sync::Arc;

const PSLIB: &str =
    "servers of PSLib's tables: fleet.init_worker of fluid.incubate.fleet.parameter_server.pslib replaces the operator by \
     those for this package's servers";
const BOX: &str =
    "Baidu's BoxPS and its GPUs, which are not public; fluid.layers.embedding looks up tables that are here";

attrs! {
    pub struct SparseAttrs {
        EmbeddingDim: i32 = 11, TableId: i32 = 0, AccessorClass: String = String::new(), CtrLabelName: String = String::new(),
        PaddingId: i32 = 0, ScaleSparseGrad: bool = true, InputNames: Vec<String> = vec![], is_distributed: bool = true,
    }
    pub struct DenseAttrs { TableId: i32 = -1, ScaleDataNorm: f32 = -1.0, InputNames: Vec<String> = vec![] }
    pub struct BoxAttrs { is_sparse: bool = false, is_distributed: bool = false, size: i32 = 1 }
    pub struct ExtendedAttrs { emb_size: i32 = 1, emb_extended_size: i32 = 128 }
}

slots! {
    mod pull { IDS "Ids".duplicable(), W "W".duplicable() => OUT "Out".duplicable().kernel_allocated() }
    mod push { IDS "Ids".duplicable(), DOUT "Out@GRAD".duplicable(), W "W".duplicable() => DOUT_AGAIN "Out@GRAD".duplicable().kernel_allocated() }
    mod dense { IDS "Ids".duplicable().meta_only() => }
    mod pull_box { W "W".dispensable(), IDS "Ids".duplicable() => OUT "Out".duplicable().kernel_allocated() }
    mod push_box { IDS "Ids".duplicable(), DOUT "Out@GRAD".duplicable() => DOUT_AGAIN "Out@GRAD".duplicable().kernel_allocated() }
    mod extended { IDS "Ids".duplicable() => OUT "Out".duplicable().kernel_allocated(), MORE "OutExtend".duplicable().kernel_allocated() }
    mod push_extended {
        IDS "Ids".duplicable(), DOUT "Out@GRAD".duplicable(), DMORE "OutExtend@GRAD".duplicable() => DOUT_AGAIN "Out@GRAD".duplicable().kernel_allocated()
    }
}

/// Each result has the shape of its ids, with `width` elements in place of the last dimension (which is 1), or after
/// it.
fn found(cx: &mut ShapeContext, ids: InSlot, out: OutSlot, width: i32, behind: bool) -> Result<()> {
    let (op, n) = (cx.op.name, cx.count(ids));
    ensure!(n > 0, InvalidArgument, "operator {op}: input 'Ids' must not be empty");
    ensure!(width > 0, InvalidArgument, "operator {op}: the width of a row must be above 0, got {width}");
    cx.set_outs(out, n)?;
    for i in 0..n {
        let of = cx.meta(ids, i)?;
        let mut dims = of.dims.clone();
        if !behind {
            let last = dims.pop();
            ensure!(
                matches!(last, Some(1 | -1)),
                InvalidArgument,
                "operator {op}: the last dimension of 'Ids' must be 1, got shape {:?} in place {i}",
                &of.dims[..]
            );
        }
        dims.push(width as i64);
        cx.set_meta(out, i, Meta { dims, dtype: DType::F32, ..of });
    }
    Ok(())
}

/// The push operator: it reads the gradients of the results, and writes them unchanged.
fn push(name: &'static str, read: &[&str], fwd: &OpDesc) -> Result<Vec<OpDesc>> {
    let mut g = OpDesc::new(name);
    let grads = |slot: &str| fwd.output(slot).unwrap_or(&[]).iter().map(|n| grad_name(n)).collect::<Vec<_>>();
    for slot in read {
        match slot.strip_suffix("@GRAD") {
            Some(of) => g.set_input(slot, grads(of)),
            None => g.set_input(slot, fwd.input(slot).unwrap_or(&[]).to_vec()),
        }
    }
    g.set_output("Out@GRAD", grads("Out"));
    g.attrs = fwd.attrs.clone();
    Ok(vec![g])
}

type NoGrad<'a> = &'a HashSet<String>;

macro_rules! sparse {
    ($(($pull:ident, $pull_name:literal, $push:ident, $push_name:literal, $behind:literal)),*) => {$(
        pub static $pull: Op = Op {
            name: $pull_name,
            inputs: pull::INS,
            outputs: pull::OUTS,
            attrs: SparseAttrs::FIELDS,
            infer: |cx| found(cx, pull::IDS, pull::OUT, cx.attrs::<SparseAttrs>().EmbeddingDim, $behind),
            cpu: Kernel::Host(not_there),
            needs: PSLIB,
            grad: Grad::Program(|fwd, _: NoGrad, _: &[Arc<BlockNode>]| push($push_name, &["Ids", "Out@GRAD", "W"], fwd)),
            ..OP
        };
        pub static $push: Op = Op {
            name: $push_name,
            inputs: push::INS,
            outputs: push::OUTS,
            attrs: SparseAttrs::FIELDS,
            cpu: Kernel::Host(not_there),
            needs: PSLIB,
            ..OP
        };
    )*};
}

sparse! {
    (PULL_SPARSE, "pull_sparse", PUSH_SPARSE, "push_sparse", false),
    (PULL_SPARSE_V2, "pull_sparse_v2", PUSH_SPARSE_V2, "push_sparse_v2", true)
}

pub static PUSH_DENSE: Op = Op {
    name: "push_dense",
    inputs: dense::INS,
    attrs: DenseAttrs::FIELDS,
    cpu: Kernel::Host(not_there),
    needs: PSLIB,
    ..OP
};

pub static PULL_BOX_SPARSE: Op = Op {
    name: "pull_box_sparse",
    inputs: pull_box::INS,
    outputs: pull_box::OUTS,
    attrs: BoxAttrs::FIELDS,
    infer: |cx| found(cx, pull_box::IDS, pull_box::OUT, cx.attrs::<BoxAttrs>().size, false),
    cpu: Kernel::Host(not_there),
    needs: BOX,
    grad: Grad::Program(|fwd, _, _| push("push_box_sparse", &["Ids", "Out@GRAD"], fwd)),
    ..OP
};

pub static PUSH_BOX_SPARSE: Op = Op {
    name: "push_box_sparse",
    inputs: push_box::INS,
    outputs: push_box::OUTS,
    attrs: BoxAttrs::FIELDS,
    cpu: Kernel::Host(not_there),
    needs: BOX,
    ..OP
};

pub static PULL_BOX_EXTENDED_SPARSE: Op = Op {
    name: "pull_box_extended_sparse",
    inputs: extended::INS,
    outputs: extended::OUTS,
    attrs: ExtendedAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<ExtendedAttrs>();
        found(cx, extended::IDS, extended::OUT, a.emb_size, false)?;
        found(cx, extended::IDS, extended::MORE, a.emb_extended_size, false)
    },
    cpu: Kernel::Host(not_there),
    needs: BOX,
    grad: Grad::Program(|fwd, _, _| push("push_box_extended_sparse", &["Ids", "Out@GRAD", "OutExtend@GRAD"], fwd)),
    ..OP
};

pub static PUSH_BOX_EXTENDED_SPARSE: Op = Op {
    name: "push_box_extended_sparse",
    inputs: push_extended::INS,
    outputs: push_extended::OUTS,
    attrs: ExtendedAttrs::FIELDS,
    cpu: Kernel::Host(not_there),
    needs: BOX,
    ..OP
};

pub static TABLE: &[&Op] = &[
    &PULL_SPARSE,
    &PUSH_SPARSE,
    &PULL_SPARSE_V2,
    &PUSH_SPARSE_V2,
    &PUSH_DENSE,
    &PULL_BOX_SPARSE,
    &PUSH_BOX_SPARSE,
    &PULL_BOX_EXTENDED_SPARSE,
    &PUSH_BOX_EXTENDED_SPARSE,
];
