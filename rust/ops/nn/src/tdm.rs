//! tdm_child (children of tree nodes) and tdm_sampler (nodes of each leaf's path, with negative samples of the same
//! layers).

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Error, Result};
use oar_core::op::{Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::generator::with_engine;
use oar_core::{bail, ensure, err, slots};
use oar_kernels::nn::tdm::{children, draw, PathError, TreeLayers};
use oar_kernels::random::Mt64;
use oar_ops_common::index::index_of;

attrs! {
    pub struct ChildAttrs { child_nums: i32, dtype: i32 = 2 }
    pub struct SamplerAttrs {
        output_positive: bool = true, neg_samples_num_list: Vec<i32> = vec![], layer_offset_lod: Vec<i32> = vec![],
        seed: i32 = 0, dtype: i32 = 2,
    }
}

slots! {
    /// A row of TreeInfo is item, layer, parent, then the children; 0: none.
    mod child { X "X", TREE "TreeInfo" => CHILD "Child", MASK "LeafMask" }
    mod sampler { X "X", TRAVEL "Travel", LAYER "Layer" => OUT "Out", LABELS "Labels".dispensable(), MASK "Mask" }
}

const INDICES: DTypes = DTypes::of(&[DType::I32, DType::I64]);

fn out_type(op: &str, dtype: i32) -> Result<DType> {
    match DType::from_proto(dtype) {
        Some(d @ (DType::I32 | DType::I64)) => Ok(d),
        _ => bail!(InvalidArgument, "operator {op}: dtype must be that of int32 (2) or int64 (3), got {dtype}"),
    }
}

fn write(cx: &mut KernelContext, slot: OutSlot, values: &[i64]) -> Result<()> {
    if !cx.wants(slot) {
        return Ok(());
    }
    match cx.out(slot)?.dtype() {
        DType::I32 => cx.out_data::<i32>(slot)?.iter_mut().zip(values).for_each(|(o, &v)| *o = v as i32),
        _ => cx.out_data::<i64>(slot)?.copy_from_slice(values),
    }
    Ok(())
}

fn infer_child(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<ChildAttrs>());
    let (mut dims, tree) = (cx.dims(child::X)?, cx.dims(child::TREE)?);
    ensure!(a.child_nums > 0, InvalidArgument, "operator {op}: child_nums must be positive, got {}", a.child_nums);
    ensure!(
        tree.len() == 2 && (tree[1] < 0 || tree[1] >= 3 + a.child_nums as i64),
        InvalidArgument,
        "operator {op}: TreeInfo must have 2 dimensions and columns for item, layer, parent and {} children, got shape \
         {:?}",
        a.child_nums,
        &tree[..]
    );
    dims.push(a.child_nums as i64);
    let dtype = out_type(op, a.dtype)?;
    for slot in [child::CHILD, child::MASK] {
        cx.set(slot, &dims, dtype);
        cx.share_lod(slot, child::X);
    }
    Ok(())
}

fn run_child(cx: &mut KernelContext) -> Result<()> {
    let (op, count) = (cx.op.name, cx.attrs::<ChildAttrs>().child_nums as usize);
    let tree = cx.input(child::TREE)?;
    let (nodes, columns) = (tree.dims()[0], tree.dims()[1] as usize);
    let (x, tree) = (index_of(op, cx.input(child::X)?)?, index_of(op, tree)?);
    let (children, leaves) = children(&tree, columns, &x, count)
        .map_err(|node| err!(InvalidArgument, "operator {op}: nodes must be in [0, {nodes}), got {node}"))?;
    write(cx, child::CHILD, &children)?;
    write(cx, child::MASK, &leaves)
}

fn infer_sampler(cx: &mut ShapeContext) -> Result<()> {
    let (op, a, x) = (cx.op.name, cx.attrs::<SamplerAttrs>(), cx.dims(sampler::X)?);
    ensure!(!x.is_empty(), InvalidArgument, "operator {op}: X must have at least one dimension");
    ensure!(
        a.neg_samples_num_list.iter().all(|&n| n >= 0),
        InvalidArgument,
        "operator {op}: neg_samples_num_list must not have negative numbers, got {:?}",
        a.neg_samples_num_list
    );
    let ends = &a.layer_offset_lod;
    ensure!(
        ends.len() == a.neg_samples_num_list.len() + 1 && ends.is_sorted() && ends[0] >= 0,
        InvalidArgument,
        "operator {op}: layer_offset_lod must ascend and have one more number than neg_samples_num_list, got {ends:?} and \
         {:?}",
        a.neg_samples_num_list
    );
    // A layer of n nodes has n - 1 candidates.
    for (layer, (&n, w)) in a.neg_samples_num_list.iter().zip(ends.windows(2)).enumerate() {
        ensure!(
            n < w[1] - w[0],
            InvalidArgument,
            "operator {op}: layer {layer} has {} nodes, from which {n} other than the leaf's own cannot be drawn",
            w[1] - w[0]
        );
    }
    let own = i64::from(a.output_positive);
    let width: i64 = a.neg_samples_num_list.iter().map(|&n| n as i64 + own).sum();
    let dtype = out_type(op, a.dtype)?;
    for slot in [sampler::OUT, sampler::LABELS, sampler::MASK] {
        cx.set(slot, &[x[0], width], dtype);
    }
    Ok(())
}

