//! Kernels of convolutions and transposed convolutions along any number of axes.

use super::attrs::Convolves;
use super::slots::{conv, conv_grad, conv_grad_grad};
use oar_core::base::shape::to_usize;
use oar_core::base::{Dims, Result};
use oar_core::op::KernelContext;
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure};
use oar_kernels::reduce::{reduce, Reduce};
use oar_ops_common::conv::ConvPlan;
use oar_ops_common::elements::same_types;
use oar_ops_common::sum::accumulate;

fn plan<A: Convolves>(cx: &KernelContext, x: &Tensor, w: &Tensor) -> Result<(ConvPlan, Dims)> {
    cx.attrs::<A>().convolution(cx.op.name).plan(x.dims(), w.dims())
}

pub fn convolve<A: Convolves>(cx: &mut KernelContext) -> Result<()> {
    let (x, w) = (cx.input(conv::INPUT)?, cx.input(conv::FILTER)?);
    let bias = if A::BIAS { cx.opt(conv::BIAS) } else { None };
    same_types(cx.op.name, x, &[w])?;
    let (mut p, _) = plan::<A>(cx, x, w)?;
    p.conv.bf16 = cx.attrs::<A>().bfloat16();
    if let Some(b) = bias {
        same_types(cx.op.name, x, &[b])?;
        ensure!(
            b.numel() == p.channels(),
            InvalidArgument,
            "operator {}: Bias must have one number per filter, got shape {:?}",
            cx.op.name,
            b.dims()
        );
    }
    let panels = if A::PACKED { cx.opt(conv::PANELS) } else { None };
    if panels.is_some() && p.forward_packed([x, w], panels, bias, None, false, cx.out(conv::OUTPUT)?)? {
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let out = cx.out_data::<T>(conv::OUTPUT)?;
        p.forward(x.data::<T>(), w.data::<T>(), bias.map(|b| b.data::<T>()), out);
    }, other => return cx.unsupported(other));
    Ok(())
}

/// `dy` must have the output's shape.
fn check_grad(cx: &KernelContext, dy: &Tensor, out: &[i64]) -> Result<()> {
    ensure!(
        dy.dims() == out,
        InvalidArgument,
        "operator {}: the gradient of Output must have shape {out:?}, got {:?}",
        cx.op.name,
        dy.dims()
    );
    Ok(())
}

pub fn convolve_grad<A: Convolves>(cx: &mut KernelContext) -> Result<()> {
    use conv_grad::{BIAS, DBIAS, DFILTER, DINPUT, DOUTPUT, FILTER, INPUT};
    let (x, w, dy) = (cx.input(INPUT)?, cx.input(FILTER)?, cx.input(DOUTPUT)?);
    same_types(cx.op.name, x, &[w, dy])?;
    let (p, out) = plan::<A>(cx, x, w)?;
    check_grad(cx, dy, &out)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        if cx.wants(DINPUT) {
            p.input_grad(dy.data::<T>(), w.data::<T>(), cx.out_data::<T>(DINPUT)?);
        }
        if cx.wants(DFILTER) {
            p.filter_grad(x.data::<T>(), dy.data::<T>(), cx.out_data::<T>(DFILTER)?);
        }
        if A::BIAS && cx.has(BIAS) && cx.wants(DBIAS) {
            let channel = if p.conv.channels_last { out.len() - 1 } else { 1 };
            let axes: Vec<bool> = (0..out.len()).map(|i| i != channel).collect();
            reduce(Reduce::Sum, dy.data::<T>(), &to_usize(&out), &axes, cx.out_data::<T>(DBIAS)?);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

/// Second gradients: ddO = conv(ddI, W) + conv(I, ddW); dW from ddI and dO; dI from dO and ddW.
pub fn convolve_grad_grad<A: Convolves>(cx: &mut KernelContext) -> Result<()> {
    use conv_grad_grad::{DDFILTER, DDINPUT, DDOUTPUT, DFILTER, DINPUT, DOUTPUT, FILTER, INPUT};
    let (x, w, dy) = (cx.input(INPUT)?, cx.input(FILTER)?, cx.input(DOUTPUT)?);
    let (ddx, ddw) = (cx.opt(DDINPUT), cx.opt(DDFILTER));
    let (p, out) = plan::<A>(cx, x, w)?;
    check_grad(cx, dy, &out)?;
    for (given, like) in [(ddx, x), (ddw, w)] {
        let Some(t) = given else { continue };
        ensure!(t.dims() == like.dims(), InvalidArgument, "operator {}: shapes of gradients differ", cx.op.name);
        same_types(cx.op.name, x, &[t])?;
    }
    same_types(cx.op.name, x, &[w, dy])?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let [ddout, dw, dx] = cx.each_out([DDOUTPUT, DFILTER, DINPUT]);
        if let Some(ddout) = ddout {
            let conv = |a: &Tensor, b: &Tensor, out: &mut Tensor| -> Result<()> {
                p.forward(a.data::<T>(), b.data::<T>(), None, out.data_mut::<T>()?);
                Ok(())
            };
            match (ddx, ddw) {
                (None, None) => ddout.data_mut::<T>()?.fill(0.0),
                (Some(ddx), None) => conv(ddx, w, ddout)?,
                (None, Some(ddw)) => conv(x, ddw, ddout)?,
                (Some(ddx), Some(ddw)) => {
                    conv(ddx, w, ddout)?;
                    let mut second = ddout.empty_like()?;
                    conv(x, ddw, &mut second)?;
                    accumulate(ddout, &second)?;
                }
            }
        }
        if let Some(dw) = dw {
            let dw = dw.data_mut::<T>()?;
            match ddx {
                Some(ddx) => p.filter_grad(ddx.data::<T>(), dy.data::<T>(), dw),
                None => dw.fill(0.0),
            }
        }
        if let Some(dx) = dx {
            let dx = dx.data_mut::<T>()?;
            match ddw {
                Some(ddw) => p.input_grad(dy.data::<T>(), ddw.data::<T>(), dx),
                None => dx.fill(0.0),
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}
