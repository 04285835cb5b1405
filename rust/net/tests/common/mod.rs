//! Jobs whose ranks are threads.
#![allow(dead_code)]

pub mod faults;

use std::sync::Arc;
use std::time::Duration;

use oar_net::{Context, Group, Job, Options, Store};

pub const LIMIT: Duration = Duration::from_secs(20);

pub fn options() -> Options {
    Options {
        timeout: LIMIT,
        init_timeout: LIMIT,
        linger: Duration::from_secs(1),
        shared_memory: false,
        ..Options::default()
    }
}

/// Runs `body` as every rank of a job; `make` gives each rank's options. Results by rank.
pub fn job<T: Send>(
    world: usize,
    make: impl Fn(usize) -> Options + Sync,
    body: impl Fn(Arc<Context>, Arc<Group>) -> T + Sync,
) -> Vec<T> {
    let job = Job::new("test", b"secret");
    let host = Store::host(([127, 0, 0, 1], 0).into(), &job).unwrap();
    let (at, job, make, body) = (host.address(), &job, &make, &body);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..world)
            .map(|rank| {
                scope.spawn(move || {
                    let store = Store::connect(at, job, LIMIT).unwrap();
                    let context = Context::init(rank, world, store, make(rank)).unwrap();
                    let group = context.world_group().unwrap();
                    let out = body(context.clone(), group);
                    context.shutdown();
                    out
                })
            })
            .collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    })
}
