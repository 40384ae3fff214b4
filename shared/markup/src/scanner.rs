//! Scanner: splits markup into tags and the text between them, without building a tree.
//!
//! In: the bytes of a document in an encoding that contains ASCII. Out: its tags one by one, each
//! with the text before it; of a tag its attributes, if somebody asks. Nothing is copied, decoded
//! or allocated per tag.
//!
//! The states of the standard's tokenizer are there, but most are a search for the byte that ends
//! them. What decides where a tag begins and ends is kept exactly: quotes, the odd endings of
//! comments, raw text (`style`, `iframe` and the like), and scripts that write scripts. What only
//! makes a difference to a tree (errors, doctypes, what comments say) is skipped. `noscript` holds
//! markup, as for everybody who runs no scripts.
//!
//! Invariants: any bytes are accepted; every call of [`Scanner::next`] moves on or ends; the time
//! is linear in the document, the memory constant; tags, attributes and the text of titles are
//! those of html5ever's tokenizer (`stages/parser/tests/scanner.rs`). Source: HTML Living
//! Standard, section 13.2.5.

use std::ops::Range;

use memchr::{memchr, memchr2, memmem};

pub use self::tag::Attribute;
pub(crate) use self::tag::attributes;
use self::tag::{GREATER, SLASH, SPACE, is, until, value_of};
use crate::foreign::Foreign;

mod declaration;
mod tag;

/// A piece of markup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A start tag of this name, spelled as in the document. Holds only if [`Scanner::values`] says
    /// that the tag ends.
    Start(&'a [u8]),
    /// An end tag of this name. Holds only if [`Scanner::values`] says that the tag ends.
    End(&'a [u8]),
    /// A CDATA section with this content, in XML, SVG and MathML.
    Data(&'a [u8]),
    /// A comment, a doctype, an instruction; or the end of the text when no tag follows it.
    Other,
}

/// The rules that tell tags from text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// HTML.
    Html,
    /// HTML written as XML: as `Xml`, with names that are told apart by case.
    Xhtml,
    /// XML, as far as it can be read by the rules of HTML: no raw text, CDATA everywhere, comments,
    /// instructions and doctypes that hold `>`. More lenient than XML is.
    Xml,
}

impl Dialect {
    /// Returns whether it is written as XML.
    pub fn is_xml(self) -> bool {
        self != Dialect::Html
    }
}

/// A document being split.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    document: &'a [u8],
    dialect: Dialect,
    at: usize,
    text: Range<usize>,
    /// The tag that [`Scanner::next`] gave and whose end has not been reached.
    open: Option<Open<'a>>,
    /// What the document is up to the end tag of an element.
    raw: Option<Raw>,
    foreign: Foreign,
    /// An instruction or a doctype of XML does not end; the first leaves no `?>` to be searched for
    /// again.
    has_open_instruction: bool,
    has_open_doctype: bool,
    /// The doctype of XML was there; what looks like another ends at once.
    had_doctype: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open<'a> {
    name: &'a [u8],
    is_start: bool,
    /// Where its attributes begin.
    attributes: usize,
}

/// Text in which only one end tag counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// The content of `textarea`, `title` (with character references), `style`, `xmp`, `iframe`,
    /// `noembed`, `noframes`.
    Text(&'static str),
    /// The content of `script`, which may write scripts.
    Script,
    /// What follows `plaintext`: there is no end.
    Plain,
}

/// What kind of text an HTML element of this name has, if it has no markup.
pub fn raw_text(name: &[u8]) -> Option<Raw> {
    const NAMES: [&str; 7] = [
        "title", "style", "iframe", "textarea", "xmp", "noembed", "noframes",
    ];
    if !(3..=9).contains(&name.len()) {
        return None;
    }
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    match name[0].to_ascii_lowercase() {
        b's' if is("script") => Some(Raw::Script),
        b'p' => is("plaintext").then_some(Raw::Plain),
        b't' | b's' | b'i' | b'x' | b'n' => {
            NAMES.into_iter().find(|known| is(known)).map(Raw::Text)
        }
        _ => None,
    }
}

impl<'a> Scanner<'a> {
    /// At the beginning of a document.
    pub fn new(document: &'a [u8], dialect: Dialect) -> Self {
        Scanner {
            document,
            dialect,
            at: 0,
            text: 0..0,
            open: None,
            raw: None,
            foreign: Foreign::default(),
            has_open_instruction: false,
            has_open_doctype: false,
            had_doctype: false,
        }
    }

