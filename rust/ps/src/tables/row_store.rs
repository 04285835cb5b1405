//! Storage of rows in pages, so that a table grows without being copied. Snapshots share pages with the table; a page
//! that changes before it is saved is copied.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use half::f16;

/// Rows as they are saved.
#[derive(Clone, Debug, Default)]
pub struct TableRows {
    pub ids: Vec<i64>,
    pub data: Vec<f32>,
    pub usage: Vec<i64>,
}

/// Approximate bytes of a page.
const PAGE: usize = 128 << 10;
/// Limit of pages copied for snapshots; a further change waits for the snapshot's writer.
const MAX_COPIES: usize = (256 << 20) / PAGE;
/// A writer without progress for this long is no longer waited for.
const PATIENCE: Duration = Duration::from_secs(60);

static COPIED: AtomicUsize = AtomicUsize::new(0);

/// Layout of a row; features without a use take no memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of leading floats stored as float16.
    pub half: usize,
    pub width: usize,
    /// Bytes of the access counter: 0, 1 or 2.
    pub counts: u8,
}

#[derive(Clone)]
struct Page {
    ids: Box<[i64]>,
    halves: Box<[f16]>,
    floats: Box<[f32]>,
    counts: Box<[u8]>,
    more: Box<[u8]>,
    stamps: Box<[u16]>,
    copied: Copied,
}

/// Marks a page that the table has replaced by a copy.
#[derive(Default)]
struct Copied(std::sync::OnceLock<()>);

