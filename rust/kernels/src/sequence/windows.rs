//! Context windows of sequences (sequence_conv): the matrix of windows and its gradient.

/// Context windows of `count` steps that begin `start` steps before or after each step. Steps outside of a sequence are rows
/// of padding: `up` rows before it, then those after it.
#[derive(Clone, Copy)]
pub struct Windows<'a> {
    /// Sequence i has the steps `level[i]..level[i + 1]`.
    pub level: &'a [usize],
    pub start: i64,
    pub count: usize,
    pub up: i64,
}

/// The source of a row of a window.
enum Source {
    Step(usize),
    Padding(usize),
}

impl Windows<'_> {
    /// Calls `f(step, position in the window, source)`.
    fn each(&self, mut f: impl FnMut(usize, usize, Source)) {
        for span in self.level.windows(2) {
            let length = (span[1] - span[0]) as i64;
            for step in 0..length {
                for k in 0..self.count as i64 {
                    let at = step + self.start + k;
                    let source = match at {
                        at if at < 0 => Source::Padding((at + self.up) as usize),
                        at if at >= length => Source::Padding((at - length + self.up) as usize),
                        at => Source::Step(span[0] + at as usize),
                    };
                    f(span[0] + step as usize, k as usize, source);
                }
            }
        }
    }

    /// Writes the windows of `x`, rows of `width` elements, to `to` [steps, count * width]. Without padding, steps outside of
    /// a sequence stay unchanged.
    pub fn gather<T: Copy>(&self, x: &[T], padding: Option<&[T]>, width: usize, to: &mut [T]) {
        self.each(|row, k, source| {
            let to = &mut to[(row * self.count + k) * width..][..width];
            match (source, padding) {
                (Source::Step(i), _) => to.copy_from_slice(&x[i * width..][..width]),
                (Source::Padding(i), Some(p)) => to.copy_from_slice(&p[i * width..][..width]),
                (Source::Padding(_), None) => {}
            }
        });
    }

    /// Adds the gradient of the matrix of windows to those of steps and of padding.
    pub fn scatter<T: Copy + std::ops::AddAssign>(
        &self,
        from: &[T],
        width: usize,
        mut dx: Option<&mut [T]>,
        mut dpadding: Option<&mut [T]>,
    ) {
        self.each(|row, k, source| {
            let from = &from[(row * self.count + k) * width..][..width];
            let to = match source {
                Source::Step(i) => dx.as_deref_mut().map(|d| &mut d[i * width..][..width]),
                Source::Padding(i) => dpadding.as_deref_mut().map(|d| &mut d[i * width..][..width]),
            };
            to.into_iter().flatten().zip(from).for_each(|(to, &v)| *to += v);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_within_their_sequence() {
        let w = Windows { level: &[0, 2, 3], start: -1, count: 3, up: 1 };
        let (x, padding) = ([1, 2, 3], [10, 20]);
        let mut to = [0; 9];
        w.gather(&x, Some(&padding), 1, &mut to);
        assert_eq!(to, [10, 1, 2, 1, 2, 20, 10, 3, 20]);
        let mut to = [0; 9];
        w.gather(&x, None, 1, &mut to);
        assert_eq!(to, [0, 1, 2, 1, 2, 0, 0, 3, 0]);
    }

    #[test]
    fn scattering_is_the_transpose_of_gathering() {
        let w = Windows { level: &[0, 3, 3, 5], start: -2, count: 4, up: 2 };
        let (steps, width) = (5, 2);
        let x: Vec<i64> = (0..steps * width).map(|i| (i * 31 % 17) as i64).collect();
        let padding: Vec<i64> = (0..3 * width).map(|i| (i * 13 % 7) as i64).collect();
        let z: Vec<i64> = (0..steps * w.count * width).map(|i| (i * 11 % 19) as i64).collect();
        let mut all = vec![0; z.len()];
        w.gather(&x, Some(&padding), width, &mut all);
        let (mut dx, mut dpadding) = (vec![0; x.len()], vec![0; padding.len()]);
        w.scatter(&z, width, Some(&mut dx), Some(&mut dpadding));
        let dot = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<i64>();
        assert_eq!(dot(&all, &z), dot(&x, &dx) + dot(&padding, &dpadding));
    }
}
