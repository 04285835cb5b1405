//! Simulates the algorithms of an all_reduce over any number of ranks, with measured costs.
//!
//!     cargo run --release -p oar-net --example simulate -- measure
//!     cargo run --release -p oar-net --example simulate [MESSAGE BYTE COMBINE [HOST_MESSAGE HOST_BYTE]]
//!
//! `measure` prints the costs between two threads, over TCP and over shared memory: nanoseconds per message, per byte sent, per
//! byte reduced; and per call and byte of an all_reduce within a host. Otherwise these numbers are arguments. Ranks are in groups
//! of 8, each on a host with one network connection: messages of a host are sent one after the other, and received one after the
//! other. A rank reduces one message at a time. Within a host of k ranks a step takes (k + 1) / 3 times that of two ranks: every
//! rank reads what all have written, through one memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use oar_net::collective_plan::{
    doubling_all_reduce, halving_all_reduce, ring_all_reduce, Action, CollectivePlan, RankInfo, NONE,
};
use oar_net::costs::{AllReduce, Costs};
use oar_net::{Context, Dtype, Group, Job, Options, ReduceOp, Store};

const GROUP: usize = 8;
const SEGMENT: usize = 1 << 20;
const SIZES: [(&str, usize); 6] = [
    ("4 B", 4),
    ("4 KiB", 4 << 10),
    ("64 KiB", 64 << 10),
    ("1 MiB", 1 << 20),
    ("16 MiB", 16 << 20),
    ("256 MiB", 256 << 20),
];
const PLANS: [(&str, AllReduce); 3] =
    [("doubling", AllReduce::Doubling), ("halving", AllReduce::Halving), ("ring", AllReduce::Ring)];

/// Cost of an all_reduce within a host, in nanoseconds: per call, and per byte.
#[derive(Clone, Copy)]
struct Within {
    call: f64,
    byte: f64,
}

fn schedule(plan: AllReduce, me: usize, world: usize, bytes: usize) -> CollectivePlan {
    let place = RankInfo { segment: SEGMENT, ..RankInfo::new(me, world) };
    match plan {
        AllReduce::Doubling => doubling_all_reduce(place, bytes),
        AllReduce::Halving => halving_all_reduce(place, bytes / 4, 4),
        AllReduce::Ring => ring_all_reduce(place, bytes / 4, 4),
    }
}

