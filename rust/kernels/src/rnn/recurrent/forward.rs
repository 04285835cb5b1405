//! The forward pass of a direction of a layer.

use super::{part, single, Pass, RecurrentCell, Weights, CHUNK};
use crate::gemm::{gemm, Epilogue, GemmFloat, View};
use crate::pool::{self, Shared};
use crate::rnn::gates;

/// Transposes [rows, cols].
fn transposed<T: GemmFloat>(x: &[T], rows: usize, cols: usize, to: &mut [T]) {
    const TILE: usize = 16;
    let shared = Shared::new(to);
    pool::ranges(cols.div_ceil(TILE), (CHUNK * 4 / (rows * TILE).max(1)).max(1), |tiles| {
        for j0 in tiles.map(|t| t * TILE) {
            let j1 = (j0 + TILE).min(cols);
            // SAFETY: rows of different tiles are disjoint.
            let to = unsafe { shared.part(j0 * rows..j1 * rows) };
            for i0 in (0..rows).step_by(TILE) {
                for i in i0..(i0 + TILE).min(rows) {
                    for (j, &v) in x[i * cols + j0..i * cols + j1].iter().enumerate() {
                        to[j * rows + i] = v;
                    }
                }
            }
        }
    });
}

/// Elements of scratch that [`forward`] needs.
pub fn scratch(p: &Pass) -> usize {
    p.width() * p.hidden.max(2) + if p.cell == RecurrentCell::Gru { p.batch * p.width() } else { 0 }
}

