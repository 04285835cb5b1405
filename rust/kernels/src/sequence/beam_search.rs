//! Beam search: the best continuations of one step, and the sentences traced back from all steps.

use super::spans;

/// A continuation: its prefix, token and score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    pub prefix: usize,
    pub id: i64,
    pub score: f32,
}

impl Item {
    fn is_below(&self, other: &Item) -> bool {
        self.score < other.score || self.score == other.score && self.prefix < other.prefix
    }
}

/// The best continuations, in descending order.
struct Best {
    items: Vec<Item>,
    most: usize,
}

impl Best {
    fn put(&mut self, item: Item) {
        if self.items.len() == self.most {
            if self.items.last().is_some_and(|last| item.is_below(last)) {
                return;
            }
            self.items.pop();
        }
        let behind = self.items.iter().rev().take_while(|held| held.is_below(&item)).count();
        self.items.insert(self.items.len() - behind, item);
    }
}

/// The candidates of a step: `width` scores for each prefix.
pub struct Candidates<'a> {
    /// Last token and score of each prefix.
    pub pre_ids: &'a [i64],
    pub pre_scores: &'a [f32],
    /// The token of each score; without them its column.
    pub ids: Option<&'a [i64]>,
    pub scores: &'a [f32],
    pub width: usize,
    /// Scores include those of their prefix; otherwise they are probabilities of the token.
    pub accumulated: bool,
    /// The token that ends a sentence.
    pub end: i64,
}

impl Candidates<'_> {
    /// The continuations of each prefix: at most `most` for each source (a range of prefixes), none for a source whose
    /// sentences have all ended.
    pub fn search(&self, sources: &[usize], most: usize) -> Vec<Vec<Item>> {
        let mut chosen: Vec<Vec<Item>> = vec![Vec::new(); sources.last().copied().unwrap_or(0)];
        for source in spans(sources) {
            let mut best = Best { items: Vec::new(), most };
            for prefix in source {
                if self.pre_ids[prefix] == self.end {
                    // An ended prefix keeps its token and score.
                    best.put(Item { prefix, id: self.end, score: self.pre_scores[prefix] });
                    continue;
                }
                for at in prefix * self.width..(prefix + 1) * self.width {
                    let id = self.ids.map_or((at - prefix * self.width) as i64, |ids| ids[at]);
                    let score = self.scores[at];
                    let score = if self.accumulated { score } else { self.pre_scores[prefix] + score.ln() };
                    best.put(Item { prefix, id, score });
                }
            }
            if best.items.iter().any(|i| i.id != self.end || self.pre_ids[i.prefix] != self.end) {
                best.items.into_iter().for_each(|i| chosen[i.prefix].push(i));
            }
        }
        chosen
    }
}

/// The selection of a step: tokens, scores, the prefixes of each source, the candidates of each prefix.
pub struct Step<'a> {
    pub ids: &'a [i64],
    pub scores: Vec<f64>,
    pub sources: &'a [usize],
    pub prefixes: &'a [usize],
}

/// Steps that do not fit each other or the size of the beam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A source has more sentences than the beam.
    TooManySentences,
    /// A step continues a candidate that the preceding step does not have.
    NoCandidate(usize),
}

/// Tokens and scores of all sentences, `most` for each source (unused ones are empty), and the length of each.
#[derive(Default, Debug, PartialEq)]
pub struct Sentences {
    pub ids: Vec<i64>,
    pub scores: Vec<f64>,
    pub lengths: Vec<usize>,
}

/// The sentences of all sources, which are of descending score of their last token within each source.
pub fn decode(steps: &[Step], most: usize, end: i64) -> Result<Sentences, DecodeError> {
    let mut all = Sentences::default();
    for source in 0..steps.first().map_or(0, |s| s.sources.len() - 1) {
        for sentence in backtrace(steps, source, most, end)? {
            all.lengths.push(sentence.len());
            all.ids.extend(sentence.iter().rev().map(|token| token.0));
            all.scores.extend(sentence.iter().rev().map(|token| token.1));
        }
    }
    Ok(all)
}

