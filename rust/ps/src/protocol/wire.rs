//! What clients and servers say to each other: a head, and after it the bytes of its variables.

use oar_net::codec::{Put, Take};

/// Longest name, and most variables, dimensions and levels of LoD: beyond that a head is no head.
const MAX_NAME: usize = 4096;
const MAX_LIST: usize = 1 << 20;
const MAX_RANK: usize = 32;

/// How the elements of a variable lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueKind {
    Dense = 0,
    /// Some rows of a tall matrix: their numbers come before the elements.
    Rows = 1,
}

/// A variable without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    pub name: String,
    pub kind: ValueKind,
    /// A number that the two ends agree on.
    pub dtype: u8,
    pub dims: Vec<u64>,
    pub lod: Vec<Vec<u64>>,
    /// Rows of the whole matrix, for [`Kind::Rows`].
    pub height: u64,
    /// How many rows there are, for [`Kind::Rows`].
    pub rows: u64,
    /// Bytes of the elements.
    pub bytes: u64,
}

/// What a client asks. `seq` counts what changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first request on a connection.
    Open {
        trainer: u32,
        incarnation: u64,
    },
    /// Take these; with `barrier` they end the trainer's part of a step, and the answer comes after it. `want` are the
    /// variables that the answer is to bring.
    Push {
        seq: u64,
        barrier: bool,
        want: Vec<String>,
        vars: Vec<Meta>,
    },
    Get {
        names: Vec<String>,
    },
    Lookup {
        name: String,
        ids: Meta,
    },
    /// Wait until all trainers that are not complete have come here.
    Barrier {
        seq: u64,
    },
    /// This trainer needs nothing any more.
    Complete,
    Notify {
        words: Vec<String>,
    },
}

/// What a server answers. `Waiting` says that the answer is still to come, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `life` names this life of the server; `has` is the last `seq` of this incarnation that it knows. `restored`: from
    /// what a former life wrote down; `lossy`: which is not all that it had answered.
    /// `keeps`: a next life goes on where this one ends.
    Opened {
        life: u64,
        has: u64,
        restored: bool,
        lossy: bool,
        keeps: bool,
    },
    Values {
        vars: Vec<Meta>,
    },
    Done {
        words: Vec<String>,
    },
    Failed {
        why: String,
    },
    Waiting {
        what: String,
    },
}

pub(super) fn put_meta(p: Put, m: &Meta) -> Put {
    let mut p = p.bytes(m.name.as_bytes()).u8(m.kind as u8).u8(m.dtype).u32(m.dims.len() as u32);
    for &d in &m.dims {
        p = p.u64(d);
    }
    p = p.u32(m.lod.len() as u32);
    for level in &m.lod {
        p = p.u32(level.len() as u32);
        for &o in level {
            p = p.u64(o);
        }
    }
    p.u64(m.height).u64(m.rows).u64(m.bytes)
}

pub(super) fn put_metas(p: Put, metas: &[Meta]) -> Put {
    metas.iter().fold(p.u32(metas.len() as u32), put_meta)
}

pub(super) fn put_words(p: Put, words: &[String]) -> Put {
    words.iter().fold(p.u32(words.len() as u32), |p, w| p.bytes(w.as_bytes()))
}

pub(super) fn take_text(t: &mut Take<'_>) -> Option<String> {
    let bytes = t.bytes().filter(|b| b.len() <= MAX_NAME)?;
    String::from_utf8(bytes.to_vec()).ok()
}

pub(super) fn take_list<T>(
    t: &mut Take<'_>,
    most: usize,
    mut item: impl FnMut(&mut Take<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let n = t.u32()? as usize;
    // Nothing is allocated for what the head cannot hold.
    if n > most || n > t.0.len() {
        return None;
    }
    (0..n).map(|_| item(t)).collect()
}

pub(super) fn take_meta(t: &mut Take<'_>) -> Option<Meta> {
    let name = take_text(t)?;
    let kind = match t.u8()? {
        0 => ValueKind::Dense,
        1 => ValueKind::Rows,
        _ => return None,
    };
    let dtype = t.u8()?;
    let dims = take_list(t, MAX_RANK, |t| t.u64())?;
    let lod = take_list(t, MAX_RANK, |t| take_list(t, MAX_LIST, |t| t.u64()))?;
    let (height, rows, bytes) = (t.u64()?, t.u64()?, t.u64()?);
    let sane = kind == ValueKind::Rows || rows == 0;
    sane.then_some(Meta { name, kind, dtype, dims, lod, height, rows, bytes })
}

pub(super) fn take_metas(t: &mut Take<'_>) -> Option<Vec<Meta>> {
    take_list(t, MAX_LIST, take_meta)
}

pub(super) fn take_words(t: &mut Take<'_>) -> Option<Vec<String>> {
    take_list(t, MAX_LIST, |t| t.bytes().and_then(|b| String::from_utf8(b.to_vec()).ok()))
}

pub(super) fn flag(t: &mut Take<'_>) -> Option<bool> {
    match t.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        let p = Put::default();
        match self {
            Request::Open { trainer, incarnation } => p.u8(0).u32(*trainer).u64(*incarnation),
            Request::Push { seq, barrier, want, vars } => {
                put_metas(put_words(p.u8(1).u64(*seq).u8((*barrier).into()), want), vars)
            }
            Request::Get { names } => put_words(p.u8(2), names),
            Request::Lookup { name, ids } => put_meta(p.u8(3).bytes(name.as_bytes()), ids),
            Request::Barrier { seq } => p.u8(4).u64(*seq),
            Request::Complete => p.u8(5),
            Request::Notify { words } => put_words(p.u8(6), words),
        }
        .0
    }

    /// The variables whose bytes follow.
    pub fn vars(&self) -> &[Meta] {
        match self {
            Request::Push { vars, .. } => vars,
            Request::Lookup { ids, .. } => std::slice::from_ref(ids),
            _ => &[],
        }
    }

    /// In words, for messages about waits.
    pub fn what(&self) -> String {
        match self {
            Request::Open { .. } => "opening a connection".into(),
            Request::Push { barrier: true, vars, .. } => {
                format!("the end of a step, sending {}", some(vars.iter().map(|m| &*m.name)))
            }
            Request::Push { vars, .. } => format!("sending {}", some(vars.iter().map(|m| &*m.name))),
            Request::Get { names } => format!("receiving {}", some(names.iter().map(|n| &**n))),
            Request::Lookup { name, .. } => format!("looking rows of {name} up"),
            Request::Barrier { .. } => "a barrier of trainers".into(),
            Request::Complete => "saying goodbye".into(),
            Request::Notify { words } => words.first().cloned().unwrap_or_default(),
        }
    }
}

