//! Large products of f32 on the matrix unit of Xeons (AMX); stubs on processors of other families.

#[cfg(not(target_arch = "x86_64"))]
mod absent;
#[cfg(target_arch = "x86_64")]
pub mod bf16;
#[cfg(target_arch = "x86_64")]
pub(crate) mod bf16_pack;
#[cfg(target_arch = "x86_64")]
pub(crate) mod pack;
#[cfg(target_arch = "x86_64")]
pub(crate) mod unit;

#[cfg(not(target_arch = "x86_64"))]
pub use absent::{bf16, enable, enabled, pack_right, product, right_len, suits};
#[cfg(target_arch = "x86_64")]
pub use unit::{enable, enabled, pack_right, product, right_len, suits};
