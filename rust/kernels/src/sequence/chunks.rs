//! Chunks of a tagged sequence (named entities and the like), by a scheme of tags.

use std::collections::HashMap;
use std::ops::Range;

/// The position of a tag in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Begin,
    Inside,
    End,
    Single,
    /// The scheme has no positions: chunks are runs of one type.
    Any,
}

/// First and last step, and type of a chunk.
pub type Chunk = (usize, usize, i64);

/// The chunks of a sequence of tags. A tag is `type * places.len() + index into places`; types from `types` on are outside of
/// all chunks. Returns the first tag outside of 0..=types * places.len() as an error.
pub fn chunks(tags: &[i64], types: i64, places: &[Place]) -> Result<Vec<Chunk>, i64> {
    use Place::*;
    let count = places.len() as i64;
    let mut found = Vec::new();
    let mut open: Option<(usize, i64)> = None;
    let mut before: Option<(Place, i64)> = None;
    for (i, &tag) in tags.iter().enumerate() {
        if !(0..=types * count).contains(&tag) {
            return Err(tag);
        }
        let now = (tag / count < types).then(|| (places[(tag % count) as usize], tag / count));
        let ends = match (before, now) {
            (None, _) => false,
            (_, None) => true,
            (Some((_, a)), Some((_, b))) if a != b => true,
            (Some((End | Single, _)), _) => true,
            (Some((Begin | Inside, _)), Some((p, _))) => matches!(p, Begin | Single),
            _ => false,
        };
        let begins = match (before, now) {
            (_, None) => false,
            (None, _) => true,
            (Some((_, a)), Some((_, b))) if a != b => true,
            (_, Some((Begin | Single, _))) => true,
            (Some((p, _)), Some((Inside | End, _))) => matches!(p, End | Single),
            _ => false,
        };
        if let Some((start, kind)) = open.filter(|_| ends) {
            found.push((start, i - 1, kind));
            open = None;
        }
        if let (true, Some((_, kind))) = (begins, now) {
            open = Some((i, kind));
        }
        before = now;
    }
    if let Some((start, kind)) = open {
        found.push((start, tags.len() - 1, kind));
    }
    Ok(found)
}

/// Chunks of two taggings of the same sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkCounts {
    pub found: i64,
    pub labelled: i64,
    /// Chunks of both.
    pub correct: i64,
}

/// Counts the chunks whose type is not `excluded` in the sequences `rows` of both taggings, or returns the first invalid tag.
pub fn count(
    rows: &[Range<usize>],
    (tags, labels): (&[i64], &[i64]),
    (types, places): (i64, &[Place]),
    excluded: &[i32],
) -> Result<ChunkCounts, i64> {
    let included = |c: &&Chunk| !excluded.iter().any(|&t| i64::from(t) == c.2);
    let mut counts = ChunkCounts::default();
    for own in rows {
        let found = chunks(&tags[own.clone()], types, places)?;
        let labelled = chunks(&labels[own.clone()], types, places)?;
        counts.found += found.iter().filter(included).count() as i64;
        counts.labelled += labelled.iter().filter(included).count() as i64;
        // Chunks ascend and do not overlap, so their first steps are distinct.
        let starts: HashMap<usize, &Chunk> = labelled.iter().map(|c| (c.0, c)).collect();
        counts.correct += found.iter().filter(included).filter(|c| starts.get(&c.0) == Some(c)).count() as i64;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::Place::*;
    use super::*;

    #[test]
    fn schemes_find_their_chunks() {
        // IOB: tag = type * 2 + (0 begin, 1 inside); 4 is outside for two types.
        let iob = [Begin, Inside];
        assert_eq!(chunks(&[0, 1, 0, 4, 2, 3, 1], 2, &iob), Ok(vec![(0, 1, 0), (2, 2, 0), (4, 5, 1), (6, 6, 0)]));
        // IOE: (0 inside, 1 end).
        assert_eq!(chunks(&[0, 0, 1, 0, 4, 1], 2, &[Inside, End]), Ok(vec![(0, 2, 0), (3, 3, 0), (5, 5, 0)]));
        // IOBES: a single tag is a chunk.
        let all = [Begin, Inside, End, Single];
        assert_eq!(chunks(&[3, 0, 1, 2, 3, 8], 2, &all), Ok(vec![(0, 0, 0), (1, 3, 0), (4, 4, 0)]));
        // Plain: each run of a type is a chunk.
        assert_eq!(chunks(&[0, 0, 1, 2, 0], 2, &[Any]), Ok(vec![(0, 1, 0), (2, 2, 1), (4, 4, 0)]));
        assert_eq!(chunks(&[0, 5], 2, &iob), Err(5));
        assert_eq!(chunks(&[-1], 2, &iob), Err(-1));
        assert_eq!(chunks(&[], 2, &iob), Ok(vec![]));
    }

    #[test]
    fn equal_chunks_are_correct() {
        let (tags, labels) = ([0, 1, 2, 0, 4, 2], [0, 1, 2, 3, 4, 2]);
        let iob = (2, &[Begin, Inside][..]);
        let all = count(&[0..3, 3..6], (&tags, &labels), iob, &[]);
        assert_eq!(all, Ok(ChunkCounts { found: 4, labelled: 4, correct: 3 }));
        let some = count(&[0..3, 3..6], (&tags, &labels), iob, &[1]);
        assert_eq!(some, Ok(ChunkCounts { found: 2, labelled: 1, correct: 1 }));
        assert_eq!(count(&[0..1], (&[5], &[0]), iob, &[]), Err(5));
        assert_eq!(count(&[], (&[], &[]), iob, &[]), Ok(ChunkCounts::default()));
    }
}
