//! The parser and the pieces of files, as far as Python's tests do not reach them directly.

use super::block::Block;
use super::columns::{block, Column, Values};
use super::desc::{Desc, Slot};
use super::memory::Memory;
use super::parse;
use super::read::{Reading, Stop};
use std::sync::Arc;

fn desc(drop_zeros: bool) -> Desc {
    let slot = |name: &str, float, dense, shape| Slot::new(name.into(), float, dense, true, shape).unwrap();
    let slots = vec![slot("a", false, false, vec![]), slot("b", true, true, vec![-1, 2])];
    Desc::new(slots, 2, false, drop_zeros, false, false).unwrap()
}

fn parsed(text: &str) -> Result<(Vec<u64>, Vec<f32>, Vec<u32>), String> {
    let mut block = Block::default();
    parse::line(&desc(true), text.as_bytes(), &mut block)?;
    Ok((block.ints, block.floats, block.counts))
}

#[test]
fn numbers() {
    let (ints, floats, counts) = parsed("3 7 0 18446744073709551615 2 0 -1.5e-3\t").unwrap();
    assert_eq!((ints, counts), (vec![7, u64::MAX], vec![2, 2]));
    assert_eq!(floats, [0.0, -1.5e-3]);
    assert_eq!(parsed("1 -1 2 1 2").unwrap().0, [u64::MAX]);
    for text in ["0.1", "16777217", "3.4028235e38", "1e-45", ".5", "5.", "123456.789", "0.30000001192", "-0"] {
        let want: f32 = text.parse().unwrap();
        assert_eq!(parsed(&format!("1 1 2 {text} 1")).unwrap().1[0].to_bits(), want.to_bits(), "{text}");
    }
}

/// Word-wise parsing gives the bits of the standard library's parser, for all lengths.
#[test]
fn decimals_are_rounded_once() {
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for _ in 0..20000 {
        let mut digits = |n| (0..n).map(|_| char::from(b'0' + next(10) as u8)).collect::<String>();
        let (whole, behind) = (digits(10), digits(12));
        let (n, m) = (next(whole.len() as u64 + 1) as usize, next(13) as usize);
        let text = format!("{}{}.{}", if next(2) == 0 { "-" } else { "" }, &whole[..n], &behind[..m]);
        if n + m > 0 {
            let want: f32 = text.parse().unwrap();
            for after in [" 1", " 1         ", "\t1"] {
                let got = parsed(&format!("1 1 2 {text}{after}")).unwrap().1[0];
                assert_eq!(got.to_bits(), want.to_bits(), "{text}");
            }
        }
    }
}

#[test]
fn damage_is_named() {
    for (text, said) in [
        ("", "slot 'a' (1 of 2): expected the number of values"),
        ("0 2 1 1", "slot 'a' (1 of 2): expected the number"),
        ("2 1", "has 2 values, but there are only 1"),
        ("1 x 2 1 1", "value 1 of 1 is no integer"),
        ("1 99999999999999999999 2 1 1", "value 1 of 1 is no integer"),
        ("1 1 3 1 1 1", "a multiple of 2 values, got 3"),
        ("1 1 2 1 y", "value 2 of 2 is no number (near 'y')"),
        ("9000000000 1", "expected the number"),
        ("1 1 2 1 1 1", "what follows the 2 slots is none"),
        ("1 1 2 1 1 junk", "'junk'"),
    ] {
        let e = parsed(text).unwrap_err();
        assert!(e.contains(said), "{text}: {e}");
    }
    // Undeclared slots may follow.
    assert!(parsed("1 1 2 1 1 2 8 9 1 5").is_ok());
}

