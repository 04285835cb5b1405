//! Requests and replies of the protocol: a head, followed by the bytes of its variables.

use oar_net::codec::{Put, Take};

/// Limits of a head: length of a name, number of variables, dimensions and levels of LoD.
const MAX_NAME: usize = 4096;
const MAX_LIST: usize = 1 << 20;
const MAX_RANK: usize = 32;

/// Storage of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueKind {
    Dense = 0,
    /// Some rows of a tall matrix: row numbers, then elements.
    Rows = 1,
}

/// A variable's description, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    pub name: String,
    pub kind: ValueKind,
    /// Data type number; interpreted by the service.
    pub dtype: u8,
    pub dims: Vec<u64>,
    pub lod: Vec<Vec<u64>>,
    /// Rows of the whole matrix, for [`ValueKind::Rows`].
    pub height: u64,
    /// Number of rows present, for [`ValueKind::Rows`].
    pub rows: u64,
    /// Bytes of the elements.
    pub bytes: u64,
}

/// A client's request. `seq` numbers the requests that change state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first request on a connection.
    Open {
        trainer: u32,
        incarnation: u64,
    },
    /// Pushes `vars`; with `barrier` they complete the trainer's part of a step, and the reply follows the step. The
    /// reply carries the variables `want`.
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
    /// Waits until all trainers that are not complete have sent it.
    Barrier {
        seq: u64,
    },
    /// This trainer is finished.
    Complete,
    Notify {
        words: Vec<String>,
    },
}

/// A server's reply. `Waiting` precedes the reply proper and describes what the server waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `life` identifies this run of the server; `has` is the last `seq` that it knows of this incarnation. `restored`:
    /// the state of an earlier run was restored; `lossy`: that state may lack acknowledged updates; `keeps`: the state
    /// is durable.
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
    // A list longer than its bytes is refused before anything is allocated.
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

    /// Description for messages about waits.
    pub fn what(&self) -> String {
        match self {
            Request::Open { .. } => "opening a connection".into(),
            Request::Push { barrier: true, vars, .. } => {
                format!("the end of a step, sending {}", some(vars.iter().map(|m| &*m.name)))
            }
            Request::Push { vars, .. } => format!("sending {}", some(vars.iter().map(|m| &*m.name))),
            Request::Get { names } => format!("receiving {}", some(names.iter().map(|n| &**n))),
            Request::Lookup { name, .. } => format!("looking up rows of {name}"),
            Request::Barrier { .. } => "a barrier of trainers".into(),
            Request::Complete => "completion".into(),
            Request::Notify { words } => words.first().cloned().unwrap_or_default(),
        }
    }
}

/// The first name, and the number of further ones.
fn some<'a>(mut names: impl ExactSizeIterator<Item = &'a str>) -> String {
    match (names.next(), names.len()) {
        (None, _) => "nothing".into(),
        (Some(first), 0) => first.into(),
        (Some(first), more) => format!("{first} and {more} more"),
    }
}

/// Decodes a request; `None` for bytes that `encode` does not produce.
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

/// Decodes a reply; `None` for bytes that `encode` does not produce.
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
