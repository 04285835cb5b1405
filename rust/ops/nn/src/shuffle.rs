//! pixel_shuffle, shuffle_channel, space_to_depth: X reshaped, transposed, reshaped.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Attrs, Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::{ensure, slots};
use oar_ops_common::elements::{strided, strides_of};
use oar_ops_common::window::channels_last;

attrs! {
    pub struct PixelAttrs { upscale_factor: i32 = 1, data_format: Text = "NCHW".into() }
    pub struct GroupAttrs { group: i32 = 1 }
    pub struct BlockAttrs { blocksize: i64 = 2 }
}

slots! {
    mod forward { X "X" => OUT "Out".kernel_allocated() }
    mod backward { DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
    mod block_grad { DOUT "Out@GRAD", X "X".meta_only() => DX "X@GRAD".kernel_allocated() }
}

/// The intermediate shape of X, the permutation, and the output shape.
struct View {
    axes: [i64; 6],
    order: [usize; 6],
    out: Dims,
}

type Rule = fn(&str, &Attrs, &[i64]) -> Result<View>;

fn attrs<T: 'static>(a: &Attrs) -> &T {
    a.as_any().downcast_ref().expect("attributes of another operator")
}

fn images(op: &str, x: &[i64]) -> Result<()> {
    ensure!(x.len() == 4, InvalidArgument, "operator {op}: X must have 4 dimensions, got shape {x:?}");
    Ok(())
}

/// Divides a size; -1 stays -1.
fn part(size: i64, by: i64) -> i64 {
    if size < 0 {
        -1
    } else {
        size / by
    }
}

/// Multiplies a size; -1 stays -1.
fn times(size: i64, by: i64) -> i64 {
    if size < 0 {
        -1
    } else {
        size.saturating_mul(by)
    }
}

fn divides(op: &str, what: &str, size: i64, by: i64) -> Result<()> {
    ensure!(
        size < 0 || by > 0 && size % by == 0,
        InvalidArgument,
        "operator {op}: the {what} of X ({size}) must be a multiple of {by}"
    );
    Ok(())
}

/// pixel_shuffle: each r * r channels become a square of pixels.
fn pixels(op: &str, a: &Attrs, x: &[i64]) -> Result<View> {
    images(op, x)?;
    let a = attrs::<PixelAttrs>(a);
    let r = a.upscale_factor as i64;
    ensure!(r >= 1, InvalidArgument, "operator {op}: upscale_factor must be 1 or more, got {r}");
    let last = channels_last(&a.data_format);
    let [n, c, h, w] = if last { [x[0], x[3], x[1], x[2]] } else { [x[0], x[1], x[2], x[3]] };
    divides(op, "channels", c, r.saturating_mul(r))?;
    let (channels, high, wide) = (part(c, r * r), times(h, r), times(w, r));
    Ok(match last {
        true => View {
            axes: [n, h, w, channels, r, r],
            order: [0, 1, 4, 2, 5, 3],
            out: Dims::from_slice(&[n, high, wide, channels]),
        },
        false => View {
            axes: [n, channels, r, r, h, w],
            order: [0, 1, 4, 2, 5, 3],
            out: Dims::from_slice(&[n, channels, high, wide]),
        },
    })
}

/// shuffle_channel: interleaves the channels of the groups.
fn groups(op: &str, a: &Attrs, x: &[i64]) -> Result<View> {
    images(op, x)?;
    let g = attrs::<GroupAttrs>(a).group as i64;
    ensure!(g >= 1, InvalidArgument, "operator {op}: group must be 1 or more, got {g}");
    divides(op, "channels", x[1], g)?;
    let axes = [x[0], g, part(x[1], g), x[2], x[3], 1];
    Ok(View { axes, order: [0, 2, 1, 3, 4, 5], out: Dims::from_slice(x) })
}

/// space_to_depth. The output shape is that of pixel squares moved to channels, but the element order is Paddle's,
/// which moves channels to pixel squares and then reshapes.
fn blocks(op: &str, a: &Attrs, x: &[i64]) -> Result<View> {
    images(op, x)?;
    let b = attrs::<BlockAttrs>(a).blocksize;
    ensure!(b > 1, InvalidArgument, "operator {op}: blocksize must be greater than 1, got {b}");
    ensure!(
        x[1..].iter().all(|&d| d != 0),
        InvalidArgument,
        "operator {op}: channels, height and width of X must be greater than 0, got shape {x:?}"
    );
    let square = b.saturating_mul(b);
    divides(op, "channels", x[1], square)?;
    divides(op, "height", x[2], b)?;
    divides(op, "width", x[3], b)?;
    Ok(View {
        axes: [x[0], b, b, part(x[1], square), x[2], x[3]],
        order: [0, 3, 4, 1, 5, 2],
        out: Dims::from_slice(&[x[0], times(x[1], square), part(x[2], b), part(x[3], b)]),
    })
}

