//! fused_elemwise_activation: Binary(X, Unary(Y)) or Unary(Binary(X, Y)), by the order of the functor names.

use super::compose::{out, run};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::ir::Attr;
use oar_core::op::{table, Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, ensure, slots};
use oar_ops_common::broadcast::broadcast_dims;
use oar_ops_common::elements::same_types;

attrs! {
    pub struct FusedAttrs {
        axis: i32 = -1, scale: f32 = 0.0, save_intermediate_out: bool = false, functor_list: Vec<String>,
    }
}

slots! {
    mod fused { X "X", Y "Y" => OUT "Out".kernel_allocated(), MIDDLE "IntermediateOut".intermediate().kernel_allocated() }
    mod fused_grad {
        X "X".dispensable(), Y "Y", OUT "Out", DOUT "Out@GRAD", MIDDLE "IntermediateOut".dispensable()
        => DX "X@GRAD".kernel_allocated(), DY "Y@GRAD".kernel_allocated(), DMIDDLE "IntermediateOut@GRAD".dispensable().kernel_allocated()
    }
}

/// The composition that functor_list names.
struct Compound<'a> {
    binary: &'a str,
    unary: &'a str,
    /// True for Unary(Binary(X, Y)).
    outside: bool,
    a: &'a FusedAttrs,
}

/// The pairs that 2.0.2 supports.
const PAIRS: [[&str; 2]; 8] = [
    ["elementwise_add", "scale"],
    ["scale", "elementwise_add"],
    ["elementwise_add", "relu"],
    ["relu", "elementwise_add"],
    ["elementwise_mul", "scale"],
    ["tanh", "elementwise_add"],
    ["elementwise_mul", "tanh"],
    ["elementwise_mul", "sigmoid"],
];