#[test]
fn pieces_have_every_line_once() {
    let path = std::env::temp_dir().join(format!("oar-data-{}", std::process::id()));
    let mut text = String::new();
    let mut n = 0;
    while text.len() < 9 << 20 {
        n += 1;
        text.push_str(&format!("2 {n} {} 2 0.5 1\n", n * 7));
    }
    text.pop(); // the last line has no newline
    std::fs::write(&path, &text).unwrap();
    let file = path.to_str().unwrap().to_string();
    let reading = Reading { files: vec![file.clone()], ..Default::default() };
    assert!(reading.pieces(0, true).unwrap().len() > 2);
    let memory = Memory::load(&desc(true), &reading, 3, &Arc::new(Stop::default())).unwrap();
    assert_eq!(memory.len(), n);
    for (i, instance) in memory.instances(&desc(true)).enumerate() {
        assert_eq!(instance.ints, [i as u64 + 1, (i as u64 + 1) * 7]);
    }
    std::fs::write(&path, text.replace(" 1400007 ", " 14x ")).unwrap();
    let e = Memory::load(&desc(true), &reading, 2, &Arc::new(Stop::default())).err().unwrap();
    assert!(e.to_string().contains(&format!("{file}:200001: slot 'a'")), "{e}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn columns_give_what_lines_give() {
    let (a, b) = ([7, 0, 3, 0, -1], [0.5_f32, 0.0, 1.0, 2.0, 3.0, 4.0]);
    let columns = [
        Column { offsets: Some(&[0, 2, 3, 5]), values: Values::Ints(&a) },
        Column { offsets: Some(&[0, 2, 4, 6]), values: Values::Floats(&b) },
    ];
    for zeros in [false, true] {
        let mut want = Block::default();
        for line in ["2 7 0 2 0.5 0", "1 3 2 1 2", "2 0 -1 2 3 4"] {
            parse::line(&desc(zeros), line.as_bytes(), &mut want).unwrap();
        }
        let got = block(&desc(zeros), &columns, 0).unwrap();
        assert_eq!((got.ints, got.floats, got.counts, got.ends), (want.ints, want.floats, want.counts, want.ends));
    }
    // The same number of values in every row, none of them zero; more rows than are copied at a time.
    let (a, b) = ((1..=200).collect::<Vec<i64>>(), (0..602).map(|v| v as f32 / 2.0 + 1.0).collect::<Vec<_>>());
    let offsets: Vec<i64> = (0..=150).map(|row| row * 4 + 2).collect();
    let (rows, even) = (150, Column { offsets: Some(&offsets), values: Values::Floats(&b) });
    let mut want = Block::default();
    for row in 0..rows {
        let b = &b[row * 4 + 2..row * 4 + 6];
        let line = format!("1 {} 4 {} {} {} {}", row + 1, b[0], b[1], b[2], b[3]);
        parse::line(&desc(true), line.as_bytes(), &mut want).unwrap();
    }
    want.shrink(2);
    let got = block(&desc(true), &[Column { offsets: None, values: Values::Ints(&a[..rows]) }, even], 0).unwrap();
    assert_eq!((got.ints, got.floats, got.counts, got.ends), (want.ints, want.floats, want.counts, want.ends));
    let refused = |a: &Column, b: &Column| block(&desc(false), &[*a, *b], 10).unwrap_err().to_string();
    let [ints, floats] = &columns;
    for (offsets, said) in [
        (&[0_i64, 2, 2, 5][..], "row 12: column 'a' has no value"),
        (&[0, 2, 3], "column 'b' has 3 rows, others 2"),
        (&[0, 2, 3, 6], "offsets of column 'a'"),
        (&[0, 3, 2, 5], "offsets of column 'a'"),
        (&[-1, 2, 3, 5], "offsets of column 'a'"),
    ] {
        let e = refused(&Column { offsets: Some(offsets), ..*ints }, floats);
        assert!(e.contains(said), "{e}");
    }
    let e = refused(ints, &Column { offsets: Some(&[0, 1, 4, 6]), ..*floats });
    assert!(e.contains("row 11: column 'b' of shape [-1, 2] takes a multiple of 2 values, got 1"), "{e}");
    assert!(refused(ints, ints).contains("column 'b' must hold float32"));
}

#[test]
fn messages_bring_what_was_dealt() {
    let d = desc(false);
    let mut block = Block::default();
    for i in 0..100 {
        parse::line(&d, format!("2 {i} 0 2 {i} 1").as_bytes(), &mut block).unwrap();
    }
    let memory = Memory::from_blocks(&d, vec![block]);
    let messages = memory.deal(&d, 3, false);
    let parts: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let back = Memory::take(&d, &parts).unwrap();
    let mut firsts: Vec<u64> = back.instances(&d).map(|i| i.ints[0]).collect();
    firsts.sort_unstable();
    assert_eq!(firsts, (0..100).collect::<Vec<_>>());
    assert!(Memory::take(&d, &[&messages[0][..messages[0].len() - 3]]).is_err());
}
