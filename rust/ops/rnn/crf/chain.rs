//! One sequence of a linear chain: scores of tags for each step, and of the changes from tag to tag. Row 0 of the changes
//! are scores of the first tag, row 1 of the last, the others those of what follows each tag.

use oar_core::base::Result;
use oar_core::ensure;
use oar_kernels::recurrent::Number;

/// Divides by the sum; gives the sum.
fn normalize<T: Number>(op: &str, x: &mut [T]) -> Result<T> {
    let sum = x.iter().fold(T::from_f64(0.0), |a, &b| a + b);
    // NaN passes, as it does everywhere.
    ensure!(
        sum.to_f64() > 0.0 || sum.to_f64().is_nan(),
        InvalidArgument,
        "operator {op}: the probabilities of all unfinished sequences are 0: the scores lie too far apart"
    );
    x.iter_mut().for_each(|x| *x = *x / sum);
    Ok(sum)
}

/// The scores of a chain, and their exponentials: `x` less the largest of its row.
pub struct Chain<'a, T> {
    pub tags: usize,
    pub x: &'a [T],
    pub x_exps: &'a [T],
    pub w: &'a [T],
    pub w_exps: &'a [T],
    pub labels: &'a [usize],
}

impl<T: Number> Chain<'_, T> {
    fn change(&self, from: usize) -> &[T] {
        &self.w_exps[(from + 2) * self.tags..(from + 3) * self.tags]
    }

    /// Minus the log likelihood of the labels. `alpha` gets the normalized probabilities of what came before each tag.
    pub fn cost(&self, op: &str, alpha: &mut [T]) -> Result<T> {
        let (n, steps) = (self.tags, self.labels.len());
        let zero = T::from_f64(0.0);
        let top = |k: usize| self.x[k * n..(k + 1) * n].iter().fold(f64::NEG_INFINITY, |m, v| m.max(v.to_f64()));
        let mut log_z = 0.0;
        for k in 0..steps {
            let (before, now) = alpha.split_at_mut(k * n);
            let now = &mut now[..n];
            if k == 0 {
                now.copy_from_slice(&self.w_exps[..n]);
            } else {
                now.fill(zero);
                for (j, &a) in before[(k - 1) * n..].iter().enumerate() {
                    now.iter_mut().zip(self.change(j)).for_each(|(o, &w)| *o += a * w);
                }
            }
            now.iter_mut().zip(&self.x_exps[k * n..]).for_each(|(o, &x)| *o = *o * x);
            log_z += top(k) + normalize(op, now)?.to_f64().ln();
        }
        let ends = alpha[(steps - 1) * n..steps * n].iter().zip(&self.w_exps[n..2 * n]);
        log_z += ends.fold(zero, |s, (&a, &w)| s + a * w).to_f64().ln();
        let at = |i: usize| self.w[i].to_f64();
        let mut score = at(self.labels[0]) + at(n + self.labels[steps - 1]);
        for (k, &label) in self.labels.iter().enumerate() {
            score += self.x[k * n + label].to_f64();
            if k > 0 {
                score += at((self.labels[k - 1] + 2) * n + label);
            }
        }
        Ok(T::from_f64(log_z - score))
    }

    /// `dx` gets the gradient of the scores, `dw` has that of the changes added.
    pub fn grad(&self, op: &str, alpha: &[T], d: T, dx: &mut [T], mut dw: Option<&mut [T]>) -> Result<()> {
        let (n, steps) = (self.tags, self.labels.len());
        let zero = T::from_f64(0.0);
        let mut beta = vec![zero; steps * n];
        beta[(steps - 1) * n..].copy_from_slice(&self.w_exps[n..2 * n]);
        normalize(op, &mut beta[(steps - 1) * n..])?;
        let mut next = vec![zero; n];
        for k in (0..steps - 1).rev() {
            let (now, later) = beta.split_at_mut((k + 1) * n);
            let later = later.iter().zip(&self.x_exps[(k + 1) * n..]);
            next.iter_mut().zip(later).for_each(|(o, (&b, &x))| *o = b * x);
            for (i, o) in now[k * n..].iter_mut().enumerate() {
                *o = self.change(i).iter().zip(&next).fold(zero, |s, (&w, &v)| s + w * v);
            }
            normalize(op, &mut now[k * n..])?;
        }
        for k in 0..steps {
            let row = k * n..(k + 1) * n;
            let dx = &mut dx[row.clone()];
            let both = alpha[row.clone()].iter().zip(&beta[row]);
            dx.iter_mut().zip(both).for_each(|(o, (&a, &b))| *o = a * b);
            let sum = dx.iter().fold(zero, |s, &v| s + v);
            dx.iter_mut().for_each(|o| *o = *o / sum * d);
            dx[self.labels[k]] = dx[self.labels[k]] - d;
        }
        let Some(dw) = dw.as_mut() else { return Ok(()) };
        for k in 0..n {
            dw[k] += dx[k];
            dw[n + k] += dx[(steps - 1) * n + k];
        }
        for k in 1..steps {
            let later = beta[k * n..].iter().zip(&self.x_exps[k * n..]);
            next.iter_mut().zip(later).for_each(|(o, (&b, &x))| *o = b * x);
            let before = &alpha[(k - 1) * n..k * n];
            let one = |i: usize| self.change(i).iter().zip(&next).fold(zero, |s, (&w, &v)| s + w * v);
            let sum = before.iter().enumerate().fold(zero, |s, (i, &a)| s + a * one(i));
            let scale = d / sum;
            for (i, &a) in before.iter().enumerate() {
                let to = dw[(i + 2) * n..(i + 3) * n].iter_mut().zip(self.change(i).iter().zip(&next));
                to.for_each(|(o, (&w, &v))| *o += scale * a * w * v);
            }
            let own = (self.labels[k - 1] + 2) * n + self.labels[k];
            dw[own] = dw[own] - d;
        }
        Ok(())
    }
}

/// The best sequence of tags: of equal scores the first.
pub fn viterbi<T: Number>(tags: usize, x: &[T], w: &[T], path: &mut [i64]) {
    let (n, steps) = (tags, path.len());
    let best = |scores: &mut dyn Iterator<Item = T>| {
        let mut found = (T::from_f64(f64::MIN), 0);
        for (i, s) in scores.enumerate() {
            if s > found.0 {
                found = (s, i);
            }
        }
        found
    };
    let mut score: Vec<T> = (0..n).map(|i| w[i] + x[i]).collect();
    let mut from = vec![0u32; steps * n];
    for k in 1..steps {
        let now = (0..n).map(|i| {
            let (s, j) = best(&mut (0..n).map(|j| score[j] + w[(j + 2) * n + i]));
            from[k * n + i] = j as u32;
            s + x[k * n + i]
        });
        score = now.collect();
    }
    let mut tag = best(&mut (0..n).map(|i| score[i] + w[n + i])).1;
    for k in (0..steps).rev() {
        path[k] = tag as i64;
        tag = from[k * n + tag] as usize;
    }
}
