//! all_reduce between processes of this machine, timed as `peerbench/allreduce.py` does.
//!
//!     cargo run --release -p oar-net --example allreduce -- [shm|tcp] [RANKS]
//!
//! With PIN set, every rank keeps to one core; SIZES=64MB,4B picks sizes, REPEATS=1 the calls in a run. Prints microseconds per call (median of five
//! runs) by size, and the CPU time of a call, averaged over the ranks.

use std::time::{Duration, Instant};

use oar_net::{Context, Dtype, Job, Options, ReduceOp, Store};

const SIZES: [(&str, usize); 4] = [("4B", 1), ("4KB", 1 << 10), ("1MB", 1 << 18), ("64MB", 1 << 24)];
const LIMIT: Duration = Duration::from_secs(60);

fn cpu_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn rank_main(way: &str, rank: usize, world: usize, at: &str) {
    if std::env::var_os("PIN").is_some() {
        // One core per rank, as the launcher assigns them.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut mine = rustix::thread::CpuSet::new();
        mine.set(rank % cores);
        rustix::thread::sched_setaffinity(None, &mine).unwrap();
    }
    let store = Store::connect(at.parse().unwrap(), &Job::default(), LIMIT).unwrap();
    let options = Options { shared_memory: way == "shm", timeout: LIMIT, ..Options::default() };
    let context = Context::init(rank, world, store, options).unwrap();
    let group = context.world_group().unwrap();
    let mut one = 1.0f32.to_ne_bytes();
    group.all_reduce(&mut one, Dtype::F32, ReduceOp::Sum).unwrap();
    assert_eq!(f32::from_ne_bytes(one), world as f32);
    for (label, count) in SIZES {
        if std::env::var("SIZES").is_ok_and(|only| !only.split(',').any(|l| l == label)) {
            continue;
        }
        let mut x = vec![0u8; 4 * count];
        let repeats = if count < 1 << 16 {
            100
        } else if count < 1 << 20 {
            20
        } else {
            3
        };
        let repeats = std::env::var("REPEATS").map_or(repeats, |r| r.parse().unwrap());
        (0..3.min(repeats)).for_each(|_| group.all_reduce(&mut x, Dtype::F32, ReduceOp::Sum).unwrap());
        let mut times = [0.0; 5];
        let cpu = cpu_seconds();
        for t in &mut times {
            group.barrier().unwrap();
            let start = Instant::now();
            for _ in 0..repeats {
                group.all_reduce(&mut x, Dtype::F32, ReduceOp::Sum).unwrap();
            }
            *t = start.elapsed().as_secs_f64() / repeats as f64;
        }
        let mut used = ((cpu_seconds() - cpu) / (5 * repeats) as f64 * 1e6).to_ne_bytes();
        group.all_reduce(&mut used, Dtype::F64, ReduceOp::Avg).unwrap();
        times.sort_by(f64::total_cmp);
        if rank == 0 {
            let (time, used) = (times[2] * 1e6, f64::from_ne_bytes(used));
            println!("{way} {world} ranks {label:>5}: {time:10.1} us, {used:10.1} us of CPU a rank");
        }
    }
    // Bandwidth of one pair, one way and both ways at once, for comparison with `loopback.c`.
    if rank < 2 {
        let mut x = vec![1u8; 64 << 20];
        let mut times = [0.0; 6];
        for t in &mut times {
            let start = Instant::now();
            match rank {
                0 => group.send(&x, Dtype::F32, 1).unwrap(),
                _ => group.recv(&mut x, Dtype::F32, 0).unwrap(),
            }
            *t = start.elapsed().as_secs_f64();
        }
        times[1..].sort_by(f64::total_cmp);
        if rank == 1 {
            println!("{way} send/recv of 64 MB: {:.2} GB/s", x.len() as f64 / times[3] / 1e9);
        }
        let back = context.group(&[0, 1]).unwrap();
        let y = x.clone();
        for t in &mut times {
            let (out, inn) = if rank == 0 { (&group, &back) } else { (&back, &group) };
            let start = Instant::now();
            std::thread::scope(|s| {
                s.spawn(|| out.send(&y, Dtype::F32, 1 - rank).unwrap());
                inn.recv(&mut x, Dtype::F32, 1 - rank).unwrap();
            });
            *t = start.elapsed().as_secs_f64();
        }
        times[1..].sort_by(f64::total_cmp);
        if rank == 1 {
            println!("{way} send/recv of 64 MB, both ways at once: {:.2} GB/s each", x.len() as f64 / times[3] / 1e9);
        }
    }
    group.barrier().unwrap();
    context.shutdown();
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, way, rank, world, at] = args.as_slice() {
        return rank_main(way, rank.parse().unwrap(), world.parse().unwrap(), at);
    }
    let way = args.get(1).map_or("shm", String::as_str);
    let world: usize = args.get(2).map_or(2, |w| w.parse().unwrap());
    let store = Store::host(([127, 0, 0, 1], 0).into(), &Job::default()).unwrap();
    let ranks: Vec<_> = (0..world)
        .map(|rank| {
            let args = [way.to_string(), rank.to_string(), world.to_string(), store.address().to_string()];
            std::process::Command::new(&*std::env::current_exe().unwrap().to_string_lossy()).args(args).spawn().unwrap()
        })
        .collect();
    ranks.into_iter().for_each(|mut r| assert!(r.wait().unwrap().success()));
}
