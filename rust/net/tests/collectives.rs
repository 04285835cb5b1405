//! Every collective against a plain model, over every arrangement of ranks.

mod common;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{job, options};
use half::{bf16, f16};
use oar_net::costs::Costs;
use oar_net::fingerprint::Fingerprint;
use oar_net::mac::{Digest, Hash};
use oar_net::{
    CollectiveCall, Dtype, Group, Interest, MakeTransport, Membership, Options, ReduceOp, Result, Transport,
};

/// Small numbers that every type represents exactly, also as sums and products of a few ranks.
fn value(rank: usize, i: usize) -> i64 {
    ((rank * 7 + i * 3) % 4) as i64 - i64::from(rank % 3 == 1 && i.is_multiple_of(5))
}

fn store(dtype: Dtype, v: i64) -> Vec<u8> {
    match dtype {
        Dtype::Bool => vec![u8::from(v != 0)],
        Dtype::U8 => vec![v as u8],
        Dtype::I8 => vec![v as u8],
        Dtype::I16 => (v as i16).to_ne_bytes().to_vec(),
        Dtype::I32 => (v as i32).to_ne_bytes().to_vec(),
        Dtype::I64 => v.to_ne_bytes().to_vec(),
        Dtype::F16 => f16::from_f64(v as f64).to_ne_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f64(v as f64).to_ne_bytes().to_vec(),
        Dtype::F32 => (v as f32).to_ne_bytes().to_vec(),
        Dtype::F64 => (v as f64).to_ne_bytes().to_vec(),
    }
}

/// Floats avoid 0: a product with it may be -0.
fn valued(dtype: Dtype, rank: usize, i: usize) -> i64 {
    match (dtype, value(rank, i)) {
        (Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64, 0) => 2,
        (_, v) => v,
    }
}

fn data(dtype: Dtype, rank: usize, n: usize) -> Vec<u8> {
    (0..n).flat_map(|i| store(dtype, valued(dtype, rank, i))).collect()
}

fn model(dtype: Dtype, op: ReduceOp, world: usize, i: usize) -> Vec<u8> {
    let fix = |v: i64| match dtype {
        Dtype::Bool => i64::from(v != 0),
        Dtype::U8 => i64::from(v as u8),
        _ => v,
    };
    let all = (0..world).map(|r| fix(valued(dtype, r, i)));
    let v = match op {
        ReduceOp::Sum | ReduceOp::Avg => all.sum::<i64>(),
        ReduceOp::Prod => all.product(),
        ReduceOp::Max => all.max().unwrap(),
        ReduceOp::Min => all.min().unwrap(),
    };
    if op == ReduceOp::Avg {
        return match dtype {
            Dtype::F16 => f16::from_f32(v as f32 / world as f32).to_ne_bytes().to_vec(),
            Dtype::Bf16 => bf16::from_f32(v as f32 / world as f32).to_ne_bytes().to_vec(),
            Dtype::F32 => (v as f32 / world as f32).to_ne_bytes().to_vec(),
            Dtype::F64 => (v as f64 / world as f64).to_ne_bytes().to_vec(),
            Dtype::U8 => vec![(v as u8) / world as u8],
            _ => store(dtype, v / world as i64),
        };
    }
    store(dtype, v)
}

fn reductions(g: &Group, dtype: Dtype, n: usize) {
    let (me, world) = (g.rank(), g.world());
    for &op in ReduceOp::ALL {
        if dtype == Dtype::Bool && op == ReduceOp::Avg {
            assert!(g.all_reduce(&mut [1], dtype, op).is_err());
            continue;
        }
        let want: Vec<u8> = (0..n).flat_map(|i| model(dtype, op, world, i)).collect();
        let what = format!("{} {} of {n} over {world}", op.name(), dtype.name());
        let mut x = data(dtype, me, n);
        g.all_reduce(&mut x, dtype, op).unwrap();
        assert!(x == want, "all_reduce {what}");
        let root = n % world;
        let mut x = data(dtype, me, n);
        g.reduce(&mut x, dtype, op, root).unwrap();
        assert!(x == if me == root { want } else { data(dtype, me, n) }, "reduce {what}");
        let whole = data(dtype, me, n * world);
        let mut mine = vec![0; n * dtype.size()];
        g.reduce_scatter(&whole, &mut mine, dtype, op).unwrap();
        let want: Vec<u8> = (me * n..(me + 1) * n).flat_map(|i| model(dtype, op, world, i)).collect();
        assert!(mine == want, "reduce_scatter {what}");
    }
}