fn infer(cx: &mut ShapeContext, rule: Rule) -> Result<()> {
    let (x, dtype) = (cx.dims(forward::X)?, cx.dtype(forward::X)?);
    let view = rule(cx.op.name, cx.attrs, &x)?;
    cx.set(forward::OUT, &view.out, dtype);
    if cx.op.name == SPACE_TO_DEPTH.name {
        cx.share_lod(forward::OUT, forward::X);
    }
    Ok(())
}

fn shuffle(cx: &mut KernelContext, rule: Rule) -> Result<()> {
    let x = cx.input(forward::X)?;
    let view = rule(cx.op.name, cx.attrs, x.dims())?;
    let own = strides_of(&view.axes);
    let (dims, strides) = (view.order.map(|k| view.axes[k]), view.order.map(|k| own[k]));
    let out = strided(x, &dims, &strides, 0)?.reshaped(&view.out);
    let lod = if cx.op.name == SPACE_TO_DEPTH.name { x.lod.clone() } else { None };
    cx.set(forward::OUT, out.with_lod(lod));
    Ok(())
}

/// The shape of X, computed from the output's.
fn before(cx: &Attrs, op: &str, d: &[i64]) -> Result<Dims> {
    images(op, d)?;
    if let Some(a) = cx.as_any().downcast_ref::<PixelAttrs>() {
        let (r, last) = (a.upscale_factor.max(1) as i64, channels_last(&a.data_format));
        let [c, h, w] = if last { [3, 1, 2] } else { [1, 2, 3] };
        divides(op, "height", d[h], r)?;
        divides(op, "width", d[w], r)?;
        let mut x = Dims::from_slice(d);
        (x[c], x[h], x[w]) = (times(d[c], r.saturating_mul(r)), part(d[h], r), part(d[w], r));
        return Ok(x);
    }
    if let Some(a) = cx.as_any().downcast_ref::<BlockAttrs>() {
        let b = a.blocksize.max(1);
        divides(op, "channels", d[1], b.saturating_mul(b))?;
        return Ok(Dims::from_slice(&[d[0], part(d[1], b.saturating_mul(b)), times(d[2], b), times(d[3], b)]));
    }
    Ok(Dims::from_slice(d))
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    let (d, dtype) = (cx.dims(InSlot(0))?, cx.dtype(InSlot(0))?);
    let x = before(cx.attrs, cx.op.name, &d)?;
    cx.set(OutSlot(0), &x, dtype);
    Ok(())
}

fn shuffle_grad(cx: &mut KernelContext, rule: Rule) -> Result<()> {
    let d = cx.input(InSlot(0))?;
    let x = before(cx.attrs, cx.op.name, d.dims())?;
    let view = rule(cx.op.name, cx.attrs, &x)?;
    let own = strides_of(&view.order.map(|k| view.axes[k]));
    let mut strides = [0; 6];
    view.order.iter().enumerate().for_each(|(i, &k)| strides[k] = own[i]);
    let dx = strided(d, &view.axes, &strides, 0)?.reshaped(&x);
    cx.set(OutSlot(0), dx);
    Ok(())
}

const TYPES: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INTEGERS);

macro_rules! shuffles {
    ($($op:ident $name:literal $attrs:ident $rule:ident, $grad:ident $grad_name:literal $slots:ident;)*) => {
        $(pub static $op: Op = Op {
            name: $name, inputs: forward::INS, outputs: forward::OUTS, attrs: $attrs::FIELDS, dtypes: TYPES,
            infer: |cx| infer(cx, $rule), cpu: Kernel::Pure(|cx| shuffle(cx, $rule)), grad: Grad::By(&$grad), ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name, inputs: $slots::INS, outputs: $slots::OUTS, attrs: $attrs::FIELDS, dtypes: TYPES,
            infer: infer_grad, cpu: Kernel::Pure(|cx| shuffle_grad(cx, $rule)), ..OP
        };)*
        pub static TABLE: &[&Op] = &[$(&$op, &$grad),*];
    };
}
shuffles! {
    PIXEL_SHUFFLE "pixel_shuffle" PixelAttrs pixels, PIXEL_SHUFFLE_GRAD "pixel_shuffle_grad" backward;
    SHUFFLE_CHANNEL "shuffle_channel" GroupAttrs groups, SHUFFLE_CHANNEL_GRAD "shuffle_channel_grad" backward;
    SPACE_TO_DEPTH "space_to_depth" BlockAttrs blocks, SPACE_TO_DEPTH_GRAD "space_to_depth_grad" block_grad;
}
