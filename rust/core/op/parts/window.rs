//! What operators that slide a window over an image (convolution, pooling) share.

use crate::base::Result;
use crate::ensure;
use smallvec::SmallVec;

/// Padding before and after each axis. `paddings` has one number an axis or two.
pub fn paddings(
    op: &str,
    algorithm: &str,
    paddings: &[i32],
    size: &[i64],
    strides: &[i32],
    kernel: &[i64],
) -> Result<SmallVec<[(i64, i64); 3]>> {
    let n = size.len();
    ensure!(
        paddings.len() == n || paddings.len() == 2 * n,
        InvalidArgument,
        "operator {op}: paddings must have {n} or {} numbers, got {paddings:?}",
        2 * n
    );
    let given = |i: usize| match paddings.len() == n {
        true => (paddings[i] as i64, paddings[i] as i64),
        false => (paddings[2 * i] as i64, paddings[2 * i + 1] as i64),
    };
    Ok((0..n)
        .map(|i| match algorithm {
            "SAME" => {
                let stride = strides[i] as i64;
                let out = (size[i] + stride - 1) / stride;
                let sum = ((out - 1) * stride + kernel[i] - size[i]).max(0);
                (sum / 2, sum - sum / 2)
            }
            "VALID" => (0, 0),
            _ => given(i),
        })
        .collect())
}

/// Is the data format channels-last?
pub fn channels_last(format: &str) -> bool {
    matches!(format, "NHWC" | "NDHWC" | "NLC")
}
