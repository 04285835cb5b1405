//! Estimated costs of messages, and the all_reduce algorithm of least cost.

/// Costs in nanoseconds. All ranks of a group must use the same values; otherwise they would choose different plans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Latency: from sending to receipt, for any length.
    pub message: f64,
    /// Per byte sent.
    pub byte: f64,
    /// Per byte reduced.
    pub combine: f64,
}

impl Default for Costs {
    /// Measured between two processes over the loopback interface (`examples/simulate.rs`).
    fn default() -> Costs {
        Costs { message: 18_000.0, byte: 0.6, combine: 0.15 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllReduce {
    /// Recursive doubling: the whole buffer to one peer per round; fewest messages.
    Doubling,
    /// Recursive halving and doubling: twice the messages, fewest bytes.
    Halving,
    /// Ring: fewest bytes, sent to the next rank continuously.
    Ring,
}

impl Costs {
    /// Estimated time of an all_reduce of `bytes` by an algorithm.
    pub fn estimate(&self, plan: AllReduce, world: usize, bytes: usize) -> f64 {
        let (n, bytes) = (world as f64, bytes as f64);
        let rounds = f64::from(world.ilog2());
        let power = rounds.exp2();
        let whole = self.message + bytes * (self.byte + self.combine);
        let folded = if world.is_power_of_two() { 0.0 } else { whole + self.message + bytes * self.byte };
        match plan {
            AllReduce::Doubling => folded + rounds * whole,
            AllReduce::Halving => {
                let moved = bytes * (1.0 - 1.0 / power);
                folded + 2.0 * rounds * self.message + moved * (2.0 * self.byte + self.combine)
            }
            AllReduce::Ring => {
                let moved = bytes * (1.0 - 1.0 / n);
                2.0 * (n - 1.0) * self.message + moved * (2.0 * self.byte + self.combine)
            }
        }
    }

    /// The fastest algorithm for `world` ranks and messages of at most `segment` bytes. Pieces of a ring are pipelined,
    /// which is credited with a tenth.
    pub fn best(&self, world: usize, segment: usize, bytes: usize) -> AllReduce {
        let [doubling, halving, ring] =
            [AllReduce::Doubling, AllReduce::Halving, AllReduce::Ring].map(|plan| self.estimate(plan, world, bytes));
        if bytes <= segment && doubling <= halving.min(ring) {
            AllReduce::Doubling
        } else if ring <= 1.1 * halving {
            AllReduce::Ring
        } else {
            AllReduce::Halving
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_changes_with_size_and_ranks() {
        let costs = Costs { message: 15_000.0, byte: 0.5, combine: 0.1 };
        let best = |world, bytes| costs.best(world, 1 << 20, bytes);
        assert_eq!(best(2, 4), AllReduce::Doubling);
        assert_eq!(best(2, 64 << 20), AllReduce::Ring);
        assert_eq!(best(512, 4 << 10), AllReduce::Doubling);
        assert_eq!(best(512, 1 << 20), AllReduce::Halving);
        assert_eq!(best(512, 1 << 30), AllReduce::Ring);
        // Folding costs as much as the remaining rounds.
        assert_eq!(best(3, 8 << 20), AllReduce::Ring);
    }
}