impl Clone for Copied {
    fn clone(&self) -> Copied {
        Copied::default()
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if self.0.get().is_some() {
            COPIED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Page {
    fn count(&self, k: usize) -> u16 {
        let byte = |column: &[u8]| u16::from(column.get(k).copied().unwrap_or(0));
        byte(&self.counts) | byte(&self.more) << 8
    }
}

/// The page for writing; copied if a snapshot refers to it.
fn page_mut(page: &mut Arc<Page>) -> &mut Page {
    if Arc::get_mut(page).is_none() {
        let since = Instant::now();
        while COPIED.load(Ordering::Relaxed) >= MAX_COPIES && Arc::strong_count(page) > 1 && since.elapsed() < PATIENCE
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        if Arc::strong_count(page) > 1 && page.copied.0.set(()).is_ok() {
            COPIED.fetch_add(1, Ordering::Relaxed);
        }
    }
    Arc::make_mut(page)
}

/// A snapshot of the rows.
pub struct RowStoreSnapshot {
    shape: Shape,
    shift: u32,
    pages: std::vec::IntoIter<Arc<Page>>,
    left: usize,
}

impl RowStoreSnapshot {
    /// Passes id, values, count and stamp of each row of the next pages, about `bytes` in size, to `take`; false after
    /// the last.
    pub fn next(&mut self, bytes: usize, mut take: impl FnMut(i64, &[f32], u16, u16)) -> bool {
        let (half, rest) = (self.shape.half, self.shape.width - self.shape.half);
        let mut values = Vec::with_capacity(self.shape.width);
        for _ in 0..(bytes / PAGE).max(1) {
            let Some(page) = self.pages.next() else { return false };
            let rows = self.left.min(1 << self.shift);
            self.left -= rows;
            for k in 0..rows {
                values.clear();
                values.extend(page.halves[k * half..(k + 1) * half].iter().map(|h| h.to_f32()));
                values.extend_from_slice(&page.floats[k * rest..(k + 1) * rest]);
                take(page.ids[k], &values, page.count(k), page.stamps[k]);
            }
        }
        true
    }
}

pub struct RowStore {
    shape: Shape,
    shift: u32,
    pages: Vec<Arc<Page>>,
    len: usize,
    /// Buffer for rows that are partly float16.
    scratch: Vec<f32>,
}

impl RowStore {
    pub fn new(shape: Shape) -> RowStore {
        let bytes = 8 + 4 * shape.width;
        let shift = (PAGE / bytes).clamp(16, 4096).ilog2();
        RowStore { shape, shift, pages: Vec::new(), len: 0, scratch: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    fn at(&self, row: usize) -> (&Page, usize) {
        (&self.pages[row >> self.shift], row & ((1 << self.shift) - 1))
    }

    fn at_mut(&mut self, row: usize) -> (&mut Page, usize) {
        (page_mut(&mut self.pages[row >> self.shift]), row & ((1 << self.shift) - 1))
    }

    pub fn id(&self, row: usize) -> i64 {
        let (page, k) = self.at(row);
        page.ids[k]
    }

    pub fn count(&self, row: usize) -> u16 {
        let (page, k) = self.at(row);
        page.count(k)
    }

    /// A snapshot of all rows.
    pub fn snapshot(&self) -> RowStoreSnapshot {
        RowStoreSnapshot { shape: self.shape, shift: self.shift, pages: self.pages.clone().into_iter(), left: self.len }
    }

    pub fn set_count(&mut self, row: usize, count: u16) {
        let most = if self.shape.counts > 1 { u16::MAX } else { 255 };
        let (page, k) = self.at_mut(row);
        for (column, byte) in [&mut page.counts, &mut page.more].into_iter().zip(count.min(most).to_le_bytes()) {
            column.get_mut(k).into_iter().for_each(|c| *c = byte);
        }
    }

    pub fn stamp(&self, row: usize) -> u16 {
        let (page, k) = self.at(row);
        page.stamps[k]
    }

    pub fn set_stamp(&mut self, row: usize, stamp: u16) {
        // Reading changes no page while the clock stands still.
        if self.stamp(row) != stamp {
            let (page, k) = self.at_mut(row);
            page.stamps[k] = stamp;
        }
    }

    /// Appends a row of zeros.
    pub fn push(&mut self, id: i64) -> usize {
        let (row, n) = (self.len, 1usize << self.shift);
        if row >> self.shift == self.pages.len() {
            let Shape { half, width, counts } = self.shape;
            let column = |some: bool| vec![0; if some { n } else { 0 }].into_boxed_slice();
            self.pages.push(Arc::new(Page {
                ids: vec![0; n].into_boxed_slice(),
                halves: vec![f16::ZERO; n * half].into_boxed_slice(),
                floats: vec![0.0; n * (width - half)].into_boxed_slice(),
                counts: column(counts > 0),
                more: column(counts > 1),
                stamps: vec![0; n].into_boxed_slice(),
                copied: Copied::default(),
            }));
        }
        self.len += 1;
        let (page, k) = self.at_mut(row);
        page.ids[k] = id;
        self.set_count(row, 0);
        row
    }

    /// Replaces this row by the last one.
    pub fn swap_remove(&mut self, row: usize) {
        let last = self.len - 1;
        if row != last {
            let mut values = vec![0.0; self.shape.width];
            self.read(last, |from| values.copy_from_slice(from));
            let (id, count, stamp) = (self.id(last), self.count(last), self.stamp(last));
            self.change(row, |to| to.copy_from_slice(&values));
            self.set_count(row, count);
            self.set_stamp(row, stamp);
            let (page, k) = self.at_mut(row);
            page.ids[k] = id;
        }
        self.len = last;
        self.pages.truncate((last + (1 << self.shift) - 1) >> self.shift);
    }

    pub fn read<T>(&mut self, row: usize, work: impl FnOnce(&[f32]) -> T) -> T {
        let (half, rest) = (self.shape.half, self.shape.width - self.shape.half);
        let k = row & ((1 << self.shift) - 1);
        let page = &self.pages[row >> self.shift];
        let floats = &page.floats[k * rest..(k + 1) * rest];
        if half == 0 {
            return work(floats);
        }
        self.scratch.clear();
        self.scratch.extend(page.halves[k * half..(k + 1) * half].iter().map(|h| h.to_f32()));
        self.scratch.extend_from_slice(floats);
        work(&self.scratch)
    }

    pub fn change<T>(&mut self, row: usize, work: impl FnOnce(&mut [f32]) -> T) -> T {
        let (half, rest) = (self.shape.half, self.shape.width - self.shape.half);
        if half == 0 {
            let (page, k) = self.at_mut(row);
            return work(&mut page.floats[k * rest..(k + 1) * rest]);
        }
        self.read(row, |_| ());
        let mut scratch = std::mem::take(&mut self.scratch);
        let done = work(&mut scratch);
        let (page, k) = self.at_mut(row);
        page.halves[k * half..(k + 1) * half].iter_mut().zip(&scratch).for_each(|(h, v)| *h = f16::from_f32(*v));
        page.floats[k * rest..(k + 1) * rest].copy_from_slice(&scratch[half..]);
        self.scratch = scratch;
        done
    }

    pub fn bytes(&self) -> usize {
        let page = |p: &Arc<Page>| {
            p.ids.len() * 8 + p.counts.len() + p.more.len() + (p.halves.len() + p.stamps.len()) * 2 + p.floats.len() * 4
        };
        self.pages.iter().map(page).sum::<usize>() + self.pages.capacity() * (std::mem::size_of::<Page>() + 24)
    }
}
