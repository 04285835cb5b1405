//! Rows side by side, in pages, so that a table grows without being copied.

use half::f16;

/// Bytes of a page, about.
const PAGE: usize = 128 << 10;

/// What a row has besides its id and values. A table without a use for one keeps none of it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The first floats of a row, those that are kept as float16.
    pub half: usize,
    pub width: usize,
    /// Bytes of the number of times that it was asked for.
    pub counts: u8,
}

struct Page {
    ids: Box<[i64]>,
    halves: Box<[f16]>,
    floats: Box<[f32]>,
    counts: Box<[u8]>,
    more: Box<[u8]>,
    stamps: Box<[u16]>,
}

pub struct Rows {
    shape: Shape,
    shift: u32,
    pages: Vec<Page>,
    len: usize,
    /// Where rows that are not float32 throughout are worked on.
    desk: Vec<f32>,
}

impl Rows {
    pub fn new(shape: Shape) -> Rows {
        let bytes = 8 + 4 * shape.width;
        let shift = (PAGE / bytes).clamp(16, 4096).ilog2();
        Rows { shape, shift, pages: Vec::new(), len: 0, desk: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    fn at(&self, row: usize) -> (&Page, usize) {
        (&self.pages[row >> self.shift], row & ((1 << self.shift) - 1))
    }

    fn at_mut(&mut self, row: usize) -> (&mut Page, usize) {
        (&mut self.pages[row >> self.shift], row & ((1 << self.shift) - 1))
    }

    pub fn id(&self, row: usize) -> i64 {
        let (page, k) = self.at(row);
        page.ids[k]
    }

    pub fn count(&self, row: usize) -> u16 {
        let (page, k) = self.at(row);
        let byte = |column: &[u8]| u16::from(column.get(k).copied().unwrap_or(0));
        byte(&page.counts) | byte(&page.more) << 8
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
        let (page, k) = self.at_mut(row);
        page.stamps[k] = stamp;
    }

    /// A new last row, of zeros.
    pub fn push(&mut self, id: i64) -> usize {
        let (row, n) = (self.len, 1usize << self.shift);
        if row >> self.shift == self.pages.len() {
            let Shape { half, width, counts } = self.shape;
            let column = |some: bool| vec![0; if some { n } else { 0 }].into_boxed_slice();
            self.pages.push(Page {
                ids: vec![0; n].into_boxed_slice(),
                halves: vec![f16::ZERO; n * half].into_boxed_slice(),
                floats: vec![0.0; n * (width - half)].into_boxed_slice(),
                counts: column(counts > 0),
                more: column(counts > 1),
                stamps: vec![0; n].into_boxed_slice(),
            });
        }
        self.len += 1;
        let (page, k) = self.at_mut(row);
        page.ids[k] = id;
        self.set_count(row, 0);
        row
    }

    /// The last row takes the place of this one.
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
        self.desk.clear();
        self.desk.extend(page.halves[k * half..(k + 1) * half].iter().map(|h| h.to_f32()));
        self.desk.extend_from_slice(floats);
        work(&self.desk)
    }

    pub fn change<T>(&mut self, row: usize, work: impl FnOnce(&mut [f32]) -> T) -> T {
        let (half, rest) = (self.shape.half, self.shape.width - self.shape.half);
        if half == 0 {
            let (page, k) = self.at_mut(row);
            return work(&mut page.floats[k * rest..(k + 1) * rest]);
        }
        self.read(row, |_| ());
        let mut desk = std::mem::take(&mut self.desk);
        let done = work(&mut desk);
        let (page, k) = self.at_mut(row);
        page.halves[k * half..(k + 1) * half].iter_mut().zip(&desk).for_each(|(h, v)| *h = f16::from_f32(*v));
        page.floats[k * rest..(k + 1) * rest].copy_from_slice(&desk[half..]);
        self.desk = desk;
        done
    }

    pub fn bytes(&self) -> usize {
        let page = |p: &Page| {
            p.ids.len() * 8 + p.counts.len() + p.more.len() + (p.halves.len() + p.stamps.len()) * 2 + p.floats.len() * 4
        };
        self.pages.iter().map(page).sum::<usize>() + self.pages.capacity() * std::mem::size_of::<Page>()
    }
}
