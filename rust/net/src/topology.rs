//! Placement of a group's ranks on hosts.

use crate::state::{GroupState, Shared};

/// Group ranks by host, and this rank's host and index on it.
pub struct Hosts {
    pub(crate) members: Vec<Vec<usize>>,
    pub(crate) host: usize,
    pub(crate) local: usize,
}

impl Hosts {
    pub fn from_group(shared: &Shared, state: &GroupState, me: usize) -> Hosts {
        let mut keys: Vec<&str> = Vec::new();
        let mut members: Vec<Vec<usize>> = Vec::new();
        let (mut host, mut local) = (0, 0);
        for (at, rank) in state.ranks.iter().enumerate() {
            let key = shared.peers[*rank].host_key.as_str();
            let h = keys.iter().position(|k| *k == key).unwrap_or_else(|| {
                keys.push(key);
                members.push(Vec::new());
                keys.len() - 1
            });
            if at == me {
                (host, local) = (h, members[h].len());
            }
            members[h].push(at);
        }
        Hosts { members, host, local }
    }

    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// The group ranks of this host, and this rank's index among them.
    pub fn here(&self) -> (&[usize], usize) {
        (&self.members[self.host], self.local)
    }

    /// The host of a group rank, and its index there.
    pub(crate) fn find(&self, rank: usize) -> (usize, usize) {
        let at = |m: &Vec<usize>| m.iter().position(|r| *r == rank);
        self.members.iter().enumerate().find_map(|(h, m)| at(m).map(|l| (h, l))).unwrap_or((0, 0))
    }

    /// Ranges of the parts of a host's ranks in a buffer with `each` bytes per rank; consecutive ranks share a range.
    pub(crate) fn parts(&self, host: usize, each: usize) -> Vec<(usize, usize)> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for rank in &self.members[host] {
            match ranges.last_mut() {
                Some((off, len)) if *off + *len == rank * each => *len += each,
                _ => ranges.push((rank * each, each)),
            }
        }
        ranges
    }
}
