//! The 64-bit Mersenne twister (Matsumoto and Nishimura, "Mersenne Twister", 1998; its 64-bit variant, 2000), as
//! std::mt19937_64, and std::seed_seq.
//!
//! Steps are sequential; threads convert the words of different steps in parallel. A step and its tempering are
//! vectorised.

use crate::pool;
use crate::simd_fn;
use std::cell::Cell;
use std::slice::ChunksMut;
use std::sync::{Mutex, MutexGuard};

const WORDS: usize = 312;
const HALF: usize = 156;
const UPPER: u64 = !0 << 31;
const MATRIX: u64 = 0xb502_6f5a_a966_19e9;
/// Steps that a thread takes at a time: their words fit its second-level cache.
const STEPS: usize = 24;
/// Count of numbers from which several threads are used.
const MANY: usize = 1 << 15;

thread_local! {
    static STATES: Cell<Vec<[u64; WORDS]>> = const { Cell::new(Vec::new()) };
}

/// The 64-bit Mersenne twister.
#[derive(Clone)]
pub struct Mt64 {
    state: Box<[u64; WORDS]>,
    /// Buffer for the next state; the two are swapped.
    spare: Box<[u64; WORDS]>,
    /// The tempered words of the state.
    ready: [u64; WORDS],
    index: usize,
}

simd_fn! {
    /// One step of all words.
    fn advance(state: &[u64; WORDS], next: &mut [u64; WORDS]) {
        let ((lo, hi), (new_lo, new_hi)) = (state.split_at(HALF), next.split_at_mut(HALF));
        let twist = |a: u64, b: u64, far: u64| {
            let y = (a & UPPER) | (b & !UPPER);
            far ^ (y >> 1) ^ (MATRIX & (y & 1).wrapping_neg())
        };
        for i in 0..HALF - 1 {
            new_lo[i] = twist(lo[i], lo[i + 1], hi[i]);
        }
        new_lo[HALF - 1] = twist(lo[HALF - 1], hi[0], hi[HALF - 1]);
        for i in 0..HALF - 1 {
            new_hi[i] = twist(hi[i], hi[i + 1], new_lo[i]);
        }
        new_hi[HALF - 1] = twist(hi[HALF - 1], new_lo[0], new_lo[HALF - 1]);
    }
}

simd_fn! {
    fn temper(state: &[u64; WORDS], ready: &mut [u64; WORDS]) {
        for (r, &s) in ready.iter_mut().zip(state) {
            let mut z = s;
            z ^= (z >> 29) & 0x5555_5555_5555_5555;
            z ^= (z << 17) & 0x71d6_7fff_eda6_0000;
            z ^= (z << 37) & 0xfff7_eee0_0000_0000;
            *r = z ^ (z >> 43);
        }
    }
}

impl Mt64 {
    fn at(state: [u64; WORDS], ready: [u64; WORDS], index: usize) -> Self {
        Mt64 { state: Box::new(state), spare: Box::new([0; WORDS]), ready, index }
    }

    /// `std::mt19937_64(seed)`: for operators with a seed attribute.
    pub fn new(seed: u64) -> Self {
        let mut state = [seed; WORDS];
        for i in 1..WORDS {
            let x = state[i - 1];
            state[i] = (x ^ (x >> 62)).wrapping_mul(6364136223846793005).wrapping_add(i as u64);
        }
        Mt64::at(state, [0; WORDS], WORDS)
    }

    /// `paddle.seed(seed)`: seeded through `std::seed_seq({seed})`, which keeps the low 32 bits.
    pub fn from_paddle_seed(seed: u64) -> Self {
        let words = seed_seq(&[seed as u32], 2 * WORDS);
        let mut state = [0; WORDS];
        for (s, w) in state.iter_mut().zip(words.chunks_exact(2)) {
            *s = w[0] as u64 | (w[1] as u64) << 32;
        }
        if state[0] & UPPER == 0 && state[1..].iter().all(|&s| s == 0) {
            state[0] = 1 << 63;
        }
        Mt64::at(state, [0; WORDS], WORDS)
    }

    fn refill(&mut self) {
        std::mem::swap(&mut self.state, &mut self.spare);
        advance(&self.spare, &mut self.state);
        temper(&self.state, &mut self.ready);
        self.index = 0;
    }

    pub fn next_u64(&mut self) -> u64 {
        if self.index == WORDS {
            self.refill();
        }
        self.index += 1;
        self.ready[self.index - 1]
    }

