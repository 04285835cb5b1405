//! Arbitrary bytes into every parser of socket data: no panic, and no frame whose encoding was not in the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oar_net::frame::{Parser, Writer};
use oar_net::store::{decode_reply, decode_request};

fuzz_target!(|data: &[u8]| {
    let mut parser = Parser::new(1 << 16);
    // The first byte is the size of the pieces in which the rest arrives.
    let step = data.first().map_or(1, |b| usize::from(*b).max(1));
    let bytes = data.get(1..).unwrap_or_default();
    let mut writer = Writer::default();
    let mut again = Vec::new();
    'all: for piece in bytes.chunks(step) {
        parser.feed(piece);
        loop {
            match parser.next() {
                Ok(Some(f)) => writer.encode(f.kind, &f.payload, &mut again),
                Ok(None) => break,
                Err(_) => break 'all,
            }
        }
    }
    assert_eq!(again, bytes[..again.len()]);
    let _ = decode_request(bytes);
    let _ = decode_reply(bytes);
});
