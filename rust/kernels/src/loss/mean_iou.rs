//! Intersection over union of predicted and labelled classes: counts of wrong and correct elements for each class.

/// A number that is not a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadClass {
    Prediction(i64),
    Label(i64),
}

/// The predicted and the labelled class of each element, or the first number that is none of `classes`.
pub fn pairs<'a>(
    predictions: &'a [i64],
    labels: &'a [i64],
    classes: i64,
) -> impl Iterator<Item = Result<(usize, usize), BadClass>> + 'a {
    let is = move |class: i64| (0..classes).contains(&class);
    predictions.iter().zip(labels).map(move |(&p, &l)| match (is(p), is(l)) {
        (false, _) => Err(BadClass::Prediction(p)),
        (_, false) => Err(BadClass::Label(l)),
        _ => Ok((p as usize, l as usize)),
    })
}

/// Adds to the counts of each class: an element is correct, or wrong for both of its classes.
pub fn count(predictions: &[i64], labels: &[i64], wrong: &mut [i32], correct: &mut [i32]) -> Result<(), BadClass> {
    let add = |counts: &mut [i32], class: usize| counts[class] = counts[class].wrapping_add(1);
    for pair in pairs(predictions, labels, wrong.len() as i64) {
        let (p, l) = pair?;
        if p == l {
            add(correct, p);
        } else {
            add(wrong, l);
            add(wrong, p);
        }
    }
    Ok(())
}

/// The mean over the classes that occur; NaN without any.
pub fn mean(wrong: &[i32], correct: &[i32]) -> f32 {
    let all = wrong.iter().zip(correct).map(|(w, &c)| (c, w.wrapping_add(c)));
    let there: Vec<f32> = all.filter(|&(_, all)| all > 0).map(|(c, all)| c as f32 / all as f32).collect();
    there.iter().sum::<f32>() / there.len() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_count_for_both_of_their_classes() {
        let (mut wrong, mut correct) = ([0, 0, 0, 0], [1, 0, 0, 0]);
        assert_eq!(count(&[0, 1, 2, 1], &[0, 1, 1, 2], &mut wrong, &mut correct), Ok(()));
        assert_eq!((wrong, correct), ([0, 2, 2, 0], [2, 1, 0, 0]));
        assert_eq!(mean(&wrong, &correct), (1.0 + 1.0 / 3.0 + 0.0) / 3.0);
        assert_eq!(count(&[4], &[9], &mut wrong, &mut correct), Err(BadClass::Prediction(4)));
        assert_eq!(count(&[3], &[-1], &mut wrong, &mut correct), Err(BadClass::Label(-1)));
        assert!(mean(&[0], &[0]).is_nan());
    }
}
