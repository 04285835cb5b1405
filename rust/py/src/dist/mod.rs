//! Bindings for processes: groups, the gradient reducer, parameter servers, the store.

pub mod group;
pub mod reducer;
pub mod servers;
pub mod store;
pub mod transport;
