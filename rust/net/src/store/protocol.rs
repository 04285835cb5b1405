//! Requests and replies of the store, as fields of a frame.

use crate::codec::{Put, Take};

pub const MAX_KEY: usize = 1024;
pub const MAX_VALUE: usize = 512 << 10;
/// Maximum number of keys in one `wait`.
pub const MAX_KEYS: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Set {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// Returns the value as soon as it is set.
    Get {
        key: Vec<u8>,
    },
    /// Returns the current value, or `Nothing`.
    Peek {
        key: Vec<u8>,
    },
    Add {
        key: Vec<u8>,
        delta: i64,
    },
    /// Sets `new` if the value is `old` (`None`: absent); returns the value afterwards.
    Swap {
        key: Vec<u8>,
        old: Option<Vec<u8>>,
        new: Vec<u8>,
    },
    Wait {
        keys: Vec<Vec<u8>>,
    },
    Delete {
        key: Vec<u8>,
    },
    Barrier {
        name: Vec<u8>,
        world: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    Value(Vec<u8>),
    Nothing,
    Number(i64),
    Late,
    Refused(String),
}

fn opt(p: Put, v: Option<&[u8]>) -> Put {
    match v {
        Some(v) => p.u8(1).bytes(v),
        None => p.u8(0),
    }
}

pub fn encode_request(id: u64, wait_ms: u64, request: &Request) -> Vec<u8> {
    let p = Put::default().u64(id).u64(wait_ms);
    let p = match request {
        Request::Set { key, value } => p.u8(1).bytes(key).bytes(value),
        Request::Get { key } => p.u8(2).bytes(key),
        Request::Peek { key } => p.u8(3).bytes(key),
        Request::Add { key, delta } => p.u8(4).bytes(key).u64(*delta as u64),
        Request::Swap { key, old, new } => opt(p.u8(5).bytes(key), old.as_deref()).bytes(new),
        Request::Wait { keys } => keys.iter().fold(p.u8(6).u32(keys.len() as u32), |p: Put, k: &Vec<u8>| p.bytes(k)),
        Request::Delete { key } => p.u8(7).bytes(key),
        Request::Barrier { name, world } => p.u8(8).bytes(name).u32(*world),
    };
    p.0
}

pub fn decode_request(payload: &[u8]) -> Option<(u64, u64, Request)> {
    let mut t = Take(payload);
    let (id, wait, op) = (t.u64()?, t.u64()?, t.u8()?);
    let request = match op {
        1 => Request::Set { key: key(&mut t)?, value: value(&mut t)? },
        2 => Request::Get { key: key(&mut t)? },
        3 => Request::Peek { key: key(&mut t)? },
        4 => Request::Add { key: key(&mut t)?, delta: t.u64()? as i64 },
        5 => {
            let key = key(&mut t)?;
            let old = if t.u8()? == 1 { Some(value(&mut t)?) } else { None };
            Request::Swap { key, old, new: value(&mut t)? }
        }
        6 => {
            let n = t.u32()? as usize;
            if n > MAX_KEYS {
                return None;
            }
            Request::Wait { keys: (0..n).map(|_| key(&mut t)).collect::<Option<_>>()? }
        }
        7 => Request::Delete { key: key(&mut t)? },
        8 => Request::Barrier { name: key(&mut t)?, world: t.u32()? },
        _ => return None,
    };
    t.0.is_empty().then_some((id, wait, request))
}

fn key(t: &mut Take<'_>) -> Option<Vec<u8>> {
    t.bytes().filter(|k| k.len() <= MAX_KEY).map(<[u8]>::to_vec)
}

fn value(t: &mut Take<'_>) -> Option<Vec<u8>> {
    t.bytes().filter(|v| v.len() <= MAX_VALUE).map(<[u8]>::to_vec)
}

pub fn encode_reply(id: u64, reply: &Reply) -> Vec<u8> {
    let p = Put::default().u64(id);
    let p = match reply {
        Reply::Done => p.u8(0),
        Reply::Value(v) => p.u8(1).bytes(v),
        Reply::Nothing => p.u8(2),
        Reply::Number(n) => p.u8(3).u64(*n as u64),
        Reply::Late => p.u8(4),
        Reply::Refused(why) => p.u8(5).bytes(why.as_bytes()),
    };
    p.0
}

pub fn decode_reply(payload: &[u8]) -> Option<(u64, Reply)> {
    let mut t = Take(payload);
    let (id, code) = (t.u64()?, t.u8()?);
    let reply = match code {
        0 => Reply::Done,
        1 => Reply::Value(t.bytes()?.to_vec()),
        2 => Reply::Nothing,
        3 => Reply::Number(t.u64()? as i64),
        4 => Reply::Late,
        5 => Reply::Refused(t.text()?),
        _ => return None,
    };
    t.0.is_empty().then_some((id, reply))
}
