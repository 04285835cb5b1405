//! What a server writes down of what happens to it, and its books in a snapshot.

use super::wire::{
    flag, put_meta, put_metas, put_words, take_list, take_meta, take_metas, take_text, take_words, Meta,
};
use oar_net::codec::{Put, Take};

/// Something that changed the server. Done again in the same order, it leads to the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A trainer has come, or its next incarnation.
    Opened {
        trainer: u32,
        incarnation: u64,
    },
    /// A push was taken; the bytes of its variables follow.
    Pushed {
        trainer: u32,
        incarnation: u64,
        seq: u64,
        barrier: bool,
        vars: Vec<Meta>,
    },
    /// The parts of these trainers made a step.
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
    /// A trainer that was started again goes on after so many of its parts.
    Resumed {
        trainer: u32,
        parts: u64,
    },
    /// A trainer was given variables, and the server remembers what it has.
    Given {
        trainer: u32,
        names: Vec<String>,
    },
    /// Rows were looked up, and the server remembers that.
    Looked {
        trainer: u32,
        name: String,
        ids: Meta,
    },
}

impl Note {
    pub fn encode(&self) -> Vec<u8> {
        let p = Put::default();
        match self {
            Note::Opened { trainer, incarnation } => p.u8(0).u32(*trainer).u64(*incarnation),
            Note::Pushed { trainer, incarnation, seq, barrier, vars } => {
                put_metas(p.u8(1).u32(*trainer).u64(*incarnation).u64(*seq).u8((*barrier).into()), vars)
            }
            Note::Step { number, trainers } => {
                let p = p.u8(2).u64(*number).u32(trainers.len() as u32);
                trainers.iter().fold(p, |p, t| p.u32(*t))
            }
            Note::Barrier { trainer, seq } => p.u8(3).u32(*trainer).u64(*seq),
            Note::Left { trainer } => p.u8(4).u32(*trainer),
            Note::Resumed { trainer, parts } => p.u8(5).u32(*trainer).u64(*parts),
            Note::Given { trainer, names } => put_words(p.u8(6).u32(*trainer), names),
            Note::Looked { trainer, name, ids } => put_meta(p.u8(7).u32(*trainer).bytes(name.as_bytes()), ids),
        }
        .0
    }

    pub fn decode(bytes: &[u8]) -> Option<Note> {
        let t = &mut Take(bytes);
        let (kind, first) = (t.u8()?, if bytes[0] == 2 { 0 } else { t.u32()? });
        let note = match kind {
            0 => Note::Opened { trainer: first, incarnation: t.u64()? },
            1 => Note::Pushed {
                trainer: first,
                incarnation: t.u64()?,
                seq: t.u64()?,
                barrier: flag(t)?,
                vars: take_metas(t)?,
            },
            2 => Note::Step { number: t.u64()?, trainers: take_list(t, 1 << 20, |t| t.u32())? },
            3 => Note::Barrier { trainer: first, seq: t.u64()? },
            4 => Note::Left { trainer: first },
            5 => Note::Resumed { trainer: first, parts: t.u64()? },
            6 => Note::Given { trainer: first, names: take_words(t)? },
            7 => Note::Looked { trainer: first, name: take_text(t)?, ids: take_meta(t)? },
            _ => return None,
        };
        t.0.is_empty().then_some(note)
    }

    /// The variables whose bytes follow.
    pub fn vars(&self) -> &[Meta] {
        match self {
            Note::Pushed { vars, .. } => vars,
            Note::Looked { ids, .. } => std::slice::from_ref(ids),
            _ => &[],
        }
    }

    /// Does the state move on by it, so that a snapshot comes nearer?
    pub fn counts(&self, steps: bool) -> bool {
        match self {
            Note::Step { .. } => steps,
            Note::Pushed { .. } => !steps,
            _ => false,
        }
    }
}

/// What the books know of a trainer between two steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub incarnation: u64,
    pub seq: u64,
    pub target: u64,
    pub at_barrier: bool,
    pub complete: bool,
    pub parts: u64,
    pub skip: u64,
    pub refused: Option<String>,
}

/// The books in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub steps: bool,
    pub step: u64,
    pub round: u64,
    pub trainers: Vec<Page>,
}

/// The first number of a snapshot's head: another one is another format.
const VERSION: u32 = 2;

impl Image {
    pub fn encode(&self) -> Vec<u8> {
        let p = Put::default().u32(VERSION).u8(self.steps.into()).u64(self.step).u64(self.round);
        let page = |p: Put, t: &Page| {
            let p = p.u64(t.incarnation).u64(t.seq).u64(t.target).u8(t.at_barrier.into()).u8(t.complete.into());
            let p = p.u64(t.parts).u64(t.skip).u8(t.refused.is_some().into());
            p.bytes(t.refused.as_deref().unwrap_or_default().as_bytes())
        };
        self.trainers.iter().fold(p.u32(self.trainers.len() as u32), page).0
    }

    pub fn decode(bytes: &[u8]) -> Option<Image> {
        let t = &mut Take(bytes);
        if t.u32()? != VERSION {
            return None;
        }
        let page = |t: &mut Take<'_>| {
            let page = Page {
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
            Some(Page { refused: some.then_some(why), ..page })
        };
        let (steps, step, round) = (flag(t)?, t.u64()?, t.u64()?);
        let image = Image { steps, step, round, trainers: take_list(t, 1 << 20, page)? };
        t.0.is_empty().then_some(image)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn notes_and_books_come_back() {
        let meta = Meta {
            name: "w".into(),
            kind: Kind::Dense,
            dtype: 5,
            dims: vec![2],
            lod: vec![],
            height: 0,
            rows: 0,
            bytes: 8,
        };
        let notes = [
            Note::Opened { trainer: 1, incarnation: 9 },
            Note::Pushed { trainer: 0, incarnation: 9, seq: 3, barrier: true, vars: vec![meta.clone()] },
            Note::Step { number: 4, trainers: vec![0, 1] },
            Note::Barrier { trainer: 1, seq: 4 },
            Note::Left { trainer: 1 },
            Note::Resumed { trainer: 1, parts: 7 },
            Note::Given { trainer: 1, names: vec!["w".into()] },
            Note::Looked { trainer: 1, name: "t".into(), ids: meta },
        ];
        for n in notes {
            assert_eq!(Note::decode(&n.encode()), Some(n.clone()));
            assert_eq!(Note::decode(&[&n.encode()[..], &[0]].concat()), None);
        }
        let page = Page { incarnation: 1, seq: 2, target: 3, refused: Some("no".into()), ..Page::default() };
        let image = Image { steps: true, step: 5, round: 6, trainers: vec![page, Page::default()] };
        assert_eq!(Image::decode(&image.encode()), Some(image));
    }
}
