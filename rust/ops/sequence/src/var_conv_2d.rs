//! var_conv_2d: convolution of images of different sizes; a sequence holds the channels of one image.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::gemm::GemmFloat;
use oar_kernels::sequence::var_conv_2d::{Image, VarConv};
use oar_kernels::types::Float;
use oar_ops_common::levels;

attrs! {
    pub struct VarConvAttrs {
        InputChannel: i32 = 1, OutputChannel: i32 = 1, StrideH: i32 = 1, StrideW: i32 = 1, KernelH: i32 = 1,
        KernelW: i32 = 1,
    }
}

slots! {
    mod fwd {
        X "X", ROW "ROW".meta_only(), COLUMN "COLUMN".meta_only(), W "W" => OUT "Out".kernel_allocated(), COL "Col".kernel_allocated()
    }
    mod grad {
        X "X", W "W", ROW "ROW".meta_only(), COLUMN "COLUMN".meta_only(), COL "Col".meta_only(), OUT "Out".meta_only(),
        DOUT "Out@GRAD" => DX "X@GRAD", DW "W@GRAD"
    }
}

/// Limit of elements of the unfolded images.
const MOST: usize = 1 << 31;

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<VarConvAttrs>());
    let (x, w) = (cx.dims(fwd::X)?, cx.dims(fwd::W)?);
    let sizes = [a.InputChannel, a.OutputChannel, a.StrideH, a.StrideW, a.KernelH, a.KernelW];
    ensure!(
        sizes.iter().all(|&n| n > 0),
        InvalidArgument,
        "operator {op}: channels, strides and sizes of the kernel must be above 0, got {sizes:?}"
    );
    let depth = [a.KernelH, a.KernelW].iter().try_fold(a.InputChannel as i64, |n, &k| n.checked_mul(k as i64));
    let fits = |got: i64, wanted: Option<i64>| got < 0 || Some(got) == wanted;
    ensure!(
        x.len() == 2 && w.len() == 2 && fits(w[0], Some(a.OutputChannel as i64)) && fits(w[1], depth),
        InvalidArgument,
        "operator {op}: X must have 2 dimensions, and W shape [{}, {depth:?}], got {:?} and {:?}",
        a.OutputChannel,
        &x[..],
        &w[..]
    );
    let dtype = cx.dtype(fwd::X)?;
    for slot in [fwd::OUT, fwd::COL] {
        cx.set(slot, &[-1, 1], dtype);
        cx.set_levels(slot, 1);
    }
    Ok(())
}

struct Call<'a> {
    a: &'a VarConvAttrs,
    x: &'a Tensor,
    w: &'a Tensor,
    images: Vec<Image>,
    out_ends: Vec<usize>,
    window_ends: Vec<usize>,
    /// Elements per window.
    depth: usize,
}

fn look<'a>(cx: &KernelContext<'a>, [x, row, column, w]: [InSlot; 4]) -> Result<Call<'a>> {
    let (op, a) = (cx.op.name, cx.attrs::<VarConvAttrs>());
    let (x, row, column, w) = (cx.input(x)?, cx.input(row)?, cx.input(column)?, cx.input(w)?);
    let (of_x, rows, columns) =
        (levels::first(op, "X", x)?, levels::first(op, "ROW", row)?, levels::first(op, "COLUMN", column)?);
    ensure!(
        of_x.len() == rows.len() && rows.len() == columns.len() && levels::width(x) == 1 && w.dtype() == x.dtype(),
        InvalidArgument,
        "operator {op}: X (one element in each row), ROW and COLUMN must have as many sequences, and W the type of X, got \
         {x:?} and {w:?} with {}, {} and {} sequences",
        of_x.len() - 1,
        rows.len() - 1,
        columns.len() - 1
    );
    let depth = w.dims()[1] as usize;
    let (mut images, mut out_ends, mut window_ends) = (Vec::new(), vec![0], vec![0usize]);
    for (i, span) in of_x.windows(2).enumerate() {
        let (height, width) = (rows[i + 1] - rows[i], columns[i + 1] - columns[i]);
        let size = height.checked_mul(width).and_then(|n| n.checked_mul(a.InputChannel as usize));
        ensure!(
            size == Some(span[1] - span[0]),
            InvalidArgument,
            "operator {op}: sequence {i} of X must have {} * {height} * {width} elements, got {}",
            a.InputChannel,
            span[1] - span[0]
        );
        let windows = (height.div_ceil(a.StrideH as usize), width.div_ceil(a.StrideW as usize));
        let count = windows.0 * windows.1;
        let (windows_at, out_at) = (window_ends[i], out_ends[i]);
        images.push(Image { at: span[0], height, width, windows_at, out_at, windows });
        let (more, out) = (count.checked_mul(depth), count.checked_mul(a.OutputChannel as usize));
        let ends = (more.map(|n| n.saturating_add(windows_at)), out.map(|n| n.saturating_add(out_at)));
        let (Some(window_end), Some(out_end)) = ends else {
            oar_core::bail!(ResourceExhausted, "operator {op}: image {i} has too many windows")
        };
        ensure!(
            window_end <= MOST && out_end <= MOST,
            ResourceExhausted,
            "operator {op}: {window_end} elements of windows are too many"
        );
        window_ends.push(window_end);
        out_ends.push(out_end);
    }
    Ok(Call { a, x, w, images, out_ends, window_ends, depth })
}

