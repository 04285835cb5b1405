//! Matrix products with what stands around them (fusion_repeated_fc_relu, fusion_squared_mat_sub), and tensors that are
//! transposed, flattened and joined (fusion_transpose_flatten_concat).

use super::compose::{out, run};
use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::ir::Attr;
use oar_core::op::{InSlot, Kernel, KernelContext, Meta, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_ops_common::elements::same_types;

attrs! {
    pub struct SquaredAttrs { scalar: f32 = 1.0 }
    pub struct FlattenAttrs { trans_axis: Vec<i32>, flatten_axis: i32, concat_axis: i32 }
}

slots! {
    mod repeated { X "X", W "W".duplicable(), BIAS "Bias".duplicable() => RELU_OUT "ReluOut".duplicable().intermediate().kernel_allocated(), OUT "Out".kernel_allocated() }
    mod squared {
        X "X", Y "Y"
        => SQUARED_X "SquaredX".intermediate().kernel_allocated(), SQUARED_Y "SquaredY".intermediate().kernel_allocated(), SQUARED_XY "SquaredXY".intermediate().kernel_allocated(),
        OUT "Out".kernel_allocated()
    }
    mod flatten { X "X".duplicable() => OUT "Out".kernel_allocated() }
}

fn alike(a: i64, b: i64) -> bool {
    a == b || a < 0 || b < 0
}

fn metas(cx: &ShapeContext, slot: InSlot) -> Result<Vec<Meta>> {
    (0..cx.count(slot)).map(|i| cx.meta(slot, i)).collect()
}

fn infer_repeated(cx: &mut ShapeContext) -> Result<()> {
    let (op, x, dtype) = (cx.op.name, cx.dims(repeated::X)?, cx.dtype(repeated::X)?);
    let (w, b) = (metas(cx, repeated::W)?, metas(cx, repeated::BIAS)?);
    ensure!(
        x.len() == 2 && w.len() > 1 && w.len() == b.len(),
        InvalidArgument,
        "operator {op}: X must have 2 dimensions, and there must be more than one W and as many Biases, got shape {:?}, {} \
         and {}",
        &x[..],
        w.len(),
        b.len()
    );
    cx.set_outs(repeated::RELU_OUT, w.len() - 1)?;
    let mut columns = x[1];
    for (i, (w, b)) in w.iter().zip(&b).enumerate() {
        let count = if b.dims.iter().any(|&d| d < 0) { -1 } else { b.dims.iter().product() };
        ensure!(
            w.dims.len() == 2 && alike(w.dims[0], columns) && alike(count, w.dims[1]),
            InvalidArgument,
            "operator {op}: W[{i}] must have {columns} rows, and Bias[{i}] a number for each of its columns, got shapes \
             {:?} and {:?}",
            &w.dims[..],
            &b.dims[..]
        );
        columns = w.dims[1];
        if i + 1 < cx.count(repeated::W) {
            cx.set_nth(repeated::RELU_OUT, i, &[x[0], columns], dtype);
        }
    }
    cx.set(repeated::OUT, &[x[0], columns], dtype);
    cx.share_lod(repeated::OUT, repeated::X);
    Ok(())
}

fn run_repeated(cx: &mut KernelContext) -> Result<()> {
    let (x, w, b) = (cx.input(repeated::X)?, cx.inputs(repeated::W)?, cx.inputs(repeated::BIAS)?);
    let mut t = x.clone();
    for (i, (w, b)) in w.iter().zip(&b).enumerate() {
        let bias = b.share()?.reshaped(&[b.numel() as i64]);
        t = out(
            "fc",
            &[("Input", &t), ("W", w), ("Bias", &bias)],
            &[("activation_type", Attr::String("relu".into()))],
        )?;
        if i < cx.n_outs(repeated::RELU_OUT) {
            cx.set_nth(repeated::RELU_OUT, i, t.clone());
        }
    }
    cx.set(repeated::OUT, t.with_lod(x.lod.clone()));
    Ok(())
}

fn infer_squared(cx: &mut ShapeContext) -> Result<()> {
    let (op, x, y, dtype) = (cx.op.name, cx.dims(squared::X)?, cx.dims(squared::Y)?, cx.dtype(squared::X)?);
    ensure!(
        x.len() == 2 && y.len() == 2 && alike(x[1], y[0]),
        InvalidArgument,
        "operator {op}: X and Y must be matrices that can be multiplied, got shapes {:?} and {:?}",
        &x[..],
        &y[..]
    );
    cx.set(squared::SQUARED_X, &x, dtype);
    cx.set(squared::SQUARED_Y, &y, dtype);
    for slot in [squared::SQUARED_XY, squared::OUT] {
        cx.set(slot, &[x[0], y[1]], dtype);
    }
    Ok(())
}

/// ((X Y)^2 - X^2 Y^2) * scalar, with squares of the elements.
fn run_squared(cx: &mut KernelContext) -> Result<()> {
    let (x, y, scalar) = (cx.input(squared::X)?, cx.input(squared::Y)?, cx.attrs::<SquaredAttrs>().scalar);
    same_types(cx.op.name, x, &[y])?;
    let square = |t: &Tensor| out("square", &[("X", t)], &[]);
    let product = |x: &Tensor, y: &Tensor| out("matmul", &[("X", x), ("Y", y)], &[]);
    let (xx, yy, xy) = (square(x)?, square(y)?, square(&product(x, y)?)?);
    let difference = out("elementwise_sub", &[("X", &xy), ("Y", &product(&xx, &yy)?)], &[])?;
    let result = out("scale", &[("X", &difference)], &[("scale", Attr::Float(scalar))])?;
    for (slot, t) in
        [(squared::SQUARED_X, xx), (squared::SQUARED_Y, yy), (squared::SQUARED_XY, xy), (squared::OUT, result)]
    {
        cx.set(slot, t);
    }
    Ok(())
}

/// Checks the axes; the two sizes of a tensor that is transposed and flattened, -1 where not known.
fn flat(op: &str, a: &FlattenAttrs, x: &[i64]) -> Result<[i64; 2]> {
    let mut sorted = a.trans_axis.clone();
    sorted.sort_unstable();
    ensure!(
        sorted.iter().enumerate().all(|(i, &axis)| i as i32 == axis) && sorted.len() == x.len(),
        InvalidArgument,
        "operator {op}: trans_axis must name each axis of X (shape {x:?}) once, got {:?}",
        a.trans_axis
    );
    ensure!(
        (0..=x.len() as i32).contains(&a.flatten_axis) && (0..=1).contains(&a.concat_axis),
        InvalidArgument,
        "operator {op}: flatten_axis must be in [0, {}] and concat_axis 0 or 1, got {} and {}",
        x.len(),
        a.flatten_axis,
        a.concat_axis
    );
    let dims: Vec<i64> = a.trans_axis.iter().map(|&axis| x[axis as usize]).collect();
    let (left, right) = dims.split_at(a.flatten_axis as usize);
    Ok([left, right].map(|d| if d.iter().any(|&d| d < 0) { -1 } else { d.iter().product() }))
}

fn infer_flatten(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<FlattenAttrs>());
    let xs = metas(cx, flatten::X)?;
    ensure!(!xs.is_empty(), InvalidArgument, "operator {op}: X must have at least one tensor");
    let mut total = flat(op, a, &xs[0].dims)?;
    let (along, other) = (a.concat_axis as usize, 1 - a.concat_axis as usize);
    for x in &xs[1..] {
        let next = flat(op, a, &x.dims)?;
        ensure!(
            alike(next[other], total[other]),
            InvalidArgument,
            "operator {op}: flattened tensors must have the same size in axis {other}, got {} and {}",
            total[other],
            next[other]
        );
        total[along] = if total[along] < 0 || next[along] < 0 { -1 } else { total[along] + next[along] };
    }
    cx.set(flatten::OUT, &total, xs[0].dtype);
    Ok(())
}

