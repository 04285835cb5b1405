//! Convolutions of planes with filters that were packed before, on the matrix unit of Intel Xeons (AMX).
//!
//! An image is written as pixels with all channels (`layout`) and multiplied by panels of filters where it lies: no
//! patches are gathered. A float is three bf16 parts, as in `gemm::amx`, or is rounded to bf16. Blocks of filters whose
//! sums three parts cannot represent are computed by `convolve`. Up to 16 float32 filters are the lanes of vectors instead
//! (`lanes`).

#[cfg(not(target_arch = "x86_64"))]
mod absent;
#[cfg(target_arch = "x86_64")]
mod image;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod layout;
#[cfg(target_arch = "x86_64")]
mod multiply;
#[cfg(target_arch = "x86_64")]
mod run;

#[cfg(not(target_arch = "x86_64"))]
pub use absent::{always, convolve_packed, pack_filters, panels_len};
#[cfg(target_arch = "x86_64")]
pub use run::{always, convolve_packed, pack_filters, panels_len};

/// What the panels of filters depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterShape {
    pub filters: usize,
    pub channels: usize,
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub dilation: [usize; 2],
    /// Filters and images are rounded to bf16; otherwise each float is three bf16 parts.
    pub bf16: bool,
}
