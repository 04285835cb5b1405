//! positive_negative_pair: counts pairs of items of a query by whether their scores are in the order of their labels.

use super::elements::{of_size, one_column};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::loss::positive_negative_pair::{count, PairSums};
use oar_ops_common::axis;

attrs! {
    pub struct PairAttrs { column: i32 = 0 }
}

slots! {
    mod pair {
        SCORE "Score", LABEL "Label", QUERY "QueryID", RIGHT "AccumulatePositivePair".dispensable(),
        WRONG "AccumulateNegativePair".dispensable(), EQUAL "AccumulateNeutralPair".dispensable(), WEIGHT "Weight".dispensable()
        => RIGHT_OUT "PositivePair", WRONG_OUT "NegativePair", EQUAL_OUT "NeutralPair".dispensable()
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<PairAttrs>());
    cx.shaped(pair::SCORE, &[-1, -1])?;
    one_column(cx, pair::LABEL)?;
    let score = cx.dims(pair::SCORE)?;
    for slot in [pair::LABEL, pair::QUERY] {
        cx.shaped(slot, &[score[0], 1])?;
    }
    if cx.has(pair::WEIGHT) {
        cx.shaped(pair::WEIGHT, &[score[0], 1])?;
    }
    ensure!(
        score[1] < 0 || (-score[1]..score[1]).contains(&i64::from(a.column)),
        OutOfRange,
        "operator {op}: column must be one of the {} columns of Score, got {}",
        score[1],
        a.column
    );
    let sums = [pair::RIGHT, pair::WRONG, pair::EQUAL];
    let given = sums.iter().filter(|&&slot| cx.has(slot)).count();
    ensure!(
        matches!(given, 0 | 3),
        InvalidArgument,
        "operator {op}: AccumulatePositivePair, AccumulateNegativePair and AccumulateNeutralPair must be given together"
    );
    for slot in &sums[..given] {
        cx.shaped(*slot, &[1])?;
    }
    let dtype = cx.dtype(pair::SCORE)?;
    cx.set_each(&[pair::RIGHT_OUT, pair::WRONG_OUT, pair::EQUAL_OUT], &[1], dtype);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (score, query) = (cx.input(pair::SCORE)?, cx.input(pair::QUERY)?);
    axis::like(cx, query, query.dims(), DType::I64, "QueryID")?;
    let (n, width, dtype) = (score.dims()[0] as usize, score.dims()[1] as usize, score.dtype());
    let label = of_size(cx, pair::LABEL, n, dtype)?;
    let column = (i64::from(cx.attrs::<PairAttrs>().column)).rem_euclid(width.max(1) as i64) as usize;
    dispatch!(dtype, T in [f32, f64], {
        let (score, label) = (score.data::<T>(), label.data::<T>());
        let weight = match cx.opt(pair::WEIGHT) {
            Some(_) => Some(of_size(cx, pair::WEIGHT, n, dtype)?.data::<T>()),
            None => None,
        };
        let mut sums = PairSums::default();
        if cx.has(pair::RIGHT) {
            let given = |slot| -> Result<T> { Ok(of_size(cx, slot, 1, dtype)?.data::<T>()[0]) };
            sums = PairSums { positive: given(pair::RIGHT)?, negative: given(pair::WRONG)?, neutral: given(pair::EQUAL)? };
        }
        let sums = count((score, width, column), label, query.data::<i64>(), weight, sums);
        let sums = [sums.positive, sums.negative, sums.neutral];
        for (slot, sum) in [pair::RIGHT_OUT, pair::WRONG_OUT, pair::EQUAL_OUT].into_iter().zip(sums) {
            if cx.wants(slot) {
                cx.out_data::<T>(slot)?[0] = sum;
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static POSITIVE_NEGATIVE_PAIR: Op = Op {
    name: "positive_negative_pair",
    inputs: pair::INS,
    outputs: pair::OUTS,
    attrs: PairAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&POSITIVE_NEGATIVE_PAIR];
