//! temporal_shift: shifts a part of the channels by one frame backward, another part by one frame forward.

use crate::pool;
use crate::types::Plain;

/// Images [frames of all videos, channels, pixels]; channels below `first` come from frame + `by`, those from there to
/// below `second` from frame - `by`. Frames outside a video are zeros.
#[derive(Clone, Copy)]
pub struct TemporalShift {
    pub frames: usize,
    pub channels: usize,
    pub pixels: usize,
    pub first: usize,
    pub second: usize,
    pub by: isize,
}

impl TemporalShift {
    pub fn run<T: Plain>(&self, x: &[T], out: &mut [T]) {
        let &TemporalShift { channels, pixels, first, second, by, .. } = self;
        let frames = self.frames as isize;
        pool::parts(out, ((1 << 15) / pixels).max(1) * pixels, |start, out| {
            for (i, out) in out.chunks_exact_mut(pixels).enumerate() {
                let plane = start / pixels + i;
                let (frame, channel) = ((plane / channels) as isize, plane % channels);
                let step = match channel {
                    c if c < first => by,
                    c if c < second => -by,
                    _ => 0,
                };
                if (0..frames).contains(&(frame % frames + step)) {
                    let from = ((frame + step) as usize * channels + channel) * pixels;
                    out.copy_from_slice(&x[from..from + pixels]);
                } else {
                    out.fill(T::default());
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_come_from_other_frames() {
        let x: Vec<i32> = (1..=2 * 3 * 4 * 2).collect();
        for by in [-1, 1] {
            let s = TemporalShift { frames: 3, channels: 4, pixels: 2, first: 1, second: 3, by };
            let mut out = vec![9; x.len()];
            s.run(&x, &mut out);
            for (k, &got) in out.iter().enumerate() {
                let (video, frame, channel) = (k / 24, (k / 8 % 3) as isize, k / 2 % 4);
                let from = frame + [by, -by, -by, 0][channel];
                let inside = (0..3).contains(&from);
                assert_eq!(got, if inside { x[(video * 3 + from as usize) * 8 + k % 8] } else { 0 }, "{k}");
            }
        }
    }
}
