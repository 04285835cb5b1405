//! Large products of f32 on the matrix unit of Xeons (AMX); stubs on processors of other families.

#[cfg(not(target_arch = "x86_64"))]
mod absent;
#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(target_arch = "x86_64")]
mod unit;

#[cfg(not(target_arch = "x86_64"))]
pub use absent::{enable, enabled, product, suits};
#[cfg(target_arch = "x86_64")]
pub use unit::{enable, enabled, product, suits};
