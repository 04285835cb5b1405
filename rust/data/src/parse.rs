//! The parser of one line of MultiSlot text.

use super::block::{Block, MOST};
use super::desc::{Desc, Slot};
use std::fmt::Write;

/// What is wrong with a line; the caller adds the file and the line number.
pub type ParseError = String;

fn blank(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// The unread part of a line.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn skip_blanks(&mut self) {
        let n = self.0.iter().take_while(|&&c| blank(c)).count();
        self.0 = &self.0[n..];
    }

    fn token(&mut self) -> &'a [u8] {
        self.skip_blanks();
        let n = self.0.iter().position(|&c| blank(c)).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(n);
        self.0 = rest;
        token
    }

    /// The next integer, if there is one (negative ones wrap around, as in C).
    #[inline]
    fn int(&mut self) -> Option<u64> {
        let mut at = 0;
        let bytes = self.0;
        while at < bytes.len() && blank(bytes[at]) {
            at += 1;
        }
        let negative = bytes.get(at) == Some(&b'-');
        at += usize::from(negative || bytes.get(at) == Some(&b'+'));
        let first = at;
        let mut n = 0_u64;
        // Eight bytes at a time, up to 18 digits, which always fit.
        while let Some(word) = bytes.get(at..at + 8).filter(|_| at - first <= 10) {
            let (digits, value) = leading_digits(u64::from_le_bytes(word.try_into().unwrap_or_default()));
            n = n * POWERS_OF_TEN[digits] + value;
            at += digits;
            if digits < 8 {
                break;
            }
        }
        while let Some(digit) = bytes.get(at).map(|c| c.wrapping_sub(b'0')).filter(|&d| d < 10) {
            n = if at - first < 18 {
                n * 10 + u64::from(digit)
            } else {
                n.checked_mul(10)?.checked_add(u64::from(digit))?
            };
            at += 1;
        }
        if at == first || bytes.get(at).is_some_and(|&c| !blank(c)) {
            return None;
        }
        self.0 = &bytes[at..];
        Some(if negative { n.wrapping_neg() } else { n })
    }

    /// Fast path: an integer of 1 to 7 digits, after at most one blank.
    #[inline(always)]
    fn plain_int(&mut self) -> Option<u64> {
        let at = usize::from(self.0.first() == Some(&b' '));
        let word = u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?);
        let (digits, value) = leading_digits(word);
        if !(1..8).contains(&digits) || !blank((word >> (8 * digits)) as u8) {
            return None;
        }
        self.0 = &self.0[at + digits..];
        Some(value)
    }

    /// The integer of a slot with one value, with its count.
    #[inline(always)]
    fn only_int(&mut self) -> Option<u64> {
        let mut rest = Rest(self.0.strip_prefix(b" 1")?);
        let value = (rest.0.first() == Some(&b' ')).then(|| rest.plain_int())??;
        self.0 = rest.0;
        Some(value)
    }

    /// Fast path: one digit after at most one blank, as in most counts.
    #[inline]
    fn digit(&mut self) -> Option<u64> {
        let at = usize::from(self.0.first() == Some(&b' '));
        let &[c @ b'0'..=b'9', after, ..] = self.0.get(at..)? else { return None };
        if !blank(after) {
            return None;
        }
        self.0 = &self.0[at + 1..];
        Some(u64::from(c - b'0'))
    }

    /// Fast path: a decimal whose digits are below 2^24, with at most 8 of them before and after the point: one exact
    /// division.
    #[inline]
    fn plain_decimal(&mut self) -> Option<f32> {
        let mut at = usize::from(self.0.first() == Some(&b' '));
        let negative = self.0.get(at) == Some(&b'-');
        at += usize::from(negative);
        let word = |at: usize| Some(u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?));
        let (whole, mut n) = leading_digits(word(at)?);
        at += whole;
        let mut behind = 0;
        if self.0.get(at) == Some(&b'.') {
            let (digits, value) = leading_digits(word(at + 1)?);
            n = n * POWERS_OF_TEN[digits] + value;
            at += 1 + digits;
            behind = digits;
        }
        if whole + behind == 0 || n >= 1 << 24 || !blank(*self.0.get(at)?) {
            return None;
        }
        self.0 = &self.0[at..];
        let value = n as f32 / POWERS[behind];
        Some(if negative { -value } else { value })
    }

    #[inline]
    fn float(&mut self) -> Option<f32> {
        if let Some(value) = self.plain_decimal() {
            return Some(value);
        }
        let before = self.0;
        let token = self.token();
        let found = std::str::from_utf8(token).ok().and_then(|text| text.parse().ok());
        if found.is_none() {
            self.0 = before;
        }
        found
    }
}

