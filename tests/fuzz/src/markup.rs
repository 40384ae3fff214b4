//! Goal: whatever the document, the scanner finds the tags, attributes and titles that html5ever's
//! tokenizer finds; read as XML it only has to end (P9). Of documents of certain pieces it finds
//! the links and the base that are in html5ever's tree.
//!
//! Input: a document, what is no UTF-8 in it replaced; and a piece for each of its first bytes.

#[path = "../../../stages/parser/tests/oracle/mod.rs"]
mod oracle;

use rhumb_markup::scanner::{Dialect, Scanner};

/// Pieces of which nothing has to be remembered that is too deep.
const PIECES_MAX: usize = 40;

/// Takes one input.
pub fn run(data: &[u8]) {
    let document = String::from_utf8_lossy(data);
    assert_eq!(oracle::scanned(&document), oracle::tokenized(&document));
    let pieces = oracle::tree::document(&data[..data.len().min(PIECES_MAX)]);
    if let Some(built) = oracle::tree::built(&pieces) {
        assert_eq!(oracle::tree::read(&pieces), built, "{pieces}");
    }
    for dialect in [Dialect::Html, Dialect::Xhtml, Dialect::Xml] {
        let mut scanner = Scanner::new(data, dialect);
        let mut end = 0;
        while scanner.next().is_some() {
            let text = scanner.text();
            assert!(
                text.start >= end && text.end <= data.len(),
                "{text:?} after {end}"
            );
            end = text.end;
        }
    }
}
