//! Benchmarks of frames, store and collectives: cargo bench -p oar-net -- frames | store | ring | shared_memory
//!
//! Ranks are threads; the second one follows the first through a channel of counts.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, Throughput};
use oar_net::frame::{crc32c, Parser, Type, Writer};
use oar_net::{Context, Dtype, Job, Options, ReduceOp, Store};

const LIMIT: Duration = Duration::from_secs(60);

fn frames(c: &mut Criterion) {
    let mut g = c.benchmark_group("frames");
    for size in [64usize, 4 << 10, 256 << 10] {
        let payload = vec![7u8; size];
        g.throughput(Throughput::Bytes(size as u64));
        g.bench_function(BenchmarkId::new("crc32c", size), |b| b.iter(|| crc32c(std::hint::black_box(&payload))));
        g.bench_function(BenchmarkId::new("encode_and_parse", size), |b| {
            b.iter(|| {
                let mut out = Vec::new();
                Writer::default().encode(Type::Request, &payload, &mut out);
                let mut p = Parser::new(1 << 20);
                p.feed(&out);
                p.next().unwrap().unwrap()
            })
        });
    }
    g.finish();
}

fn store(c: &mut Criterion) {
    let mut g = c.benchmark_group("store");
    let s = Store::host(([127, 0, 0, 1], 0).into(), &Job::default()).unwrap();
    g.bench_function("set", |b| b.iter(|| s.set("key", b"value", LIMIT).unwrap()));
    g.bench_function("get", |b| b.iter(|| s.get("key", LIMIT).unwrap()));
    g.bench_function("add", |b| b.iter(|| s.add("n", 1, LIMIT).unwrap()));
    g.finish();
}

fn all_reduce(c: &mut Criterion, name: &str, shared_memory: bool) {
    let job = Job::default();
    let host = Store::host(([127, 0, 0, 1], 0).into(), &job).unwrap();
    let at = host.address();
    let options = Options { shared_memory, timeout: LIMIT, ..Options::default() };
    let (send_count, counts) = mpsc::channel::<(u64, usize)>();
    let second = {
        let (job, options) = (job.clone(), options.clone());
        std::thread::spawn(move || {
            let context = Context::init(1, 2, Store::connect(at, &job, LIMIT).unwrap(), options).unwrap();
            let group = context.world_group().unwrap();
            while let Ok((times, size)) = counts.recv() {
                let mut x = vec![0; size];
                (0..times).for_each(|_| group.all_reduce(&mut x, Dtype::F32, ReduceOp::Sum).unwrap());
            }
        })
    };
    let context = Context::init(0, 2, Store::connect(at, &job, LIMIT).unwrap(), options).unwrap();
    let group = context.world_group().unwrap();
    let mut g = c.benchmark_group(name);
    g.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    for size in [4usize, 4 << 10, 1 << 20, 16 << 20] {
        g.throughput(Throughput::Bytes(size as u64));
        let mut x = vec![0; size];
        g.bench_function(BenchmarkId::new("all_reduce", size), |b| {
            b.iter_custom(|times| {
                send_count.send((times, size)).unwrap();
                let start = Instant::now();
                (0..times).for_each(|_| group.all_reduce(&mut x, Dtype::F32, ReduceOp::Sum).unwrap());
                start.elapsed()
            })
        });
    }
    g.finish();
    drop(send_count);
    second.join().unwrap();
}

fn ring(c: &mut Criterion) {
    all_reduce(c, "ring", false);
}

fn shared_memory(c: &mut Criterion) {
    all_reduce(c, "shared_memory", true);
}

criterion_group!(benches, frames, store, ring, shared_memory);
criterion_main!(benches);
