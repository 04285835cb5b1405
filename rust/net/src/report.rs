//! Who waits for whom, as text for people.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::state::{Shared, Status, NO_RANK_WAITED};

pub fn render(shared: &Shared, all: &HashMap<usize, Vec<Status>>) -> String {
    let mut text = String::new();
    for rank in 0..shared.world {
        let who = shared.peer(rank);
        let state = if shared.has_left(rank) { " (left)" } else { "" };
        match all.get(&rank) {
            None => {
                let _ = writeln!(text, "{who}{state}: nothing heard yet");
            }
            Some(s) if s.is_empty() => {
                let _ = writeln!(text, "{who}{state}: in no operation");
            }
            Some(list) => {
                for s in list {
                    let secs = f64::from(s.millis) / 1000.0;
                    let _ = write!(text, "{who}{state}: in {} for {secs:.1} s", s.doing);
                    if s.waiting != NO_RANK_WAITED {
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
