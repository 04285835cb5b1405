//! Records of a server's log, and the ledger's part of a snapshot.

use super::wire::{
    flag, put_meta, put_metas, put_words, take_list, take_meta, take_metas, take_text, take_words, Meta,
};
use oar_net::codec::{Put, Take};

/// A change of the server's state. Applying the records in order reproduces the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord {
    /// A trainer, or its next incarnation, has connected.
    Opened {
        trainer: u32,
        incarnation: u64,
    },
    /// A push was accepted; the bytes of its variables follow.
    Pushed {
        trainer: u32,
        incarnation: u64,
        seq: u64,
        barrier: bool,
        vars: Vec<Meta>,
    },
    /// A step was taken with the parts of these trainers.
    Step {
        number: u64,
        trainers: Vec<u32>,
    },
    Barrier {
        trainer: u32,
        seq: u64,
    },
    /// A trainer is complete, or given up.
    Left {
        trainer: u32,
    },
    /// A restarted trainer continues after so many of its parts.
    Resumed {
        trainer: u32,
        parts: u64,
    },
    /// A trainer has read variables, which changes the service's state.
    Read {
        trainer: u32,
        names: Vec<String>,
    },
    /// A trainer has looked up rows, which changes the service's state.
    LookedUp {
        trainer: u32,
        name: String,
        ids: Meta,
    },
}

impl LogRecord {
    pub fn encode(&self) -> Vec<u8> {
        let p = Put::default();
        match self {
            LogRecord::Opened { trainer, incarnation } => p.u8(0).u32(*trainer).u64(*incarnation),
            LogRecord::Pushed { trainer, incarnation, seq, barrier, vars } => {
                put_metas(p.u8(1).u32(*trainer).u64(*incarnation).u64(*seq).u8((*barrier).into()), vars)
            }
            LogRecord::Step { number, trainers } => {
                let p = p.u8(2).u64(*number).u32(trainers.len() as u32);
                trainers.iter().fold(p, |p, t| p.u32(*t))
            }
            LogRecord::Barrier { trainer, seq } => p.u8(3).u32(*trainer).u64(*seq),
            LogRecord::Left { trainer } => p.u8(4).u32(*trainer),
            LogRecord::Resumed { trainer, parts } => p.u8(5).u32(*trainer).u64(*parts),
            LogRecord::Read { trainer, names } => put_words(p.u8(6).u32(*trainer), names),
            LogRecord::LookedUp { trainer, name, ids } => put_meta(p.u8(7).u32(*trainer).bytes(name.as_bytes()), ids),
        }
        .0
    }

    pub fn decode(bytes: &[u8]) -> Option<LogRecord> {
        let t = &mut Take(bytes);
        let (kind, first) = (t.u8()?, if bytes[0] == 2 { 0 } else { t.u32()? });
        let record = match kind {
            0 => LogRecord::Opened { trainer: first, incarnation: t.u64()? },
            1 => LogRecord::Pushed {
                trainer: first,
                incarnation: t.u64()?,
                seq: t.u64()?,
                barrier: flag(t)?,
                vars: take_metas(t)?,
            },
            2 => LogRecord::Step { number: t.u64()?, trainers: take_list(t, 1 << 20, |t| t.u32())? },
            3 => LogRecord::Barrier { trainer: first, seq: t.u64()? },
            4 => LogRecord::Left { trainer: first },
            5 => LogRecord::Resumed { trainer: first, parts: t.u64()? },
            6 => LogRecord::Read { trainer: first, names: take_words(t)? },
            7 => LogRecord::LookedUp { trainer: first, name: take_text(t)?, ids: take_meta(t)? },
            _ => return None,
        };
        t.0.is_empty().then_some(record)
    }

    /// The variables whose bytes follow.
    pub fn vars(&self) -> &[Meta] {
        match self {
            LogRecord::Pushed { vars, .. } => vars,
            LogRecord::LookedUp { ids, .. } => std::slice::from_ref(ids),
            _ => &[],
        }
    }

