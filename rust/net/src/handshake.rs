//! The handshake at the start of every connection.
//!
//! The acceptor sends a challenge; the connector answers with its identity and an HMAC-SHA256 over both, keyed with the
//! job's token; the acceptor proves the token in turn. All three messages have a fixed size. Both ends derive the keys of
//! later frames from the token and the three messages, two of which carry random numbers.
//!
//! A job without a token has one for each listener (see `token_file`): the challenge carries the listener's number.

use std::net::{SocketAddr, TcpStream};

use hmac::{Hmac, Mac as _};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::mac::{keyed, Hash, Mac, Seal};
use crate::socket::{self, Deadline};
use crate::token_file;

pub const VERSION: u16 = 3;
/// Features of this side; a connection uses the intersection. None is defined yet.
pub const FEATURES: u32 = 0;
pub(crate) const MAGIC: [u8; 4] = *b"OARH";
pub(crate) const CHALLENGE: usize = 32;
pub(crate) const HELLO: usize = 128;
pub(crate) const ANSWER: usize = 40;
const MAC_AT: usize = HELLO - 32;

/// Rank of a client without a rank, such as a launcher.
pub const NO_RANK: u32 = u32::MAX;

/// A process's identity, and the secret that proves its membership in the job.
#[derive(Clone)]
pub struct Identity {
    pub job: [u8; 16],
    /// Empty: that of the listener, for processes of its user on its host.
    pub token: Vec<u8>,
    /// 0 if the number of ranks is unknown (a store's host or client).
    pub world: u32,
    pub rank: u32,
}

impl Identity {
    pub fn new(job: &str, token: &[u8], world: u32, rank: u32) -> Identity {
        let mut id = [0; 16];
        id.copy_from_slice(&Sha256::digest(job.as_bytes())[..16]);
        Identity { job: id, token: token.to_vec(), world, rank }
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        keyed(&self.token, parts)
    }

    /// The acceptor's proof that it has the token.
    pub(crate) fn proof(&self, challenge: &[u8], hello: &[u8], answer: &[u8]) -> Hmac<Sha256> {
        self.mac(&[b"oar accept", challenge, hello, &answer[..8]])
    }

    /// The hash that all data connections of a group share.
    pub(crate) fn hash_of_group(&self, group: u64) -> Hash {
        Hash::new(&self.mac(&[b"oar data of a group", &group.to_le_bytes()]).finalize().into_bytes())
    }

    /// The keys of the frames after the handshake.
    pub(crate) fn seal(&self, accepts: bool, challenge: &[u8], hello: &[u8], answer: &[u8]) -> Seal {
        let key = |direction: &[u8]| {
            let key = self.mac(&[b"oar frames of the ", direction, challenge, hello, answer]);
            Mac::new(&key.finalize().into_bytes())
        };
        let (connector, acceptor) = (key(b"connector"), key(b"acceptor"));
        match accepts {
            true => Seal { out: acceptor, incoming: connector },
            false => Seal { out: connector, incoming: acceptor },
        }
    }
}

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    Store = 1,
    Control = 2,
    Data = 3,
    /// A trainer's connection to a parameter server.
    Server = 4,
}

const PURPOSES: [Purpose; 4] = [Purpose::Store, Purpose::Control, Purpose::Data, Purpose::Server];

/// The connector's identity and purpose, as received.
#[derive(Clone, Copy, Debug)]
pub struct ClientHello {
    pub purpose: Purpose,
    pub rank: u32,
    pub group: u64,
    pub features: u32,
}

pub(crate) const REASONS: [&str; 6] = [
    "accepted",
    "the token differs (OAR_JOB_TOKEN must have the same value in all processes of the job)",
    "the protocol version differs",
    "the number of ranks differs",
    "no such rank or purpose",
    "it belongs to another job (OAR_JOB_NAME differs)",
];

fn encode(id: &Identity, purpose: Purpose, group: u64, challenge: &[u8; CHALLENGE]) -> Result<[u8; HELLO]> {
    let mut b = [0; HELLO];
    b[0..4].copy_from_slice(&MAGIC);
    b[4..6].copy_from_slice(&VERSION.to_le_bytes());
    b[6] = purpose as u8;
    b[8..12].copy_from_slice(&FEATURES.to_le_bytes());
    b[12..16].copy_from_slice(&id.world.to_le_bytes());
    b[16..20].copy_from_slice(&id.rank.to_le_bytes());
    b[24..32].copy_from_slice(&group.to_le_bytes());
    b[32..48].copy_from_slice(&id.job);
    b[48..64].copy_from_slice(&socket::random_bytes::<16>()?);
    let mac = id.mac(&[b"oar connect", challenge, &b[..MAC_AT]]).finalize().into_bytes();
    b[MAC_AT..].copy_from_slice(&mac);
    Ok(b)
}

