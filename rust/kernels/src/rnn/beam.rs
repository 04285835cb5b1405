//! Sequences of a beam search, from ids and parent beams.

/// out[step, row, beam] = the id at `step` of the sequence that ends in `beam`; all slices are [steps, batch, beams]. Returns
/// the first parent outside of 0..beams as an error.
pub fn gather_tree<T: Copy + Into<i64>>(
    [steps, batch, beams]: [usize; 3],
    ids: &[T],
    parents: &[T],
    out: &mut [T],
) -> Result<(), i64> {
    for row in 0..batch {
        for beam in 0..beams {
            let mut from = beam;
            for step in (0..steps).rev() {
                let at = (step * batch + row) * beams;
                out[at + beam] = ids[at + from];
                if step == 0 {
                    break; // parents of the first step are not read
                }
                let parent: i64 = parents[at + from].into();
                from = usize::try_from(parent).ok().filter(|&p| p < beams).ok_or(parent)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_beam_follows_its_parents() {
        // [steps 3, batch 1, beams 2]
        let (ids, parents) = ([1, 2, 3, 4, 5, 6], [9, 9, 1, 0, 1, 1]);
        let mut out = [0; 6];
        assert_eq!(gather_tree([3, 1, 2], &ids, &parents, &mut out), Ok(()));
        // Both last beams come from beam 1 of step 1, which comes from beam 0 of step 0.
        assert_eq!(out, [1, 1, 4, 4, 5, 6]);
        assert_eq!(gather_tree([3, 1, 2], &ids, &[0, 0, 0, 0, 2, 0], &mut out), Err(2));
        assert_eq!(gather_tree([3, 1, 2], &ids, &[0, 0, 0, -1, 1, 1], &mut out), Err(-1));
        assert_eq!(gather_tree::<i64>([0, 1, 2], &[], &[], &mut []), Ok(()));
    }
}