impl Call<'_> {
    fn conv(&self) -> VarConv<'_> {
        let a = self.a;
        VarConv {
            images: &self.images,
            kernel: (a.KernelH as usize, a.KernelW as usize),
            stride: (a.StrideH as usize, a.StrideW as usize),
            channels: a.OutputChannel as usize,
            depth: self.depth,
        }
    }

    fn unfolded<T: Element + Float>(&self) -> Vec<T> {
        let mut windows = vec![T::ZERO; self.window_ends.last().copied().unwrap_or(0)];
        self.conv().unfold(self.x.data::<T>(), &mut windows);
        windows
    }

    fn backward<T: Element + GemmFloat>(&self, dout: &[T], [dx, dw]: [Option<&mut Tensor>; 2]) -> Result<()> {
        let mut dx = dx.map(|t| t.data_mut::<T>()).transpose()?;
        let mut dw = dw.map(|t| t.data_mut::<T>()).transpose()?;
        dx.iter_mut().chain(&mut dw).for_each(|d| d.fill(T::ZERO));
        self.conv().backward(self.w.data::<T>(), &self.unfolded::<T>(), dout, dx, dw);
        Ok(())
    }
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let call = look(cx, [fwd::X, fwd::ROW, fwd::COLUMN, fwd::W])?;
    dispatch!(call.x.dtype(), T in [f32, f64], {
        let windows = call.unfolded::<T>();
        let mut out = vec![0 as T; call.out_ends.last().copied().unwrap_or(0)];
        call.conv().forward(call.w.data::<T>(), &windows, &mut out);
        let made = |v: &[T], ends: &[usize]| -> Result<Tensor> {
            Ok(Tensor::from_slice(v, &[v.len() as i64, 1])?.with_lod(levels::one(ends.to_vec())))
        };
        cx.set(fwd::OUT, made(&out, &call.out_ends)?);
        cx.set(fwd::COL, made(&windows, &call.window_ends)?);
        Ok(())
    }, other => cx.unsupported(other))
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (call, dout) = (look(cx, [grad::X, grad::ROW, grad::COLUMN, grad::W])?, cx.input(grad::DOUT)?);
    ensure!(
        Some(&dout.numel()) == call.out_ends.last() && dout.dtype() == call.x.dtype(),
        InvalidArgument,
        "operator var_conv_2d_grad: the gradient of Out must have {:?} elements of {}, got {dout:?}",
        call.out_ends.last(),
        call.x.dtype()
    );
    let outs = cx.each_out([grad::DX, grad::DW]);
    dispatch!(call.x.dtype(), T in [f32, f64], call.backward::<T>(dout.data::<T>(), outs), other => cx.unsupported(other))
}

pub static VAR_CONV_2D: Op = Op {
    name: "var_conv_2d",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: VarConvAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&VAR_CONV_2D_GRAD),
    ..OP
};

pub static VAR_CONV_2D_GRAD: Op = Op {
    name: "var_conv_2d_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: VarConvAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&VAR_CONV_2D, &VAR_CONV_2D_GRAD];