pub(crate) fn check(
    id: &Identity,
    b: &[u8; HELLO],
    challenge: &[u8; CHALLENGE],
) -> std::result::Result<ClientHello, u8> {
    let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
    if b[0..4] != MAGIC {
        return Err(1);
    }
    if u16::from_le_bytes([b[4], b[5]]) != VERSION {
        return Err(2);
    }
    if id.mac(&[b"oar connect", challenge, &b[..MAC_AT]]).verify_slice(&b[MAC_AT..]).is_err() {
        return Err(1);
    }
    if b[32..48] != id.job {
        return Err(5);
    }
    let (world, rank) = (word(12), word(16));
    if id.world != 0 && world != 0 && id.world != world {
        return Err(3);
    }
    let purpose = PURPOSES.into_iter().find(|p| *p as u8 == b[6]).ok_or(4)?;
    let member = matches!(purpose, Purpose::Control | Purpose::Data);
    if member && (rank >= id.world || rank == id.rank) {
        return Err(4);
    }
    let group = u64::from(word(24)) | u64::from(word(28)) << 32;
    Ok(ClientHello { purpose, rank, group, features: word(8) & FEATURES })
}

/// An authenticated connection.
pub struct Connected {
    pub stream: TcpStream,
    pub seal: Seal,
    /// The token that was used.
    pub token: Vec<u8>,
}

/// Connects and authenticates. Lost connections are retried; a refusal is final.
pub fn connect(
    to: SocketAddr,
    id: &Identity,
    purpose: Purpose,
    group: u64,
    deadline: &Deadline<'_>,
) -> Result<Connected> {
    let mut backoff = socket::Backoff::default();
    loop {
        let stream = socket::connect(to, deadline)?;
        match authenticate(&stream, to, id, purpose, group, deadline)? {
            Ok((seal, token)) => return Ok(Connected { stream, seal, token }),
            Err(why) => socket::pause(backoff.pause(), deadline, "connecting", &format!("{to} (last attempt: {why})"))?,
        }
    }
}

fn authenticate(
    s: &TcpStream,
    to: SocketAddr,
    id: &Identity,
    purpose: Purpose,
    group: u64,
    deadline: &Deadline<'_>,
) -> Result<std::result::Result<(Seal, Vec<u8>), String>> {
    let during = format!("the handshake with {to}");
    let refused = |reason: &str| Error::Refused { address: to.to_string(), reason: reason.to_string() };
    let mut challenge = [0; CHALLENGE];
    if let Err(why) = socket::read_exact(s, &mut challenge, deadline, &during)? {
        return Ok(Err(why));
    }
    if challenge[0..4] != MAGIC {
        return Err(refused("the process that listens there uses another protocol"));
    }
    if u16::from_le_bytes([challenge[4], challenge[5]]) != VERSION {
        return Err(refused(REASONS[2]));
    }
    let mut id = id.clone();
    let listener = challenge[8..16].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
    if id.token.is_empty() {
        id.token = match listener {
            0 => {
                return Err(refused(&format!("it has an OAR_JOB_TOKEN and this process has none: {}", token_file::HOW)))
            }
            number => token_file::read(to.port(), number).map_err(|why| refused(&why))?,
        };
    }
    let hello = encode(&id, purpose, group, &challenge)?;
    let mut answer = [0; ANSWER];
    if let Err(why) = socket::write_all(s, &hello, deadline, &during)? {
        return Ok(Err(why));
    }
    if let Err(why) = socket::read_exact(s, &mut answer, deadline, &during)? {
        return Ok(Err(why));
    }
    let code = answer[4];
    if code != 0 {
        return Err(refused(REASONS.get(code as usize).copied().unwrap_or("for an unknown reason")));
    }
    if answer[0..4] != MAGIC || id.proof(&challenge, &hello, &answer).verify_slice(&answer[8..]).is_err() {
        return Err(refused("it could not prove that it knows the job's token"));
    }
    Ok(Ok((id.seal(false, &challenge, &hello, &answer), id.token)))
}