fn movements(g: &Group, dtype: Dtype, n: usize) {
    let (me, world, size) = (g.rank(), g.world(), dtype.size());
    let what = format!("{} of {n} over {world}", dtype.name());
    let all: Vec<u8> = (0..world).flat_map(|r| data(dtype, r, n)).collect();
    let root = (n + 1) % world;
    let mut x = data(dtype, me, n);
    g.broadcast(&mut x, dtype, root).unwrap();
    assert!(x == data(dtype, root, n), "broadcast {what}");
    let mut got = vec![0; all.len()];
    g.all_gather(&data(dtype, me, n), &mut got, dtype).unwrap();
    assert!(got == all, "all_gather {what}");
    let mut got = if me == root { vec![0; all.len()] } else { vec![] };
    g.gather(&data(dtype, me, n), &mut got, dtype, root).unwrap();
    assert!(me != root || got == all, "gather {what}");
    let mut got = vec![0; n * size];
    g.scatter(if me == root { &all } else { &[] }, &mut got, dtype, root).unwrap();
    assert!(got == data(dtype, me, n), "scatter {what}");
    let mut got = vec![0; n * world * size];
    g.all_to_all(&data(dtype, me, n * world), &mut got, dtype).unwrap();
    let want: Vec<u8> =
        (0..world).flat_map(|r| data(dtype, r, n * world)[me * n * size..(me + 1) * n * size].to_vec()).collect();
    assert!(got == want, "all_to_all {what}");
    // Around the ring: even ranks send first.
    let (next, prev) = ((me + 1) % world, (me + world - 1) % world);
    if world > 1 {
        let mut got = vec![0; n * size];
        if me % 2 == 0 {
            g.send(&data(dtype, me, n), dtype, next).unwrap();
            g.recv(&mut got, dtype, prev).unwrap();
        } else {
            g.recv(&mut got, dtype, prev).unwrap();
            g.send(&data(dtype, me, n), dtype, next).unwrap();
        }
        assert!(got == data(dtype, prev, n), "send/recv {what}");
    }
    g.barrier().unwrap();
}

fn all_statuses(world: usize, make: impl Fn(usize) -> Options + Sync, sizes: &[usize]) {
    job(world, make, |_, g| {
        for &dtype in Dtype::ALL {
            for &n in sizes {
                reductions(&g, dtype, n);
            }
        }
        for &n in sizes {
            movements(&g, Dtype::I64, n);
            movements(&g, Dtype::I8, n);
        }
    });
}

const SIZES: &[usize] = &[0, 1, 5, 20_000];

#[test]
fn over_tcp() {
    for world in [1, 2, 3, 7] {
        all_statuses(world, |_| options(), SIZES);
    }
}

fn shared(_: usize) -> Options {
    Options { shared_memory: true, ..options() }
}

#[test]
fn over_shared_memory() {
    for world in [2, 3, 7] {
        all_statuses(world, shared, SIZES);
    }
    job(3, shared, |_, g| {
        assert_eq!(g.transport(), "shared memory");
        reductions(&g, Dtype::F32, 300_001);
        reductions(&g, Dtype::F16, 300_001);
        movements(&g, Dtype::F64, 150_001);
    });
}

/// All-reduces `n` values at `mine`, in a symmetric buffer or elsewhere.
fn in_symmetric_buffer(g: &Group, dtype: Dtype, n: usize, mine: &mut [u8]) {
    for op in [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max] {
        mine.copy_from_slice(&data(dtype, g.rank(), n));
        g.all_reduce(mine, dtype, op).unwrap();
        let want: Vec<u8> = (0..n).flat_map(|i| model(dtype, op, g.world(), i)).collect();
        assert!(*mine == want, "{op:?} of {n} {dtype:?} in a symmetric buffer");
    }
}

