//! Which ranks of a group are on which host.

use crate::state::{GroupState, Shared};

/// Group ranks by host, and which host and which of its ranks this is.
pub struct Hosts {
    pub(crate) members: Vec<Vec<usize>>,
    pub(crate) host: usize,
    pub(crate) local: usize,
}

impl Hosts {
    pub fn of(shared: &Shared, state: &GroupState, me: usize) -> Hosts {
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

    /// The group ranks of this host, and which of them this is.
    pub fn here(&self) -> (&[usize], usize) {
        (&self.members[self.host], self.local)
    }

    /// The host of a group rank, and which of its ranks that is.
    pub(crate) fn find(&self, rank: usize) -> (usize, usize) {
        let at = |m: &Vec<usize>| m.iter().position(|r| *r == rank);
        self.members.iter().enumerate().find_map(|(h, m)| at(m).map(|l| (h, l))).unwrap_or((0, 0))
    }

    /// Where the parts of a host's ranks lie in a buffer with `each` bytes a rank; one range for ranks in a row.
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
