//! Rendezvous, transports and collectives between processes. Data are bytes; tensors and operators are unknown here.
//!
//! Ranks find each other through a [`Store`], a [`Context`] monitors them, a [`Group`] runs collectives:
//!
//! ```
//! use oar_net::{Context, Dtype, Job, Options, ReduceOp, Store};
//!
//! let store = Store::host(([127, 0, 0, 1], 0).into(), &Job::default()).unwrap();
//! let at = store.address();
//! let ranks: Vec<_> = (0..2)
//!     .map(|rank| {
//!         std::thread::spawn(move || {
//!             let store = Store::connect(at, &Job::default(), std::time::Duration::from_secs(10)).unwrap();
//!             let context = Context::init(rank, 2, store, Options::default()).unwrap();
//!             let group = context.world_group().unwrap();
//!             let mut data = 1.5f32.to_ne_bytes();
//!             group.all_reduce(&mut data, Dtype::F32, ReduceOp::Sum).unwrap();
//!             assert_eq!(f32::from_ne_bytes(data), 3.0);
//!         })
//!     })
//!     .collect();
//! ranks.into_iter().for_each(|r| r.join().unwrap());
//! ```

pub mod acceptor;
mod call;
pub mod codec;
mod collective;
pub mod collective_plan;
mod context;
pub mod costs;
pub mod dtype;
mod engine;
pub mod error;
mod executor;
mod failure;
pub mod fingerprint;
pub mod fork;
pub mod frame;
mod group;
pub mod handshake;
mod hosts;
pub mod mac;
pub mod message_queue;
mod monitor;
pub mod os;
mod reduce;
mod report;
pub mod rings;
pub mod shm;
pub mod socket;
mod state;
pub mod store;
mod tcp;
pub mod token_file;
mod topology;
mod transport;
mod work;

pub use call::{CollectiveCall, RawRegion, Region};
pub use context::{Context, Options};
pub use dtype::{Dtype, ReduceOp};
pub use error::{Error, Last, Peer, Result};
pub use group::Group;
pub use shm::symmetric::SymmetricBuffer;
pub use state::Route;
pub use store::{Job, Store};
pub use transport::{Interest, MakeTransport, Membership, Transport};
pub use work::Work;