#[test]
fn values_in_a_symmetric_buffer_are_reduced_in_place() {
    const LEN: usize = 1 << 20;
    for world in [2, 3] {
        job(world, shared, |_, g| {
            let Some(buffer) = g.symmetric_buffer(LEN).unwrap() else { return };
            assert_eq!(buffer.len(), LEN);
            // SAFETY: LEN bytes of this rank only, as long as the symmetric buffer exists and no operation runs.
            let whole = unsafe { std::slice::from_raw_parts_mut(buffer.ptr(), LEN) };
            assert!(whole.iter().all(|b| *b == 0));
            whole.fill(7);
            for (dtype, n) in
                [(Dtype::F32, 20_001), (Dtype::F16, 20_001), (Dtype::I64, 100_000), (Dtype::F64, 9), (Dtype::F32, 0)]
            {
                let len = n * dtype.size();
                in_symmetric_buffer(&g, dtype, n, &mut whole[192..192 + len]);
                assert!(whole[..192].iter().chain(&whole[192 + len..]).all(|b| *b == 7));
                whole.fill(7);
            }
            // At different places, and outside of it on one rank.
            let at = 64 * g.rank();
            in_symmetric_buffer(&g, Dtype::F32, 50_000, &mut whole[at..at + 200_000]);
            let mut outside = vec![0; 200_000];
            let mine = if g.rank() == 1 { &mut outside[..] } else { &mut whole[..200_000] };
            in_symmetric_buffer(&g, Dtype::F32, 50_000, mine);
            // With another buffer, and after one rank has dropped it.
            let second = g.symmetric_buffer(400_000).unwrap().unwrap();
            // SAFETY: as above.
            let other = unsafe { std::slice::from_raw_parts_mut(second.ptr(), 400_000) };
            in_symmetric_buffer(&g, Dtype::I32, 100_000, other);
            if g.rank() == 0 {
                drop(second);
                in_symmetric_buffer(&g, Dtype::I32, 100_000, &mut vec![0; 400_000]);
            } else {
                in_symmetric_buffer(&g, Dtype::I32, 100_000, other);
            }
            assert!(g.symmetric_buffer(LEN + g.rank()).is_err());
            in_symmetric_buffer(&g, Dtype::F32, 50_000, &mut whole[..200_000]);
        });
    }
    job(2, |_| options(), |_, g| assert!(g.symmetric_buffer(LEN).unwrap().is_none()));
    job(3, three_hosts, |_, g| assert!(g.symmetric_buffer(LEN).unwrap().is_none()));
}

#[test]
fn over_pairs_in_shared_memory() {
    all_statuses(5, |r| Options { flat: true, ..shared(r) }, SIZES);
}

/// Two and three ranks on two "hosts", and one on a third.
fn three_hosts(rank: usize) -> Options {
    Options { host_key: Some(["a", "b", "a", "b", "c", "b"][rank].into()), ..shared(rank) }
}

#[test]
fn between_hosts() {
    for world in [3, 6] {
        all_statuses(world, three_hosts, SIZES);
    }
    job(5, three_hosts, |_, g| {
        assert!(g.transport().contains("tcp"));
        reductions(&g, Dtype::F32, 300_001);
        reductions(&g, Dtype::Bf16, 300_001);
        movements(&g, Dtype::F64, 150_001);
    });
    // Hosts with consecutive ranks, and groups that begin elsewhere.
    let in_a_row = |rank: usize| Options { host_key: Some(["a", "a", "b", "b", "b"][rank].into()), ..shared(rank) };
    job(5, in_a_row, |c, g| {
        reductions(&g, Dtype::F16, 20_001);
        movements(&g, Dtype::I32, 20_001);
        let mixed = c.group(&[3, 1, 4, 0, 2]).unwrap();
        reductions(&mixed, Dtype::I32, 5_001);
        movements(&mixed, Dtype::I32, 5_001);
    });
}

#[test]
fn over_tcp_in_many_pieces() {
    job(
        3,
        |_| options(),
        |_, g| {
            reductions(&g, Dtype::F32, 300_001);
            reductions(&g, Dtype::Bf16, 300_001);
            movements(&g, Dtype::F64, 150_001);
        },
    );
}

