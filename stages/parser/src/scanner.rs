//! Scanner: splits markup into tags and the text between them, without building a tree.
//!
//! In: the bytes of a document in an encoding that contains ASCII. Out: its tags one by one, each with the text before
//! it; of a tag its attributes, if somebody asks. Nothing is copied, decoded or allocated per tag.
//!
//! The states of the standard's tokenizer are there, but most are a search for the byte that ends them. What decides
//! where a tag begins and ends is kept exactly: quotes, the odd endings of comments, raw text (`style`, `iframe` and
//! the like), and scripts that write scripts. What only makes a difference to a tree (errors, doctypes, what comments
//! say) is skipped. `noscript` holds markup, as for everybody who runs no scripts.
//!
//! Invariants: any bytes are accepted; every call of [`Scanner::next`] moves on or ends; the time is linear in the
//! document, the memory constant; tags, attributes and the text of titles are those of html5ever's tokenizer
//! (`tests/scanner.rs`, `examples/markup.rs`).
//! Source: HTML Living Standard, section 13.2.5.

use std::ops::Range;

use memchr::{memchr, memchr2, memmem};

use crate::foreign::Foreign;

/// White space between attributes; a carriage return counts as the line feed that it becomes.
const SPACE: u8 = 1;
const SLASH: u8 = 2;
const GREATER: u8 = 4;
const EQUALS: u8 = 8;

/// What each byte is inside of a tag.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    classes[b'\t' as usize] = SPACE;
    classes[b'\n' as usize] = SPACE;
    classes[0x0C] = SPACE;
    classes[b'\r' as usize] = SPACE;
    classes[b' ' as usize] = SPACE;
    classes[b'/' as usize] = SLASH;
    classes[b'>' as usize] = GREATER;
    classes[b'=' as usize] = EQUALS;
    classes
};

fn is(byte: u8, classes: u8) -> bool {
    CLASSES[usize::from(byte)] & classes != 0
}

/// A piece of markup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A start tag of this name, spelled as in the document. Holds only if [`Scanner::values`] says that the tag ends.
    Start(&'a [u8]),
    /// An end tag of this name. Holds only if [`Scanner::values`] says that the tag ends.
    End(&'a [u8]),
    /// A CDATA section with this content, in XML, SVG and MathML.
    Data(&'a [u8]),
    /// A comment, a doctype, an instruction; or the end of the text when no tag follows it.
    Other,
}

/// An attribute as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Where its value lies in the document, without quotes; empty when it has none.
    pub value: Range<usize>,
}

/// The rules that tell tags from text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// HTML.
    Html,
    /// The same, but that `<script/>` and the like are whole.
    Xhtml,
    /// XML, as far as it can be read by the rules of HTML: no raw text, CDATA everywhere. More lenient than XML is.
    Xml,
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
}

#[derive(Clone, Copy, Debug)]
struct Open<'a> {
    name: &'a [u8],
    is_start: bool,
}

/// Text in which only one end tag counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// The content of `textarea`, `title` (with character references), `style`, `xmp`, `iframe`, `noembed`, `noframes`.
    Text(&'static str),
    /// The content of `script`, which may write scripts.
    Script,
    /// What follows `plaintext`: there is no end.
    Plain,
}

/// What kind of text an HTML element of this name has, if it has no markup.
pub fn raw_text(name: &[u8]) -> Option<Raw> {
    const NAMES: [&str; 7] = ["title", "style", "iframe", "textarea", "xmp", "noembed", "noframes"];
    if !(3..=9).contains(&name.len()) {
        return None;
    }
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    match name[0].to_ascii_lowercase() {
        b's' if is("script") => Some(Raw::Script),
        b'p' => is("plaintext").then_some(Raw::Plain),
        b't' | b's' | b'i' | b'x' | b'n' => NAMES.into_iter().find(|known| is(known)).map(Raw::Text),
        _ => None,
    }
}

impl<'a> Scanner<'a> {
    /// At the beginning of a document.
    pub fn new(document: &'a [u8], dialect: Dialect) -> Self {
        Scanner { document, dialect, at: 0, text: 0..0, open: None, raw: None, foreign: Foreign::default() }
    }

    /// Where the text lies that stands before the token given last, behind the one before that.
    pub fn text(&self) -> Range<usize> {
        self.text.clone()
    }

    /// Says whether the token given last stands in SVG or MathML.
    pub fn is_foreign(&self) -> bool {
        self.foreign.is_inside()
    }