fn run_flatten(cx: &mut KernelContext) -> Result<()> {
    let (op, a, xs) = (cx.op.name, cx.attrs::<FlattenAttrs>(), cx.inputs(flatten::X)?);
    let mut parts = Vec::with_capacity(xs.len());
    for x in &xs {
        let dims = Dims::from_slice(&flat(op, a, x.dims())?);
        let moved = run("transpose2", &[("X", *x)], &[("axis", Attr::Ints(a.trans_axis.clone()))])?.take("Out")?;
        parts.push(moved.reshaped(&dims));
    }
    let ins: Vec<(&str, &Tensor)> = parts.iter().map(|t| ("X", t)).collect();
    cx.set(flatten::OUT, out("concat", &ins, &[("axis", Attr::Int(a.concat_axis))])?);
    Ok(())
}

pub static REPEATED: Op = Op {
    name: "fusion_repeated_fc_relu",
    inputs: repeated::INS,
    outputs: repeated::OUTS,
    dtypes: DTypes::FLOATS,
    infer: infer_repeated,
    cpu: Kernel::Pure(run_repeated),
    ..OP
};

pub static SQUARED: Op = Op {
    name: "fusion_squared_mat_sub",
    inputs: squared::INS,
    outputs: squared::OUTS,
    attrs: SquaredAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_squared,
    cpu: Kernel::Pure(run_squared),
    ..OP
};

pub static FLATTEN: Op = Op {
    name: "fusion_transpose_flatten_concat",
    inputs: flatten::INS,
    outputs: flatten::OUTS,
    attrs: FlattenAttrs::FIELDS,
    infer: infer_flatten,
    cpu: Kernel::Pure(run_flatten),
    ..OP
};

pub static TABLE: &[&Op] = &[&REPEATED, &SQUARED, &FLATTEN];