/// The sentences of one source, last token first, traced back from the last step.
fn backtrace(steps: &[Step], source: usize, most: usize, end: i64) -> Result<Vec<Vec<(i64, f64)>>, DecodeError> {
    let mut sentences: Vec<Vec<(i64, f64)>> = vec![Vec::new(); most];
    // The candidate of the preceding step that each sentence continues.
    let mut at: Vec<usize> = Vec::new();
    for step in steps.iter().rev() {
        let prefixes = step.sources[source]..step.sources[source + 1];
        if at.is_empty() {
            // Last step, or all sentences end here.
            for prefix in prefixes {
                for candidate in step.prefixes[prefix]..step.prefixes[prefix + 1] {
                    let sentence = sentences.get_mut(at.len()).ok_or(DecodeError::TooManySentences)?;
                    sentence.push((step.ids[candidate], step.scores[candidate]));
                    at.push(prefix);
                }
            }
            continue;
        }
        for (sentence, at) in sentences.iter_mut().zip(&mut at) {
            let first = step.prefixes[prefixes.start];
            if !(first..step.prefixes[prefixes.end]).contains(at) {
                return Err(DecodeError::NoCandidate(*at));
            }
            // A sentence contains only its first end token.
            if step.ids[*at] != end || sentence.is_empty() {
                sentence.push((step.ids[*at], step.scores[*at]));
            }
            let ends = &step.prefixes[prefixes.start + 1..=prefixes.end];
            *at = prefixes.start + ends.partition_point(|&e| e <= *at);
        }
    }
    let score = |s: &[(i64, f64)]| s.first().map_or(f64::NEG_INFINITY, |token| token.1);
    sentences.sort_by(|a, b| score(b).total_cmp(&score(a)));
    Ok(sentences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_candidates_are_those_of_a_full_sort() {
        let scores: Vec<f32> = (0..15).map(|i| (i * 7 % 15) as f32).collect();
        let c = Candidates {
            pre_ids: &[5, 6, 0, 0, 5],
            pre_scores: &[0.0, 0.0, 9.5, 2.0, 0.0],
            ids: None,
            scores: &scores,
            width: 3,
            accumulated: true,
            end: 0,
        };
        let chosen = c.search(&[0, 3, 4, 5], 2);
        // Source 0: the scores of prefixes 0 and 1, and the ended prefix 2.
        let mut all: Vec<(f32, usize, i64)> = (0..6).map(|i| (scores[i], i / 3, (i % 3) as i64)).collect();
        all.push((9.5, 2, 0));
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut got: Vec<(f32, usize, i64)> = chosen[..3].iter().flatten().map(|i| (i.score, i.prefix, i.id)).collect();
        got.sort_by(|a, b| b.0.total_cmp(&a.0));
        assert_eq!(got, all[..2]);
        // Source 1 has only an ended prefix.
        assert_eq!((chosen[3].len(), chosen[4].len()), (0, 2));
        let own = Candidates { accumulated: false, pre_scores: &[1.0; 5], ids: Some(&[7; 15]), ..c };
        let first = own.search(&[0, 1], 1)[0][0];
        assert_eq!((first.id, first.score), (7, 1.0 + scores[..3].iter().copied().fold(0.0, f32::max).ln()));
        assert_eq!(own.search(&[0], 2), Vec::<Vec<Item>>::new());
    }

    #[test]
    fn sentences_follow_their_candidates_back() {
        // One source, beam 2. Step 0: tokens 1 and 2; step 1: token 3 continues 1, tokens 4 continues 2.
        let steps = [
            Step { ids: &[1, 2], scores: vec![0.1, 0.2], sources: &[0, 1], prefixes: &[0, 2] },
            Step { ids: &[3, 4], scores: vec![0.3, 0.4], sources: &[0, 2], prefixes: &[0, 1, 2] },
        ];
        let found = decode(&steps, 2, 0).unwrap();
        assert_eq!(found, Sentences { ids: vec![2, 4, 1, 3], scores: vec![0.2, 0.4, 0.1, 0.3], lengths: vec![2, 2] });
        assert_eq!(decode(&steps, 1, 0), Err(DecodeError::TooManySentences));
        let short = Step { ids: &[1], scores: vec![0.1], sources: &[0, 1], prefixes: &[0, 1] };
        let [_, last] = steps;
        assert_eq!(decode(&[short, last], 2, 0), Err(DecodeError::NoCandidate(1)));
    }
}