#[test]
fn over_tcp_by_halving() {
    // These costs select recursive halving; half precision uses it, too.
    for (message, n) in [(10_000.0, 20_001), (150_000.0, 300_001)] {
        let costs = Costs { message, byte: 1.0, combine: 0.0 };
        job(
            4,
            |_| Options { costs, ..options() },
            |_, g| {
                reductions(&g, Dtype::F32, n);
                reductions(&g, Dtype::Bf16, n);
            },
        );
    }
}

/// Sums that depend on the order: the bits must be the same on every rank, and in every run.
#[test]
fn the_same_bits_everywhere() {
    let run = |world: usize, make: fn(usize) -> Options| {
        job(world, make, |_, g| {
            let mut out = Vec::new();
            for n in [3usize, 5_000, 70_000] {
                for dtype in [Dtype::F32, Dtype::F16] {
                    let mut x: Vec<u8> = (0..n)
                        .flat_map(|i| {
                            let v = ((i * 7919 + g.rank() * 104_729) % 1000) as f32 * 1e-3 + 1e3 * (i % 3) as f32;
                            match dtype {
                                Dtype::F32 => v.to_ne_bytes().to_vec(),
                                _ => f16::from_f32(v).to_ne_bytes().to_vec(),
                            }
                        })
                        .collect();
                    let mut first = vec![0; x.len()];
                    g.reduce_scatter(&x.repeat(g.world()), &mut first, dtype, ReduceOp::Sum).unwrap();
                    let mut one = x.clone();
                    g.reduce(&mut one, dtype, ReduceOp::Sum, 1).unwrap();
                    g.broadcast(&mut one, dtype, 1).unwrap();
                    g.all_reduce(&mut x, dtype, ReduceOp::Sum).unwrap();
                    out.extend(x);
                    out.extend(one);
                    // Every rank's part is the same sum, in an order of its own.
                    let mut parts = vec![0; first.len() * g.world()];
                    g.all_gather(&first, &mut parts, dtype).unwrap();
                    out.extend(parts);
                }
            }
            out
        })
    };
    for make in [|_: usize| options(), shared, three_hosts] {
        let first = run(5, make);
        assert!(first.iter().all(|x| *x == first[0]));
        assert!(run(5, make) == first);
    }
}

#[test]
fn background_operations_keep_their_order() {
    job(
        3,
        |_| options(),
        |c, g| {
            let pair = (g.rank() < 2).then(|| c.group(&[1, 0]).unwrap());
            let works: Vec<_> = (0..50u32)
                .map(|i| {
                    let x: Vec<u8> = std::iter::repeat_n(i, 1 + 40 * i as usize).flat_map(u32::to_ne_bytes).collect();
                    g.start(CollectiveCall::all_reduce(x, Dtype::I32, ReduceOp::Sum)).unwrap()
                })
                .collect();
            // Another group meanwhile, and a blocking operation after the queued ones.
            if let Some(pair) = &pair {
                assert_eq!(pair.rank(), 1 - g.rank());
                let mut x = 5i32.to_ne_bytes();
                pair.all_reduce(&mut x, Dtype::I32, ReduceOp::Sum).unwrap();
                assert_eq!(x, 10i32.to_ne_bytes());
            }
            let mut last = 7i32.to_ne_bytes();
            g.all_reduce(&mut last, Dtype::I32, ReduceOp::Max).unwrap();
            for (i, w) in works.iter().enumerate() {
                assert!(w.is_done());
                w.wait(None).unwrap();
                let x = w.take().into_vec().unwrap();
                assert_eq!(
                    x,
                    [3 * i as i32].repeat(1 + 40 * i).iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<_>>()
                );
            }
        },
    );
}

type Mail = Arc<Mutex<HashMap<(usize, usize), VecDeque<(Option<Vec<u8>>, Vec<u8>)>>>>;

/// A minimal transport: messages in a map.
struct MapTransport {
    mail: Mail,
    me: usize,
    doing: Vec<u8>,
    fresh: [HashSet<usize>; 2],
    hash: Arc<Hash>,
    digests: HashMap<usize, Vec<Digest>>,
    forwarded: usize,
}

