//! Killed and stopped processes: every surviving rank gets an error that names the rank, in time.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use oar_net::{Context, Dtype, Error, Group, Job, Options, ReduceOp, Store};
use rustix::process::{kill_process, Pid, Signal};

const LIMIT: Duration = Duration::from_secs(30);
const WORLD: usize = 3;

fn victim(way: &str) -> usize {
    if way.ends_with("first") {
        0
    } else {
        1
    }
}

/// A rank in a process of its own: this test, started with an environment. Sums until it is stopped.
#[test]
fn rank_process() {
    let Ok(at) = std::env::var("OAR_TEST_STORE") else { return };
    let rank: usize = std::env::var("OAR_TEST_RANK").unwrap().parse().unwrap();
    let way = std::env::var("OAR_TEST_WAY").unwrap();
    let store = Store::connect(at.parse().unwrap(), &Job::default(), LIMIT).unwrap();
    let shared_memory = !way.starts_with("tcp");
    // Two ranks on a host, the third on another.
    let host_key = way.starts_with("hosts").then(|| ["a", "a", "b"][rank].into());
    let options = Options { shared_memory, host_key, timeout: LIMIT, ..Options::default() };
    let context = Context::init(rank, WORLD, store, options).unwrap();
    let group = context.world_group().unwrap();
    println!("\nready");
    let mut x = vec![0; 4 << 18];
    // A slow rank still sends heartbeats.
    if way.ends_with("slow") {
        if rank == 1 {
            std::thread::sleep(Duration::from_secs(7));
        }
        group.all_reduce(&mut x, Dtype::F32, ReduceOp::Sum).unwrap();
        println!("\ndone");
        return context.shutdown();
    }
    // The victim delays the others, which are in the operation when it dies.
    for step in 0.. {
        if step > 20 && rank == victim(&way) {
            println!("\nwaiting");
            std::thread::sleep(LIMIT);
        }
        if let Err(e) = operate(&group, operation(&way), &mut x) {
            assert!(matches!(e, Error::Died { .. } | Error::Silent { .. }), "{e}");
            println!("\nerror {e}");
            return;
        }
    }
}

/// The operation that a way names last, else all_reduce.
fn operation(way: &str) -> &str {
    let last = way.rsplit(' ').next().unwrap_or("");
    if ["reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"].contains(&last) {
        last
    } else {
        "all_reduce"
    }
}

fn operate(group: &Group, name: &str, x: &mut [u8]) -> oar_net::Result<()> {
    let (f, sum) = (Dtype::F32, ReduceOp::Sum);
    match name {
        "reduce" => group.reduce(x, f, sum, 2),
        "broadcast" => group.broadcast(x, f, 1),
        "all_gather" => group.all_gather(x, &mut vec![0; WORLD * x.len()], f),
        "reduce_scatter" => group.reduce_scatter(&x.repeat(WORLD), x, f, sum),
        "barrier" => group.barrier(),
        _ => group.all_reduce(x, f, sum),
    }
}

fn lines_until(child: &mut BufReader<std::process::ChildStdout>, word: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(child.read_line(&mut line).unwrap() > 0, "the rank ended without {word}");
        if line.starts_with(word) {
            return line;
        }
    }
}

fn start(way: &str, store: &Store) -> Vec<(Child, BufReader<std::process::ChildStdout>)> {
    (0..WORLD)
        .map(|rank| {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["rank_process", "--exact", "--nocapture"])
                .env("OAR_TEST_STORE", store.address().to_string())
                .env("OAR_TEST_RANK", rank.to_string())
                .env("OAR_TEST_WAY", way)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            (child, out)
        })
        .collect()
}

fn fell(way: &str, signal: Signal, word: &str) {
    let store = Store::host(([127, 0, 0, 1], 0).into(), &Job::default()).unwrap();
    let mut ranks = start(way, &store);
    let victim = victim(way);
    lines_until(&mut ranks[victim].1, "waiting");
    std::thread::sleep(Duration::from_millis(200));
    let pid = Pid::from_child(&ranks[victim].0);
    let begin = Instant::now();
    kill_process(pid, signal).unwrap();
    for (rank, (child, out)) in ranks.iter_mut().enumerate() {
        if rank == victim {
            continue;
        }
        let text = lines_until(out, "error");
        let took = begin.elapsed();
        // The word is how the failure was detected: by closed connections, or by missing heartbeats.
        println!("{way}: {word} after {took:?}");
        assert!(text.contains(&format!("rank {victim} on ")) && text.contains(word), "{way}: {text}");
        let doing = if operation(way) == "barrier" { "barrier()" } else { "(float32[262144]" };
        assert!(text.contains(&format!(" in {}", operation(way))) && text.contains(doing), "{way}: {text}");
        child.wait().unwrap();
    }
    kill_process(pid, Signal::KILL).unwrap();
    ranks[victim].0.wait().unwrap();
}

#[test]
fn a_killed_rank_is_detected_at_once() {
    for way in ["tcp", "shm", "tcp first", "shm first"] {
        fell(way, Signal::KILL, "died");
    }
    for operation in ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"] {
        fell(&format!("hosts {operation}"), Signal::KILL, "died");
    }
}

#[test]
fn a_stopped_rank_is_detected_within_the_limit() {
    std::thread::scope(|s| {
        for way in ["tcp", "shm", "shm first", "hosts reduce_scatter"] {
            s.spawn(move || fell(way, Signal::STOP, "silent"));
        }
    });
}

#[test]
fn a_slow_rank_is_waited_for() {
    let store = Store::host(([127, 0, 0, 1], 0).into(), &Job::default()).unwrap();
    for (mut child, mut out) in start("shm slow", &store) {
        lines_until(&mut out, "done");
        assert!(child.wait().unwrap().success());
    }
}
