//! A matrix product and its bias in one call: the bias is added while the product is in registers. The tape records
//! the two operators.

use super::eager::{is_recording, wrap_plain, Ins};
use super::tape::EagerVar;
use oar_core::base::{DType, Result};
use oar_core::ir::Attr;
use oar_core::op::attrs::unshared;
use oar_core::op::call::call_checked;
use oar_core::op::run::{Env, Out};
use oar_core::op::{backend, profile, table, Args, Attrs, Op};
use oar_core::tensor::{Tensor, Value};
use std::sync::OnceLock;

/// Bound of x's rank.
const RANK: usize = 6;

struct Parts {
    both: &'static Op,
    product: &'static Op,
    sum: &'static Op,
    /// The attributes of `both` for x of rank two, three, and so on.
    attrs: Vec<Attrs>,
}

/// `None` if a gradient would read the product without its bias, which is not computed.
fn parts() -> Option<&'static Parts> {
    static PARTS: OnceLock<Option<Parts>> = OnceLock::new();
    let find = || {
        let (both, product, sum) = (table::lookup("fc")?, table::lookup("matmul")?, table::lookup("elementwise_add")?);
        let unread = product.wired()?.reads_out == 0 && sum.wired()?.needs_in & 1 == 0;
        let field = both.attrs.field("in_num_col_dims")?;
        let attrs = (1..RANK as i32).map(|lead| {
            let mut attrs = (both.attrs.new)();
            unshared(&mut attrs).set(field, Attr::Int(lead)).ok().map(|()| attrs)
        });
        Some(Parts { both, product, sum, attrs: attrs.collect::<Option<_>>()? }).filter(|_| unread)
    };
    PARTS.get_or_init(find).as_ref()
}

/// The rank of x, if `both` computes what the two operators compute.
fn suited(x: &Tensor, w: &Tensor, b: &Tensor) -> Option<usize> {
    let (&[k, n], &[bias], &[.., inner]) = (w.dims(), b.dims(), x.dims()) else { return None };
    let alike = matches!(x.dtype(), DType::F32 | DType::F64) && x.dtype() == w.dtype() && x.dtype() == b.dtype();
    let fits = (k, n) == (inner, bias) && (2..=RANK).contains(&x.dims().len());
    (alike && fits && x.numel() > 0 && n > 0).then_some(x.dims().len())
}

/// `x @ w + b` for x [..., k], w [k, n] and b [n] of one type, float32 or float64: bit for bit the result of matmul
/// and elementwise_add. `None`, without effect, for other operands, and while operators are observed.
pub fn linear(x: &EagerVar, w: &EagerVar, b: &EagerVar, env: &dyn Env) -> Result<Option<EagerVar>> {
    if profile::watched() {
        return Ok(None);
    }
    let Some(parts) = parts() else { return Ok(None) };
    let mut values = Args::new();
    for v in [x, w, b] {
        values.push_one(v.cell.read());
    }
    let rank = match &values.flat[..] {
        [Value::Dense(x), Value::Dense(w), Value::Dense(b)] if !backend::serves([x, w, b].into_iter()) => {
            suited(x, w, b)
        }
        _ => None,
    };
    let Some(rank) = rank else { return Ok(None) };
    let mut outs = Args::new();
    outs.push_one(Out::wanted(true));
    call_checked(parts.both, &parts.attrs[rank - 2], &mut values, &mut outs, false, env)?;
    drop(values);
    let value = std::mem::take(&mut outs.flat[0].value);
    if !is_recording() || [x, w, b].iter().all(|v| v.stop_gradient()) {
        return Ok(Some(EagerVar::new(value, true)));
    }
    let pair = |first, second| {
        let mut ins: Ins = Args::new();
        ins.push_one(Some(first));
        ins.push_one(Some(second));
        ins
    };
    // A placeholder with the product's shape: its elements are never read.
    let product = wrap_plain(parts.product, (parts.product.attrs.shared)(), &pair(x, w), value.share()?)?;
    let ins = pair(&product, b);
    wrap_plain(parts.sum, (parts.sum.attrs.shared)(), &ins, value).map(Some)
}
