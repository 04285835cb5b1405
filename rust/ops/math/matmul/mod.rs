//! Matrix products: mul, matmul, matmul_v2, their gradients and second gradients. All are calls of `gemm` that read
//! transposes in place.

mod batches;
mod complex;
use batches::product;
use oar_core::attrs;
use oar_core::base::shape::numel;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Infer, Kernel, Op, Run, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::gemm;
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
    mod forward { X "X", Y "Y" => OUT "Out" }
    mod backward { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD" }
    mod second { X "X", Y "Y", DOUT "DOut", DDX "DDX".opt(), DDY "DDY".opt() => DX "DX", DY "DY", DDOUT "DDOut" }
}

impl MatmulAttrs {
    fn fused(&self) -> [&Vec<i32>; 6] {
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

/// A tensor seen as matrices [batch.., rows, cols]; `trans` says that the product reads each one transposed.
#[derive(Clone, Debug)]
pub(super) struct Shape {
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
    fn turned(&self) -> Shape {
        Shape { trans: !self.trans, ..self.clone() }
    }
}

/// The geometry of one product: what X, Y and Out are as matrices, and the dims of Out.
pub(super) struct Plan {
    pub x: Shape,
    pub y: Shape,
    pub out: Shape,
    dims: Dims,
    pub alpha: f64,
}

impl Plan {
    fn of(op: &'static Op, attrs: &oar_core::op::Attrs, x: &[i64], y: &[i64]) -> Result<Plan> {
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

/// The last two sizes, a vector being one row (or column); the sizes before them.
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

/// Batches broadcast as in numpy; a vector is never transposed, and its dimension is not in the result.
fn v2(op: &Op, a: &MatmulV2Attrs, x: &[i64], y: &[i64]) -> Result<Plan> {
    known_rank(op, x, y)?;
    let (sx, sy) = (matrix(x, false, a.trans_x && x.len() > 1), matrix(y, true, a.trans_y && y.len() > 1));
    let batch = match (x.len(), y.len()) {
        (..=2, ..=2) => Dims::new(),
        _ => oar_core::op::parts::broadcast::broadcast_dims(op.name, &sx.batch, &sy.batch, -1)?,
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
    Ok(Plan { x: sx, y: sy, out, dims, alpha: 1.0 })
}

/// Batches are one number: that of X and Y must be equal, or one of them a single matrix.
fn v1(op: &Op, a: &MatmulAttrs, x: &[i64], y: &[i64]) -> Result<Plan> {
    known_rank(op, x, y)?;
    for fused in a.fused() {
        ensure!(fused.is_empty(), Unimplemented, "operator {}: fused reshapes and transposes are oneDNN's", op.name);
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
    // The dimension that a vector was given is taken away again.
    if !(x.len() == 1 && rows == 1) {
        dims.push(rows);
    }
    if !(y.len() == 1 && cols == 1) {
        dims.push(cols);
    }
    if dims.is_empty() {
        dims.push(1);
    }
    Ok(Plan { x: sx, y: sy, out: Shape { batch: flat, rows, cols, trans: false }, dims, alpha: a.alpha as f64 })
}

/// X and Y flattened to one matrix each.
fn mul(op: &Op, a: &MulAttrs, x: &[i64], y: &[i64]) -> Result<Plan> {
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
    Ok(Plan { x: sx, y: sy, out, dims, alpha: 1.0 })
}

// Operators

/// Rows, columns and inner size of the common case: two matrices, neither transposed nor scaled. It needs no plan, whose
/// making a small product would feel.
fn plain(attrs: &oar_core::op::Attrs, x: &[i64], y: &[i64]) -> Option<(i64, i64, i64)> {
    let any = attrs.as_any();
    let as_they_lie = if let Some(a) = any.downcast_ref::<MatmulV2Attrs>() {
        !a.trans_x && !a.trans_y
    } else if let Some(a) = any.downcast_ref::<MatmulAttrs>() {
        !a.transpose_X && !a.transpose_Y && a.alpha == 1.0 && a.fused().iter().all(|f| f.is_empty())
    } else {
        any.downcast_ref::<MulAttrs>().is_some_and(|a| (a.x_num_col_dims, a.y_num_col_dims) == (1, 1))
    };
    match (x, y) {
        (&[rows, k], &[l, cols]) if k == l && as_they_lie => Some((rows, cols, k)),
        _ => None,
    }
}

fn infer(cx: &mut Infer) -> Result<()> {
    let (x, y) = (cx.dims(forward::X)?, cx.dims(forward::Y)?);
    let dims = match plain(cx.attrs, &x, &y) {
        Some((rows, cols, _)) => smallvec![rows, cols],
        None => Plan::of(cx.op, cx.attrs, &x, &y)?.dims,
    };
    let dtype = cx.dtype(forward::X)?.meet(cx.dtype(forward::Y)?)?;
    cx.set(forward::OUT, &dims, dtype);
    cx.share_lod(forward::OUT, forward::X);
    Ok(())
}

/// The data type of all inputs; if one is complex, that in which they meet.
fn same_dtype(cx: &Run, slots: &[InSlot]) -> Result<DType> {
    let mut dtype = cx.input(slots[0])?.dtype();
    for &s in &slots[1..] {
        let Some(t) = cx.opt(s) else { continue };
        dtype = dtype.meet(t.dtype())?;
        if dtype.is_complex() {
            continue;
        }
        ensure!(
            t.dtype() == dtype,
            InvalidArgument,
            "operator {}: all inputs must have one data type, got {dtype} and {}",
            cx.op.name,
            t.dtype()
        );
    }
    Ok(dtype)
}

fn run(cx: &mut Run) -> Result<()> {
    let dtype = same_dtype(cx, &[forward::X, forward::Y])?;
    let (x, y) = (cx.input(forward::X)?, cx.input(forward::Y)?);
    let p = Plan::of(cx.op, cx.attrs, x.dims(), y.dims())?;
    if dtype.is_complex() {
        return complex::run(cx, &p, dtype);
    }
    product(p.alpha, (x, &p.x), (y, &p.y), (cx.out(forward::OUT)?, &p.out), false)
}

/// The short way: two matrices of one of the common types, as they lie.
fn fast_path(attrs: &oar_core::op::Attrs, ins: &[&Tensor]) -> Option<Tensor> {
    let &[x, y] = ins else { return None };
    let (rows, cols, inner) = plain(attrs, x.dims(), y.dims())?;
    // What takes longer had better give up the GIL.
    let work = rows.checked_mul(cols)?.checked_mul(inner)?;
    if x.dtype() != y.dtype() || work > 1 << 20 {
        return None;
    }
    let mut out = Tensor::empty(x.dtype(), &[rows, cols]).ok()?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let sizes = (rows as usize, cols as usize, inner as usize);
        gemm::matmul::<T>(sizes, x.data(), false, y.data(), false, out.data_mut().ok()?);
    }, _other => return None);
    Some(out.with_lod(x.lod.clone()))
}

/// The gradient of X given that of Out: `dOut op(Y)^T`, or its transpose where X is read transposed.
pub(super) fn grad_x(p: &Plan, dout: &Tensor, y: &Tensor, dx: &mut Tensor) -> Result<()> {
    if p.x.trans {
        product(p.alpha, (y, &p.y), (dout, &p.out.turned()), (dx, &p.x), false)
    } else {
        product(p.alpha, (dout, &p.out), (y, &p.y.turned()), (dx, &p.x), false)
    }
}

/// The gradient of Y: `op(X)^T dOut`, or its transpose where Y is read transposed.
pub(super) fn grad_y(p: &Plan, dout: &Tensor, x: &Tensor, dy: &mut Tensor) -> Result<()> {
    if p.y.trans {
        product(p.alpha, (dout, &p.out.turned()), (x, &p.x), (dy, &p.y), false)
    } else {
        product(p.alpha, (x, &p.x.turned()), (dout, &p.out), (dy, &p.y), false)
    }
}

/// `dOut` must have the shape that the product of X and Y has.
pub(super) fn checked(cx: &Run, p: &Plan, dout: &Tensor) -> Result<()> {
    ensure!(
        dout.numel() == numel(&p.dims),
        InvalidArgument,
        "operator {}: the gradient of Out must have shape {:?}, got {:?}",
        cx.op.name,
        &p.dims[..],
        dout.dims()
    );
    Ok(())
}

fn run_backward(cx: &mut Run) -> Result<()> {
    use backward::{DOUT, DX, DY, X, Y};
    let dtype = same_dtype(cx, &[X, Y, DOUT])?;
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let p = Plan::of(cx.op, cx.attrs, x.dims(), y.dims())?;
    if dtype.is_complex() {
        return complex::run_backward(cx, &p, dtype);
    }
    checked(cx, &p, dout)?;
    if cx.wants(DX) {
        grad_x(&p, dout, y, cx.out(DX)?)?;
    }
    if cx.wants(DY) {
        grad_y(&p, dout, x, cx.out(DY)?)?;
    }
    Ok(())
}

/// Reads X, Y, DOut, DDX, DDY; writes DX, DY, DDOut. An absent DDX or DDY is zero.
fn run_second(cx: &mut Run) -> Result<()> {
    use second::{DDOUT, DDX, DDY, DOUT, DX, DY, X, Y};
    let dtype = same_dtype(cx, &[X, Y, DOUT, DDX, DDY])?;
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let (ddx, ddy) = (cx.opt(DDX), cx.opt(DDY));
    let p = Plan::of(cx.op, cx.attrs, x.dims(), y.dims())?;
    checked(cx, &p, dout)?;
    for (given, like) in [(ddx, x), (ddy, y)] {
        ensure!(
            given.is_none_or(|t| t.dims() == like.dims()),
            InvalidArgument,
            "operator {}: a second gradient must have the shape {:?} of its variable",
            cx.op.name,
            like.dims()
        );
    }
    if dtype.is_complex() {
        return complex::run_second(cx, &p, dtype);
    }
    if cx.wants(DX) {
        match ddy {
            Some(ddy) => grad_x(&p, dout, ddy, cx.out(DX)?)?,
            None => cx.out(DX)?.bytes_mut()?.fill(0),
        }
    }
    if cx.wants(DY) {
        match ddx {
            Some(ddx) => grad_y(&p, dout, ddx, cx.out(DY)?)?,
            None => cx.out(DY)?.bytes_mut()?.fill(0),
        }
    }
    if cx.wants(DDOUT) {
        let ddout = cx.out(DDOUT)?;
        if let Some(ddx) = ddx {
            product(p.alpha, (ddx, &p.x), (y, &p.y), (&mut *ddout, &p.out), false)?;
        }
        if let Some(ddy) = ddy {
            product(p.alpha, (x, &p.x), (ddy, &p.y), (&mut *ddout, &p.out), ddx.is_some())?;
        }
        if ddx.is_none() && ddy.is_none() {
            ddout.bytes_mut()?.fill(0);
        }
    }
    Ok(())
}

fn infer_second(cx: &mut Infer) -> Result<()> {
    cx.like(second::DX, second::X)?;
    cx.like(second::DY, second::Y)?;
    cx.like(second::DDOUT, second::DOUT)
}

/// What `gemm` takes.
const NUMBERS: DTypes = DTypes::FLOATS.and(DTypes::HALVES).and(DTypes::INDICES).and(DTypes::COMPLEX);
const SECOND: &[(&str, &str)] = &[
    ("DOut", "Out@GRAD"),
    ("DDX", "X@GRAD@GRAD"),
    ("DDY", "Y@GRAD@GRAD"),
    ("DX", "X@GRAD"),
    ("DY", "Y@GRAD"),
    ("DDOut", "Out@GRAD@GRAD"),
];

macro_rules! products {
    ($($op:ident $grad:ident $second:ident $name:literal $grad_name:literal $second_name:literal $attrs:ident;)*) => {
        $(
            pub static $op: Op = Op {
                name: $name, inputs: forward::INS, outputs: forward::OUTS, attrs: $attrs::FIELDS, takes: NUMBERS, infer,
                cannot_fail: true, cpu: Kernel::Pure(run), grad: Grad::By(&$grad), amp: oar_core::op::Amp::White, fast_path: Some(fast_path),
                ..OP
            };
            pub static $grad: Op = Op {
                name: $grad_name, inputs: backward::INS, outputs: backward::OUTS, attrs: $attrs::FIELDS, takes: NUMBERS,
                infer: grads_like_inputs, cpu: Kernel::Pure(run_backward), grad: Grad::Map(&$second, SECOND), ..OP
            };
            pub static $second: Op = Op {
                name: $second_name, inputs: second::INS, outputs: second::OUTS, attrs: $attrs::FIELDS, takes: NUMBERS,
                infer: infer_second, cpu: Kernel::Pure(run_second), ..OP
            };
        )*
        pub static TABLE: &[&Op] = &[$(&$op, &$grad, &$second),*];
    };
}
products! {
    MUL MUL_GRAD MUL_GRAD_GRAD "mul" "mul_grad" "mul_grad_grad" MulAttrs;
    MATMUL MATMUL_GRAD MATMUL_GRAD_GRAD "matmul" "matmul_grad" "matmul_grad_grad" MatmulAttrs;
    MATMUL_V2 MATMUL_V2_GRAD MATMUL_V2_GRAD_GRAD "matmul_v2" "matmul_v2_grad" "matmul_v2_grad_grad" MatmulV2Attrs;
}
