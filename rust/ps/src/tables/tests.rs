//! Tables against a plain map, their memory, and eviction.

use std::collections::{HashMap, HashSet};

use super::index::Index;
use super::*;

fn table(options: &str) -> Table {
    table_of("none", options)
}

fn table_of(entry: &str, options: &str) -> Table {
    let inits = "uniform_random&3&-0.5&0.5,fill_constant&0.25";
    Table::parse(&format!("t:Param,Moment:4,4:0:g:c:{inits}:{entry}:{options}")).unwrap()
}

/// All rows sorted by id, read in pieces of `bytes`.
fn rows(mut snapshot: TableSnapshot, bytes: usize) -> Vec<(i64, Vec<f32>, i64)> {
    let mut all = Vec::new();
    while let Some(image) = snapshot.next(bytes).unwrap() {
        let values = image.data.chunks_exact(snapshot.width).map(<[f32]>::to_vec);
        all.extend(image.ids.into_iter().zip(values).zip(image.usage).map(|((id, v), usage)| (id, v, usage)));
    }
    all.sort_by_key(|(id, ..)| *id);
    all
}

/// Copies a snapshot of `from` to `to`.
fn copy_rows(from: &Table, to: &Table) {
    let mut snapshot = from.snapshot();
    let same = to.reset(&snapshot.clocks).unwrap();
    while let Some(image) = snapshot.next(1 << 16).unwrap() {
        to.put_back(&image, same).unwrap();
    }
}

fn get(t: &Table, id: i64) -> Vec<f32> {
    t.read(id, true, <[f32]>::to_vec).unwrap()
}

fn add(t: &Table, id: i64, by: f32) {
    t.train(id, |row| row.iter_mut().for_each(|v| *v += by)).unwrap();
}

#[test]
fn the_index_is_a_map() {
    let (mut index, mut ids, mut where_is) = (Index::default(), Vec::<i64>::new(), HashMap::new());
    let mut z = 1u64;
    for turn in 0..60_000 {
        z = mix(z);
        let id = (z % 3000) as i64 - 1500;
        // It grows, then shrinks.
        if z >> 40 & 7 < if turn < 40_000 { 5 } else { 2 } {
            if let std::collections::hash_map::Entry::Vacant(e) = where_is.entry(id) {
                e.insert(ids.len());
                ids.push(id);
                index.insert(id, |row| ids[row]);
            }
        } else if let Some(row) = where_is.remove(&id) {
            let last = ids[ids.len() - 1];
            index.remove(id, last, |row| ids[row]);
            ids.swap_remove(row);
            if last != id {
                where_is.insert(last, row);
            }
        }
        if turn % 5000 == 0 {
            index.shrink(|row| ids[row]);
        }
        assert_eq!(index.find(id, |row| ids[row]), where_is.get(&id).copied());
    }
    assert!(ids.len() > 100);
    for id in -1500..1500 {
        assert_eq!(index.find(id, |row| ids[row]), where_is.get(&id).copied());
    }
}

#[test]
fn a_row_takes_at_most_16_bytes_more_than_its_values() {
    for (entry, options, floats) in
        [("none", "", 32), ("count_filter&10", "", 32), ("none", "float16=1", 24), ("none", "rows=120000", 32)]
    {
        let t = table_of(entry, options);
        let mut worst = 0f64;
        for id in 0..300_000i64 {
            get(&t, id * 7919);
            if id > 200_000 && id % 10_000 == 0 {
                let size = t.size();
                // The last page of each shard is not full.
                let pages = SHARDS * (128 << 10);
                worst = worst.max((size.bytes as f64 - pages as f64) / size.rows as f64 - f64::from(floats));
            }
        }
        assert!(worst <= 16.0, "{entry} {options}: {worst}");
    }
}

#[test]
fn rows_that_were_longest_not_asked_for_go() {
    let t = table("rows=50");
    (0..50).for_each(|id| drop(get(&t, id)));
    add(&t, 0, 1.0);
    let saved = get(&t, 0);
    let fresh = get(&table(""), 1);
    add(&t, 1, 1.0);
    get(&t, 3);
    assert_eq!(t.len(), 50);
    for id in 50..97 {
        get(&t, id);
        // Rows accessed since stay.
        get(&t, 0);
    }
    assert_eq!(t.len(), 50);
    assert_eq!(get(&t, 0), saved);
    assert_eq!(get(&t, 1), fresh, "it has begun anew");
    add(&t, -77, 1.0); // evicted, or never inserted
    assert_eq!(t.len(), 50);
}