    /// Fills `out`: `f(numbers, part)` converts as many numbers as `part` has elements. Threads take turns at the
    /// sequential steps of the generator, and convert the numbers of their steps in parallel.
    pub fn fill<T: Send>(&mut self, out: &mut [T], f: impl Fn(&[u64], &mut [T]) + Sync) {
        let (head, rest) = out.split_at_mut(out.len().min(WORDS - self.index));
        self.take(head, &f);
        let threads = if rest.len() < MANY { 1 } else { pool::threads() };
        let many = if threads > 1 { rest.len() / WORDS * WORDS } else { 0 };
        let (many, few) = rest.split_at_mut(many);
        if !many.is_empty() {
            let mut parts = many.chunks_mut(STEPS * WORDS);
            let (count, next) = (parts.len(), Mutex::new((&mut *self.state, &mut parts)));
            pool::chunks(count, |_| some_steps(&next, &f));
        }
        for part in few.chunks_mut(WORDS) {
            self.refill();
            self.take(part, &f);
        }
    }

    /// Fills `out` from the words that are ready.
    fn take<T>(&mut self, out: &mut [T], f: impl Fn(&[u64], &mut [T])) {
        if !out.is_empty() {
            f(&self.ready[self.index..self.index + out.len()], out);
            self.index += out.len();
        }
    }

    /// The state as C++'s `operator<<` prints it: 312 words and the position.
    pub fn state(&self) -> (Vec<u64>, usize) {
        (self.state.to_vec(), self.index)
    }

    /// Restores the result of `state`; None if it is not a valid state.
    pub fn from_state(words: &[u64], index: usize) -> Option<Self> {
        let state: [u64; WORDS] = words.try_into().ok()?;
        if index > WORDS {
            return None;
        }
        let mut ready = [0; WORDS];
        temper(&state, &mut ready);
        Some(Mt64::at(state, ready, index))
    }
}

type Turn<'a, 'b, T> = (&'a mut [u64; WORDS], &'a mut ChunksMut<'b, T>);

/// Takes the steps of the next part of a fill; then fills the part while other threads take the next steps.
fn some_steps<T>(next: &Mutex<Turn<T>>, f: &impl Fn(&[u64], &mut [T])) {
    let mut states = STATES.take();
    states.resize(STEPS + 1, [0; WORDS]);
    let (part, steps) = {
        let mut turn = at_once(next);
        let (state, parts) = &mut *turn;
        let Some(part) = parts.next() else { return };
        let steps = part.len() / WORDS;
        states[0] = **state;
        for i in 0..steps {
            let (before, after) = states.split_at_mut(i + 1);
            advance(&before[i], &mut after[0]);
        }
        **state = states[steps];
        (part, steps)
    };
    let mut ready = [0; WORDS];
    for (some, state) in part.chunks_mut(WORDS).zip(&states[1..=steps]) {
        temper(state, &mut ready);
        f(&ready, some);
    }
    STATES.set(states);
}

/// `std::seed_seq::generate`.
fn seed_seq(seeds: &[u32], n: usize) -> Vec<u32> {
    let mut out = vec![0x8b8b_8b8bu32; n];
    let s = seeds.len();
    let t = match n {
        623.. => 11,
        68.. => 7,
        39.. => 5,
        7.. => 3,
        _ => n.saturating_sub(1) / 2,
    };
    let (p, m) = ((n - t) / 2, n.max(s + 1));
    let q = p + t;
    let mix = |x: u32| x ^ (x >> 27);
    for k in 0..m {
        let prev = out[(k + n - 1) % n];
        let r1 = 1664525u32.wrapping_mul(mix(out[k % n] ^ out[(k + p) % n] ^ prev));
        let extra = match k {
            0 => s as u32,
            k if k <= s => ((k % n) as u32).wrapping_add(seeds[k - 1]),
            k => (k % n) as u32,
        };
        let r2 = r1.wrapping_add(extra);
        out[(k + p) % n] = out[(k + p) % n].wrapping_add(r1);
        out[(k + q) % n] = out[(k + q) % n].wrapping_add(r2);
        out[k % n] = r2;
    }
    for k in m..m + n {
        let prev = out[(k + n - 1) % n];
        let r3 = 1566083941u32.wrapping_mul(mix(out[k % n].wrapping_add(out[(k + p) % n]).wrapping_add(prev)));
        let r4 = r3.wrapping_sub((k % n) as u32);
        out[(k + p) % n] ^= r3;
        out[(k + q) % n] ^= r4;
        out[k % n] = r4;
    }
    out
}

/// Spins for the lock: the wait is microseconds, less than parking costs.
fn at_once<T>(turn: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..1000 {
        if let Ok(guard) = turn.try_lock() {
            return guard;
        }
        std::hint::spin_loop();
    }
    turn.lock().unwrap_or_else(|e| e.into_inner())
}
