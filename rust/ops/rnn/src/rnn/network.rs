//! A recurrent network of several layers, one or two directions each.

use oar_core::base::dtype::Element;
use oar_core::base::Result;
use oar_core::tensor::generator::with_engine;
use oar_core::tensor::Tensor;
use oar_kernels::gemm::GemmFloat;
use oar_kernels::random as draw;
use oar_kernels::rnn::recurrent::grad::{self as kernel_grad, Grads, Saved};
use oar_kernels::rnn::recurrent::{forward as kernel, PackedState, Pass, RecurrentCell, Weights};

pub struct Network {
    pub cell: RecurrentCell,
    pub layers: usize,
    pub directions: usize,
    pub steps: usize,
    pub batch: usize,
    pub input: usize,
    pub hidden: usize,
    pub lengths: Option<Vec<usize>>,
    /// Dropout probability between layers; 0 in inference.
    pub dropout: f32,
    pub seed: i32,
}

/// The tensors of a network: h and c are [layers * directions, batch, hidden].
pub struct Params<'a, T> {
    /// Input and state weights of each layer and direction, then their biases.
    pub list: Vec<&'a [T]>,
    pub h: &'a [T],
    pub c: &'a [T],
}

/// The weights of a layer and direction that were packed at load.
pub struct Packed<'a, T> {
    columns: &'a [T],
    state: PackedState<'a, T>,
}

impl<'a, T: Element> Packed<'a, T> {
    /// The transposed input weights, and the state weights [hidden / units, hidden, gates, units].
    pub fn of(columns: &'a Tensor, state: &'a Tensor) -> Self {
        let units = state.dims().last().map_or(0, |&d| d as usize);
        Packed { columns: columns.data::<T>(), state: PackedState { data: state.data::<T>(), units } }
    }
}

/// State saved by the forward pass.
pub struct SavedState<'a, T> {
    pub reserve: &'a [T],
    pub mask: &'a [u8],
    pub out: &'a [T],
}

/// Requested gradients: of the weights in the order of `Params::list`, and of x.
pub struct RequestedGrads<'a, T> {
    pub list: Vec<Option<&'a mut [T]>>,
    pub x: Option<&'a mut [T]>,
}

