//! The order in which the matrix unit reads images and filters.
//!
//! An image is stored as pixels of pairs of channels; a pair is two bf16 numbers. A step multiplies 32 neighbouring numbers
//! of 16 neighbouring pixels, which are at equal distances, by 32 numbers of each filter. With a stride the pixels of each
//! phase (those that one remainder of the coordinates selects) lie together, so that neighbours in the output are
//! neighbours in the image.
//!
//! Either each phase and each 32 channels are a plane, and a step belongs to one tap; or phases are channels of one plane,
//! and a step goes on into the pixels of the taps to the right, which wastes less where there are few channels.

use super::FilterShape;

/// Numbers of a filter in a step.
pub const STEP: usize = 32;
/// Pairs of numbers in a step.
pub const PAIRS: usize = STEP / 2;
/// Filters of a block.
pub const BLOCK: usize = 32;
/// Bytes of the numbers of a block's filters in a step.
pub const STEP_BYTES: usize = BLOCK * STEP * 2;

pub struct Step {
    /// The plane, lines and pixels after the output's pixel, and pairs after that pixel's first one.
    plane: usize,
    at: [usize; 2],
    pair: usize,
    /// Of a step that belongs to one.
    tap: [usize; 2],
}

pub struct Layout {
    pub planes: usize,
    /// Pairs of a pixel of a plane.
    pub pairs: usize,
    /// Remainders of the coordinates.
    pub phases: Vec<[usize; 2]>,
    /// Lines and pixels of a phase that the taps of one output pixel span.
    pub span: [usize; 2],
    pub steps: Vec<Step>,
    by_taps: bool,
    shape: FilterShape,
}

impl Layout {
    /// `None`: there is no layout for the shape.
    pub fn new(shape: &FilterShape) -> Option<Layout> {
        let &FilterShape { filters, channels, kernel, stride, dilation, .. } = shape;
        let taps = kernel[0].checked_mul(kernel[1])?;
        if filters == 0 || channels == 0 || taps == 0 || taps > 1 << 10 || channels > 1 << 16 || filters > 1 << 16 {
            return None;
        }
        if stride.iter().any(|s| !(1..=2).contains(s)) || dilation.iter().any(|d| !(1..=64).contains(d)) {
            return None;
        }
        // The numbers of steps.
        let by_taps = taps * channels.div_ceil(STEP);
        let pairs = (stride[0] * stride[1] * channels).div_ceil(2);
        let by_lines = kernel[0].div_ceil(stride[0]) * (kernel[1].div_ceil(stride[1]) * pairs).div_ceil(PAIRS);
        if dilation == [1, 1] && by_lines < by_taps {
            return Some(Layout::by_lines(shape, pairs));
        }
        (channels.next_multiple_of(STEP) < 2 * channels).then(|| Layout::by_taps(shape))
    }

    fn by_taps(shape: &FilterShape) -> Layout {
        let &FilterShape { channels, kernel, stride, dilation, .. } = shape;
        let place = |tap: [usize; 2]| {
            let t = [0, 1].map(|a| tap[a] * dilation[a]);
            ([0, 1].map(|a| t[a] % stride[a]), [0, 1].map(|a| t[a] / stride[a]))
        };
        let taps = || (0..kernel[0] * kernel[1]).map(|t| [t / kernel[1], t % kernel[1]]);
        let mut phases: Vec<[usize; 2]> = Vec::new();
        let mut span = [1, 1];
        for (phase, at) in taps().map(place) {
            if !phases.contains(&phase) {
                phases.push(phase);
            }
            span = [0, 1].map(|a| span[a].max(at[a] + 1));
        }
        let groups = channels.div_ceil(STEP);
        let mut steps = Vec::with_capacity(groups * kernel[0] * kernel[1]);
        for group in 0..groups {
            for tap in taps() {
                let (phase, at) = place(tap);
                let plane = phases.iter().position(|p| *p == phase).unwrap_or(0) * groups + group;
                steps.push(Step { plane, at, pair: 0, tap });
            }
        }
        Layout { planes: phases.len() * groups, pairs: PAIRS, phases, span, steps, by_taps: true, shape: *shape }
    }

