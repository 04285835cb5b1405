//! match_matrix_tensor: bilinear similarities of every step of a sequence with every step of another.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::gemm::GemmFloat;
use oar_kernels::sequence::match_matrix_tensor::{Match, MatchGrads};
use oar_ops_common::levels;

attrs! { pub struct MatchAttrs { dim_t: i32 = 1 } }

slots! {
    mod fwd { X "X", Y "Y", W "W" => OUT "Out".kernel_allocated(), TMP "Tmp".kernel_allocated() }
    mod grad {
        X "X", Y "Y", W "W", TMP "Tmp", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD", DW "W@GRAD"
    }
}

/// Limit of the number of output elements.
const MOST: usize = 1 << 31;

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, forms) = (cx.op.name, cx.attrs::<MatchAttrs>().dim_t as i64);
    let (x, y, w) = (cx.dims(fwd::X)?, cx.dims(fwd::Y)?, cx.dims(fwd::W)?);
    let agree = |a: i64, b: i64| a == b || a < 0 || b < 0;
    ensure!(
        x.len() == 2 && y.len() == 2 && w.len() == 3 && agree(w[0], x[1]) && agree(w[1], forms) && agree(w[2], y[1]),
        InvalidArgument,
        "operator {op}: X and Y must be matrices, and W of shape [columns of X, dim_t {forms}, columns of Y], got {:?}, {:?} \
         and {:?}",
        &x[..],
        &y[..],
        &w[..]
    );
    ensure!(forms > 0, InvalidArgument, "operator {op}: dim_t must be above 0, got {forms}");
    let dtype = cx.dtype(fwd::X)?;
    cx.set(fwd::OUT, &[-1, 1], dtype);
    cx.set_levels(fwd::OUT, 1);
    cx.set(fwd::TMP, &[-1, 1], dtype);
    Ok(())
}

/// The checked operands of a call.
struct Call<'a> {
    x: &'a Tensor,
    y: &'a Tensor,
    w: &'a Tensor,
    of_x: &'a [usize],
    of_y: &'a [usize],
    forms: usize,
    /// Widths of X and Y.
    columns: (usize, usize),
    /// Output offsets of each pair of sequences.
    ends: Vec<usize>,
}

fn look<'a>(cx: &KernelContext<'a>, [x, y, w]: [InSlot; 3]) -> Result<Call<'a>> {
    let (op, x, y, w) = (cx.op.name, cx.input(x)?, cx.input(y)?, cx.input(w)?);
    let (of_x, of_y) = (levels::first(op, "X", x)?, levels::first(op, "Y", y)?);
    ensure!(
        of_x.len() == of_y.len() && y.dtype() == x.dtype() && w.dtype() == x.dtype(),
        InvalidArgument,
        "operator {op}: X and Y must have as many sequences, and W their type, got {x:?}, {y:?} and {w:?} with {} and {} \
         sequences",
        of_x.len() - 1,
        of_y.len() - 1
    );
    let forms = cx.attrs::<MatchAttrs>().dim_t as usize;
    let spans = levels::lengths(of_x).zip(levels::lengths(of_y));
    let sizes: Vec<usize> = spans.map(|(a, b)| a.saturating_mul(b).saturating_mul(forms)).collect();
    let all = sizes.iter().fold(0usize, |n, &size| n.saturating_add(size));
    ensure!(all <= MOST, ResourceExhausted, "operator {op}: a result of {all} elements is too large");
    let ends = levels::offsets(sizes);
    Ok(Call { of_x, of_y, forms, columns: (x.dims()[1] as usize, y.dims()[1] as usize), ends, x, y, w })
}

impl Call<'_> {
    fn operands<T: Element>(&self) -> Match<'_, T> {
        Match {
            x: self.x.data::<T>(),
            y: self.y.data::<T>(),
            w: self.w.data::<T>(),
            x_level: self.of_x,
            y_level: self.of_y,
            forms: self.forms,
            widths: self.columns,
            ends: &self.ends,
        }
    }

    fn backward<T: Element + GemmFloat>(&self, dout: &[T], [x, y, w]: [Option<&mut Tensor>; 3]) -> Result<()> {
        let grads = MatchGrads {
            x: x.map(|t| t.data_mut::<T>()).transpose()?,
            y: y.map(|t| t.data_mut::<T>()).transpose()?,
            w: w.map(|t| t.data_mut::<T>()).transpose()?,
        };
        self.operands().backward(dout, grads);
        Ok(())
    }
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let call = look(cx, [fwd::X, fwd::Y, fwd::W])?;
    dispatch!(call.x.dtype(), T in [f32, f64], {
        let operands = call.operands::<T>();
        let turned = operands.turned();
        let out = operands.forward(&turned);
        let t = Tensor::from_slice(&out, &[out.len() as i64, 1])?;
        cx.set(fwd::OUT, t.with_lod(levels::one(call.ends.clone())));
        cx.set(fwd::TMP, Tensor::from_slice(&turned, &[turned.len() as i64, 1])?);
        Ok(())
    }, other => cx.unsupported(other))
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (call, dout) = (look(cx, [grad::X, grad::Y, grad::W])?, cx.input(grad::DOUT)?);
    ensure!(
        Some(&dout.numel()) == call.ends.last() && dout.dtype() == call.x.dtype(),
        InvalidArgument,
        "operator match_matrix_tensor_grad: the gradient of Out must have {:?} elements of {}, got {dout:?}",
        call.ends.last(),
        call.x.dtype()
    );
    let outs = cx.each_out([grad::DX, grad::DY, grad::DW]);
    dispatch!(call.x.dtype(), T in [f32, f64], call.backward::<T>(dout.data::<T>(), outs), other => cx.unsupported(other))
}

pub static MATCH_MATRIX_TENSOR: Op = Op {
    name: "match_matrix_tensor",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: MatchAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&MATCH_MATRIX_TENSOR_GRAD),
    ..OP
};

pub static MATCH_MATRIX_TENSOR_GRAD: Op = Op {
    name: "match_matrix_tensor_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: MatchAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&MATCH_MATRIX_TENSOR, &MATCH_MATRIX_TENSOR_GRAD];
