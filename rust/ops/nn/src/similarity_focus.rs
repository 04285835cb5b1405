//! similarity_focus: marks the largest elements of matrices, at most one per row and column.

use oar_core::base::{DTypes, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::pool;
use std::cmp::Ordering;

attrs! {
    pub struct FocusAttrs { axis: i32, indexes: Vec<i32> }
}

slots! {
    mod focus { X "X" => OUT "Out" }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<FocusAttrs>());
    cx.shaped(focus::X, &[-1; 4])?;
    ensure!((1..4).contains(&a.axis), InvalidArgument, "operator {op}: axis must be 1, 2 or 3, got {}", a.axis);
    let size = cx.dims(focus::X)?[a.axis as usize];
    ensure!(
        !a.indexes.is_empty() && a.indexes.iter().all(|&i| i >= 0 && (size < 0 || i64::from(i) < size)),
        InvalidArgument,
        "operator {op}: indexes must be one or more of [0, {size}), the size of axis {}, got {:?}",
        a.axis,
        a.indexes
    );
    like_first(cx)
}

/// Positions of the selected elements, in descending order: no two share a row or column.
fn largest<T: PartialOrd + Copy>(matrix: &[T], columns: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..matrix.len()).collect();
    let nan = |x: &T| x.partial_cmp(x).is_none();
    // NaN sorts last.
    order.sort_by(|&a, &b| {
        let (a, b) = (&matrix[a], &matrix[b]);
        b.partial_cmp(a).unwrap_or_else(|| match (nan(a), nan(b)) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => Ordering::Equal,
        })
    });
    let (mut rows, mut taken) = (vec![false; matrix.len() / columns.max(1)], vec![false; columns]);
    order.retain(|k| {
        let (row, column) = (&mut rows[k / columns], &mut taken[k % columns]);
        let free = !*row && !*column;
        if free {
            (*row, *column) = (true, true);
        }
        free
    });
    order
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(focus::X)?, cx.attrs::<FocusAttrs>());
    let d: Vec<usize> = x.dims()[1..].iter().map(|&n| n as usize).collect();
    let strides = [d[1] * d[2], d[2], 1];
    let axis = a.axis as usize - 1;
    let others: Vec<usize> = (0..3).filter(|&k| k != axis).collect();
    let (rows, columns) = (d[others[0]], d[others[1]]);
    let place = |k: usize| k / columns * strides[others[0]] + k % columns * strides[others[1]];
    let image = d[0] * d[1] * d[2];
    dispatch!(x.dtype(), T in [f32, f64], {
        let data = x.data::<T>();
        let out = cx.out_data::<T>(focus::OUT)?;
        out.fill(0.0);
        if image > 0 {
            let mut images: Vec<&mut [T]> = out.chunks_exact_mut(image).collect();
            pool::parts(&mut images, 1, |at, part| {
                for (n, to) in part.iter_mut().enumerate() {
                    let own = &data[(at + n) * image..][..image];
                    for &index in &a.indexes {
                        let from = index as usize * strides[axis];
                        let matrix: Vec<T> = (0..rows * columns).map(|k| own[from + place(k)]).collect();
                        for k in largest(&matrix, columns) {
                            (0..d[axis]).for_each(|i| to[place(k) + i * strides[axis]] = 1.0);
                        }
                    }
                }
            });
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SIMILARITY_FOCUS: Op = Op {
    name: "similarity_focus",
    inputs: focus::INS,
    outputs: focus::OUTS,
    attrs: FocusAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&SIMILARITY_FOCUS];