impl Network {
    fn pass(&self, layer: usize, direction: usize) -> Pass<'_> {
        let stride = self.directions * self.hidden;
        Pass {
            cell: self.cell,
            steps: self.steps,
            batch: self.batch,
            input: if layer == 0 { self.input } else { stride },
            hidden: self.hidden,
            reverse: direction == 1,
            lengths: self.lengths.as_deref(),
            stride,
            at: direction * self.hidden,
        }
    }

    /// Output width of a layer.
    fn layer_out(&self) -> usize {
        self.steps * self.batch * self.directions * self.hidden
    }

    /// Saved elements per layer and direction.
    fn block(&self) -> usize {
        self.pass(0, 0).kept()
    }

    /// Size of the reserve: gates and cells of each layer and direction, then the output of each layer but the last.
    pub fn reserve(&self) -> usize {
        self.layers * self.directions * self.block() + (self.layers - 1) * self.layer_out()
    }

    pub fn drops(&self) -> bool {
        self.dropout > 0.0 && self.layers > 1
    }

    fn weights<'a, T>(&self, list: &[&'a [T]], layer: usize, direction: usize) -> Weights<'a, T> {
        let at = 2 * (layer * self.directions + direction);
        let biases = 2 * self.layers * self.directions + at;
        let [ih, hh, bias_ih, bias_hh] = [at, at + 1, biases, biases + 1].map(|i| list[i]);
        Weights { ih, hh, bias_ih, bias_hh, ih_columns: None, state: None }
    }

    /// The range of a state that belongs to a layer and direction.
    fn state(&self, layer: usize, direction: usize) -> std::ops::Range<usize> {
        let n = self.batch * self.hidden;
        let at = (layer * self.directions + direction) * n;
        at..at + n
    }

    /// `h` and `c` hold the initial states and receive the final ones. The dropout `mask` is drawn here, one for all
    /// layers, as in Paddle. `packed` is empty or has every layer and direction.
    pub fn forward<T: GemmFloat + Element>(
        &self,
        x: &[T],
        (list, packed): (&[&[T]], &[Packed<T>]),
        (h, c): (&mut [T], &mut [T]),
        reserve: &mut [T],
        mask: &mut [u8],
        out: &mut [T],
    ) -> Result<()> {
        let (mut blocks, mut between) = reserve.split_at_mut(self.layers * self.directions * self.block());
        let mut scratch = Tensor::empty(T::DTYPE, &[kernel::scratch(&self.pass(0, 0)) as i64])?;
        let mut dropped = Tensor::empty(T::DTYPE, &[if self.drops() { self.layer_out() as i64 } else { 0 }])?;
        // Output of the layer below.
        let mut below: &[T] = x;
        let mut out = Some(out);
        for layer in 0..self.layers {
            let before: &[T] = if layer > 0 && self.drops() {
                let to = dropped.data_mut::<T>()?;
                if layer == 1 {
                    with_engine(self.seed as u32 as u64, |e| draw::dropout_mask(e, self.dropout, mask));
                }
                self.drop(below, mask, to);
                to
            } else {
                below
            };
            let last = layer + 1 == self.layers;
            let (to, rest) = match out.take_if(|_| last) {
                Some(out) => (out, between),
                None => between.split_at_mut(self.layer_out()),
            };
            between = rest;
            for direction in 0..self.directions {
                let p = self.pass(layer, direction);
                let (block, rest) = blocks.split_at_mut(self.block());
                blocks = rest;
                let (gates, extra) = block.split_at_mut(p.rows() * p.width());
                let state = self.state(layer, direction);
                let c = if self.cell == RecurrentCell::Lstm { &mut c[state.clone()] } else { &mut c[..0] };
                let mut w = self.weights(list, layer, direction);
                if let Some(packed) = packed.get(layer * self.directions + direction) {
                    (w.ih_columns, w.state) = (Some(packed.columns), Some(packed.state));
                }
                kernel::forward(&p, before, &w, (gates, extra), (&mut h[state], c), to, scratch.data_mut::<T>()?);
            }
            below = to;
        }
        Ok(())
    }

    /// Applies the dropout mask, scaled up; used for the gradient, too.
    fn drop<T: GemmFloat>(&self, x: &[T], mask: &[u8], to: &mut [T]) {
        draw::dropped(x, mask, 1.0 - self.dropout, to);
    }

    /// `dh` and `dc` hold the gradients of the final states and receive those of the initial ones.
    pub fn backward<T: GemmFloat + Element>(
        &self,
        x: &[T],
        params: &Params<T>,
        saved: &SavedState<T>,
        dout: &[T],
        (dh, dc): (&mut [T], &mut [T]),
        mut wanted: RequestedGrads<T>,
    ) -> Result<()> {
        let (blocks, between) = saved.reserve.split_at(self.layers * self.directions * self.block());
        let mut scratch = Tensor::empty(T::DTYPE, &[self.pass(0, 0).scratch_back() as i64])?;
        let hidden = |layer: usize| &between[layer * self.layer_out()..(layer + 1) * self.layer_out()];
        let spare = |used: bool| Tensor::empty(T::DTYPE, &[if used { self.layer_out() as i64 } else { 0 }]);
        // Gradients between layers: the incoming one and the one being computed.
        let (mut incoming, mut outgoing) = (spare(self.layers > 1)?, spare(self.layers > 1)?);
        let mut dropped = spare(self.drops())?;
        for layer in (0..self.layers).rev() {
            let input: &[T] = match layer {
                0 => x,
                _ if self.drops() => {
                    self.drop(hidden(layer - 1), saved.mask, dropped.data_mut::<T>()?);
                    dropped.data::<T>()
                }
                _ => hidden(layer - 1),
            };
            let last = layer + 1 == self.layers;
            let (out, dout) = if last { (saved.out, dout) } else { (hidden(layer), incoming.data::<T>()) };
            for direction in 0..self.directions {
                let p = self.pass(layer, direction);
                let at = layer * self.directions + direction;
                let block = &blocks[at * self.block()..(at + 1) * self.block()];
                let (gates, extra) = block.split_at(p.rows() * p.width());
                let state = self.state(layer, direction);
                let lstm = self.cell == RecurrentCell::Lstm;
                let c = if lstm { &params.c[state.clone()] } else { &params.c[..0] };
                let incoming = Saved { x: input, gates, extra, out, h: &params.h[state.clone()], c };
                let dc = if lstm { &mut dc[state.clone()] } else { &mut dc[..0] };
                let biases = 2 * self.layers * self.directions;
                let [ih, hh] = [2 * at, 2 * at + 1].map(|i| wanted.list[i].take());
                let [bias_ih, bias_hh] = [2 * at, 2 * at + 1].map(|i| wanted.list[biases + i].take());
                let dx = match layer {
                    0 => wanted.x.as_deref_mut(),
                    _ => Some(outgoing.data_mut::<T>()?),
                };
                let grads = Grads { x: dx.map(|dx| (dx, direction > 0)), ih, hh, bias_ih, bias_hh };
                let w = self.weights(&params.list, layer, direction);
                kernel_grad::backward(&p, &w, &incoming, dout, (&mut dh[state], dc), grads, scratch.data_mut::<T>()?);
            }
            if layer > 0 && self.drops() {
                self.drop(outgoing.data::<T>(), saved.mask, incoming.data_mut::<T>()?);
            } else {
                std::mem::swap(&mut incoming, &mut outgoing);
            }
        }
        Ok(())
    }
}
