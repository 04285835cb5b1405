//! What messages cost, and which plan of an all_reduce costs least by that.

/// Nanoseconds. All ranks of a group must reckon with the same, or they would follow different plans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// From the sending of a message to its receipt, whatever its length.
    pub message: f64,
    /// For each byte on its way.
    pub byte: f64,
    /// For each byte that is combined with another.
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
    /// Everything to one other rank at a time: fewest messages.
    Doubling,
    /// Half of what is left to one other rank at a time: twice the messages, fewest bytes.
    Halving,
    /// To the neighbour all the time: fewest bytes, and no rank waits for another.
    Ring,
}

impl Costs {
    /// How long an all_reduce of so many bytes takes by a plan.
    pub fn of(&self, plan: AllReduce, world: usize, bytes: usize) -> f64 {
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

    /// The plan that takes least among `world` ranks, messages being `segment` bytes at most. A ring's pieces follow each other without a stop, which is worth a tenth.
    pub fn best(&self, world: usize, segment: usize, bytes: usize) -> AllReduce {
        let [doubling, halving, ring] =
            [AllReduce::Doubling, AllReduce::Halving, AllReduce::Ring].map(|plan| self.of(plan, world, bytes));
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
        // Folding costs as much as the rest.
        assert_eq!(best(3, 8 << 20), AllReduce::Ring);
    }
}