/// Computes `out` from `x`. `h` and `c` (of an LSTM) hold the initial states and become the final ones; values for the
/// gradient are written to `gates` and `extra`.
pub fn forward<T: GemmFloat>(
    p: &Pass,
    x: &[T],
    w: &Weights<T>,
    (gates, extra): (&mut [T], &mut [T]),
    (h, c): (&mut [T], &mut [T]),
    out: &mut [T],
    scratch: &mut [T],
) {
    let (batch, n, width) = (p.batch, p.hidden, p.width());
    assert!(gates.len() == p.rows() * width && h.len() == batch * n && extra.len() == p.rows() * n * p.cell.extra());
    assert!(p.lengths.is_none_or(|l| l.len() == batch) && (p.cell != RecurrentCell::Lstm || c.len() == h.len()));
    if p.rows() == 0 || n == 0 {
        return;
    }
    let gru = p.cell == RecurrentCell::Gru;
    // The GRU's reset gate multiplies the state's sum, bias included: that bias is not merged into the input's.
    let both: Vec<T> = match gru {
        true => w.bias_ih.to_vec(),
        false => w.bias_ih.iter().zip(w.bias_hh).map(|(&a, &b)| a + b).collect(),
    };
    let bias = Epilogue { col_bias: Some(&both), ..Epilogue::NONE };
    let (one, zero) = (T::ONE, T::ZERO);
    let xs = View::rows(x, p.input, false);
    let ih = w.ih_columns.map_or(View::rows(w.ih, p.input, true), |columns| View::rows(columns, width, false));
    gemm((p.rows(), width, p.input), one, xs, ih, zero, gates, width, bias);

    if let Some(packed) = w.state.filter(|packed| batch == 1 && packed.fits(p)) {
        return single::steps(p, &packed, w.bias_hh, (gates, extra), (h, c), out, scratch);
    }
    let (weights, own) = scratch.split_at_mut(width * n.max(2));
    // The product packs rows of the transpose; a single row of states is multiplied by rows of the weights instead.
    let weights = if batch > 1 {
        transposed(w.hh, width, n, weights);
        View::rows(&*weights, width, false)
    } else {
        View::rows(w.hh, n, true)
    };
    for s in 0..p.steps {
        let t = p.step(s);
        let step = &mut gates[part(t, batch * width)];
        if gru {
            let bias = Epilogue { col_bias: Some(w.bias_hh), ..Epilogue::NONE };
            gemm((batch, width, n), one, View::rows(h, n, false), weights, zero, own, width, bias);
        } else {
            gemm((batch, width, n), one, View::rows(h, n, false), weights, one, step, width, Epilogue::NONE);
        }
        let (own, step) = (&*own, Shared::new(step));
        let inner = if p.cell.extra() > 0 { &mut extra[part(t, batch * n)] } else { &mut extra[..] };
        let (inner, h, c, out) = (Shared::new(inner), Shared::new(h), Shared::new(c), Shared::new(out));
        p.each_row(|b| {
            // SAFETY: parts of different rows are disjoint.
            let (out, h, g) = unsafe { (out.part(p.place(t, b)), h.part(part(b, n)), step.part(part(b, width))) };
            let on = p.is_on(t, b);
            match p.cell {
                RecurrentCell::Tanh if on => gates::tanh_step(g),
                RecurrentCell::Relu if on => gates::relu_step(g),
                RecurrentCell::Lstm => {
                    // SAFETY: as above.
                    let (cell, c) = unsafe { (inner.part(part(b, n)), c.part(part(b, n))) };
                    if on {
                        gates::lstm_step(g, c, cell, h);
                        c.copy_from_slice(cell);
                    } else {
                        cell.copy_from_slice(c);
                    }
                }
                RecurrentCell::Gru => {
                    // SAFETY: as above.
                    let inner = unsafe { inner.part(part(b, n)) };
                    if on {
                        gates::gru_step(g, &own[part(b, width)], inner, h);
                    } else {
                        inner.fill(zero);
                    }
                }
                _ => {}
            }
            if on && p.cell.extra() == 0 {
                h.copy_from_slice(g);
            }
            if on {
                out.copy_from_slice(h);
            } else {
                out.fill(zero);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rnn::recurrent::PackedState;

    fn numbers(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    fn pack(hh: &[f32], gates: usize, n: usize, units: usize) -> Vec<f32> {
        let mut to = Vec::with_capacity(hh.len());
        for b in 0..n / units {
            for k in 0..n {
                for g in 0..gates {
                    to.extend((0..units).map(|u| hh[(g * n + b * units + u) * n + k]));
                }
            }
        }
        to
    }

    fn run(p: &Pass, packed: Option<usize>) -> [Vec<f32>; 5] {
        let (n, width) = (p.hidden, p.width());
        let [ih, hh] =
            [p.input, n].map(|k| numbers(width * k, 7 + k as u32).iter().map(|v| v * 0.1).collect::<Vec<_>>());
        let (bias_ih, bias_hh) = (numbers(width, 3), numbers(width, 4));
        let weights = packed.map(|units| pack(&hh, p.cell.gates(), n, units));
        let state = weights.as_deref().zip(packed).map(|(data, units)| PackedState { data, units });
        let w = Weights { ih: &ih, hh: &hh, bias_ih: &bias_ih, bias_hh: &bias_hh, ih_columns: None, state };
        let x = numbers(p.steps * p.input, 1);
        let mut gates = vec![0.0; p.steps * width];
        let mut extra = vec![0.0; p.steps * n * p.cell.extra()];
        let (mut h, mut c) = (numbers(n, 5), numbers(n, 6));
        let mut out = vec![7.0; p.steps * p.stride];
        let mut own = vec![0.0; scratch(p)];
        forward(p, &x, &w, (&mut gates, &mut extra), (&mut h, &mut c), &mut out, &mut own);
        [gates, extra, h, c, out]
    }

    #[test]
    fn packed_states_are_those_of_the_products() {
        use RecurrentCell::{Gru, Lstm, Relu, Tanh};
        for cell in [Tanh, Relu, Lstm, Gru] {
            for (hidden, units) in [(256, 64), (48, 16), (16, 16)] {
                for (reverse, lengths) in [(false, None), (true, None), (true, Some(&[3usize][..]))] {
                    let (stride, at) = (2 * hidden, if reverse { hidden } else { 0 });
                    let p = Pass { cell, steps: 5, batch: 1, input: 24, hidden, reverse, lengths, stride, at };
                    let (mut got, mut want) = (run(&p, Some(units)), run(&p, None));
                    // the gates of steps after the end of a sequence have no meaning
                    let known = lengths.map_or(p.steps, |l| l[0]) * p.width();
                    for all in [&mut got, &mut want] {
                        all[0].truncate(known);
                    }
                    for (g, w) in got.iter().flatten().zip(want.iter().flatten()) {
                        assert!((g - w).abs() <= 2e-5 * w.abs().max(1.0), "{cell:?} {hidden} {g} {w}");
                    }
                }
            }
        }
    }

    #[test]
    fn threads_do_not_show() {
        let p = Pass {
            cell: RecurrentCell::Lstm,
            steps: 9,
            batch: 1,
            input: 8,
            hidden: 192,
            reverse: false,
            lengths: None,
            stride: 192,
            at: 0,
        };
        let one = pool::with_threads(1, || run(&p, Some(64)));
        let three = pool::with_threads(3, || run(&p, Some(64)));
        assert!(one == three);
    }
}
