//! polygon_box_transform: offsets of corners to coordinates.

use super::boxes::BoxFloat;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::polygon;

slots! {
    mod io { INPUT "Input" => OUTPUT "Output" }
}

fn infer_polygon(cx: &mut ShapeContext) -> Result<()> {
    let d = cx.dims(io::INPUT)?;
    ensure!(
        d.len() == 4 && (d[1] < 0 || d[1] % 2 == 0),
        InvalidArgument,
        "operator {}: Input must have four dimensions, the second of an even size, got shape {:?}",
        cx.op.name,
        &d[..]
    );
    like_first(cx)
}

fn run_polygon<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(io::INPUT)?;
    let (height, width) = (x.dims()[2] as usize, x.dims()[3] as usize);
    let x = x.data::<T>();
    polygon::from_offsets(x, height, width, cx.out_data::<T>(io::OUTPUT)?);
    Ok(())
}

pub static POLYGON_BOX_TRANSFORM: Op = Op {
    name: "polygon_box_transform",
    inputs: io::INS,
    outputs: io::OUTS,
    dtypes: DTypes::FLOATS,
    infer: infer_polygon,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(io::INPUT)?.dtype();
        dispatch!(dtype, T in [f32, f64], run_polygon::<T>(cx), other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&POLYGON_BOX_TRANSFORM];
