//! A loss over the nodes on the path from the root of a class tree to a leaf.

use super::{add_scaled, dot};
use crate::types::Float;

/// Scores are clipped to +-MOST before the sigmoid.
const MOST: f64 = 40.0;

/// The nodes of a path: the row of the weights, and the branch taken.
pub type Path = Vec<(usize, bool)>;

/// The path to a class in a complete tree: node n has the children 2n and 2n + 1, the root is 1, leaf c is c + classes. Row n - 1
/// belongs to node n.
pub fn complete_tree_path(class: i64, classes: i64) -> Path {
    let leaf = (class + classes) as u64;
    let depth = 63 - leaf.leading_zeros() as usize;
    (0..depth).map(|b| ((leaf >> (b + 1)) as usize - 1, leaf >> b & 1 == 1)).collect()
}

/// Paths of `length` nodes and branches for each row; a path ends at its first negative node.
pub fn given_paths(nodes: &[i64], branches: &[i64], length: usize, rows: usize) -> Vec<Path> {
    let own = |i: usize| i * length..(i + 1) * length;
    let path = |i| nodes[own(i)].iter().zip(&branches[own(i)]).take_while(|(&n, _)| n >= 0);
    (0..rows).map(|i| path(i).map(|(&n, &b)| (n as usize, b != 0)).collect()).collect()
}

/// Weights of the nodes, of `width` elements each, and their biases.
#[derive(Clone, Copy)]
pub struct Nodes<'a, T> {
    pub weight: &'a [T],
    pub bias: Option<&'a [T]>,
    pub width: usize,
}

impl<T: Float> Nodes<'_, T> {
    fn row(&self, node: usize) -> &[T] {
        &self.weight[node * self.width..(node + 1) * self.width]
    }

    /// Writes `ln(1 + exp(score))` for each of `length` nodes of a path, and the loss of each row of `x`. Positions after the
    /// end of a path have score 0, as in Paddle.
    pub fn forward(&self, x: &[T], paths: &[Path], length: usize, pre: &mut [T], out: &mut [T]) {
        let most = T::from_f64(MOST);
        for (i, path) in paths.iter().enumerate() {
            let row = &x[i * self.width..(i + 1) * self.width];
            let pre = &mut pre[i * length..(i + 1) * length];
            pre.fill(T::ZERO);
            let mut right = T::ZERO;
            for (score, &(node, branch)) in pre.iter_mut().zip(path) {
                let v = dot(row, self.row(node)) + self.bias.map_or(T::ZERO, |b| b[node]);
                let v = if v < -most { -most } else { v };
                *score = if v > most { most } else { v };
                right += if branch { *score } else { T::ZERO };
            }
            pre.iter_mut().for_each(|s| *s = (T::ONE + s.exp()).ln());
            out[i] = pre.iter().copied().sum::<T>() - right;
        }
    }

    /// Adds the gradients. `place` is the row of `grads.weight` for a node.
    pub fn backward(
        &self,
        x: &[T],
        paths: &[Path],
        (pre, length): (&[T], usize),
        dout: &[T],
        place: impl Fn(usize) -> usize,
        mut grads: NodeGrads<T>,
    ) {
        let width = self.width;
        for (i, path) in paths.iter().enumerate() {
            for (&s, &(node, branch)) in pre[i * length..].iter().zip(path) {
                // sigmoid(score) = 1 - 1 / (1 + e^score)
                let g = (T::ONE - (-s).exp() - if branch { T::ONE } else { T::ZERO }) * dout[i];
                if let Some(db) = grads.bias.as_deref_mut() {
                    db[node] += g;
                }
                add_scaled(g, &x[i * width..], &mut grads.weight[place(node) * width..][..width]);
                if let Some(dx) = grads.x.as_deref_mut() {
                    add_scaled(g, self.row(node), &mut dx[i * width..(i + 1) * width]);
                }
            }
        }
    }
}

/// The gradients to add to.
pub struct NodeGrads<'a, T> {
    pub weight: &'a mut [T],
    pub bias: Option<&'a mut [T]>,
    pub x: Option<&'a mut [T]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_from_leaves_to_the_root() {
        // Five classes: leaf 3 is node 8, with the ancestors 4, 2 and 1.
        assert_eq!(complete_tree_path(3, 5), [(3, false), (1, false), (0, false)]);
        assert_eq!(complete_tree_path(0, 5), [(1, true), (0, false)]);
        assert_eq!(
            given_paths(&[2, 0, -1, 1, -1, 5], &[1, 0, 1, 0, 0, 0], 3, 2),
            [vec![(2, true), (0, false)], vec![(1, false)]]
        );
    }

    #[test]
    fn losses_equal_a_plain_loop() {
        let (width, length) = (2, 3);
        let paths = vec![vec![(0, true), (2, false)], vec![], vec![(1, false), (0, false), (2, true)]];
        let x = [1.0f64, -2.0, 0.5, 0.25, 60.0, -1.0];
        let weight = [0.5, 1.0, -1.0, 2.0, 1.5, -0.5];
        let (bias, dout) = ([0.1, 0.2, 0.3], [1.0, 2.0, -1.0]);
        let nodes = Nodes { weight: &weight, bias: Some(&bias), width };
        let (mut pre, mut out) = ([9.0; 9], [0.0; 3]);
        nodes.forward(&x, &paths, length, &mut pre, &mut out);
        let (mut dw, mut db, mut dx) = ([0.0; 6], [0.0; 3], [0.0; 6]);
        let grads = NodeGrads { weight: &mut dw, bias: Some(&mut db), x: Some(&mut dx) };
        nodes.backward(&x, &paths, (&pre, length), &dout, |n| n, grads);
        let (mut want_dw, mut want_db, mut want_dx) = ([0.0; 6], [0.0; 3], [0.0; 6]);
        for (i, path) in paths.iter().enumerate() {
            let mut loss = (length - path.len()) as f64 * 2.0f64.ln();
            for &(n, branch) in path {
                let score = (0..2).map(|k| x[i * 2 + k] * weight[n * 2 + k]).sum::<f64>() + bias[n];
                let score = score.clamp(-40.0, 40.0);
                loss += (1.0 + score.exp()).ln() - f64::from(u8::from(branch)) * score;
                let g = (1.0 / (1.0 + (-score).exp()) - f64::from(u8::from(branch))) * dout[i];
                want_db[n] += g;
                for k in 0..2 {
                    want_dw[n * 2 + k] += g * x[i * 2 + k];
                    want_dx[i * 2 + k] += g * weight[n * 2 + k];
                }
            }
            assert!((out[i] - loss).abs() < 1e-12);
        }
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(near(&dw, &want_dw) && near(&db, &want_db) && near(&dx, &want_dx));
    }
}
