//! A variable of eager mode.

use super::tape::Track;
use oar_core::base::Result;
use oar_core::tensor::{Cell, Tensor, Value};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::Arc;

/// A cell and its place in the tape.
pub struct EVar {
    pub cell: Arc<Cell>,
    track: Mutex<Option<Arc<Track>>>,
    /// 0: gradients flow; 1: they do not; 2: nobody has said (counts as 1).
    stop: AtomicU8,
    pub persistable: AtomicBool,
}

impl Clone for EVar {
    /// The same variable: a leaf that gradients flow to gets its track now, or both would make one of their own.
    fn clone(&self) -> EVar {
        let track = if self.stop_gradient() { self.track_if_any() } else { Some(self.track()) };
        EVar {
            cell: self.cell.clone(),
            track: Mutex::new(track),
            stop: AtomicU8::new(self.stop.load(Relaxed)),
            persistable: AtomicBool::new(self.persistable.load(Relaxed)),
        }
    }
}

impl EVar {
    #[inline]
    pub fn new(value: impl Into<Value>, stop_gradient: bool) -> EVar {
        EVar::from_parts(Arc::new(Cell::new(value)), None, stop_gradient)
    }

    #[inline]
    pub fn from_parts(cell: Arc<Cell>, track: Option<Arc<Track>>, stop_gradient: bool) -> EVar {
        EVar {
            cell,
            track: Mutex::new(track),
            stop: AtomicU8::new(stop_gradient as u8),
            persistable: AtomicBool::new(false),
        }
    }

    #[inline]
    pub fn stop_gradient(&self) -> bool {
        self.stop.load(Relaxed) != 0
    }

    pub fn set_stop_gradient(&self, stop: Option<bool>) {
        self.stop.store(stop.map_or(2, |s| s as u8), Relaxed);
    }

    /// The track, made at first need.
    #[inline]
    pub fn track(&self) -> Arc<Track> {
        self.track.lock().get_or_insert_with(Default::default).clone()
    }

    pub fn track_if_any(&self) -> Option<Arc<Track>> {
        self.track.lock().clone()
    }

    pub fn is_leaf(&self) -> bool {
        self.track.lock().as_ref().is_none_or(|t| t.is_leaf())
    }

    /// The place of a variable that nobody else has yet.
    #[inline]
    pub(super) fn place(&mut self, track: Arc<Track>) {
        *self.track.get_mut() = Some(track);
    }

    /// Puts the variable elsewhere in the tape (an operator worked in place); who read it before keeps the old track.
    pub fn set_track(&self, track: Option<Arc<Track>>) {
        let old = std::mem::replace(&mut *self.track.lock(), track);
        drop(old);
    }

    pub fn tensor(&self) -> Result<Tensor> {
        self.cell.tensor()
    }
}