impl<'a> Compound<'a> {
    fn new(op: &'static Op, a: &'a FusedAttrs) -> Result<Compound<'a>> {
        // In Programs of Paddle the gradient operators list gradient functors.
        let names: Vec<&str> = a.functor_list.iter().map(|n| n.strip_suffix("_grad").unwrap_or(n)).collect();
        ensure!(
            PAIRS.iter().any(|p| p[..] == names[..]),
            InvalidArgument,
            "operator {}: functor_list must be one of {PAIRS:?}, got {:?}",
            op.name,
            a.functor_list
        );
        let outside = !names[0].starts_with("elementwise");
        let (binary, unary) = if outside { (names[1], names[0]) } else { (names[0], names[1]) };
        ensure!(
            binary == "elementwise_add" || !op.name.starts_with("fused_elemwise_add"),
            InvalidArgument,
            "operator {}: functor_list must have elementwise_add, got {:?}",
            op.name,
            a.functor_list
        );
        Ok(Compound { binary, unary, outside, a })
    }

    fn unary(&self, x: &Tensor) -> Result<Tensor> {
        match self.unary {
            "scale" => out("scale", &[("X", x)], &[("scale", Attr::Float(self.a.scale))]),
            name => out(name, &[("X", x)], &[]),
        }
    }

    fn unary_grad(&self, y: &Tensor, dy: &Tensor) -> Result<Tensor> {
        match self.unary {
            "scale" => self.unary(dy),
            name => run(&format!("{name}_grad"), &[("Out", y), ("Out@GRAD", dy)], &[])?.take("X@GRAD"),
        }
    }

    fn axis(&self) -> [(&'static str, Attr); 1] {
        [("axis", Attr::Int(self.a.axis))]
    }

    fn binary(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        // Both binary operators are commutative.
        let (large, small) = if x.rank() < y.rank() { (y, x) } else { (x, y) };
        out(self.binary, &[("X", large), ("Y", small)], &self.axis())
    }

    fn binary_grad(&self, x: &Tensor, y: &Tensor, d: &Tensor) -> Result<(Tensor, Tensor)> {
        let swapped = x.rank() < y.rank();
        let (large, small) = if swapped { (y, x) } else { (x, y) };
        let ins = [("X", large), ("Y", small), ("Out@GRAD", d)];
        let op = table::need(if self.binary == "elementwise_add" {
            "elementwise_add_grad"
        } else {
            "elementwise_mul_grad"
        })?;
        let mut outputs = run(op.name, &ins, &self.axis())?;
        let (large, small) = (outputs.take("X@GRAD")?, outputs.take("Y@GRAD")?);
        Ok(if swapped { (small, large) } else { (large, small) })
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<FusedAttrs>();
    let c = Compound::new(cx.op, a)?;
    let (x, y, dtype) = (cx.dims(fused::X)?, cx.dims(fused::Y)?, cx.dtype(fused::X)?);
    let dims = broadcast_dims(cx.op.name, &x, &y, a.axis)?;
    let like_x = x.len() >= y.len() && (x.len() != y.len() || x.iter().zip(&y).all(|(x, y)| x >= y));
    let from = if like_x { fused::X } else { fused::Y };
    cx.set(fused::OUT, &dims, dtype);
    cx.share_lod(fused::OUT, from);
    cx.set(fused::MIDDLE, if c.outside { &dims } else { &y }, dtype);
    cx.share_lod(fused::MIDDLE, if c.outside { from } else { fused::Y });
    Ok(())
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let c = Compound::new(cx.op, cx.attrs())?;
    let (x, y) = (cx.input(fused::X)?, cx.input(fused::Y)?);
    same_types(cx.op.name, x, &[y])?;
    let (middle, result) = if c.outside {
        let middle = c.binary(x, y)?;
        let result = c.unary(&middle)?;
        (middle, result)
    } else {
        let middle = c.unary(y)?.with_lod(y.lod.clone());
        let result = c.binary(x, &middle)?;
        (middle, result)
    };
    let lod = if result.dims() == x.dims() { x.lod.clone() } else { y.lod.clone() };
    let of_middle = if c.outside { lod.clone() } else { y.lod.clone() };
    cx.set(fused::MIDDLE, middle.with_lod(of_middle));
    cx.set(fused::OUT, result.with_lod(lod));
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    let c = Compound::new(cx.op, cx.attrs())?;
    let like_x = if cx.has(fused_grad::X) { fused_grad::X } else { fused_grad::DOUT };
    let like_middle = if c.outside { fused_grad::DOUT } else { fused_grad::Y };
    for (out, from) in [(fused_grad::DX, like_x), (fused_grad::DY, fused_grad::Y), (fused_grad::DMIDDLE, like_middle)] {
        cx.like(out, from)?;
        cx.share_lod(out, from);
    }
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    let c = Compound::new(cx.op, cx.attrs())?;
    let (y, result, d) = (cx.input(fused_grad::Y)?, cx.input(fused_grad::OUT)?, cx.input(fused_grad::DOUT)?);
    // For a sum only the operands' shapes matter; an absent X has the shape of the result.
    let x = match cx.opt(fused_grad::X) {
        Some(x) => x,
        None if c.binary == "elementwise_add" => d,
        None => bail!(InvalidArgument, "operator {}: input 'X' is required but holds no value", cx.op.name),
    };
    same_types(cx.op.name, d, &[x, y, result])?;
    let (dx, dy, middle) = if c.outside {
        let middle = c.unary_grad(result, d)?;
        let (dx, dy) = c.binary_grad(x, y, &middle)?;
        (dx, dy, middle)
    } else {
        let middle = match cx.opt(fused_grad::MIDDLE) {
            Some(t) if c.a.save_intermediate_out => t.clone(),
            _ => c.unary(y)?,
        };
        let (dx, dmiddle) = c.binary_grad(x, &middle, d)?;
        let dy = c.unary_grad(&middle, &dmiddle)?;
        (dx, dy, dmiddle)
    };
    let lod = |slot: InSlot| cx.opt(slot).and_then(|t| t.lod.clone());
    let (of_x, of_y) = (lod(fused_grad::X), lod(fused_grad::Y));
    for (slot, t) in
        [(fused_grad::DX, dx.with_lod(of_x)), (fused_grad::DY, dy.with_lod(of_y)), (fused_grad::DMIDDLE, middle)]
    {
        set(cx, slot, t);
    }
    Ok(())
}

fn set(cx: &mut KernelContext, slot: OutSlot, t: Tensor) {
    if cx.wants(slot) {
        cx.set(slot, t);
    }
}

macro_rules! compound {
    ($($op:ident $name:literal, $grad:ident $grad_name:literal;)*) => {$(
        pub static $op: Op = Op {
            name: $name,
            inputs: fused::INS,
            outputs: fused::OUTS,
            attrs: FusedAttrs::FIELDS,
            dtypes: DTypes::FLOATS,
            infer,
            cpu: Kernel::Pure(forward),
            grad: Grad::By(&$grad),
            ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name,
            inputs: fused_grad::INS,
            outputs: fused_grad::OUTS,
            attrs: FusedAttrs::FIELDS,
            dtypes: DTypes::FLOATS,
            infer: infer_grad,
            cpu: Kernel::Pure(backward),
            ..OP
        };
    )*};
}
compound! {
    ACTIVATION "fused_elemwise_activation", ACTIVATION_GRAD "fused_elemwise_activation_grad";
    ADD_ACTIVATION "fused_elemwise_add_activation", ADD_ACTIVATION_GRAD "fused_elemwise_add_activation_grad";
}

pub static TABLE: &[&Op] = &[&ACTIVATION, &ACTIVATION_GRAD, &ADD_ACTIVATION, &ADD_ACTIVATION_GRAD];
