//! The groups of this process by number, as Programs name them (`ring_id`). Ring 0 is the world.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::group::Group;

static RINGS: Mutex<Option<HashMap<i32, Arc<Group>>>> = Mutex::new(None);

/// Names a group; what had the number before is let go.
pub fn set(ring: i32, group: Arc<Group>) {
    let before = RINGS.lock().get_or_insert_default().insert(ring, group);
    drop(before); // after the lock: the last reference may shut a context down
}

pub fn get(ring: i32) -> Option<Arc<Group>> {
    RINGS.lock().as_ref()?.get(&ring).cloned()
}

/// Lets all groups go.
pub fn clear() {
    let all = RINGS.lock().take();
    drop(all);
}
