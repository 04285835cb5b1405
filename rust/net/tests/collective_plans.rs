//! Plans of an all_reduce, executed in memory: every rank ends with the sum, whatever the order in which steps become
//! ready.

use std::collections::{HashMap, VecDeque};

use oar_net::collective_plan::{
    doubling_all_reduce, halving_all_reduce, ring_all_reduce, Action, CollectivePlan, RankInfo, NONE,
};

/// Values are bytes that add up; `turn` is where the search for a ready step begins.
fn play(plans: &[CollectivePlan], mut data: Vec<Vec<u64>>, turn: usize) -> Vec<Vec<u64>> {
    let mut done: Vec<Vec<bool>> = plans.iter().map(|p| vec![false; p.steps.len()]).collect();
    let mut wires: HashMap<(usize, usize), VecDeque<Vec<u64>>> = HashMap::new();
    let total: usize = plans.iter().map(|p| p.steps.len()).sum();
    for count in 0..total {
        let mut moved = false;
        'search: for r in 0..plans.len() {
            let rank = (r + turn * count) % plans.len();
            let mut blocked = Vec::new();
            for (i, s) in plans[rank].steps.iter().enumerate() {
                let lane = (s.peer, s.what.is_send());
                if done[rank][i] || blocked.contains(&lane) {
                    continue;
                }
                let ready = s.needs.iter().all(|n| *n == NONE || done[rank][*n as usize]);
                let range = s.off / 8..(s.off + s.len) / 8;
                let lane_in = (s.peer, rank);
                if ready && s.what.is_send() {
                    wires.entry((rank, s.peer)).or_default().push_back(data[rank][range].to_vec());
                } else if let Some(came) =
                    ready.then(|| wires.get_mut(&lane_in).and_then(VecDeque::pop_front)).flatten()
                {
                    assert_eq!(came.len(), range.len(), "both ends cut alike");
                    for (mine, came) in data[rank][range].iter_mut().zip(came) {
                        *mine = if s.what == Action::Recv { came } else { *mine + came };
                    }
                } else {
                    blocked.push(lane);
                    continue;
                }
                done[rank][i] = true;
                moved = true;
                break 'search;
            }
        }
        assert!(moved, "all ranks wait");
    }
    assert!(wires.values().all(VecDeque::is_empty), "a message without a receiver");
    data
}

#[test]
fn all_plans_add_up() {
    for world in 2..=17 {
        for (count, segment) in [(1, 1 << 20), (40, 1 << 20), (1000, 1 << 20), (1000, 640)] {
            let place = |me| RankInfo { segment, ..RankInfo::new(me, world) };
            let data: Vec<Vec<u64>> = (0..world).map(|r| (0..count).map(|i| (r * 31 + i) as u64).collect()).collect();
            let sum: Vec<u64> = (0..count).map(|i| data.iter().map(|d| d[i]).sum()).collect();
            let ring = (0..world).map(|me| ring_all_reduce(place(me), count, 8)).collect::<Vec<_>>();
            let halving = (0..world).map(|me| halving_all_reduce(place(me), count, 8)).collect();
            let doubling = (0..world).map(|me| doubling_all_reduce(place(me), 8 * count)).collect();
            for (name, plans) in [("ring", ring), ("halving", halving), ("doubling", doubling)] {
                for turn in [0, 1, 5] {
                    let got = play(&plans, data.clone(), turn);
                    assert!(got.iter().all(|g| *g == sum), "{name}: {count} over {world} in pieces of {segment}");
                }
            }
        }
    }
}