/// The first of these names, and how many there are besides.
fn some<'a>(mut names: impl ExactSizeIterator<Item = &'a str>) -> String {
    match (names.next(), names.len()) {
        (None, _) => "nothing".into(),
        (Some(first), 0) => first.into(),
        (Some(first), more) => format!("{first} and {more} more"),
    }
}

/// A request from bytes; `None` for any that `encode` does not make.
pub fn decode_request(bytes: &[u8]) -> Option<Request> {
    let t = &mut Take(bytes);
    let request = match t.u8()? {
        0 => Request::Open { trainer: t.u32()?, incarnation: t.u64()? },
        1 => Request::Push { seq: t.u64()?, barrier: flag(t)?, want: take_words(t)?, vars: take_metas(t)? },
        2 => Request::Get { names: take_words(t)? },
        3 => Request::Lookup { name: take_text(t)?, ids: take_meta(t)? },
        4 => Request::Barrier { seq: t.u64()? },
        5 => Request::Complete,
        6 => Request::Notify { words: take_words(t)? },
        _ => return None,
    };
    t.0.is_empty().then_some(request)
}

impl Reply {
    pub fn encode(&self) -> Vec<u8> {
        let p = Put::default();
        match self {
            Reply::Opened { life, has, restored, lossy, keeps } => {
                p.u8(0).u64(*life).u64(*has).u8((*restored).into()).u8((*lossy).into()).u8((*keeps).into())
            }
            Reply::Values { vars } => put_metas(p.u8(1), vars),
            Reply::Done { words } => put_words(p.u8(2), words),
            Reply::Failed { why } => p.u8(3).bytes(why.as_bytes()),
            Reply::Waiting { what } => p.u8(4).bytes(what.as_bytes()),
        }
        .0
    }

    pub fn vars(&self) -> &[Meta] {
        match self {
            Reply::Values { vars } => vars,
            _ => &[],
        }
    }
}

/// A reply from bytes; `None` for any that `encode` does not make.
pub fn decode_reply(bytes: &[u8]) -> Option<Reply> {
    let t = &mut Take(bytes);
    let reply = match t.u8()? {
        0 => {
            let (life, has) = (t.u64()?, t.u64()?);
            Reply::Opened { life, has, restored: flag(t)?, lossy: flag(t)?, keeps: flag(t)? }
        }
        1 => Reply::Values { vars: take_metas(t)? },
        2 => Reply::Done { words: take_words(t)? },
        3 => Reply::Failed { why: t.text()? },
        4 => Reply::Waiting { what: t.text()? },
        _ => return None,
    };
    t.0.is_empty().then_some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        let dims = vec![2, 3];
        Meta {
            name: "w".into(),
            kind: ValueKind::Rows,
            dtype: 5,
            dims,
            lod: vec![vec![0, 2]],
            height: 9,
            rows: 2,
            bytes: 24,
        }
    }

    #[test]
    fn requests_and_replies_come_back() {
        let words = vec!["a".to_string(), String::new()];
        let requests = [
            Request::Open { trainer: 3, incarnation: u64::MAX },
            Request::Push { seq: 7, barrier: true, want: words.clone(), vars: vec![meta(), meta()] },
            Request::Get { names: words.clone() },
            Request::Lookup { name: "t".into(), ids: meta() },
            Request::Barrier { seq: 1 },
            Request::Complete,
            Request::Notify { words: words.clone() },
        ];
        for r in requests {
            assert_eq!(decode_request(&r.encode()), Some(r.clone()));
            assert_eq!(decode_request(&[&r.encode()[..], &[0]].concat()), None);
        }
        let replies = [
            Reply::Opened { life: 1, has: 2, restored: true, lossy: false, keeps: true },
            Reply::Values { vars: vec![meta()] },
            Reply::Done { words },
            Reply::Failed { why: "no".into() },
            Reply::Waiting { what: "trainer 1".into() },
        ];
        for r in replies {
            assert_eq!(decode_reply(&r.encode()), Some(r));
        }
    }

    #[test]
    fn a_list_longer_than_its_bytes_allocates_nothing() {
        assert_eq!(decode_request(&[2, 255, 255, 255, 255]), None);
        assert_eq!(decode_reply(&[1, 255, 255, 15, 0, 1]), None);
    }
}
