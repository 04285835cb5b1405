//! tree_conv: convolution over trees. Every node reads its descendants down to a depth, weighted by their depth and
//! their position among siblings.

use crate::gemm::{matmul, Gemm};
use crate::types::Float;

/// Number of weights per node: left, right, top.
pub const KINDS: usize = 3;

/// Why a list of edges is no tree.
#[derive(Debug, PartialEq)]
pub enum TreeError {
    /// The number of edges, more than nodes allow.
    Edges(usize),
    /// An edge whose nodes are not within 1 to `nodes`.
    Edge { edge: [i32; 2], nodes: usize },
}

/// A node within a patch, and its weights.
struct Read {
    root: usize,
    node: usize,
    weights: [f64; KINDS],
}

/// The patches of all roots of a tree. Nodes are numbered from 1; an edge with 0 ends the list.
fn reads(edges: &[i32], nodes: usize, depth: i32) -> Result<Vec<Read>, TreeError> {
    let count = edges.chunks_exact(2).filter(|e| e[0] != 0 && e[1] != 0).count() + 1;
    if count > nodes.max(1) {
        return Err(TreeError::Edges(count - 1));
    }
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
    for e in edges.chunks_exact(2).take_while(|e| e[0] != 0 && e[1] != 0) {
        let inside = |&v: &i32| (1..=count as i64).contains(&(v as i64));
        if !e.iter().all(inside) {
            return Err(TreeError::Edge { edge: [e[0], e[1]], nodes: count });
        }
        children[e[0] as usize].push(e[1] as usize);
    }
    let weigh = |index: usize, siblings: usize, level: i32| {
        let top = (depth - level) as f64 / depth as f64;
        let place = if siblings == 1 { 0.5 } else { (index as f64 - 1.0) / (siblings as f64 - 1.0) };
        let left = (1.0 - top) * place;
        [left, (1.0 - top) * (1.0 - left), top]
    };
    let mut found = Vec::new();
    for root in 1..=count.min(nodes) {
        let mut seen = vec![false; count + 1];
        seen[root] = true;
        found.push(Read { root: root - 1, node: root - 1, weights: weigh(1, 1, 0) });
        let mut open = vec![(root, 0)];
        while let Some((node, level)) = open.pop() {
            let below = &children[node];
            for (i, &child) in below.iter().enumerate() {
                if !seen[child] && level + 1 < depth {
                    seen[child] = true;
                    open.push((child, level + 1));
                    let weights = weigh(i + 1, below.len(), level + 1);
                    found.push(Read { root: root - 1, node: child - 1, weights });
                }
            }
        }
    }
    Ok(found)
}

/// Trees of `count` nodes with `features` each, their edges [trees, edges, 2], and filters of [features, 3, columns].
#[derive(Clone, Copy)]
pub struct TreeConv<'a, T> {
    pub nodes: &'a [T],
    pub edges: &'a [i32],
    pub w: &'a [T],
    pub trees: usize,
    pub count: usize,
    pub features: usize,
    pub columns: usize,
    pub depth: i32,
}

impl<T: Float + Gemm> TreeConv<'_, T> {
    fn reads(&self, tree: usize) -> Result<Vec<Read>, TreeError> {
        let each = self.edges.len() / self.trees;
        reads(&self.edges[tree * each..][..each], self.count, self.depth)
    }

    /// Each root's patch as a row of weighted feature sums, which is multiplied by the filter.
    fn patch(&self, reads: &[Read], nodes: &[T]) -> Vec<T> {
        let mut patch = vec![T::ZERO; self.count * self.features * KINDS];
        for r in reads {
            let from = &nodes[r.node * self.features..][..self.features];
            let to = &mut patch[r.root * self.features * KINDS..][..self.features * KINDS];
            for (to, &v) in to.chunks_exact_mut(KINDS).zip(from) {
                to.iter_mut().zip(r.weights).for_each(|(to, w)| *to += T::from_f64(w) * v);
            }
        }
        patch
    }

    /// out [trees, count, columns]
    pub fn forward(&self, out: &mut [T]) -> Result<(), TreeError> {
        let (each, depth) = (self.count * self.columns, self.features * KINDS);
        for tree in 0..self.trees {
            let patch = self.patch(&self.reads(tree)?, part(self.nodes, tree, self.trees));
            let out = &mut out[tree * each..][..each];
            matmul((self.count, self.columns, depth), &patch, false, self.w, false, out);
        }
        Ok(())
    }

    /// The requested gradients of nodes and filters.
    pub fn backward(
        &self,
        dout: &[T],
        mut dnodes: Option<&mut [T]>,
        mut dw: Option<&mut [T]>,
    ) -> Result<(), TreeError> {
        let depth = self.features * KINDS;
        dnodes.iter_mut().for_each(|d| d.fill(T::ZERO));
        dw.iter_mut().for_each(|d| d.fill(T::ZERO));
        let mut both = vec![T::ZERO; depth * self.columns];
        let mut dpatch = vec![T::ZERO; self.count * depth];
        for tree in 0..self.trees {
            let (reads, d) = (self.reads(tree)?, part(dout, tree, self.trees));
            if let Some(dw) = &mut dw {
                let patch = self.patch(&reads, part(self.nodes, tree, self.trees));
                matmul((depth, self.columns, self.count), &patch, true, d, false, &mut both);
                dw.iter_mut().zip(&both).for_each(|(to, &v)| *to += v);
            }
            if let Some(dnodes) = &mut dnodes {
                matmul((self.count, depth, self.columns), d, false, self.w, true, &mut dpatch);
                let dnodes = &mut dnodes[tree * self.count * self.features..][..self.count * self.features];
                for r in &reads {
                    let from = &dpatch[r.root * depth..][..depth];
                    let to = &mut dnodes[r.node * self.features..][..self.features];
                    for (to, from) in to.iter_mut().zip(from.chunks_exact(KINDS)) {
                        from.iter().zip(r.weights).for_each(|(&v, w)| *to += T::from_f64(w) * v);
                    }
                }
            }
        }
        Ok(())
    }
}

