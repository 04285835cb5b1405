//! Sets of passes by name: the default, and what flags and BuildStrategy disable.

use oar_core::base::Result;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A set of passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Passes(u32);

/// The passes by name. `always` is not a pass: it uses what the others find even where it does not pay (for tests).
const NAMES: &[(&str, Passes)] = &[
    ("dead", Passes::DEAD),
    ("release", Passes::RELEASE),
    ("fuse", Passes::FUSE),
    ("inplace", Passes::INPLACE),
    ("schedule", Passes::SCHEDULE),
    ("always", Passes::ALWAYS),
];

impl Passes {
    pub const NONE: Passes = Passes(0);
    pub const DEAD: Passes = Passes(1);
    pub const RELEASE: Passes = Passes(2);
    pub const FUSE: Passes = Passes(4);
    pub const INPLACE: Passes = Passes(8);
    pub const SCHEDULE: Passes = Passes(16);
    pub const ALWAYS: Passes = Passes(32);
    pub const ALL: Passes = Passes(31);

    pub fn has(self, other: Passes) -> bool {
        self.0 & other.0 != 0
    }

    pub fn without(self, other: Passes) -> Passes {
        Passes(self.0 & !other.0)
    }

    pub fn with(self, other: Passes) -> Passes {
        Passes(self.0 | other.0)
    }

    /// The passes that are also in `allowed`; flags that are not passes stay.
    pub fn within(self, allowed: Passes) -> Passes {
        Passes(self.0 & (allowed.0 | Passes::ALWAYS.0))
    }

    /// `all`, `none`, or names separated by commas.
    pub fn parse(text: &str) -> Result<Passes> {
        let mut passes = Passes::NONE;
        for name in text.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            passes = passes.with(match name {
                "all" => Passes::ALL,
                "none" => Passes::NONE,
                _ => match NAMES.iter().find(|(n, _)| *n == name) {
                    Some((_, pass)) => *pass,
                    None => oar_core::bail!(
                        InvalidArgument,
                        "there is no pass '{name}' over plans: there are {}, all and none",
                        NAMES.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ")
                    ),
                },
            });
        }
        Ok(passes)
    }

    pub fn names(self) -> Vec<&'static str> {
        NAMES.iter().filter(|(_, p)| self.has(*p)).map(|(n, _)| *n).collect()
    }
}

const NOT_ASKED: u32 = u32::MAX;
static CURRENT: AtomicU32 = AtomicU32::new(NOT_ASKED);

/// The passes of this process: `OAR_PLAN_PASSES`, by default all.
pub fn current() -> Result<Passes> {
    match CURRENT.load(Relaxed) {
        NOT_ASKED => {
            let passes = match std::env::var("OAR_PLAN_PASSES") {
                Ok(text) => Passes::parse(&text).map_err(|e| e.context("OAR_PLAN_PASSES"))?,
                Err(_) => Passes::ALL,
            };
            set_current(passes);
            Ok(passes)
        }
        bits => Ok(Passes(bits)),
    }
}

pub fn set_current(passes: Passes) {
    CURRENT.store(passes.0, Relaxed);
}
