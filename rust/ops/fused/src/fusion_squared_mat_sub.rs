//! fusion_squared_mat_sub: `((X Y)^2 - X^2 Y^2) * scalar`, squares by element.

use super::compose::out;
use super::shapes::alike;
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::ir::Attr;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_ops_common::elements::same_types;

attrs! {
    pub struct SquaredAttrs { scalar: f32 = 1.0 }
}

slots! {
    mod squared {
        X "X", Y "Y"
        => SQUARED_X "SquaredX".intermediate().kernel_allocated(), SQUARED_Y "SquaredY".intermediate().kernel_allocated(), SQUARED_XY "SquaredXY".intermediate().kernel_allocated(),
        OUT "Out".kernel_allocated()
    }
}

fn infer_squared(cx: &mut ShapeContext) -> Result<()> {
    let (op, x, y, dtype) = (cx.op.name, cx.dims(squared::X)?, cx.dims(squared::Y)?, cx.dtype(squared::X)?);
    ensure!(
        x.len() == 2 && y.len() == 2 && alike(x[1], y[0]),
        InvalidArgument,
        "operator {op}: X and Y must be matrices of matching inner sizes, got shapes {:?} and {:?}",
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

pub static TABLE: &[&Op] = &[&SQUARED];