fn part<T>(all: &[T], i: usize, parts: usize) -> &[T] {
    let each = all.len() / parts;
    &all[i * each..][..each]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two trees of 5 nodes: 1 -> 2, 3; 2 -> 4, 5; and 1 -> 3 -> 2 with two nodes apart.
    const EDGES: [i32; 16] = [1, 2, 1, 3, 2, 4, 2, 5, 1, 3, 3, 2, 0, 0, 0, 0];

    fn values(n: usize, seed: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + seed * 31) % 41) as f64 / 20.0 - 1.0).collect()
    }

    /// The weights [left, right, top] of each node for each root.
    fn plain(edges: &[i32], depth: i32) -> Vec<Vec<[f64; 3]>> {
        fn visit(children: &[Vec<usize>], node: usize, level: i32, depth: i32, w: [f64; 3], to: &mut [[f64; 3]]) {
            to[node] = w;
            for (i, &c) in children[node].iter().enumerate().filter(|_| level + 1 < depth) {
                let n = children[node].len();
                let top = f64::from(depth - level - 1) / f64::from(depth);
                let place = if n == 1 { 0.5 } else { i as f64 / (n - 1) as f64 };
                let left = (1.0 - top) * place;
                visit(children, c, level + 1, depth, [left, (1.0 - top) * (1.0 - left), top], to);
            }
        }
        let mut children = vec![vec![]; 5];
        for e in edges.chunks_exact(2).filter(|e| e[0] > 0) {
            children[e[0] as usize - 1].push(e[1] as usize - 1);
        }
        let roots = edges.chunks_exact(2).filter(|e| e[0] > 0).count() + 1;
        (0..roots)
            .map(|root| {
                let mut to = vec![[0.0; 3]; 5];
                visit(&children, root, 0, depth, [0.0, 0.0, 1.0], &mut to);
                to
            })
            .collect()
    }

    #[test]
    fn nodes_read_their_descendants() {
        for depth in [2, 3] {
            let (nodes, w) = (values(2 * 5 * 2, 1), values(2 * 3 * 4, 2));
            let c =
                TreeConv { nodes: &nodes, edges: &EDGES, w: &w, trees: 2, count: 5, features: 2, columns: 4, depth };
            let mut out = vec![9.0; 2 * 5 * 4];
            c.forward(&mut out).unwrap();
            for tree in 0..2 {
                let weights = plain(&EDGES[tree * 8..][..8], depth);
                for (root, column) in (0..5).flat_map(|r| (0..4).map(move |c| (r, c))) {
                    let mut want = 0.0;
                    for (node, f, k) in (0..5).flat_map(|n| (0..6).map(move |i| (n, i / 3, i % 3))) {
                        let weight = weights.get(root).map_or(0.0, |w| w[node][k]);
                        want += weight * nodes[(tree * 5 + node) * 2 + f] * w[(f * 3 + k) * 4 + column];
                    }
                    assert!((out[(tree * 5 + root) * 4 + column] - want).abs() < 1e-12);
                }
            }
            // The result is linear in nodes and in filters: gradients are adjoint.
            let (d, mut dnodes, mut dw) = (values(40, 3), vec![9.0; 20], vec![9.0; 24]);
            c.backward(&d, Some(&mut dnodes), Some(&mut dw)).unwrap();
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            assert!((dot(&out, &d) - dot(&nodes, &dnodes)).abs() < 1e-9);
            assert!((dot(&out, &d) - dot(&w, &dw)).abs() < 1e-9);
            c.backward(&d, None, None).unwrap();
        }
    }

    #[test]
    fn wrong_edges_are_refused() {
        assert_eq!(reads(&EDGES[..8], 4, 2).err(), Some(TreeError::Edges(4)));
        assert_eq!(reads(&[1, 7], 4, 2).err(), Some(TreeError::Edge { edge: [1, 7], nodes: 2 }));
        assert_eq!(reads(&[0, 0], 0, 2).unwrap().len(), 0);
    }
}
