//! Batched matrix products: merges batches into one `gemm` call where the layout allows it, and computes the offsets of
//! each matrix.

use super::plan::Shape;
use half::{bf16, f16};
use oar_core::base::dtype::Element;
use oar_core::base::shape::numel;
use oar_core::base::Result;
use oar_core::dispatch;
use oar_core::tensor::Tensor;
use oar_kernels::gemm::{self, Epilogue, Gemm, View};
use oar_kernels::types::Number;
use oar_ops_common::complex::{join, split};
use smallvec::{smallvec, SmallVec};

/// `c = alpha * a b + beta * c` for every batch. Batch axes that A and B have but C lacks are summed.
pub(super) fn product(
    alpha: f64,
    a: (&Tensor, &Shape),
    b: (&Tensor, &Shape),
    c: (&mut Tensor, &Shape),
    add: bool,
) -> Result<()> {
    let dtype = c.0.dtype();
    dispatch!(dtype, T in [f32, f64, f16, bf16, i32, i64], {
        product_of::<T>(alpha, (a.0.data(), a.1), (b.0.data(), b.1), (c.0.data_mut()?, c.1), add);
        Ok(())
    }, other => if other.is_complex() {
        complex_product(alpha, a, b, c, add)
    } else {
        oar_core::bail!(Unimplemented, "matrix products have no CPU kernel for data type {other}")
    })
}

/// `c = alpha * a b + beta * c` for one complex type: four real products.
fn complex_product(
    alpha: f64,
    a: (&Tensor, &Shape),
    b: (&Tensor, &Shape),
    c: (&mut Tensor, &Shape),
    add: bool,
) -> Result<()> {
    let ((ar, ai), (br, bi), (mut cr, mut ci)) = (split(a.0)?, split(b.0)?, split(c.0)?);
    product(alpha, (&ar, a.1), (&br, b.1), (&mut cr, c.1), add)?;
    product(-alpha, (&ai, a.1), (&bi, b.1), (&mut cr, c.1), true)?;
    product(alpha, (&ar, a.1), (&bi, b.1), (&mut ci, c.1), add)?;
    product(alpha, (&ai, a.1), (&br, b.1), (&mut ci, c.1), true)?;
    *c.0 = join(&cr, &ci)?.with_lod(c.0.lod.clone());
    Ok(())
}

fn product_of<T: Gemm + Number + Element>(
    alpha: f64,
    (a, sa): (&[T], &Shape),
    (b, sb): (&[T], &Shape),
    (c, sc): (&mut [T], &Shape),
    add: bool,
) {
    let (mut m, n, mut k) = (sa.height() as usize, sb.width() as usize, sa.width() as usize);
    let alpha = T::from_f64(alpha);
    let beta = |add: bool| if add { T::ONE } else { T::ZERO };
    let va = View::rows(a, sa.cols as usize, sa.trans);
    let vb = View::rows(b, sb.cols as usize, sb.trans);
    let (na, nb, nc) = (numel(&sa.batch), numel(&sb.batch), numel(&sc.batch));
    // Batches contiguous along M or along K are one product.
    let one = if na == 1 && nb == 1 && nc == 1 {
        true
    } else if nb == 1 && na == nc && !sa.trans {
        m *= na;
        true
    } else if nc == 1 && na == nb && sa.trans && !sb.trans {
        k *= na;
        true
    } else {
        false
    };
    if one {
        return gemm::gemm((m, n, k), alpha, va, vb, beta(add), c, n, Epilogue::NONE);
    }
    let (layers, empty) = layers(sa, sb, sc);
    if empty && !add {
        c.fill(T::ZERO);
    }
    for (i, offsets) in layers.iter().enumerate() {
        gemm::batched((m, n, k), alpha, va, vb, beta(add || i > 0), c, n, Epilogue::NONE, offsets);
    }
}

type Offsets = Vec<(usize, usize, usize)>;

/// Offsets of the matrices of each batch item, in layers: within a layer no two items write the same C. The flag is
/// true if there is no item although C may have elements.
fn layers(a: &Shape, b: &Shape, c: &Shape) -> (Vec<Offsets>, bool) {
    let rank = a.batch.len().max(b.batch.len()).max(c.batch.len());
    let at = |s: &Shape, i: usize| {
        let skip = rank - s.batch.len();
        if i < skip {
            1
        } else {
            s.batch[i - skip] as usize
        }
    };
    let full: SmallVec<[usize; 6]> =
        (0..rank).map(|i| [at(a, i), at(b, i), at(c, i)].into_iter().find(|&d| d != 1).unwrap_or(1)).collect();
    let steps = |s: &Shape| -> SmallVec<[usize; 6]> {
        let mut step = (s.rows * s.cols) as usize;
        let mut steps: SmallVec<[usize; 6]> = smallvec![0; rank];
        for i in (0..rank).rev() {
            let d = at(s, i);
            steps[i] = if d == 1 { 0 } else { step };
            step *= d;
        }
        steps
    };
    let (ta, tb, tc) = (steps(a), steps(b), steps(c));
    let total: usize = full.iter().product();
    // A layer is one position within the axes that C lacks.
    let mut layers: Vec<Offsets> = Vec::new();
    for item in 0..total {
        let (mut rest, mut o, mut layer, mut width) = (item, (0, 0, 0), 0, 1);
        for i in (0..rank).rev() {
            let at_i = rest % full[i];
            rest /= full[i];
            o = (o.0 + at_i * ta[i], o.1 + at_i * tb[i], o.2 + at_i * tc[i]);
            if at(c, i) == 1 && full[i] != 1 {
                layer += at_i * width;
                width *= full[i];
            }
        }
        if layers.len() <= layer {
            layers.resize(layer + 1, Vec::new());
        }
        layers[layer].push(o);
    }
    (layers, total == 0)
}