#[test]
fn rows_on_disk_come_back() {
    let folder = std::env::temp_dir().join(format!("oar-tables-{}", std::process::id()));
    for half in ["0", "1"] {
        let t = table(&format!("rows=64&spill={}&float16={half}", folder.display()));
        let mut wanted: HashMap<i64, Vec<f32>> = HashMap::new();
        let mut z = 5u64;
        for _ in 0..20_000 {
            z = mix(z);
            let id = (z % 1000) as i64;
            let before = get(&t, id);
            if let Some(w) = wanted.get(&id) {
                assert_eq!(&before, w, "row {id}");
            }
            add(&t, id, 0.5);
            wanted.insert(id, get(&t, id));
        }
        assert_eq!((t.size().rows, t.size().spilled), (1000, 936));
        // A restored table behaves in the same way.
        let other = table(&format!("rows=64&spill={}&float16={half}", folder.display()));
        copy_rows(&t, &other);
        for _ in 0..3000 {
            z = mix(z);
            let id = (z % 1500) as i64;
            assert_eq!(get(&t, id), get(&other, id));
        }
        assert!(rows(t.snapshot(), 1) == rows(other.snapshot(), 1 << 20));
        // A snapshot keeps its rows while the table changes.
        let (before, snapshot) = (rows(t.snapshot(), 1 << 12), t.snapshot());
        (0..3000).for_each(|id| drop(get(&t, id)));
        (0..3000).for_each(|id| add(&t, id, 1.0));
        assert!(rows(snapshot, 1 << 12) == before);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "files without names");
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn parameters_in_float16() {
    let (t, whole) = (table("float16=1"), table(""));
    let (a, b) = (get(&t, 9), get(&whole, 9));
    assert!(a[..4].iter().zip(&b[..4]).all(|(a, b)| (a - b).abs() <= 2e-4 && half::f16::from_f32(*b).to_f32() == *a));
    assert_eq!(a[4..], b[4..], "what an optimizer keeps stays float32");
    t.train(9, |row| row[4] = 1e-9).unwrap();
    assert_eq!(get(&t, 9)[4], 1e-9);
}

#[test]
fn rows_expire() {
    for options in ["", "rows=100000"] {
        let t = table(options);
        (0..1000).for_each(|id| drop(get(&t, id)));
        assert_eq!(t.shrink(1).unwrap(), 0);
        (0..600).for_each(|id| drop(get(&t, id)));
        assert_eq!(t.shrink(2).unwrap(), 0);
        (0..300).for_each(|id| drop(get(&t, id)));
        assert_eq!(t.shrink(2).unwrap(), 400);
        assert_eq!(t.shrink(1).unwrap(), 600, "no row was accessed on that day");
        assert_eq!(t.len(), 0);
        assert!(t.size().bytes < 64 << 10);
        assert!(t.shrink(0).is_err());
    }
    let folder = std::env::temp_dir().join(format!("oar-expire-{}", std::process::id()));
    let t = table(&format!("rows=64&spill={}", folder.display()));
    (0..1000).for_each(|id| drop(get(&t, id)));
    t.shrink(1).unwrap();
    (0..10).for_each(|id| drop(get(&t, id)));
    assert_eq!((t.shrink(1).unwrap(), t.len()), (990, 10));
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn what_a_table_had_goes_into_one_of_another_kind() {
    let t = table_of("count_filter&300", "rows=100000");
    for id in 0..5000 {
        get(&t, id);
        t.touch(id);
    }
    (0..299).for_each(|_| t.touch(7));
    let other = table_of("count_filter&300", "");
    copy_rows(&t, &other);
    let admitted: HashSet<i64> = (0..5000).filter(|&id| other.admits(id).unwrap()).collect();
    assert_eq!(admitted, HashSet::from([7]));
    let values = |t: &Table| rows(t.snapshot(), 1).into_iter().map(|(id, v, _)| (id, v)).collect::<Vec<_>>();
    assert!(values(&other) == values(&t));
    let mut short = t.snapshot().next(1).unwrap().unwrap();
    short.data.pop();
    assert!(other.put_back(&short, true).is_err());
    for wrong in ["rows=0", "rows=x", "spill=/tmp", "float16=2", "other=1"] {
        assert!(Table::parse(&format!("t:P:4:0:g:c:fill_constant&0:none:{wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn chosen_rows_are_saved_and_go() {
    let folder = std::env::temp_dir().join(format!("oar-chosen-{}", std::process::id()));
    let t = table(&format!("rows=8&spill={}", folder.join("spill").display()));
    (0..20).for_each(|id| drop(get(&t, id)));
    assert!(t.size().spilled > 0);
    t.save_rows(&folder.join("saved"), &[3, 17]).unwrap();
    let fresh = table("");
    fresh.load(&folder.join("saved"), |_| true).unwrap();
    assert_eq!(fresh.ids(), [3, 17]);
    assert_eq!(get(&fresh, 17), get(&t, 17));
    assert_eq!(t.forget(&[1, 2, 17, 99]).unwrap(), 3);
    assert_eq!(t.ids(), (0..20).filter(|id| ![1, 2, 17].contains(id)).collect::<Vec<_>>());
    let _ = std::fs::remove_dir_all(folder);
}
