//! Simulated quantisation: scales of tensors and channels, and rounding to levels.

/// The largest magnitude. A NaN counts only as the first element, as in a scan for the maximum.
pub fn abs_max(x: &[f32]) -> f32 {
    let Some(first) = x.first() else { return 0.0 };
    let mut most = [first.abs(); 16];
    let larger = |m: f32, v: f32| if m < v.abs() { v.abs() } else { m };
    let mut chunks = x.chunks_exact(16);
    for chunk in &mut chunks {
        for (m, &v) in most.iter_mut().zip(chunk) {
            *m = larger(*m, v);
        }
    }
    let rest = chunks.remainder().iter().copied();
    most.into_iter().chain(rest).fold(first.abs(), larger)
}

/// The largest magnitude of each channel of `x` [.., channels, inner].
pub fn channel_abs_max(x: &[f32], channels: usize, inner: usize) -> Vec<f32> {
    let mut scales = vec![0.0; channels];
    // The first run of a channel sets its scale, so that a leading NaN counts as in `abs_max`.
    for (at, run) in x.chunks_exact(inner.max(1)).enumerate() {
        let (most, c) = (abs_max(run), at % channels);
        scales[c] = if at < channels || scales[c] < most { most } else { scales[c] };
    }
    scales
}

/// Quantisation levels between -scale and scale.
#[derive(Clone, Copy)]
pub struct Grid {
    pub bins: f32,
    /// Dequantise the levels again.
    pub back: bool,
    /// Ties round away from zero instead of to even.
    pub away: bool,
}

impl Grid {
    pub fn fill(self, scale: f32, x: &[f32], y: &mut [f32]) {
        let inverse = if scale <= 1e-30 { 1.0 / (scale + 1e-6) } else { 1.0 / scale };
        let (step, bins) = (self.bins * inverse, self.bins);
        let clip = |v: f32| {
            if v < -scale {
                -scale
            } else if v > scale {
                scale
            } else {
                v
            }
        };
        let all = |y: &mut [f32], f: &dyn Fn(f32) -> f32| y.iter_mut().zip(x).for_each(|(y, &v)| *y = f(clip(v)));
        match (self.away, self.back) {
            (false, false) => all(y, &|v| (step * v).round_ties_even()),
            (false, true) => all(y, &|v| (step * v).round_ties_even() * scale / bins),
            (true, false) => all(y, &|v| (step * v).round()),
            (true, true) => all(y, &|v| (step * v).round() * scale / bins),
        }
    }

    /// [`Grid::fill`] with a scale for each channel of `x` [.., channels, inner].
    pub fn fill_channels(self, scales: &[f32], inner: usize, x: &[f32], y: &mut [f32]) {
        let runs = x.chunks_exact(inner.max(1)).zip(y.chunks_exact_mut(inner.max(1)));
        runs.enumerate().for_each(|(i, (x, y))| self.fill(scales[i % scales.len()], x, y));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_the_largest_magnitudes() {
        let x: Vec<f32> = (0..37).map(|i| (i * 7 % 37) as f32 - 20.0).collect();
        assert_eq!((abs_max(&x), abs_max(&[])), (20.0, 0.0));
        assert!(abs_max(&[f32::NAN, 1.0]).is_nan());
        assert_eq!(abs_max(&[1.0, f32::NAN, -2.0]), 2.0);
        // [2, channels 2, inner 3]
        let x = [1.0, -2.0, 0.0, 3.0, 3.5, 0.0, -9.0, 0.0, 0.0, 0.5, 0.5, -0.5];
        assert_eq!(channel_abs_max(&x, 2, 3), [9.0, 3.5]);
    }

    #[test]
    fn levels_are_rounded_by_channel() {
        let (x, scales) = ([0.5f32, -3.0, 2.5, 1.0, -0.5, 0.25], [2.0, 1.0]);
        for (back, away) in [(false, false), (false, true), (true, false), (true, true)] {
            let (mut y, grid) = ([9.0; 6], Grid { bins: 127.0, back, away });
            grid.fill_channels(&scales, 3, &x, &mut y);
            for i in 0..6 {
                let scale = scales[i / 3];
                let level = 127.0 * (1.0 / scale) * x[i].clamp(-scale, scale);
                let level = if away { level.round() } else { level.round_ties_even() };
                assert_eq!(y[i], if back { level * scale / 127.0 } else { level });
            }
        }
    }
}
