//! What html5ever's tokenizer makes of a document, and what the scanner does, in the same words.

#![allow(dead_code, reason = "each of those who include it needs a part")]

pub(crate) mod tree;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::{Rawtext, Rcdata, ScriptData};
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use rhumb_markup::foreign::Foreign;
use rhumb_markup::scanner::{self, Dialect, Raw, Scanner, raw_text};
use std::cell::{Cell, RefCell};

/// A piece of a document that a crawler looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A start tag: name, attributes each once, whether it closes itself.
    Start(String, Vec<(String, String)>, bool),
    /// An end tag.
    End(String),
    /// The text of a `title` or `textarea`, references and all.
    Text(String),
}

/// By html5ever's tokenizer, which is told by the scanner's rules what holds raw text: the standard
/// leaves that to the tree.
pub(crate) fn tokenized(document: &str) -> Vec<Piece> {
    let tokenizer = Tokenizer::new(
        Sink::default(),
        TokenizerOpts {
            discard_bom: false,
            ..TokenizerOpts::default()
        },
    );
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(document));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.pieces.into_inner()
}

/// By the scanner.
pub(crate) fn scanned(document: &str) -> Vec<Piece> {
    let mut scanner = Scanner::new(document.as_bytes(), Dialect::Html);
    let mut pieces = Vec::new();
    let mut has_text = false;
    while let Some(token) = scanner.next() {
        if std::mem::take(&mut has_text) {
            let text = htmlize::unescape(clean(&document[scanner.text()])).into_owned();
            pieces.extend((!text.is_empty()).then_some(Piece::Text(text)));
        }
        match token {
            scanner::Token::Start(name) => {
                let mut attributes: Vec<(String, String)> = Vec::new();
                let is_foreign = scanner.is_foreign();
                let shown = scanner.attributes(|attribute| {
                    let name = clean(&String::from_utf8_lossy(attribute.name)).to_ascii_lowercase();
                    if attributes.iter().all(|(known, _)| *known != name) {
                        let value = htmlize::unescape_attribute(clean(&document[attribute.value]))
                            .into_owned();
                        attributes.push((name, value));
                    }
                });
                let Some(closes_itself) = shown else { break };
                has_text = !is_foreign && is_text(raw_text(name));
                pieces.push(Piece::Start(lower(name), attributes, closes_itself));
            }
            scanner::Token::End(name) => {
                if scanner.values([]).is_none() {
                    break;
                }
                pieces.push(Piece::End(lower(name)));
            }
            scanner::Token::Data(_) | scanner::Token::Other => {}
        }
    }
    pieces
}

/// Whether character references count in it.
fn is_text(raw: Option<Raw>) -> bool {
    matches!(raw, Some(Raw::Text("title" | "textarea")))
}

fn lower(name: &[u8]) -> String {
    clean(&String::from_utf8_lossy(name)).to_ascii_lowercase()
}

/// As the standard's input stream has it.
fn clean(text: &str) -> String {
    text.replace("\r\n", "\n")
        .replace('\r', "\n")
        .replace('\0', "\u{FFFD}")
}

#[derive(Default)]
struct Sink {
    pieces: RefCell<Vec<Piece>>,
    foreign: RefCell<Foreign>,
    in_text: Cell<bool>,
}

impl Sink {
    fn text(&self, text: &str) {
        if !self.in_text.get() {
            return;
        }
        let mut pieces = self.pieces.borrow_mut();
        match pieces.last_mut() {
            Some(Piece::Text(before)) => before.push_str(text),
            _ => pieces.push(Piece::Text(text.to_owned())),
        }
    }
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let tag = match token {
            Token::TagToken(tag) => tag,
            Token::CharacterTokens(text) => {
                self.text(&text);
                return TokenSinkResult::Continue;
            }
            Token::NullCharacterToken => {
                self.text("\u{FFFD}");
                return TokenSinkResult::Continue;
            }
            _ => return TokenSinkResult::Continue,
        };
        self.in_text.set(false);
        let name = tag.name.to_string();
        let mut foreign = self.foreign.borrow_mut();
        if tag.kind == TagKind::EndTag {
            foreign.end(name.as_bytes());
            self.pieces.borrow_mut().push(Piece::End(name));
            return TokenSinkResult::Continue;
        }
        let raw = if foreign.takes(name.as_bytes()) {
            None
        } else {
            raw_text(name.as_bytes())
        };
        self.in_text.set(is_text(raw));
        let attributes: Vec<(String, String)> = tag
            .attrs
            .into_iter()
            .map(|attribute| {
                (
                    attribute.name.local.to_string(),
                    attribute.value.to_string(),
                )
            })
            .collect();
        foreign.start(name.as_bytes(), tag.self_closing, |wanted| {
            attributes
                .iter()
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| value.as_bytes())
        });
        self.pieces
            .borrow_mut()
            .push(Piece::Start(name, attributes, tag.self_closing));
        match raw {
            None => TokenSinkResult::Continue,
            Some(Raw::Plain) => TokenSinkResult::Plaintext,
            Some(Raw::Script) => TokenSinkResult::RawData(ScriptData),
            Some(Raw::Text("title" | "textarea")) => TokenSinkResult::RawData(Rcdata),
            Some(Raw::Text(_)) => TokenSinkResult::RawData(Rawtext),
        }
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.foreign.borrow().has_data()
    }
}