/// The time at which the last of `world` ranks is done, with `each` ranks per host.
fn play(plan: AllReduce, world: usize, each: usize, bytes: usize, costs: &Costs) -> f64 {
    let plans: Vec<CollectivePlan> = (0..world).map(|me| schedule(plan, me, world, bytes)).collect();
    // For every step the number of others it waits for (`needs`, the previous one of its lane, a message), and the
    // steps that wait for it.
    let mut waits: Vec<Vec<u8>> = plans.iter().map(|p| vec![0; p.steps.len()]).collect();
    let mut next: Vec<Vec<Vec<u32>>> = plans.iter().map(|p| vec![Vec::new(); p.steps.len()]).collect();
    let mut receives: HashMap<(u32, u32), std::collections::VecDeque<u32>> = HashMap::new();
    let mut events = BinaryHeap::new();
    for (rank, plan) in plans.iter().enumerate() {
        let mut lanes: HashMap<(usize, bool), u32> = HashMap::new();
        for (i, s) in plan.steps.iter().enumerate() {
            let before = lanes.insert((s.peer, s.what.is_send()), i as u32);
            for n in s.needs.into_iter().filter(|n| *n != NONE).chain(before) {
                next[rank][n as usize].push(i as u32);
                waits[rank][i] += 1;
            }
            if s.what.is_send() {
                if waits[rank][i] == 0 {
                    events.push(Reverse((0u64, rank as u32, i as u32)));
                }
            } else {
                waits[rank][i] += 1;
                receives.entry((s.peer as u32, rank as u32)).or_default().push_back(i as u32);
            }
        }
    }
    let hosts = world.div_ceil(each);
    let (mut out, mut inn, mut core) = (vec![0.0f64; hosts], vec![0.0f64; hosts], vec![0.0f64; world]);
    let mut last = 0.0f64;
    // Picoseconds, so that times can be ordered.
    let tick = |t: f64| (t * 1e3) as u64;
    while let Some(Reverse((at, rank, i))) = events.pop() {
        let (now, r) = (at as f64 / 1e3, rank as usize);
        let s = &plans[r].steps[i as usize];
        let wire = s.len as f64 * costs.byte;
        let mut wake = |rank: u32, step: u32, at: f64| {
            let left = &mut waits[rank as usize][step as usize];
            *left -= 1;
            if *left == 0 {
                events.push(Reverse((tick(at), rank, step)));
            }
        };
        let end = if s.what.is_send() {
            let (from, to) = (r / each, s.peer / each);
            // Within a host the network is not used.
            let begin = if from == to { now } else { now.max(out[from]).max(inn[to]) };
            if from != to {
                (out[from], inn[to]) = (begin + wire, begin + wire);
            }
            let receive = receives.get_mut(&(rank, s.peer as u32)).and_then(|q| q.pop_front()).unwrap();
            wake(s.peer as u32, receive, begin + wire + costs.message);
            begin + wire
        } else if let Action::Reduce { .. } = s.what {
            core[r] = now.max(core[r]) + s.len as f64 * costs.combine;
            core[r]
        } else {
            now
        };
        last = last.max(end);
        for after in std::mem::take(&mut next[r][i as usize]) {
            wake(rank, after, end);
        }
    }
    assert!(waits.iter().flatten().all(|w| *w == 0), "all ranks wait");
    last
}