fn refused(op: &str, layers: &TreeLayers, leaves: i64, e: PathError) -> Error {
    match e {
        PathError::Leaf(leaf) => {
            err!(InvalidArgument, "operator {op}: leaves must be in [0, {leaves}), got {leaf}")
        }
        PathError::Node { layer, own, others } => err!(
            InvalidArgument,
            "operator {op}: the node of a leaf in layer {layer} must be in [{}, {}] with {} others in the layer, got {own} \
             with {others}",
            layers.ends[layer],
            layers.ends[layer + 1],
            layers.counts[layer]
        ),
        PathError::Layer(layer) => err!(
            InvalidArgument,
            "operator {op}: the nodes of layer {layer} must be at most {}, got {:?}",
            layers.ends[layer + 1],
            layers.nodes[layer].iter().max()
        ),
    }
}

fn run_sampler(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<SamplerAttrs>());
    let (x, travel, layer) = (cx.input(sampler::X)?, cx.input(sampler::TRAVEL)?, cx.input(sampler::LAYER)?);
    ensure!(
        travel.dtype() == layer.dtype(),
        InvalidArgument,
        "operator {op}: Travel and Layer must have the same data type, got {} and {}",
        travel.dtype(),
        layer.dtype()
    );
    let (ends, counts) = (&a.layer_offset_lod, &a.neg_samples_num_list);
    let layers = counts.len();
    ensure!(
        travel.rank() == 2 && travel.dims()[1] == layers as i64 && *ends.last().unwrap_or(&0) as usize <= layer.numel(),
        InvalidArgument,
        "operator {op}: Travel must have a column for each of the {layers} layers and Layer the {:?} nodes of \
         layer_offset_lod, got {travel:?} and {layer:?}",
        ends.last()
    );
    let rows = x.dims()[0] as usize;
    ensure!(
        x.numel() == rows,
        InvalidArgument,
        "operator {op}: X must have one leaf per row, got shape {:?}",
        x.dims()
    );
    let leaves = travel.dims()[0];
    let (x, travel, layer) = (index_of(op, x)?, index_of(op, travel)?, index_of(op, layer)?);
    let nodes: Vec<&[i64]> = ends.windows(2).map(|w| &layer[w[0] as usize..w[1] as usize]).collect();
    let layers_of = TreeLayers { nodes, ends, counts };
    // Check everything before the first draw.
    layers_of.check(&travel, leaves, &x).map_err(|e| refused(op, &layers_of, leaves, e))?;
    // With a seed each layer has its own generator.
    let found = if a.seed == 0 {
        with_engine(0, |engine| {
            layers_of.sample(&travel, &x, a.output_positive, |_, layer, own, count| draw(engine, layer, own, count))
        })
    } else {
        let mut engines: Vec<Mt64> = (0..layers).map(|_| Mt64::new(a.seed as u32 as u64)).collect();
        layers_of
            .sample(&travel, &x, a.output_positive, |l, layer, own, count| draw(&mut engines[l], layer, own, count))
    };
    write(cx, sampler::OUT, &found.nodes)?;
    write(cx, sampler::LABELS, &found.labels)?;
    write(cx, sampler::MASK, &found.mask)
}

pub static CHILD: Op = Op {
    name: "tdm_child",
    inputs: child::INS,
    outputs: child::OUTS,
    attrs: ChildAttrs::FIELDS,
    dtypes: INDICES,
    infer: infer_child,
    cpu: Kernel::Pure(run_child),
    ..OP
};

pub static SAMPLER: Op = Op {
    name: "tdm_sampler",
    inputs: sampler::INS,
    outputs: sampler::OUTS,
    attrs: SamplerAttrs::FIELDS,
    dtypes: INDICES,
    infer: infer_sampler,
    cpu: Kernel::Random(run_sampler),
    ..OP
};

pub static TABLE: &[&Op] = &[&CHILD, &SAMPLER];
