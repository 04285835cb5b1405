//! Ranks that disagree, wait in vain, are interrupted, leave or abort: every call ends with an error that gives the
//! reason.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{job, options};
use oar_net::{CollectiveCall, Dtype, Error, Options, ReduceOp};

const F: Dtype = Dtype::F32;

fn shared(_: usize) -> Options {
    Options { shared_memory: true, ..options() }
}

fn plain(_: usize) -> Options {
    options()
}

fn hosts(rank: usize) -> Options {
    Options { host_key: Some(["a", "a", "b", "b"][rank].into()), ..shared(rank) }
}

const WAYS: [fn(usize) -> Options; 3] = [plain, shared, hosts];

/// Every rank makes the calls of `body`; all must get a mismatch that names both sides.
fn mismatch(world: usize, words: [&str; 2], body: impl Fn(usize, &oar_net::Group) -> oar_net::Result<()> + Sync) {
    for make in WAYS {
        let errors = job(world, make, |_, g| {
            let first = body(g.rank(), &g);
            // A rank without a wait gets the error in its next operation.
            first.and_then(|()| g.barrier()).and_then(|()| g.barrier()).unwrap_err()
        });
        for e in errors {
            let text = e.to_string();
            assert!(matches!(e, Error::Mismatch { .. }), "{text}");
            assert!(words.iter().all(|w| text.contains(w)), "{text}");
        }
    }
}

#[test]
fn all_ranks_report_a_mismatch() {
    mismatch(2, ["float32[2]", "float32[3]"], |r, g| g.all_reduce(&mut vec![0; 8 + 4 * r], F, ReduceOp::Sum));
    mismatch(2, ["sum", "max"], |r, g| g.all_reduce(&mut [0; 8], F, [ReduceOp::Sum, ReduceOp::Max][r]));
    mismatch(2, ["float32", "int32"], |r, g| g.broadcast(&mut [0; 8], [F, Dtype::I32][r], 0));
    // Ranks that agreed may be in the next operation already.
    mismatch(4, ["rank 2", "broadcast(float32[2], root 1)"], |r, g| g.broadcast(&mut [0; 8], F, usize::from(r == 2)));
    // Both wait for the other: no byte is ever sent.
    mismatch(2, ["reduce", "broadcast"], |r, g| match r {
        0 => g.reduce(&mut [0; 8], F, ReduceOp::Sum, 0),
        _ => g.broadcast(&mut [0; 8], F, 0),
    });
    mismatch(3, ["barrier", "all_gather"], |r, g| match r {
        0 => g.barrier(),
        _ => g.all_gather(&[0; 8], &mut [0; 24], F),
    });
    mismatch(3, ["float32[1000000]", "float32[1000001]"], |r, g| {
        g.all_reduce(&mut vec![0; 4_000_000 + if r == 1 { 4 } else { 0 }], F, ReduceOp::Sum)
    });
    // One side has nothing to send, the other does.
    mismatch(4, ["all_gather(float32[0])", "all_gather(float32[2])"], |r, g| {
        let n = if r == 3 { 0 } else { 8 };
        g.all_gather(&vec![0; n], &mut vec![0; 4 * n], F)
    });
    mismatch(4, ["reduce_scatter", "all_to_all"], |r, g| match r {
        1 => g.all_to_all(&[0; 16], &mut [0; 16], F),
        _ => g.reduce_scatter(&[0; 16], &mut [0; 4], F, ReduceOp::Sum),
    });
    mismatch(4, ["rank", "reduce(float32[100000]"], |r, g| {
        g.reduce(&mut vec![0; 400_000], F, ReduceOp::Sum, r & 2 | r >> 1)
    });
    // The same number of values in another shape.
    mismatch(2, ["[2, 3]", "[3, 2]"], |r, g| {
        let shape = [[2, 3], [3, 2]][r];
        g.run(CollectiveCall::all_reduce(vec![0; 24], F, ReduceOp::Sum).shape(&shape)).map(drop)
    });
}

#[test]
fn the_data_is_untouched_by_a_mismatch() {
    for make in WAYS {
        job(2, make, |_, g| {
            let mut x = vec![7; 400_000 + 4 * g.rank()];
            assert!(g.broadcast(&mut x, F, 0).is_err());
            assert!(x.iter().all(|b| *b == 7));
        });
    }
}

#[test]
fn send_and_receive_compare_fingerprints() {
    for make in [plain, shared] {
        job(2, make, |_, g| {
            let e = match g.rank() {
                0 => g.send(&[0; 8], F, 1).and_then(|()| g.barrier()),
                _ => g.recv(&mut [0; 4], F, 0),
            };
            let text = e.unwrap_err().to_string();
            assert!(text.contains("float32[2], 0 to 1") && text.contains("float32[1], 0 to 1"), "{text}");
        });
    }
}

