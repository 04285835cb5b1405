//! Attributes and slots of the matrix products, and the geometry of a call.

use oar_core::attrs;
use oar_core::base::shape::numel;
use oar_core::base::{Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::Op;
use oar_core::{ensure, slots};
use smallvec::smallvec;

attrs! {
    pub struct MulAttrs {
        use_mkldnn: bool = false, x_num_col_dims: i32 = 1, y_num_col_dims: i32 = 1, scale_x: f32 = 1.0,
        scale_y: Vec<f32> = vec![1.0], scale_out: f32 = 1.0, force_fp32_output: bool = false,
    }
    pub struct MatmulAttrs {
        transpose_X: bool = false, transpose_Y: bool = false, alpha: f32 = 1.0, use_mkldnn: bool = false,
        fused_reshape_X: Vec<i32> = vec![], fused_reshape_Y: Vec<i32> = vec![], fused_transpose_X: Vec<i32> = vec![],
        fused_transpose_Y: Vec<i32> = vec![], fused_reshape_Out: Vec<i32> = vec![],
        fused_transpose_Out: Vec<i32> = vec![], use_quantizer: bool = false,
        mkldnn_data_type: Text = "float32".into(), Scale_x: f32 = 1.0, Scale_y: f32 = 1.0, Scale_out: f32 = 1.0,
        force_fp32_output: bool = false,
    }
    pub struct MatmulV2Attrs { trans_x: bool = false, trans_y: bool = false }
}

slots! {
    pub(super) mod forward { X "X", Y "Y" => OUT "Out" }
    pub(super) mod backward { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD" }
    pub(super) mod second { X "X", Y "Y", DOUT "DOut", DDX "DDX".dispensable(), DDY "DDY".dispensable() => DX "DX", DY "DY", DDOUT "DDOut" }
}

impl MatmulAttrs {
    pub(super) fn fused(&self) -> [&Vec<i32>; 6] {
        [
            &self.fused_reshape_X,
            &self.fused_reshape_Y,
            &self.fused_transpose_X,
            &self.fused_transpose_Y,
            &self.fused_reshape_Out,
            &self.fused_transpose_Out,
        ]
    }
}

/// A tensor as matrices [batch.., rows, cols]; `trans`: the product reads each matrix transposed.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub batch: Dims,
    pub rows: i64,
    pub cols: i64,
    pub trans: bool,
}

impl Shape {
    pub fn height(&self) -> i64 {
        if self.trans {
            self.cols
        } else {
            self.rows
        }
    }
    pub fn width(&self) -> i64 {
        if self.trans {
            self.rows
        } else {
            self.cols
        }
    }
    pub(super) fn turned(&self) -> Shape {
        Shape { trans: !self.trans, ..self.clone() }
    }
}

/// The geometry of one product: X, Y and Out as matrices, and the dims of Out.
pub(crate) struct MatmulPlan {
    pub x: Shape,
    pub y: Shape,
    pub out: Shape,
    pub dims: Dims,
    pub alpha: f64,
}

impl MatmulPlan {
    pub fn new(op: &'static Op, attrs: &oar_core::op::Attrs, x: &[i64], y: &[i64]) -> Result<MatmulPlan> {
        let any = attrs.as_any();
        let plan = if let Some(a) = any.downcast_ref::<MatmulV2Attrs>() {
            v2(op, a, x, y)?
        } else if let Some(a) = any.downcast_ref::<MatmulAttrs>() {
            v1(op, a, x, y)?
        } else {
            mul(op, any.downcast_ref().expect("attributes of another operator"), x, y)?
        };
        let (k, l) = (plan.x.width(), plan.y.height());
        ensure!(
            k == l || k < 0 || l < 0,
            InvalidArgument,
            "operator {}: the width of X must equal the height of Y, got {k} and {l} (shapes {x:?} and {y:?})",
            op.name
        );
        Ok(plan)
    }
}

/// Splits dims into batch, rows and columns; a vector is one row (or column).
fn matrix(dims: &[i64], column: bool, trans: bool) -> Shape {
    match dims {
        [n] if column => Shape { batch: Dims::new(), rows: *n, cols: 1, trans },
        [n] => Shape { batch: Dims::new(), rows: 1, cols: *n, trans },
        [batch @ .., rows, cols] => Shape { batch: Dims::from_slice(batch), rows: *rows, cols: *cols, trans },
        [] => Shape { batch: Dims::new(), rows: 1, cols: 1, trans },
    }
}

fn known_rank(op: &Op, x: &[i64], y: &[i64]) -> Result<()> {
    ensure!(
        !x.is_empty() && !y.is_empty(),
        InvalidArgument,
        "operator {}: X and Y must have at least one dimension, got {x:?} and {y:?}",
        op.name
    );
    Ok(())
}

/// Rule of matmul_v2: batches broadcast as in numpy; a vector is never transposed, and its dimension is dropped from
/// the output.
fn v2(op: &Op, a: &MatmulV2Attrs, x: &[i64], y: &[i64]) -> Result<MatmulPlan> {
    known_rank(op, x, y)?;
    let (sx, sy) = (matrix(x, false, a.trans_x && x.len() > 1), matrix(y, true, a.trans_y && y.len() > 1));
    let batch = match (x.len(), y.len()) {
        (..=2, ..=2) => Dims::new(),
        _ => oar_ops_common::broadcast::broadcast_dims(op.name, &sx.batch, &sy.batch, -1)?,
    };
    let out = Shape { rows: sx.height(), cols: sy.width(), trans: false, batch: batch.clone() };
    let mut dims = batch;
    if x.len() > 1 {
        dims.push(out.rows);
    }
    if y.len() > 1 {
        dims.push(out.cols);
    }
    if dims.is_empty() {
        dims.push(1);
    }
    Ok(MatmulPlan { x: sx, y: sy, out, dims, alpha: 1.0 })
}

/// Rule of matmul: the leading sizes form one batch number, equal for X and Y unless one of them is a single matrix.
fn v1(op: &Op, a: &MatmulAttrs, x: &[i64], y: &[i64]) -> Result<MatmulPlan> {
    known_rank(op, x, y)?;
    for fused in a.fused() {
        ensure!(
            fused.is_empty(),
            Unimplemented,
            "operator {}: fused reshapes and transposes are supported by oneDNN only",
            op.name
        );
    }
    let (mut sx, mut sy) = (matrix(x, false, a.transpose_X), matrix(y, true, a.transpose_Y));
    let count = |d: &[i64]| if d.contains(&-1) { -1 } else { numel(d) as i64 };
    let (bx, by) = (count(&sx.batch), count(&sy.batch));
    let (has_x, has_y) = (!sx.batch.is_empty(), !sy.batch.is_empty());
    ensure!(
        bx == by || !has_x || !has_y || bx < 0 || by < 0,
        InvalidArgument,
        "operator {}: the batch sizes of X and Y must be equal, or one a single matrix, got shapes {x:?} and {y:?}",
        op.name
    );
    let (rows, cols) = (sx.height(), sy.width());
    let mut dims = if has_x { sx.batch.clone() } else { sy.batch.clone() };
    let flat: Dims = if has_x || has_y { smallvec![if has_x { bx } else { by }] } else { Dims::new() };
    sx.batch = if has_x { flat.clone() } else { Dims::new() };
    sy.batch = if has_y { flat.clone() } else { Dims::new() };
    // Drop the dimension that was added to a vector.
    if !(x.len() == 1 && rows == 1) {
        dims.push(rows);
    }
    if !(y.len() == 1 && cols == 1) {
        dims.push(cols);
    }
    if dims.is_empty() {
        dims.push(1);
    }
    Ok(MatmulPlan { x: sx, y: sy, out: Shape { batch: flat, rows, cols, trans: false }, dims, alpha: a.alpha as f64 })
}

/// Rule of mul: X and Y are flattened to one matrix each.
fn mul(op: &Op, a: &MulAttrs, x: &[i64], y: &[i64]) -> Result<MatmulPlan> {
    let flat = |name: &str, dims: &[i64], at: i32| -> Result<Shape> {
        ensure!(
            0 < at && (at as usize) < dims.len(),
            InvalidArgument,
            "operator {}: {name}_num_col_dims must be at least 1 and less than the rank of {name}, got {at} for shape \
             {dims:?}",
            op.name
        );
        let count = |d: &[i64]| if d.contains(&-1) { -1 } else { numel(d) as i64 };
        let (rows, cols) = dims.split_at(at as usize);
        Ok(Shape { batch: Dims::new(), rows: count(rows), cols: count(cols), trans: false })
    };
    let (sx, sy) = (flat("x", x, a.x_num_col_dims)?, flat("y", y, a.y_num_col_dims)?);
    let mut dims = Dims::from_slice(&x[..a.x_num_col_dims as usize]);
    dims.extend_from_slice(&y[a.y_num_col_dims as usize..]);
    let out = Shape { batch: Dims::new(), rows: sx.rows, cols: sy.cols, trans: false };
    Ok(MatmulPlan { x: sx, y: sy, out, dims, alpha: 1.0 })
}