// As floats and as integers.
const POWERS: [f32; 9] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];
const POWERS_OF_TEN: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The number of leading digits in eight bytes (first byte lowest), and their value.
#[inline]
fn leading_digits(word: u64) -> (usize, u64) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let x = word ^ (ONES * 0x30);
    // Sets the high bit of each byte that is not a digit; a carry reaches only bytes after the first of them.
    let others = (x.wrapping_add(ONES * 0x76) | x) & (ONES * 0x80);
    let digits = (others.trailing_zeros() / 8) as usize;
    if digits == 0 {
        return (0, 0);
    }
    // Shifts in leading zeros; then adds up pairs, fours and the eight.
    let x = x << (64 - 8 * digits);
    let x = (x.wrapping_mul(10).wrapping_add(x >> 8)) & 0x00ff_00ff_00ff_00ff;
    let x = (x.wrapping_mul(100).wrapping_add(x >> 16)) & 0x0000_ffff_0000_ffff;
    let x = (x.wrapping_mul(10000).wrapping_add(x >> 32)) & 0xffff_ffff;
    (digits, x)
}

/// What to do about an instance without values.
pub(crate) const PADDED: &str = "a data generator must pad what has none";

/// Whether a float counts as a zero, which `drop_zeros` leaves out.
pub(crate) fn is_zero(v: f32) -> bool {
    v.abs() < 1e-6
}

fn quoted(bytes: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).chars() {
        let _ = write!(text, "{}", c.escape_debug());
    }
    if bytes.len() > 40 {
        text.push_str("...");
    }
    text
}

/// Parses a line into the block. An invalid line may leave values in the block.
pub fn line(desc: &Desc, text: &[u8], block: &mut Block) -> Result<(), ParseError> {
    if text.len() + block.ints.len().max(block.floats.len()) >= MOST {
        return Err(format!("a line of {} bytes is too long", text.len()));
    }
    let mut rest = Rest(text);
    if desc.ids {
        block.ids.push(named(&mut rest, "id")?);
    }
    if desc.contents {
        block.contents.push(named(&mut rest, "content")?);
    }
    for (i, slot) in desc.slots.iter().enumerate() {
        values(desc, slot, &mut rest, block).map_err(|(what, at)| {
            let near = if at.is_empty() { "the line ends".to_string() } else { format!("near '{}'", quoted(at)) };
            format!("slot '{}' ({} of {}): {what} ({near})", slot.name, i + 1, desc.slots.len())
        })?;
    }
    // A line may have more slots than are declared: they are skipped if they are valid.
    rest.skip_blanks();
    while !rest.0.is_empty() {
        let behind = rest.0;
        let skipped = count(&mut rest).and_then(|n| (0..n).all(|_| !rest.token().is_empty()).then_some(()));
        if skipped.is_none() {
            return Err(format!("what follows the {} slots is none: '{}'", desc.slots.len(), quoted(behind)));
        }
        rest.skip_blanks();
    }
    block.end_instance();
    Ok(())
}

/// The number of values: positive, and within an int.
fn count(rest: &mut Rest) -> Option<u64> {
    rest.digit().or_else(|| rest.int()).filter(|&n| n > 0 && n <= i32::MAX as u64)
}

fn named(rest: &mut Rest, what: &str) -> Result<Box<str>, ParseError> {
    let before = rest.0;
    let one = rest.int();
    let text = rest.token();
    if one != Some(1) || text.is_empty() {
        return Err(format!("a line begins with its {what}, as '1 <{what}>', got '{}'", quoted(before)));
    }
    Ok(String::from_utf8_lossy(text).into())
}

fn values<'a>(desc: &Desc, slot: &Slot, rest: &mut Rest<'a>, block: &mut Block) -> Result<(), (String, &'a [u8])> {
    let whole = rest.0;
    if slot.used && !slot.float && slot.each <= 1 {
        match rest.only_int() {
            Some(value) if value != 0 || !desc.drop_zeros || slot.dense => {
                block.ints.push(value);
                block.counts.push(1);
                return Ok(());
            }
            _ => rest.0 = whole,
        }
    }
    rest.skip_blanks();
    let before = rest.0;
    let n = count(rest).ok_or_else(|| (format!("expected the number of values, 1 or more ({PADDED})"), before))?;
    let short = |got: u64, rest: &Rest<'a>, kind: &str| {
        let at = Rest(rest.0).token();
        match at.is_empty() {
            true => (format!("has {n} values, but there are only {got}"), at),
            false => (format!("value {} of {n} is no {kind}", got + 1), at),
        }
    };
    if !slot.used {
        for i in 0..n {
            if rest.token().is_empty() {
                return Err(short(i, rest, "value"));
            }
        }
        return Ok(());
    }
    let dropped = desc.drop_zeros && !slot.dense;
    let kept = if slot.float {
        let from = block.floats.len();
        for i in 0..n {
            let value = rest.float().ok_or_else(|| short(i, rest, "number"))?;
            if !(dropped && is_zero(value)) {
                block.floats.push(value);
            }
        }
        block.floats.len() - from
    } else {
        let from = block.ints.len();
        for i in 0..n {
            let value = rest.plain_int().or_else(|| rest.int()).ok_or_else(|| short(i, rest, "integer of 64 bits"))?;
            if !(dropped && value == 0) {
                block.ints.push(value);
            }
        }
        block.ints.len() - from
    };
    if slot.each > 1 && kept % slot.each != 0 {
        return Err((
            format!("its shape {:?} takes a multiple of {} values, got {kept}", slot.shape, slot.each),
            before,
        ));
    }
    block.counts.push(kept as u32);
    Ok(())
}
