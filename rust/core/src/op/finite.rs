//! FLAGS_check_nan_inf: a NaN or an infinity in a floating-point output is an error that names the operator and the
//! variable. As in 2.0.2 the environment excludes operators (`PADDLE_INF_NAN_SKIP_OP`), roles
//! (`PADDLE_INF_NAN_SKIP_ROLE`) and variables of an operator (`PADDLE_INF_NAN_SKIP_VAR`, `op:var`).

use super::run::{Env, Out};
use super::{Args, Op};
use crate::base::Result;
use crate::ir::Attr;
use crate::tensor::Tensor;
use crate::{bail, dispatch, err};
use half::{bf16, f16};
use num_complex::Complex;
use std::sync::OnceLock;

/// Roles by name, with the number that an OpDesc has; the forward's 0 is no bit.
const ROLES: [(&str, i64); 8] = [
    ("forward", FORWARD),
    ("backward", 1),
    ("optimize", 2),
    ("rpc", 4),
    ("dist", 8),
    ("lrsched", 16),
    ("loss", 0x100),
    ("default", 0x1000),
];
const FORWARD: i64 = 0x10000;

/// Exclusions.
struct Skipped {
    ops: Vec<String>,
    roles: i64,
    vars: Vec<(String, String)>,
}

fn listed(name: &str) -> Vec<String> {
    let text = std::env::var(name).unwrap_or_default();
    text.split(',').filter(|part| !part.is_empty()).map(str::to_string).collect()
}

fn read() -> std::result::Result<Skipped, String> {
    let mut skipped = Skipped { ops: listed("PADDLE_INF_NAN_SKIP_OP"), roles: 0, vars: Vec::new() };
    // Its memory is written later.
    skipped.ops.push("coalesce_tensor".into());
    for role in listed("PADDLE_INF_NAN_SKIP_ROLE") {
        let known = ROLES.iter().find(|(name, _)| *name == role);
        skipped.roles |= known
            .ok_or_else(|| {
                let names = ROLES.map(|(name, _)| name).join(", ");
                format!("PADDLE_INF_NAN_SKIP_ROLE takes {names}; got '{role}'")
            })?
            .1;
    }
    // These hold indices next to values, which are not numbers.
    skipped.vars.extend(["__dgc_encoded__", "__dgc_gather__"].map(|name| ("dgc".into(), name.into())));
    for pair in listed("PADDLE_INF_NAN_SKIP_VAR") {
        let (op, var) = pair
            .split_once(':')
            .ok_or_else(|| format!("PADDLE_INF_NAN_SKIP_VAR takes operator:variable; got '{pair}'"))?;
        skipped.vars.push((op.into(), var.into()));
    }
    Ok(skipped)
}

fn skipped() -> Result<&'static Skipped> {
    static SKIPPED: OnceLock<std::result::Result<Skipped, String>> = OnceLock::new();
    SKIPPED.get_or_init(read).as_ref().map_err(|text| err!(InvalidArgument, "{text}"))
}

/// A number that may be NaN or infinite.
trait MaybeFinite: Copy {
    /// (is NaN, is infinite)
    fn state(self) -> (bool, bool);
}

macro_rules! maybe_finite {
    ($($t:ty)*) => {$(
        impl MaybeFinite for $t {
            #[inline]
            fn state(self) -> (bool, bool) {
                (self.is_nan(), self.is_infinite())
            }
        }
    )*};
}
maybe_finite!(f16 bf16 f32 f64 Complex<f32> Complex<f64>);

struct Found {
    nans: usize,
    infs: usize,
    first: usize,
}

fn look<T: MaybeFinite>(data: &[T]) -> Option<Found> {
    let bad = |v: &T| {
        let (nan, inf) = v.state();
        nan || inf
    };
    let first = data.iter().position(bad)?;
    let count = |which: fn((bool, bool)) -> bool| data.iter().filter(|v| which(v.state())).count();
    Some(Found { nans: count(|s| s.0), infs: count(|s| s.1 && !s.0), first })
}

fn found(t: &Tensor) -> Option<Found> {
    if t.numel() == 0 || !t.has_bytes() {
        return None;
    }
    dispatch!(t.dtype(), T in [f32, f64, f16, bf16, Complex<f32>, Complex<f64>], look(t.data::<T>()), _other => None)
}

/// An error if an output holds a NaN or an infinity.
#[cold]
pub(super) fn check(op: &'static Op, outs: &Args<Out>, env: &dyn Env) -> Result<()> {
    let skipped = skipped()?;
    if skipped.ops.iter().any(|name| name == op.name) {
        return Ok(());
    }
    let role = match env.desc_attr("op_role") {
        Some(Attr::Int(role)) if role != 0 => role as i64,
        _ => FORWARD,
    };
    if skipped.roles & role != 0 {
        return Ok(());
    }
    for (i, slot) in op.outputs.iter().enumerate() {
        for (k, out) in outs.slot(i).iter().enumerate().filter(|(_, out)| out.wanted) {
            let Some(t) = out.value.elements() else { continue };
            let Some(Found { nans, infs, first }) = found(t) else { continue };
            let names = env.names(slot.name);
            let name = names.get(k).map_or(slot.name, String::as_str);
            if skipped.vars.iter().any(|(of, var)| of == op.name && name.contains(var.as_str())) {
                continue;
            }
            bail!(
                NotFinite,
                "There are `nan` or `inf` in tensor ({name}) of operator ({}): {nans} nan and {infs} inf among {} \
                 elements of shape {:?}, the first at place {first}",
                op.name,
                t.numel(),
                t.dims()
            );
        }
    }
    Ok(())
}
