//! Message queues: each message is received exactly once, wherever a connection breaks.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use oar_net::message_queue::{deliver, topic, MessageQueue};
use oar_net::socket::Deadline;
use oar_net::{Error, Job};

fn any() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn job() -> Job {
    Job::new("test", b"secret")
}

fn deadline() -> Deadline<'static> {
    Deadline::only(Duration::from_secs(20))
}

fn pump(mut from: TcpStream, mut to: TcpStream, mut left: usize, counted: &AtomicUsize) {
    let mut buf = [0; 4096];
    while left > 0 {
        let n = from.read(&mut buf).unwrap_or(0).min(left);
        if n == 0 || to.write_all(&buf[..n]).is_err() {
            break;
        }
        counted.fetch_add(n, Ordering::Relaxed);
        left -= n;
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Forwards to `to`. The first connection is cut after so many bytes each way; later ones are not. Counts the bytes of
/// each direction.
struct Proxy {
    at: SocketAddr,
    toward: Arc<AtomicUsize>,
    back: Arc<AtomicUsize>,
}

fn proxy(to: SocketAddr, toward: usize, back: usize) -> Proxy {
    let listener = TcpListener::bind(any()).unwrap();
    let made = Proxy { at: listener.local_addr().unwrap(), toward: Arc::default(), back: Arc::default() };
    let (there, here) = (made.toward.clone(), made.back.clone());
    std::thread::spawn(move || {
        let first = AtomicBool::new(true);
        for client in listener.incoming().map_while(|c| c.ok()) {
            let Ok(server) = TcpStream::connect(to) else { return };
            let cut = first.swap(false, Ordering::Relaxed);
            let limit = |n| if cut { n } else { usize::MAX };
            let (c, s) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (there, here) = (there.clone(), here.clone());
            let (a, b) = (limit(toward), limit(back));
            std::thread::spawn(move || pump(c, s, a, &there));
            std::thread::spawn(move || pump(server, client, b, &here));
        }
    });
    made
}

#[test]
fn in_order_and_once() {
    let here = MessageQueue::open(any(), &job()).unwrap();
    for i in 0..5u8 {
        deliver(here.address(), &job(), 7, &[i], &deadline()).unwrap();
    }
    deliver(here.address(), &job(), 7, b"", &deadline()).unwrap();
    for i in 0..5u8 {
        assert_eq!(here.take(Some(7), &deadline()).unwrap(), [i]);
    }
    assert_eq!(here.take(Some(7), &deadline()).unwrap(), b"");
    let e = here.take(Some(7), &Deadline::only(Duration::from_millis(100))).unwrap_err();
    assert!(matches!(e, Error::Timeout { .. }) && e.to_string().contains("message"), "{e}");
}

#[test]
fn many_senders_and_many_receivers() {
    let here = MessageQueue::open(any(), &job()).unwrap();
    let mut found: Vec<u8> = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..8).map(|_| scope.spawn(|| here.take(Some(7), &deadline()).unwrap()[0])).collect();
        for i in 0..8u8 {
            let at = here.address();
            scope.spawn(move || deliver(at, &job(), 7, &[i], &deadline()).unwrap());
        }
        takers.into_iter().map(|t| t.join().unwrap()).collect()
    });
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// Taking a topic returns no message of another, and loses none.
#[test]
fn topics_are_separate() {
    let here = MessageQueue::open(any(), &job()).unwrap();
    let (a, b) = (topic("ring", &["a:1".into(), "b:1".into()]), topic("ring", &["b:1".into(), "c:1".into()]));
    assert_ne!(a, b);
    assert_eq!(a, topic("ring", &["b:1".into(), "a:1".into()]));
    for (about, text) in [(b, b"b0"), (b, b"b1"), (a, b"a0"), (b, b"b2")] {
        deliver(here.address(), &job(), about, text, &deadline()).unwrap();
    }
    assert_eq!(here.take(Some(a), &deadline()).unwrap(), b"a0");
    let e = here.take(Some(a), &Deadline::only(Duration::from_millis(300))).unwrap_err();
    assert!(e.to_string().contains("3 messages of other rings arrived"), "{e}");
    assert_eq!(here.take(Some(b), &deadline()).unwrap(), b"b0");
    assert_eq!(here.take(None, &deadline()).unwrap(), b"b1");
    assert_eq!(here.take(Some(b), &deadline()).unwrap(), b"b2");
}

/// Cut at every byte of the replies, and of the requests: the message is there exactly once.
#[test]
fn a_broken_connection_neither_loses_nor_duplicates_a_message() {
    let here = MessageQueue::open(any(), &job()).unwrap();
    let whole = proxy(here.address(), usize::MAX, usize::MAX);
    deliver(whole.at, &job(), 7, b"whole", &deadline()).unwrap();
    assert_eq!(here.take(Some(7), &deadline()).unwrap(), b"whole");
    let (toward, back) = (whole.toward.load(Ordering::Relaxed), whole.back.load(Ordering::Relaxed));
    let cuts: Vec<_> =
        (0..back).map(|n| (usize::MAX, n)).chain((0..toward).step_by(3).map(|n| (n, usize::MAX))).collect();
    std::thread::scope(|scope| {
        for some in cuts.chunks(cuts.len().div_ceil(8)) {
            scope.spawn(move || {
                for &(toward, back) in some {
                    let here = MessageQueue::open(any(), &job()).unwrap();
                    let cut = proxy(here.address(), toward, back);
                    deliver(cut.at, &job(), 7, b"one", &deadline()).unwrap();
                    deliver(here.address(), &job(), 7, b"two", &deadline()).unwrap();
                    assert_eq!(here.take(Some(7), &deadline()).unwrap(), b"one", "cut at {toward}, {back}");
                    assert_eq!(here.take(Some(7), &deadline()).unwrap(), b"two", "cut at {toward}, {back}");
                }
            });
        }
    });
}

#[test]
fn no_listener_and_unauthenticated_connections() {
    let gone = TcpListener::bind(any()).unwrap().local_addr().unwrap();
    let short = || Deadline::only(Duration::from_millis(200));
    let e = deliver(gone, &job(), 7, b"x", &short()).unwrap_err();
    assert!(matches!(e, Error::Timeout { .. }) && e.to_string().contains(&gone.to_string()), "{e}");
    let here = MessageQueue::open(any(), &job()).unwrap();
    assert!(matches!(
        deliver(here.address(), &Job::new("test", b"wrong"), 7, b"x", &short()),
        Err(Error::Refused { .. })
    ));
    let stop = || Err(Error::Interrupted { during: "a test".into() });
    assert!(matches!(
        here.take(Some(7), &Deadline::new(Duration::from_secs(9), &stop)),
        Err(Error::Interrupted { .. })
    ));
}
