//! Broadcast strides and casts of real numbers, which broadcast.rs and complex.rs share.

use half::{bf16, f16};
use oar_core::base::shape::to_usize;
use oar_core::base::{DType, Result};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure};
use oar_kernels::shape::strides::broadcast_strides;

/// Strides that read a tensor of shape `from` as shape `out`; `axis` as in `broadcast_dims`.
pub fn strides(from: &[i64], out: &[i64], axis: i32) -> Result<Vec<isize>> {
    ensure!(axis >= -1, InvalidArgument, "axis must be -1 or more to place shape {from:?} within {out:?}, got {axis}");
    let place = (axis != -1 && from.len() < out.len()).then_some(axis as usize);
    match broadcast_strides(&to_usize(from), &to_usize(out), place) {
        Some(s) => Ok(s),
        None => bail!(InvalidArgument, "shape {from:?} cannot be broadcast to {out:?} (axis {axis})"),
    }
}

/// A real tensor in another real data type; shared if it has that one already.
pub fn cast_real(t: &Tensor, to: DType) -> Result<Tensor> {
    if t.dtype() == to {
        return t.share();
    }
    let mut out = Tensor::empty(to, t.dims())?;
    dispatch!(t.dtype(), T in [f32, f64, i32, i64, bool, f16, bf16, i16, i8, u8], {
        dispatch!(to, U in [f32, f64, i32, i64, bool, f16, bf16, i16, i8, u8], {
            oar_kernels::elementwise::cast::cast(t.data::<T>(), out.data_mut::<U>()?);
        }, _never => unreachable!("all real types are in the list"))
    }, _never => unreachable!("all real types are in the list"));
    Ok(out.with_lod(t.lod.clone()))
}