    /// Whether the record counts towards the next snapshot.
    pub fn counts(&self, steps: bool) -> bool {
        match self {
            LogRecord::Step { .. } => steps,
            LogRecord::Pushed { .. } => !steps,
            _ => false,
        }
    }
}

/// A trainer's part of the ledger between two steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainerSnapshot {
    pub incarnation: u64,
    pub seq: u64,
    pub target: u64,
    pub at_barrier: bool,
    pub complete: bool,
    pub parts: u64,
    pub skip: u64,
    pub refused: Option<String>,
}

/// The ledger in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerSnapshot {
    pub steps: bool,
    pub step: u64,
    pub round: u64,
    pub trainers: Vec<TrainerSnapshot>,
}

/// Format version, the first number of a snapshot's head.
const VERSION: u32 = 2;

impl LedgerSnapshot {
    pub fn encode(&self) -> Vec<u8> {
        let p = Put::default().u32(VERSION).u8(self.steps.into()).u64(self.step).u64(self.round);
        let page = |p: Put, t: &TrainerSnapshot| {
            let p = p.u64(t.incarnation).u64(t.seq).u64(t.target).u8(t.at_barrier.into()).u8(t.complete.into());
            let p = p.u64(t.parts).u64(t.skip).u8(t.refused.is_some().into());
            p.bytes(t.refused.as_deref().unwrap_or_default().as_bytes())
        };
        self.trainers.iter().fold(p.u32(self.trainers.len() as u32), page).0
    }

    pub fn decode(bytes: &[u8]) -> Option<LedgerSnapshot> {
        let t = &mut Take(bytes);
        if t.u32()? != VERSION {
            return None;
        }
        let page = |t: &mut Take<'_>| {
            let page = TrainerSnapshot {
                incarnation: t.u64()?,
                seq: t.u64()?,
                target: t.u64()?,
                at_barrier: flag(t)?,
                complete: flag(t)?,
                parts: t.u64()?,
                skip: t.u64()?,
                refused: None,
            };
            let (some, why) = (flag(t)?, t.text()?);
            Some(TrainerSnapshot { refused: some.then_some(why), ..page })
        };
        let (steps, step, round) = (flag(t)?, t.u64()?, t.u64()?);
        let image = LedgerSnapshot { steps, step, round, trainers: take_list(t, 1 << 20, page)? };
        t.0.is_empty().then_some(image)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ValueKind;
    use super::*;

    #[test]
    fn notes_and_books_come_back() {
        let meta = Meta {
            name: "w".into(),
            kind: ValueKind::Dense,
            dtype: 5,
            dims: vec![2],
            lod: vec![],
            height: 0,
            rows: 0,
            bytes: 8,
        };
        let records = [
            LogRecord::Opened { trainer: 1, incarnation: 9 },
            LogRecord::Pushed { trainer: 0, incarnation: 9, seq: 3, barrier: true, vars: vec![meta.clone()] },
            LogRecord::Step { number: 4, trainers: vec![0, 1] },
            LogRecord::Barrier { trainer: 1, seq: 4 },
            LogRecord::Left { trainer: 1 },
            LogRecord::Resumed { trainer: 1, parts: 7 },
            LogRecord::Read { trainer: 1, names: vec!["w".into()] },
            LogRecord::LookedUp { trainer: 1, name: "t".into(), ids: meta },
        ];
        for n in records {
            assert_eq!(LogRecord::decode(&n.encode()), Some(n.clone()));
            assert_eq!(LogRecord::decode(&[&n.encode()[..], &[0]].concat()), None);
        }
        let page = TrainerSnapshot {
            incarnation: 1,
            seq: 2,
            target: 3,
            refused: Some("no".into()),
            ..TrainerSnapshot::default()
        };
        let image = LedgerSnapshot { steps: true, step: 5, round: 6, trainers: vec![page, TrainerSnapshot::default()] };
        assert_eq!(LedgerSnapshot::decode(&image.encode()), Some(image));
    }
}