    /// Where the text lies that stands before the token given last, behind the one before that.
    pub fn text(&self) -> Range<usize> {
        self.text.clone()
    }

    /// Returns whether the start tag given last is one of SVG or MathML.
    pub fn is_foreign(&self) -> bool {
        match self.open {
            Some(Open { name, .. }) if self.dialect == Dialect::Html => self.foreign.takes(name),
            _ => self.foreign.is_inside(),
        }
    }

    /// Returns whether the document ends in an instruction or a doctype of XML, strictly taken.
    /// What was given since then is in it.
    pub fn has_open_declaration(&self) -> bool {
        self.has_open_instruction || self.has_open_doctype
    }

    /// Returns whether before the token given last character references count in every text, and
    /// CDATA sections.
    pub fn is_in_markup(&self) -> bool {
        self.dialect.is_xml() || self.foreign.has_data()
    }

    /// The next token; none at the end of the document.
    #[expect(
        clippy::should_implement_trait,
        reason = "between two tokens the scanner is asked for attributes"
    )]
    pub fn next(&mut self) -> Option<Token<'a>> {
        if self.open.is_some() {
            self.rest_of_tag()?;
        }
        let start = self.at;
        if start >= self.document.len() {
            return None;
        }
        let (token, text_end) = match self.raw.take() {
            None => self.markup(),
            Some(raw) => self.raw(raw),
        };
        self.text = start..text_end;
        Some(token)
    }

    /// Where the values of the tag's first attributes of these names (in lower case) lie; none when
    /// the document ends before the tag does, which is no tag then.
    pub fn values<const N: usize>(
        &mut self,
        names: [&str; N],
    ) -> Option<[Option<Range<usize>>; N]> {
        let mut values = [const { None }; N];
        let dialect = self.dialect;
        self.attributes(|attribute| attribute.note(names, &mut values, dialect))?;
        Some(values)
    }

    /// The same before the tag is read: its attributes may be asked for again.
    pub fn peek<const N: usize>(&self, names: [&str; N]) -> Option<[Option<Range<usize>>; N]> {
        self.open?;
        let mut values = [const { None }; N];
        attributes(self.document, self.at, |attribute| {
            attribute.note(names, &mut values, self.dialect)
        })?;
        Some(values)
    }

    /// Returns whether the tag closes itself; its attributes may be asked for afterwards.
    pub fn closes_itself(&self) -> bool {
        self.open.is_some()
            && attributes(self.document, self.at, |_| ())
                .is_some_and(|(_, closes_itself)| closes_itself)
    }

    /// Shows the attributes of the tag, all as written; tells whether it closes itself. None when
    /// the document ends before the tag does, which is no tag then.
    pub fn attributes(&mut self, show: impl FnMut(Attribute<'a>)) -> Option<bool> {
        let tag = self.open?;
        let Some((end, closes_itself)) = attributes(self.document, self.at, show) else {
            self.at = self.document.len();
            return None;
        };
        self.at = end;
        self.open = None;
        self.enter(tag, closes_itself);
        Some(closes_itself)
    }

    /// Skips what is left of the tag.
    fn rest_of_tag(&mut self) -> Option<()> {
        self.attributes(|_| ()).map(|_| ())
    }

    /// A tag has ended: what follows it may be no markup.
    fn enter(&mut self, tag: Open<'_>, closes_itself: bool) {
        let Open {
            name,
            is_start,
            attributes,
        } = tag;
        match (self.dialect, is_start) {
            // Nearly all tags of a page.
            (Dialect::Html, false) if self.foreign.is_outside() => {}
            (Dialect::Html, true) if self.foreign.is_outside() && !Foreign::begins_with(name) => {
                self.raw = raw_text(name);
            }
            (Dialect::Xml, _) => {}
            (Dialect::Xhtml, true) => self.foreign.start_in_xml(local(name), closes_itself),
            (Dialect::Xhtml, false) => self.foreign.end_in_xml(local(name)),
            (Dialect::Html, true) => {
                self.raw = if self.foreign.takes(name) {
                    None
                } else {
                    raw_text(name)
                };
                let document = self.document;
                self.foreign.start(name, closes_itself, |known| {
                    value_of(document, attributes, known)
                });
            }
            (Dialect::Html, false) => self.foreign.end(name),
        }
    }

    /// The next token of markup, and where the text before it ends.
    fn markup(&mut self) -> (Token<'a>, usize) {
        let mut from = self.at;
        while let Some(found) = memchr(b'<', &self.document[from..]) {
            let at = from + found;
            match self.document.get(at + 1) {
                Some(byte) if byte.is_ascii_alphabetic() => return (self.tag(at + 1, true), at),
                Some(b'/') => match self.document.get(at + 2) {
                    Some(byte) if byte.is_ascii_alphabetic() => {
                        return (self.tag(at + 2, false), at);
                    }
                    // `</>` is nothing.
                    Some(_) => return (self.skip_past(at + 2, b">"), at),
                    None => break,
                },
                Some(b'!') => return (self.declaration(at + 2), at),
                Some(b'?') => return (self.instruction(at + 2), at),
                Some(_) => from = at + 1,
                None => break,
            }
        }
        self.at = self.document.len();
        (Token::Other, self.at)
    }

    /// A tag whose name begins at `start`.
    fn tag(&mut self, start: usize, is_start: bool) -> Token<'a> {
        self.at = until(self.document, start + 1, SPACE | SLASH | GREATER);
        let name = &self.document[start..self.at];
        self.open = Some(Open {
            name,
            is_start,
            attributes: self.at,
        });
        if is_start {
            Token::Start(name)
        } else {
            Token::End(name)
        }
    }

    fn skip_past(&mut self, start: usize, ending: &[u8]) -> Token<'a> {
        let found = match ending {
            [byte] => memchr(*byte, &self.document[start..]),
            _ => memmem::find(&self.document[start..], ending),
        };
        self.at = found.map_or(self.document.len(), |skipped| {
            start + skipped + ending.len()
        });
        Token::Other
    }

    /// The end tag that ends raw text, and where the text ends.
    fn raw(&mut self, raw: Raw) -> (Token<'a>, usize) {
        let end = match raw {
            Raw::Text(name) => self.end_of_text(name),
            Raw::Script => self.end_of_script(),
            Raw::Plain => None,
        };
        match end {
            Some(end) => (self.tag(end + 2, false), end),
            None => {
                self.at = self.document.len();
                (Token::Other, self.at)
            }
        }
    }

    fn end_of_text(&self, name: &str) -> Option<usize> {
        let mut from = self.at;
        loop {
            let end = from + memmem::find(&self.document[from..], b"</")?;
            if self.has_word(end + 2, name) {
                return Some(end);
            }
            from = end + 2;
        }
    }

    /// In a script `<!--` begins a part in which `<script` begins one in which `</script>` ends
    /// only that; `-->` ends both.
    fn end_of_script(&self) -> Option<usize> {
        /// How deep.
        enum Part {
            Plain,
            Escaped,
            DoubleEscaped,
        }
        let mut part = Part::Plain;
        let mut from = self.at;
        // Where the dashes may begin that end the part: those of `<!-->` do.
        let mut dashes = from;
        loop {
            let found = match part {
                Part::Plain => memchr(b'<', &self.document[from..]),
                Part::Escaped | Part::DoubleEscaped => memchr2(b'<', b'>', &self.document[from..]),
            };
            let at = from + found?;
            from = at + 1;
            let rest = &self.document[at..];
            let is_end = rest.starts_with(b"</") && self.has_word(at + 2, "script");
            match part {
                Part::Escaped | Part::DoubleEscaped
                    if self.document[dashes..from].ends_with(b"-->") =>
                {
                    part = Part::Plain
                }
                Part::Plain | Part::Escaped if is_end => return Some(at),
                Part::DoubleEscaped if is_end => part = Part::Escaped,
                Part::Plain if rest.starts_with(b"<!--") => {
                    part = Part::Escaped;
                    dashes = at + 2;
                    from = at + 4;
                }
                Part::Escaped if rest[0] == b'<' && self.has_word(at + 1, "script") => {
                    part = Part::DoubleEscaped
                }
                _ => {}
            }
        }
    }

    /// Returns whether a tag's name at `start` is this.
    fn has_word(&self, start: usize, name: &str) -> bool {
        let rest = self.document.get(start..).unwrap_or_default();
        rest.len() > name.len()
            && rest[..name.len()].eq_ignore_ascii_case(name.as_bytes())
            && is(rest[name.len()], SPACE | SLASH | GREATER)
    }
}

/// A name without its prefix.
pub fn local(name: &[u8]) -> &[u8] {
    memchr(b':', name).map_or(name, |colon| &name[colon + 1..])
}

/// The prefix of a name; empty without one.
pub fn prefix(name: &[u8]) -> &[u8] {
    memchr(b':', name).map_or(&[], |colon| &name[..colon])
}