/// In shared memory they wait for different words.
#[test]
fn a_receive_does_not_match_a_collective() {
    mismatch(2, ["send/recv(float32[2], 1 to 0)", "all_reduce(float32[2], sum)"], |r, g| match r {
        0 => g.recv(&mut [0; 8], F, 1),
        _ => g.all_reduce(&mut [0; 8], F, ReduceOp::Sum),
    });
}

#[test]
fn deadlines_and_reports() {
    for make in WAYS {
        job(3, make, |c, g| {
            if g.rank() == 2 {
                // Not in an operation; the debug report is available meanwhile.
                std::thread::sleep(Duration::from_millis(900));
                let report = c.report(Duration::from_secs(5)).unwrap();
                assert!(report.contains("rank 0") && report.contains("all_reduce(float32[1], sum)"), "{report}");
                assert!(report.contains("waiting for rank 2"), "{report}");
                std::thread::sleep(Duration::from_millis(1200));
                let text = g.barrier().unwrap_err().to_string();
                assert!(text.contains("did not finish"), "{text}");
                return;
            }
            assert!(c.local_report().contains("in no operation"));
            let start = Instant::now();
            let e = g.run(CollectiveCall::all_reduce(vec![0; 4], F, ReduceOp::Sum).limit(Duration::from_millis(1500)));
            let text = e.err().unwrap().to_string();
            assert!(text.contains("all_reduce(float32[1], sum)") && text.contains("did not finish"), "{text}");
            let took = start.elapsed();
            assert!(took > Duration::from_millis(1200) && took < Duration::from_secs(3), "{took:?}");
            // The group stays broken, and errors give the reason.
            let text = g.barrier().unwrap_err().to_string();
            assert!(text.contains("did not finish"), "{text}");
        });
    }
}

#[test]
fn interrupts() {
    for make in WAYS {
        let ended = AtomicBool::new(false);
        job(2, make, |c, g| {
            if g.rank() == 1 {
                // It does not call until the other rank's waits have ended.
                let start = Instant::now();
                while !ended.load(Ordering::Acquire) {
                    assert!(start.elapsed() < Duration::from_secs(60));
                    std::thread::sleep(Duration::from_millis(10));
                }
                return;
            }
            let start = Instant::now();
            let tick = || start.elapsed() > Duration::from_millis(100);
            let e = g.run_with(CollectiveCall::barrier(), &tick).err().unwrap();
            assert!(matches!(e, Error::Interrupted { .. }), "{e}");
            let other = c.group(&[0]).unwrap();
            other.barrier().unwrap();
            c.interrupt(true);
            assert!(matches!(other.barrier(), Err(Error::Interrupted { .. })));
            c.interrupt(false);
            ended.store(true, Ordering::Release);
        });
    }
}

#[test]
fn a_background_wait_may_end_early() {
    job(2, shared, |_, g| {
        if g.rank() == 1 {
            std::thread::sleep(Duration::from_millis(300));
        }
        let w = g.start(CollectiveCall::all_reduce(1.0f32.to_ne_bytes().to_vec(), F, ReduceOp::Sum)).unwrap();
        if g.rank() == 0 {
            assert!(matches!(w.wait(Some(Duration::from_millis(50))), Err(Error::Timeout { .. })));
            assert!(matches!(w.wait_with(None, &|| true), Err(Error::Interrupted { .. })));
        }
        w.wait(Some(Duration::from_secs(5))).unwrap();
        assert_eq!(w.take().into_vec().unwrap(), 2.0f32.to_ne_bytes());
    });
}

#[test]
fn waiting_for_a_rank_that_left_is_an_error() {
    for make in WAYS {
        job(3, make, |c, g| {
            let mut x = [0; 4];
            g.broadcast(&mut x, F, 1).unwrap();
            if g.rank() == 1 {
                return c.shutdown();
            }
            let start = Instant::now();
            let text = g.all_reduce(&mut x, F, ReduceOp::Sum).unwrap_err().to_string();
            assert!(text.contains("rank 1"), "{text}");
            assert!(start.elapsed() < Duration::from_secs(30));
        });
    }
}

#[test]
fn abort_carries_its_reason() {
    for make in WAYS {
        job(3, make, |c, g| {
            if g.rank() == 1 {
                std::thread::sleep(Duration::from_millis(50));
                return c.abort("out of memory");
            }
            let text = g.all_reduce(&mut [0; 4], F, ReduceOp::Sum).unwrap_err().to_string();
            assert!(
                text.contains("rank 1 on") && text.contains("out of memory") && text.contains("all_reduce"),
                "{text}"
            );
            assert!(c.failure().is_some());
        });
    }
}
