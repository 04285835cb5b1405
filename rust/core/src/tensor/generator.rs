//! The global random generator of the CPU. An operator's own non-zero seed starts a new engine at each run; seed 0
//! draws from the global engine.

use crate::base::fork::ForkMutex;
use crate::base::Result;
use crate::err;
use oar_kernels::random::Mt64;
use std::sync::LazyLock;

struct Generator {
    /// The last argument of `set_seed`.
    seed: u64,
    engine: Mt64,
}

/// The state of the generator, to be restored later.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub seed: u64,
    pub words: Vec<u64>,
    pub index: usize,
}

static GLOBAL: LazyLock<ForkMutex<Generator>> = LazyLock::new(|| {
    let seed = fresh_seed();
    ForkMutex::new(Generator { seed, engine: Mt64::from_paddle_seed(seed) })
});

/// A seed that differs from process to process.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    if let Ok(now) = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
        hasher.write_u128(now.as_nanos());
    }
    hasher.finish() & 0xffff_ffff
}

/// `paddle.seed(seed)`.
pub fn set_seed(seed: u64) {
    *GLOBAL.lock() = Generator { seed, engine: Mt64::from_paddle_seed(seed) };
}

/// The seed that the generator started from.
pub fn seed() -> u64 {
    GLOBAL.lock().seed
}

pub fn get_state() -> State {
    let g = GLOBAL.lock();
    let (words, index) = g.engine.state();
    State { seed: g.seed, words, index }
}

pub fn set_state(state: &State) -> Result<()> {
    let engine = Mt64::from_state(&state.words, state.index)
        .ok_or_else(|| err!(InvalidArgument, "not the state of a random generator"))?;
    *GLOBAL.lock() = Generator { seed: state.seed, engine };
    Ok(())
}

/// The next number of the global engine.
pub fn next_u64() -> u64 {
    GLOBAL.lock().engine.next_u64()
}

/// Draws with the engine that an operator with this seed uses.
pub fn with_engine<R>(seed: u64, draw: impl FnOnce(&mut Mt64) -> R) -> R {
    if seed == 0 {
        draw(&mut GLOBAL.lock().engine)
    } else {
        draw(&mut Mt64::new(seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_operators_leave_the_global_engine_alone() {
        set_seed(42);
        let state = get_state();
        let own = with_engine(7, |e| e.next_u64());
        assert_eq!(own, 13915952638675311015);
        assert_eq!(with_engine(7, |e| e.next_u64()), own);
        assert_eq!(get_state(), state);
        let first = with_engine(0, |e| e.next_u64());
        assert_eq!(first, 15673539002298030186);
        set_state(&state).unwrap();
        assert_eq!(next_u64(), first);
        assert!(set_state(&State { words: vec![1], ..state }).is_err());
    }
}
