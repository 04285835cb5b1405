//! The rendezvous store: values, waits, barriers, deadlines, unauthenticated connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use oar_net::{Error, Job, Store};

const LIMIT: Duration = Duration::from_secs(60);

fn any() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn job() -> Job {
    Job::new("test", b"secret")
}

#[test]
fn values() {
    let s = Store::host(any(), &job()).unwrap();
    assert_eq!(s.peek("a", LIMIT).unwrap(), None);
    s.set("a", b"1", LIMIT).unwrap();
    assert_eq!(s.get("a", LIMIT).unwrap(), b"1");
    assert_eq!(s.add("n", 5, LIMIT).unwrap(), 5);
    assert_eq!(s.add("n", -7, LIMIT).unwrap(), -2);
    assert!(matches!(s.add("a", 1, LIMIT), Err(Error::Invalid(_))));
    assert_eq!(s.compare_and_set("c", None, b"x", LIMIT).unwrap().unwrap(), b"x");
    assert_eq!(s.compare_and_set("c", None, b"y", LIMIT).unwrap().unwrap(), b"x");
    assert_eq!(s.compare_and_set("c", Some(b"x"), b"y", LIMIT).unwrap().unwrap(), b"y");
    assert_eq!(s.compare_and_set("none", Some(b"x"), b"y", LIMIT).unwrap(), None);
    assert!(s.delete("c", LIMIT).unwrap());
    assert!(!s.delete("c", LIMIT).unwrap());
    let big = vec![7; oar_net::store::MAX_VALUE];
    s.set("big", &big, LIMIT).unwrap();
    assert_eq!(s.get("big", LIMIT).unwrap(), big);
    assert!(matches!(s.set("big", &[0; oar_net::store::MAX_VALUE + 1], LIMIT), Err(Error::Invalid(_))));
}

#[test]
fn a_hundred_clients_meet() {
    let host = Store::host(any(), &job()).unwrap();
    let at = host.address();
    std::thread::scope(|scope| {
        for rank in 0..100 {
            scope.spawn(move || {
                let s = Store::connect(at, &job(), LIMIT).unwrap();
                s.set(&format!("rank/{rank}"), &[rank], LIMIT).unwrap();
                assert_eq!(s.get(&format!("rank/{}", (rank + 1) % 100), LIMIT).unwrap(), [(rank + 1) % 100]);
                s.add("sum", i64::from(rank), LIMIT).unwrap();
                for _ in 0..3 {
                    s.barrier("all", 100, LIMIT).unwrap();
                }
                assert_eq!(s.add("sum", 0, LIMIT).unwrap(), 4950);
            });
        }
    });
}

#[test]
fn waits_end() {
    let s = Store::host(any(), &job()).unwrap();
    let start = Instant::now();
    let e = s.get("never", Duration::from_millis(100)).unwrap_err();
    assert!(matches!(e, Error::Timeout { .. }) && e.to_string().contains("never"), "{e}");
    let e = s.barrier("lonely", 2, Duration::from_millis(100)).unwrap_err();
    assert!(e.to_string().contains("lonely of 2"), "{e}");
    assert!(s.wait(&["a", "b"], Duration::from_millis(50)).is_err());
    assert!(start.elapsed() < Duration::from_secs(30));
    let waiter = s.again(LIMIT).unwrap();
    let t = std::thread::spawn(move || waiter.get("never", LIMIT));
    std::thread::sleep(Duration::from_millis(50));
    s.interrupt(true);
    assert!(matches!(t.join().unwrap(), Err(Error::Interrupted { .. })));
    s.interrupt(false);
    s.set("x", b"1", LIMIT).unwrap();
}

#[test]
fn the_end_of_a_store_ends_its_waits() {
    let host = Store::host(any(), &job()).unwrap();
    let s = Store::connect(host.address(), &job(), LIMIT).unwrap();
    let t = std::thread::spawn(move || s.get("never", LIMIT));
    std::thread::sleep(Duration::from_millis(50));
    drop(host);
    let e = t.join().unwrap().unwrap_err();
    assert!(matches!(e, Error::Store { .. }), "{e}");
}

#[test]
fn unauthenticated_connections_are_refused_and_delay_no_client() {
    let host = Store::host(any(), &job()).unwrap();
    let at = host.address();
    for wrong in [Job::new("test", b"guess"), Job::new("other", b"secret"), Job::new("test", b"")] {
        let e = Store::connect(at, &wrong, LIMIT).err().unwrap();
        assert!(matches!(e, Error::Refused { .. }), "{e}");
    }
    // Connections that send nothing, garbage, or half a handshake.
    let mut intruders: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(at).unwrap()).collect();
    for s in &mut intruders {
        s.set_nonblocking(true).unwrap();
        let _ = s.write_all(&[0xAB; 200]);
    }
    intruders.extend((0..300).map(|_| TcpStream::connect(at).unwrap()));
    let start = Instant::now();
    let s = Store::connect(at, &job(), LIMIT).unwrap();
    s.set("a", b"1", LIMIT).unwrap();
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    // The connection that sent garbage is closed.
    intruders[0].set_nonblocking(false).unwrap();
    intruders[0].set_read_timeout(Some(LIMIT)).unwrap();
    let mut got = Vec::new();
    let _ = intruders[0].read_to_end(&mut got);
    assert!(got.len() <= 32 + 40);
}

#[test]
fn without_a_token_the_listener_has_one_of_its_own() {
    for bind in [[0, 0, 0, 0], [127, 0, 0, 1]] {
        let open = Job::new("open", b"");
        let host = Store::host((bind, 0).into(), &open).unwrap();
        host.set("a", b"1", LIMIT).unwrap();
        // Another process of this user has the token from its file.
        let other = Store::connect(host.address(), &open, LIMIT).unwrap();
        assert_eq!(other.get("a", LIMIT).unwrap(), b"1");
        assert!(other.job().token.len() == 32 && other.job().token == host.job().token);
        for (job, why) in [(job(), "the token differs"), (Job::new("other", b""), "another job")] {
            let e = Store::connect(host.address(), &job, LIMIT).err().unwrap();
            assert!(matches!(&e, Error::Refused { reason, .. } if reason.contains(why)), "{e}");
        }
    }
    let host = Store::host(any(), &job()).unwrap();
    let e = Store::connect(host.address(), &Job::default(), LIMIT).err().unwrap();
    assert!(e.to_string().contains("set OAR_JOB_TOKEN to the same value"), "{e}");
}

#[test]
fn connecting_waits_for_the_host() {
    let listener = std::net::TcpListener::bind(any()).unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    let t = std::thread::spawn(move || Store::connect(at, &job(), LIMIT).map(|s| s.get("k", LIMIT).unwrap()));
    std::thread::sleep(Duration::from_millis(150));
    let host = Store::host(at, &job()).unwrap();
    host.set("k", b"v", LIMIT).unwrap();
    assert_eq!(t.join().unwrap().unwrap(), b"v");
    let e = Store::connect(([127, 0, 0, 1], 1).into(), &job(), Duration::from_millis(200)).err().unwrap();
    assert!(matches!(e, Error::Timeout { .. }), "{e}");
}