    fn by_lines(shape: &FilterShape, pairs: usize) -> Layout {
        let &FilterShape { kernel, stride, .. } = shape;
        let phases: Vec<[usize; 2]> = (0..stride[0] * stride[1]).map(|p| [p / stride[1], p % stride[1]]).collect();
        let span = [0, 1].map(|a| kernel[a].div_ceil(stride[a]));
        let mut steps = Vec::new();
        for dy in 0..span[0] {
            let pairs = (0..span[1] * pairs).step_by(PAIRS);
            steps.extend(pairs.map(|pair| Step { plane: 0, at: [dy, 0], pair, tap: [0; 2] }));
        }
        Layout { planes: 1, pairs, phases, span, steps, by_taps: false, shape: *shape }
    }

    /// The channel and the phase of 32 numbers of the pixels of a plane; `None`: they are 0.
    pub fn numbers(&self, plane: usize, first: usize) -> [Option<(usize, [usize; 2])>; STEP] {
        let channels = self.shape.channels;
        if self.by_taps {
            let groups = channels.div_ceil(STEP);
            let (phase, channel) = (self.phases[plane / groups], plane % groups * STEP);
            return std::array::from_fn(|k| (channel + k < channels).then_some((channel + k, phase)));
        }
        let number = |v: usize| Some((v % channels, *self.phases.get(v / channels)?));
        std::array::from_fn(|k| number(first + k))
    }

    /// The channel and the tap of each number of a step; `None`: it is 0.
    pub fn sources(&self, step: &Step) -> [Option<(usize, [usize; 2])>; STEP] {
        if self.by_taps {
            return self.numbers(step.plane, 0).map(|number| Some((number?.0, step.tap)));
        }
        let &FilterShape { channels, kernel, stride, .. } = &self.shape;
        std::array::from_fn(|k| {
            let (pair, right) = ((step.pair + k / 2) % self.pairs, (step.pair + k / 2) / self.pairs);
            let v = pair * 2 + k % 2;
            let phase = self.phases.get(v / channels)?;
            let tap = [step.at[0] * stride[0] + phase[0], right * stride[1] + phase[1]];
            (tap[0] < kernel[0] && tap[1] < kernel[1]).then_some((v % channels, tap))
        })
    }

    pub fn parts(&self) -> usize {
        if self.shape.bf16 {
            1
        } else {
            3
        }
    }

    /// Bytes of the panel of a block of filters.
    pub fn panel(&self) -> usize {
        self.steps.len() * self.parts() * STEP_BYTES
    }
}

/// Where the pixels of an image lie, for an output of `out` lines and pixels. Distances are in pairs.
pub struct Field {
    /// Lines and pixels of a plane.
    pub size: [usize; 2],
    pub planes: usize,
    pub plane: usize,
    /// One part of an image; the rest after its planes is zero.
    pub part: usize,
    pub tiles: Vec<Pixels>,
}

/// 16 neighbouring pixels of a plane, counted over its lines.
#[derive(Clone, Copy)]
pub struct Pixels {
    /// The first one.
    pub at: usize,
    /// Which of them are pixels of the output. These are neighbours there: the first, and their number.
    pub mask: u16,
    pub to: usize,
    pub count: usize,
}

impl Field {
    pub fn new(l: &Layout, out: [usize; 2]) -> Field {
        let size = [0, 1].map(|a| out[a] - 1 + l.span[a]);
        let last = (out[0] - 1) * size[1] + out[1];
        let mut tiles = Vec::with_capacity(last.div_ceil(16));
        let (mut x, mut to) = (0, 0);
        for at in (0..last).step_by(16) {
            let (mut mask, first) = (0, to);
            for lane in 0..16.min(last - at) {
                if x < out[1] {
                    mask |= 1 << lane;
                    to += 1;
                }
                x = if x + 1 == size[1] { 0 } else { x + 1 };
            }
            if mask != 0 {
                tiles.push(Pixels { at, mask, to: first, count: to - first });
            }
        }
        let plane = (size[0] * size[1] * l.pairs).next_multiple_of(PAIRS);
        // The last tile may reach 15 pixels beyond the last plane, and its last step one step further.
        Field {
            size,
            planes: l.planes,
            plane,
            part: l.planes * plane + (16 * l.pairs).next_multiple_of(16) + PAIRS,
            tiles,
        }
    }

    /// Bytes from an output pixel to the numbers of a step.
    pub fn offset(&self, l: &Layout, step: &Step) -> usize {
        (step.plane * self.plane + (step.at[0] * self.size[1] + step.at[1]) * l.pairs + step.pair) * 4
    }
}
