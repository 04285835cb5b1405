//! One sequence through one direction of a layer, with state weights that were packed at load: each step reads them
//! once, consecutively.

use super::{part, PackedState, Pass, RecurrentCell, UNITS};
use crate::gemm::matrix_vector::accumulate;
use crate::gemm::GemmFloat;
use crate::pool::{self, Shared};
use crate::rnn::gates;

/// The gates of a block, in whole cache lines.
#[repr(align(64))]
struct Sums<T>([T; 4 * UNITS]);
/// Weights above which a step is divided among threads.
const DIVIDED: usize = 1 << 16;

/// The steps of a pass of batch 1: `gates` holds the input's sums with biases. As `forward`; `bias` is the state's, of a
/// GRU; `scratch` has two rows of states.
pub fn steps<T: GemmFloat>(
    p: &Pass,
    packed: &PackedState<T>,
    bias: &[T],
    (gates, extra): (&mut [T], &mut [T]),
    (h, c): (&mut [T], &mut [T]),
    out: &mut [T],
    scratch: &mut [T],
) {
    let (n, units, ratio) = (p.hidden, packed.units, p.cell.gates());
    assert!(p.batch == 1 && packed.fits(p), "the state weights are not packed for this pass");
    let (mut before, mut after) = scratch[..2 * n].split_at_mut(n);
    before.copy_from_slice(h);
    let is_divided = n * p.width() > DIVIDED;
    for s in 0..p.steps {
        let t = p.step(s);
        if !p.is_on(t, 0) {
            if p.cell == RecurrentCell::Lstm {
                extra[part(t, n)].copy_from_slice(c);
            } else if p.cell == RecurrentCell::Gru {
                extra[part(t, n)].fill(T::ZERO);
            }
            out[p.place(t, 0)].fill(T::ZERO);
            continue;
        }
        let inner = if p.cell.extra() > 0 { &mut extra[part(t, n)] } else { &mut extra[..] };
        let (sums, inner) = (Shared::new(&mut gates[part(t, p.width())]), Shared::new(inner));
        let (state, cell) = (Shared::new(after), Shared::new(c));
        let old = &*before;
        let block = |b: usize| {
            let own = part(b, units);
            let weights = &packed.data[part(b, n * ratio * units)];
            let mut z = Sums([T::ZERO; 4 * UNITS]);
            let z = &mut z.0[..ratio * units];
            // SAFETY: units of different blocks are disjoint.
            let gate = |g: usize| unsafe { sums.part(g * n + own.start..g * n + own.end) };
            let gru = p.cell == RecurrentCell::Gru;
            for g in 0..ratio {
                let from = if gru { &bias[g * n + own.start..g * n + own.end] } else { &*gate(g) };
                z[part(g, units)].copy_from_slice(from);
            }
            let width = z.len();
            // SAFETY: `weights` has a row of `width` elements for each of the `n` elements of `old`.
            unsafe { accumulate::<T, false>(weights.as_ptr(), width, n, old.as_ptr(), width, z.as_mut_ptr()) };
            // SAFETY: as above.
            let new = unsafe { state.part(own.clone()) };
            match p.cell {
                RecurrentCell::Tanh => gates::tanh_step(z),
                RecurrentCell::Relu => gates::relu_step(z),
                RecurrentCell::Lstm => {
                    // SAFETY: as above.
                    let (cell, now) = unsafe { (cell.part(own.clone()), inner.part(own.clone())) };
                    gates::lstm_step(z, cell, now, new);
                    cell.copy_from_slice(now);
                }
                RecurrentCell::Gru => {
                    let mut x = Sums([T::ZERO; 4 * UNITS]);
                    let x = &mut x.0[..width];
                    for g in 0..ratio {
                        x[part(g, units)].copy_from_slice(gate(g));
                    }
                    new.copy_from_slice(&old[own.clone()]);
                    // SAFETY: as above.
                    gates::gru_step(x, z, unsafe { inner.part(own.clone()) }, new);
                    z.copy_from_slice(x);
                }
            }
            if p.cell.extra() == 0 {
                new.copy_from_slice(z);
            }
            for g in 0..ratio {
                gate(g).copy_from_slice(&z[part(g, units)]);
            }
        };
        if is_divided {
            pool::chunks(n / units, block);
        } else {
            (0..n / units).for_each(block);
        }
        out[p.place(t, 0)].copy_from_slice(after);
        std::mem::swap(&mut before, &mut after);
    }
    h.copy_from_slice(before);
}