    /// The next token; none at the end of the document.
    #[expect(clippy::should_implement_trait, reason = "between two tokens the scanner is asked for attributes")]
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

    /// Where the values of the tag's first attributes of these names (in lower case) lie; none when the document ends
    /// before the tag does, which is no tag then.
    pub fn values<const N: usize>(&mut self, names: [&str; N]) -> Option<[Option<Range<usize>>; N]> {
        let mut values = [const { None }; N];
        self.attributes(|attribute| {
            for (value, name) in values.iter_mut().zip(names) {
                if value.is_none() && attribute.name.eq_ignore_ascii_case(name.as_bytes()) {
                    *value = Some(attribute.value.clone());
                }
            }
        })?;
        Some(values)
    }

    /// The same before the tag is read: its attributes may be asked for again.
    pub fn peek<const N: usize>(&self, names: [&str; N]) -> Option<[Option<Range<usize>>; N]> {
        self.clone().values(names)
    }

    /// Shows the attributes of the tag, all as written; tells whether it closes itself. None when the document ends
    /// before the tag does, which is no tag then.
    pub fn attributes(&mut self, mut show: impl FnMut(Attribute<'a>)) -> Option<bool> {
        let Open { name, is_start } = self.open?;
        loop {
            let before = self.at;
            self.at = self.past(before, SPACE | SLASH);
            let Some(&byte) = self.document.get(self.at) else { break };
            if byte == b'>' {
                let closes_itself = self.at > before && self.document[self.at - 1] == b'/';
                self.at += 1;
                self.open = None;
                self.enter(name, is_start, closes_itself);
                return Some(closes_itself);
            }
            let Some(attribute) = self.attribute() else { break };
            show(attribute);
        }
        self.at = self.document.len();
        None
    }

    /// An attribute, whose name may begin with `=`; none when the document ends in its value.
    fn attribute(&mut self) -> Option<Attribute<'a>> {
        let name_start = self.at;
        let name_end = self.until(name_start + 1, SPACE | SLASH | GREATER | EQUALS);
        let name = &self.document[name_start..name_end];
        let equals = self.past(name_end, SPACE);
        if self.document.get(equals) != Some(&b'=') {
            self.at = equals;
            return Some(Attribute { name, value: name_end..name_end });
        }
        let start = self.past(equals + 1, SPACE);
        match self.document.get(start) {
            None => None,
            Some(&quote @ (b'"' | b'\'')) => {
                let value = start + 1..start + 1 + memchr(quote, &self.document[start + 1..])?;
                self.at = value.end + 1;
                Some(Attribute { name, value })
            }
            Some(_) => {
                self.at = self.until(start, SPACE | GREATER);
                Some(Attribute { name, value: start..self.at })
            }
        }
    }

    /// Where from `start` on the first byte of one of these classes is.
    fn until(&self, start: usize, classes: u8) -> usize {
        let rest = self.document.get(start..).unwrap_or_default();
        let found = rest.iter().position(|&byte| is(byte, classes));
        found.map_or(self.document.len(), |skipped| start + skipped)
    }

    /// Where from `start` on the first byte of none of these classes is.
    fn past(&self, start: usize, classes: u8) -> usize {
        let rest = self.document.get(start..).unwrap_or_default();
        let found = rest.iter().position(|&byte| !is(byte, classes));
        found.map_or(self.document.len(), |skipped| start + skipped)
    }

    /// Skips what is left of the tag.
    fn rest_of_tag(&mut self) -> Option<()> {
        self.attributes(|_| ()).map(|_| ())
    }

    /// A tag has ended: what follows it may be no markup.
    fn enter(&mut self, name: &[u8], is_start: bool, closes_itself: bool) {
        if self.dialect == Dialect::Xml {
            return;
        }
        if !is_start {
            self.foreign.end(name);
            return;
        }
        let is_whole = closes_itself && self.dialect == Dialect::Xhtml;
        if !self.foreign.is_inside() && !is_whole {
            self.raw = raw_text(name);
        }
        self.foreign.start(name, closes_itself);
    }

