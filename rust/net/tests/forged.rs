//! Collectives over TCP through a proxy that changes, repeats and moves frames with valid headers and without the token.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{job, options};
use oar_net::frame::{crc32c, HEADER};
use oar_net::mac::TAG;
use oar_net::{Context, Dtype, Error, Group, Options, ReduceOp, Result};

const CHALLENGE: usize = 32;
const HELLO: usize = 128;
const ANSWER: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Attack {
    None,
    /// One bit of the payload, of the code, of the kind.
    Payload,
    Code,
    Kind,
    /// The frame before, with the right number.
    Repeat,
    /// The next frame first, both with the right numbers.
    Swap,
    /// The frame is left out, and the numbers of the others close the gap.
    Skip,
    /// The last frame of the other direction.
    Reflect,
    /// The frame of the same number of the connection before.
    Foreign,
}

/// Numbers a frame anew and makes its header's checksum right.
fn numbered(mut frame: Vec<u8>, seq: u64) -> Vec<u8> {
    frame[8..16].copy_from_slice(&seq.to_le_bytes());
    let crc = crc32c(&frame[..20]);
    frame[20..24].copy_from_slice(&crc.to_le_bytes());
    frame
}

fn exactly(from: &mut TcpStream, len: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn frame(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = exactly(from, HEADER + TAG)?;
    let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    head.extend(exactly(from, len)?);
    Ok(head)
}

/// The frames seen so far: of this direction, the other one, and the connection before.
type Seen = Arc<Mutex<Vec<Vec<u8>>>>;

fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    hello: usize,
    attack: Attack,
    at: usize,
    [seen, other, before]: [Seen; 3],
) -> std::io::Result<()> {
    let first = exactly(&mut from, hello)?;
    to.write_all(&first)?;
    if hello == CHALLENGE {
        let answer = exactly(&mut from, ANSWER)?;
        to.write_all(&answer)?;
    }
    let (mut number, mut shift) = (0usize, 0);
    loop {
        let mut now = frame(&mut from)?;
        seen.lock().unwrap().push(now.clone());
        if number == at {
            let end = now.len() - 1;
            match attack {
                Attack::None => {}
                Attack::Payload => now[end] ^= 4,
                Attack::Code => now[HEADER + 3] ^= 1,
                Attack::Kind => {
                    now[4] = 3 - now[4];
                    now = numbered(now, number as u64);
                }
                Attack::Repeat => {
                    let last = seen.lock().unwrap()[number.saturating_sub(1)].clone();
                    now = numbered(last, number as u64);
                }
                Attack::Swap => {
                    let next = frame(&mut from)?;
                    to.write_all(&numbered(next, number as u64))?;
                    number += 1;
                    now = numbered(now, number as u64);
                }
                Attack::Skip => {
                    shift = 1;
                    number += 1;
                    continue;
                }
                Attack::Reflect => {
                    let last = || other.lock().unwrap().last().cloned();
                    let theirs = std::iter::repeat_with(last).find_map(|f| f).unwrap_or_default();
                    now = numbered(theirs, number as u64);
                }
                Attack::Foreign => now = before.lock().unwrap()[number].clone(),
            }
        }
        if shift > 0 {
            now = numbered(now, (number - shift) as u64);
        }
        to.write_all(&now)?;
        number += 1;
    }
}

/// A proxy before `target`; connection number `which` is attacked at frame `at` of one direction.
fn middle(target: SocketAddr, attack: Attack, which: usize, at: usize, back: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut before: [Seen; 2] = Default::default();
        for number in 0..=which {
            let Ok((a, _)) = listener.accept() else { return };
            let b = TcpStream::connect(target).unwrap();
            let [there, here]: [Seen; 2] = Default::default();
            let (a2, b2) = (a.try_clone().unwrap(), b.try_clone().unwrap());
            let attacks = match (number == which, back) {
                (false, _) => [Attack::None; 2],
                (true, false) => [attack, Attack::None],
                (true, true) => [Attack::None, attack],
            };
            let seen = [there.clone(), here.clone(), before[0].clone()];
            let other = [here.clone(), there.clone(), before[1].clone()];
            std::thread::spawn(move || pump(a, b, HELLO, attacks[0], at, seen));
            std::thread::spawn(move || pump(b2, a2, CHALLENGE, attacks[1], at, other));
            before = [there, here];
        }
    });
    address
}

/// Sums of different values, so that a repeated or moved frame of another one is a wrong result.
fn sums(group: &Group, base: usize) -> Result<()> {
    let world = group.world();
    for round in 0..4 {
        let value = |rank: usize, i: usize| (base + 1000 * round + 7 * rank + i % 1013) as i32;
        let mut x: Vec<u8> = (0..300_000).flat_map(|i| value(group.rank(), i).to_ne_bytes()).collect();
        group.all_reduce(&mut x, Dtype::I32, ReduceOp::Sum)?;
        let right = |(i, sum): (usize, &[u8])| sum == (0..world).map(|r| value(r, i)).sum::<i32>().to_ne_bytes();
        assert!(x.chunks(4).enumerate().all(right), "a wrong sum was accepted");
    }
    Ok(())
}

fn both(context: &Arc<Context>, group: &Group) -> Result<()> {
    sums(group, 0)?;
    let second = context.group(&[0, 1])?;
    sums(&second, 100_000)
}

fn attacked(attack: Attack, which: usize, at: usize, back: bool) -> Vec<Result<()>> {
    let place: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
    job(
        2,
        |_| {
            let place = place.clone();
            // The lower rank connects: the connections to rank 1 carry the groups' data.
            let route = move |rank: usize, to: SocketAddr| match rank {
                1 => *place.lock().unwrap().get_or_insert_with(|| middle(to, attack, which, at, back)),
                _ => to,
            };
            Options { timeout: Duration::from_secs(8), route: Some(Arc::new(route)), ..options() }
        },
        |context, group| both(&context, &group),
    )
}

#[test]
fn an_idle_proxy_changes_nothing() {
    assert!(attacked(Attack::None, 1, 0, false).iter().all(Result::is_ok));
}

#[test]
fn data_of_collectives_are_neither_changed_nor_moved() {
    use Attack::*;
    std::thread::scope(|s| {
        for attack in [Payload, Code, Kind, Repeat, Swap, Skip, Reflect, Foreign] {
            s.spawn(move || {
                for (at, back) in [(0, false), (3, false), (9, true)] {
                    // A repetition and a reflection need a frame before, a swap a second one of the same message.
                    let at = if matches!(attack, Repeat | Swap | Reflect) { at.max(2) } else { at };
                    let found = attacked(attack, 1, at, back);
                    let refused = |r: &Result<()>| matches!(r, Err(Error::Corrupt { .. }));
                    assert!(found.iter().any(refused), "{attack:?} at frame {at}: {found:?}");
                    assert!(found.iter().all(Result::is_err), "{attack:?} at frame {at}: {found:?}");
                }
            });
        }
    });
}
