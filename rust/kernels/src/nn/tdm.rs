//! Tree-based deep match: children of tree nodes, and nodes of each leaf's path with negative samples of the same
//! layers.

use crate::random::{uniform_int, Mt64};

/// The `count` children of each node, and whether each is a leaf (has an item); zeros for nodes without children. A row
/// of `tree`, of `columns`, is item, layer, parent, then the children; node 0 is none. The error is a node without a
/// row.
pub fn children(tree: &[i64], columns: usize, nodes: &[i64], count: usize) -> Result<(Vec<i64>, Vec<i64>), i64> {
    let rows = tree.len() / columns;
    let row = |node: i64| usize::try_from(node).ok().filter(|&n| n < rows).map(|n| n * columns).ok_or(node);
    let (mut children, mut leaves) = (Vec::with_capacity(nodes.len() * count), Vec::with_capacity(nodes.len() * count));
    for &node in nodes {
        let at = row(node)?;
        if node == 0 || tree[at + 3] == 0 {
            children.resize(children.len() + count, 0);
            leaves.resize(leaves.len() + count, 0);
            continue;
        }
        for &c in &tree[at + 3..][..count] {
            leaves.push(i64::from(tree[row(c)?] != 0));
            children.push(c);
        }
    }
    Ok((children, leaves))
}

/// The nodes of each layer, the range of their numbers, and how many are drawn.
pub struct TreeLayers<'a> {
    pub nodes: Vec<&'a [i64]>,
    pub ends: &'a [i32],
    pub counts: &'a [i32],
}

/// Why a leaf has no samples.
#[derive(Debug, PartialEq)]
pub enum PathError {
    Leaf(i64),
    /// The node of a path in a layer, and the number of other nodes in the layer.
    Node {
        layer: usize,
        own: i64,
        others: usize,
    },
    /// A layer holds a greater number than its end.
    Layer(usize),
}

impl TreeLayers<'_> {
    fn path<'a>(&self, travel: &'a [i64], leaf: i64) -> &'a [i64] {
        &travel[leaf as usize * self.counts.len()..][..self.counts.len()]
    }

    /// Fails unless the samples of all leaves can be drawn; `travel` [leaves, layers] holds their paths.
    pub fn check(&self, travel: &[i64], count: i64, leaves: &[i64]) -> Result<(), PathError> {
        for &leaf in leaves {
            if !(0..count).contains(&leaf) {
                return Err(PathError::Leaf(leaf));
            }
            for (layer, &own) in self.path(travel, leaf).iter().enumerate() {
                let (low, high) = (self.ends[layer] as i64, self.ends[layer + 1] as i64);
                let others = self.nodes[layer].iter().filter(|&&n| n != own).count();
                let fits = (low..=high).contains(&own) && others >= self.counts[layer] as usize;
                if own != 0 && !fits {
                    return Err(PathError::Node { layer, own, others });
                }
                if own != 0 && self.nodes[layer].iter().any(|&n| n > high) {
                    return Err(PathError::Layer(layer));
                }
            }
        }
        Ok(())
    }

    /// For each layer of each leaf's path: the path's node (with `positive`), then the drawn ones; zeros where the path
    /// does not reach the layer. `draws(layer, nodes, own, count)` returns positions of the layer.
    pub fn sample(
        &self,
        travel: &[i64],
        leaves: &[i64],
        positive: bool,
        mut draws: impl FnMut(usize, &[i64], i64, usize) -> Vec<usize>,
    ) -> TreeSamples {
        let mut all = TreeSamples::default();
        for &leaf in leaves {
            for (l, &own) in self.path(travel, leaf).iter().enumerate() {
                let count = self.counts[l] as usize;
                let width = count + usize::from(positive);
                if own == 0 {
                    for v in [&mut all.nodes, &mut all.labels, &mut all.mask] {
                        v.resize(v.len() + width, 0);
                    }
                    continue;
                }
                if positive {
                    all.nodes.push(own);
                    all.labels.push(1);
                }
                let layer = self.nodes[l];
                all.nodes.extend(draws(l, layer, own, count).into_iter().map(|place| layer[place]));
                all.labels.resize(all.labels.len() + count, 0);
                all.mask.resize(all.mask.len() + width, 1);
            }
        }
        all
    }
}

/// Nodes, their labels (1: of the path) and whether they count.
#[derive(Default)]
pub struct TreeSamples {
    pub nodes: Vec<i64>,
    pub labels: Vec<i64>,
    pub mask: Vec<i64>,
}

/// Draws `count` distinct positions of a layer, excluding the node `own`.
pub fn draw(engine: &mut Mt64, layer: &[i64], own: i64, count: usize) -> Vec<usize> {
    let mut places = Vec::with_capacity(count);
    while places.len() < count {
        let place = uniform_int(engine, 0, layer.len() as i64 - 1) as usize;
        if layer[place] != own && !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Node 1 has the children 2 and 3; 3 has the child 4. Nodes 2 and 4 have items.
    const TREE: [i64; 25] = [0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 7, 1, 1, 0, 0, 0, 1, 1, 4, 0, 9, 2, 3, 0, 0];

    #[test]
    fn children_and_leaves() {
        let (nodes, leaves) = children(&TREE, 5, &[1, 3, 2, 0], 2).unwrap();
        assert_eq!(nodes, [2, 3, 4, 0, 0, 0, 0, 0]);
        assert_eq!(leaves, [1, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!([children(&TREE, 5, &[5], 2), children(&TREE, 5, &[-1], 2)], [Err(5), Err(-1)]);
    }

    #[test]
    fn samples_are_of_the_layers_of_a_path() {
        let layers = TreeLayers { nodes: vec![&[1, 2], &[3, 4, 5]], ends: &[0, 2, 5], counts: &[1, 2] };
        // The path of leaf 1 ends in the first layer.
        let travel = [1, 4, 2, 0];
        assert_eq!(layers.check(&travel, 2, &[0, 1, 1]), Ok(()));
        let mut engine = Mt64::new(7);
        let s = layers.sample(&travel, &[0, 1], true, |_, layer, own, count| draw(&mut engine, layer, own, count));
        assert_eq!(s.labels, [1, 0, 1, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(s.mask, [1, 1, 1, 1, 1, 1, 1, 0, 0, 0]);
        assert_eq!((&s.nodes[..3], s.nodes[5], s.nodes[6]), (&[1, 2, 4][..], 2, 1));
        assert!(s.nodes[3..5] == [3, 5] || s.nodes[3..5] == [5, 3]);
        assert_eq!(s.nodes[7..], [0, 0, 0]);
        assert_eq!(layers.check(&travel, 2, &[2]), Err(PathError::Leaf(2)));
        assert_eq!(layers.check(&[9, 4], 1, &[0]), Err(PathError::Node { layer: 0, own: 9, others: 2 }));
        let wrong = TreeLayers { nodes: vec![&[1, 8], &[3, 4, 5]], ..layers };
        assert_eq!(wrong.check(&travel, 2, &[1]), Err(PathError::Layer(0)));
    }
}
