//! Goal: whatever the document, the scanner finds the tags, attributes and titles that html5ever's tokenizer finds; read as
//! XML it only has to end (P9).
//!
//! Input: a document, what is no UTF-8 in it replaced.

#![no_main]

#[path = "../../../stages/parser/tests/oracle/mod.rs"]
mod oracle;

use libfuzzer_sys::fuzz_target;
use parser::scanner::{Dialect, Scanner};

fuzz_target!(|data: &[u8]| {
    let document = String::from_utf8_lossy(data);
    assert_eq!(oracle::scanned(&document), oracle::tokenized(&document));
    for dialect in [Dialect::Html, Dialect::Xml] {
        let mut scanner = Scanner::new(data, dialect);
        let mut end = 0;
        while scanner.next().is_some() {
            let text = scanner.text();
            assert!(text.start >= end && text.end <= data.len(), "{text:?} after {end}");
            end = text.end;
        }
    }
});