    /// The next token of markup, and where the text before it ends.
    fn markup(&mut self) -> (Token<'a>, usize) {
        let mut from = self.at;
        while let Some(found) = memchr(b'<', &self.document[from..]) {
            let at = from + found;
            match self.document.get(at + 1) {
                Some(byte) if byte.is_ascii_alphabetic() => return (self.tag(at + 1, true), at),
                Some(b'/') => match self.document.get(at + 2) {
                    Some(byte) if byte.is_ascii_alphabetic() => return (self.tag(at + 2, false), at),
                    // `</>` is nothing.
                    Some(_) => return (self.skip_past(at + 2, b">"), at),
                    None => break,
                },
                Some(b'!') => return (self.declaration(at + 2), at),
                Some(b'?') => return (self.skip_past(at + 2, b">"), at),
                Some(_) => from = at + 1,
                None => break,
            }
        }
        self.at = self.document.len();
        (Token::Other, self.at)
    }

    /// A tag whose name begins at `start`.
    fn tag(&mut self, start: usize, is_start: bool) -> Token<'a> {
        self.at = self.until(start + 1, SPACE | SLASH | GREATER);
        let name = &self.document[start..self.at];
        self.open = Some(Open { name, is_start });
        if is_start { Token::Start(name) } else { Token::End(name) }
    }

    fn skip_past(&mut self, start: usize, ending: &[u8]) -> Token<'a> {
        let found = match ending {
            [byte] => memchr(*byte, &self.document[start..]),
            _ => memmem::find(&self.document[start..], ending),
        };
        self.at = found.map_or(self.document.len(), |skipped| start + skipped + ending.len());
        Token::Other
    }

    /// What `<!` begins, from behind it.
    fn declaration(&mut self, start: usize) -> Token<'a> {
        const DATA: &[u8] = b"[CDATA[";
        let rest = &self.document[start..];
        if rest.starts_with(b"--") {
            return self.comment(start + 2);
        }
        if rest.starts_with(DATA) && (self.dialect == Dialect::Xml || self.foreign.is_inside()) {
            let start = start + DATA.len();
            let found = memmem::find(&self.document[start..], b"]]>");
            let end = found.map_or(self.document.len(), |skipped| start + skipped);
            self.at = (end + 3).min(self.document.len());
            return Token::Data(&self.document[start..end]);
        }
        // A doctype, too, ends at the first `>`, even in quotes; only XML may declare entities in it.
        match (self.dialect, memchr2(b'>', b'[', rest)) {
            (Dialect::Xml, Some(at)) if rest[at] == b'[' => self.internal_subset(start + at),
            _ => self.skip_past(start, b">"),
        }
    }

    /// The declarations in a doctype of XML, from their `[` on: they end with `]` and, perhaps behind white space, `>`.
    fn internal_subset(&mut self, start: usize) -> Token<'a> {
        let mut from = start;
        while let Some(found) = memchr(b']', &self.document[from..]) {
            from += found + 1;
            let end = self.past(from, SPACE);
            if self.document.get(end) == Some(&b'>') {
                self.at = end + 1;
                return Token::Other;
            }
            from = end;
        }
        self.at = self.document.len();
        Token::Other
    }

    /// A comment, from behind `<!--`; it ends with `-->` or `--!>`, or at once with `>` or `->`.
    fn comment(&mut self, start: usize) -> Token<'a> {
        let mut from = start;
        while let Some(found) = memchr(b'>', &self.document[from..]) {
            let end = from + found;
            from = end + 1;
            let content = &self.document[start..end];
            if matches!(content, [] | [b'-']) || content.ends_with(b"--") || content.ends_with(b"--!") {
                self.at = from;
                return Token::Other;
            }
        }
        self.at = self.document.len();
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

    /// In a script `<!--` begins a part in which `<script` begins one in which `</script>` ends only that; `-->` ends
    /// both.
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
                Part::Escaped | Part::DoubleEscaped if self.document[dashes..from].ends_with(b"-->") => {
                    part = Part::Plain
                }
                Part::Plain | Part::Escaped if is_end => return Some(at),
                Part::DoubleEscaped if is_end => part = Part::Escaped,
                Part::Plain if rest.starts_with(b"<!--") => {
                    part = Part::Escaped;
                    dashes = at + 2;
                    from = at + 4;
                }
                Part::Escaped if rest[0] == b'<' && self.has_word(at + 1, "script") => part = Part::DoubleEscaped,
                _ => {}
            }
        }
    }

    /// Says whether a tag's name at `start` is this.
    fn has_word(&self, start: usize, name: &str) -> bool {
        let rest = self.document.get(start..).unwrap_or_default();
        rest.len() > name.len()
            && rest[..name.len()].eq_ignore_ascii_case(name.as_bytes())
            && is(rest[name.len()], SPACE | SLASH | GREATER)
    }
}
