//! The debug report: the operation each rank is in, and the rank it waits for.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::state::{Shared, Status, NOT_WAITING};

pub fn render(shared: &Shared, all: &HashMap<usize, Vec<Status>>) -> String {
    let mut text = String::new();
    for rank in 0..shared.world {
        let peer = shared.peer(rank);
        let state = if shared.has_left(rank) { " (left)" } else { "" };
        match all.get(&rank) {
            None => {
                let _ = writeln!(text, "{peer}{state}: no heartbeat yet");
            }
            Some(s) if s.is_empty() => {
                let _ = writeln!(text, "{peer}{state}: in no operation");
            }
            Some(list) => {
                for s in list {
                    let secs = f64::from(s.millis) / 1000.0;
                    let _ = write!(text, "{peer}{state}: in {} for {secs:.1} s", s.doing);
                    if s.waiting != NOT_WAITING {
                        let _ = write!(text, ", waiting for {}", shared.peer(s.waiting as usize));
                    }
                    text.push('\n');
                }
            }
        }
    }
    if let Some(e) = shared.failure() {
        let _ = writeln!(text, "failure: {e}");
    }
    text
}