/// Bytes per digest.
const CHECKED: usize = 256;

fn digests(hash: &Hash, bytes: &[u8]) -> Vec<Digest> {
    bytes.chunks(CHECKED).map(|piece| hash.digest(piece)).collect()
}

impl Drop for MapTransport {
    fn drop(&mut self) {
        assert!(std::thread::panicking() || self.forwarded > 0, "no digest was handed on");
    }
}

impl Transport for MapTransport {
    fn name(&self) -> &'static str {
        "map"
    }

    fn segment(&self) -> usize {
        1000
    }

    fn begin(&mut self, doing: &Fingerprint, _limit: Duration) {
        self.doing = doing.0.to_vec();
        self.fresh = Default::default();
    }

    fn try_send(&mut self, to: usize, bytes: &[u8]) -> Result<bool> {
        let print = self.fresh[0].insert(to).then(|| self.doing.clone());
        self.mail.lock().unwrap().entry((self.me, to)).or_default().push_back((print, bytes.to_vec()));
        Ok(true)
    }

    fn try_recv(&mut self, from: usize, into: &mut [u8]) -> Result<bool> {
        let Some((print, bytes)) = self.mail.lock().unwrap().entry((from, self.me)).or_default().pop_front() else {
            return Ok(false);
        };
        assert!(!self.fresh[1].insert(from) || print == Some(self.doing.clone()));
        into.copy_from_slice(&bytes);
        self.digests.insert(from, digests(&self.hash, &bytes));
        Ok(true)
    }

    fn codes(&self) -> Option<(Arc<Hash>, usize)> {
        Some((self.hash.clone(), CHECKED))
    }

    fn digests(&self, from: usize) -> &[Digest] {
        &self.digests[&from]
    }

    fn try_forward(&mut self, to: usize, bytes: &[u8], known: &[Digest]) -> Result<bool> {
        assert!(known.is_empty() || known == digests(&self.hash, bytes), "digests of something else");
        self.forwarded += known.len();
        self.try_send(to, bytes)
    }

    fn wait(&mut self, _wants: &[Interest], _limit: Duration) -> Result<()> {
        std::thread::yield_now();
        Ok(())
    }
}

#[test]
fn over_a_custom_transport() {
    let mail = Mail::default();
    job(
        3,
        |_| options(),
        |c, _| {
            let mail = mail.clone();
            let own: MakeTransport = Arc::new(move |party: Membership| -> Result<Box<dyn Transport>> {
                let (mail, doing, me) = (mail.clone(), vec![], party.me);
                let (fresh, digests, hash) = (Default::default(), HashMap::new(), Arc::new(Hash::new(b"a key")));
                Ok(Box::new(MapTransport { mail, me, doing, fresh, hash, digests, forwarded: 0 }))
            });
            let g = c.group_over(&[0, 1, 2], Some(&own)).unwrap();
            assert_eq!(g.transport(), "map");
            reductions(&g, Dtype::F32, 5_000);
            movements(&g, Dtype::I16, 5_000);
        },
    );
}

#[test]
fn bad_arguments() {
    job(
        2,
        |_| options(),
        |c, g| {
            let f = Dtype::F32;
            let text = |e: oar_net::Result<()>| e.unwrap_err().to_string();
            assert!(text(g.all_reduce(&mut [0; 5], f, ReduceOp::Sum)).contains("multiple"));
            assert!(text(g.broadcast(&mut [0; 4], f, 2)).contains("rank 2"));
            assert!(text(g.all_gather(&[0; 4], &mut [0; 4], f)).contains("8 bytes"));
            assert!(text(g.all_to_all(&[0; 4], &mut [0; 4], f)).contains("2 parts"));
            assert!(text(g.send(&[0; 4], f, g.rank())).contains("itself"));
            assert!(g.run(CollectiveCall::all_reduce(vec![0; 4], f, ReduceOp::Sum).shape(&[2])).is_err());
            assert!(c.group(&[0, 0]).is_err());
            assert!(c.group(&[1 - c.rank()]).is_err());
            assert!(c.group(&[0, 1, 2]).is_err());
            g.barrier().unwrap();
        },
    );
}