fn text(ns: f64) -> String {
    match ns {
        n if n < 1e6 => format!("{:.0} us", n / 1e3),
        n if n < 1e9 => format!("{:.1} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

fn tables(costs: &Costs, within: &Within) {
    println!("a message {} ns, a byte {} ns, combined {} ns", costs.message, costs.byte, costs.combine);
    println!("within a host {} ns and {} ns a byte\n", within.call, within.byte);
    println!("| ranks | all_reduce of | within hosts | doubling | halving | ring | taken | flat, best |");
    println!("|---|---|---|---|---|---|---|---|");
    for world in [16, 64, 256, 1024, 4096] {
        let hosts = world / GROUP;
        for (label, bytes) in SIZES {
            // Once to reduce, once to broadcast.
            let local = 2.0 * (within.call + bytes as f64 * within.byte * (GROUP + 1) as f64 / 3.0 / 2.0);
            let times = PLANS.map(|(_, plan)| match plan {
                AllReduce::Doubling if bytes > SEGMENT => f64::NAN,
                _ => local + play(plan, hosts, 1, bytes, costs),
            });
            let taken = costs.best(hosts, SEGMENT, bytes);
            let taken = PLANS.iter().find(|p| p.1 == taken).map_or("", |p| p.0);
            // A ring over more ranks has too many steps to simulate.
            let flat = PLANS.iter().filter(|p| match p.1 {
                AllReduce::Doubling => bytes <= SEGMENT,
                AllReduce::Halving => true,
                AllReduce::Ring => world <= 256,
            });
            let flat = flat.map(|p| play(p.1, world, GROUP, bytes, costs)).fold(f64::INFINITY, f64::min);
            let [doubling, halving, ring] = times.map(|t| if t.is_nan() { "-".to_string() } else { text(t) });
            println!(
                "| {world} | {label} | {} | {doubling} | {halving} | {ring} | {taken} | {} |",
                text(local),
                text(flat)
            );
        }
    }
    println!("\n| hosts | doubling up to | halving up to |\n|---|---|---|");
    for hosts in [2, 4, 8, 32, 128, 512] {
        let up_to = |plan: AllReduce| {
            let sizes = (2..36).flat_map(|b| [1usize << b, 3 << (b - 1)]);
            sizes.filter(|s| costs.best(hosts, SEGMENT, *s) == plan).max().map_or("-".into(), |s| match s {
                s if s < 1 << 20 => format!("{} KiB", s >> 10),
                s => format!("{} MiB", s >> 20),
            })
        };
        println!("| {hosts} | {} | {} |", up_to(AllReduce::Doubling), up_to(AllReduce::Halving));
    }
}

const LIMIT: Duration = Duration::from_secs(60);

/// The measurements of `body` on rank 0 of two threads.
fn two(shared_memory: bool, body: impl Fn(&Group) -> Vec<f64> + Sync) -> Vec<f64> {
    let job = Job::default();
    let host = Store::host(([127, 0, 0, 1], 0).into(), &job).unwrap();
    let (at, body, job) = (host.address(), &body, &job);
    std::thread::scope(|scope| {
        let rank = |rank: usize| {
            move || {
                // Recursive doubling for all measurements.
                let costs = Costs { message: 1e12, byte: 0.0, combine: 0.0 };
                let options = Options { shared_memory, costs, timeout: LIMIT, ..Options::default() };
                let context = Context::init(rank, 2, Store::connect(at, job, LIMIT).unwrap(), options).unwrap();
                let group = context.world_group().unwrap();
                let found = body(&group);
                group.barrier().unwrap();
                context.shutdown();
                found
            }
        };
        let second = scope.spawn(rank(1));
        let found = rank(0)();
        second.join().unwrap();
        found
    })
}

/// Nanoseconds per call: the median of nine rounds.
fn median(times: usize, mut call: impl FnMut()) -> f64 {
    let mut all: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            (0..times).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / times as f64
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[4]
}

fn measure() {
    let reduced = |g: &Group, bytes: usize, times: usize| {
        let mut x = vec![0; bytes];
        median(times, || g.all_reduce(&mut x, Dtype::F32, ReduceOp::Sum).unwrap())
    };
    let tcp = two(false, |g| {
        let mut x = vec![0; 64 << 20];
        let back = |g: &Group, x: &mut [u8]| match g.rank() {
            0 => g.send(x, Dtype::F32, 1).and_then(|()| g.recv(&mut x[..4], Dtype::F32, 1)).unwrap(),
            _ => g.recv(x, Dtype::F32, 0).and_then(|()| g.send(&x[..4], Dtype::F32, 0)).unwrap(),
        };
        let there_and_back = median(500, || back(g, &mut x[..4]));
        let much = median(1, || back(g, &mut x));
        vec![there_and_back / 2.0, (much - there_and_back) / x.len() as f64, reduced(g, SEGMENT, 20)]
    });
    let (message, byte) = (tcp[0], tcp[1]);
    // Both directions at once share the machine's cores; the remainder is the cost of reducing.
    let combine = ((tcp[2] - message) / SEGMENT as f64 - byte).max(0.0);
    println!("over TCP: a message {message:.0} ns, a byte {byte:.3} ns, in both ways at once and combined {combine:.3} ns more");
    let shared = two(true, |g| vec![reduced(g, 4, 500), reduced(g, 16 << 20, 3)]);
    println!("within a host: {:.0} ns, a byte {:.3} ns", shared[0], (shared[1] - shared[0]) / (16 << 20) as f64);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "measure") {
        return measure();
    }
    let given: Vec<f64> = args.iter().map(|a| a.parse().expect("a number of nanoseconds")).collect();
    let mut costs = Costs::default();
    if let [message, byte, combine, ..] = given[..] {
        costs = Costs { message, byte, combine };
    }
    let mut within = Within { call: 2_600.0, byte: 0.35 };
    if let [.., call, byte] = given[..] {
        if given.len() == 5 {
            within = Within { call, byte };
        }
    }
    tables(&costs, &within);
}
