//! Feeds: the links of XML documents made of nothing else: sitemaps and their indexes, RSS and
//! Atom.
//!
//! In: a document, decoded. Out: its links as written, with what they refer to, and the dates of
//! its entries; its title and its language. What it is its root element says, whatever the server
//! calls it.
//!
//! Read by the scanner, not by an XML parser: sitemaps that are cut, or feeds with a stray `&` or
//! an element left open, keep what can be read. An element whose text counts ends with the next tag
//! that is no markup of text: an end tag is forgotten more often than an element is put where it
//! cannot be. What the document ends in is not taken: half a URL is another. No entity is expanded
//! but those of HTML, so nothing grows. Invariant: any text is accepted; memory is bounded by the
//! longest element. Sources: sitemaps.org protocol 0.9; RSS 0.91, 1.0 and 2.0; RFC 4287.

use std::borrow::Cow;
use std::ops::Range;

use encoding_rs::UTF_8;
use url::Url;

use self::bases::Bases;
use crate::links::source_of_link;
use crate::options::Options;
use crate::references::{Syntax, text};
use crate::source::Source;
use rhumb_markup::scanner::{Dialect, Scanner, Token, local, prefix};

mod bases;

/// What kind of document it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `urlset`.
    Sitemap,
    /// `sitemapindex`.
    Index,
    /// `rss`, `rdf:RDF`.
    Rss,
    /// `feed`.
    Atom,
}

impl Kind {
    /// Returns whether it is a sitemap, or an index of them.
    pub fn is_sitemap(self) -> bool {
        matches!(self, Kind::Sitemap | Kind::Index)
    }
}

/// What the beginning of a document says of its root element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// That of a sitemap or a feed.
    Of(Kind),
    /// Another, or none.
    Other,
    /// Nothing yet: what may stand before it goes on.
    Beyond,
}

/// What the root element is of a document that begins like this, or is this. Before it there may be
/// comments, instructions and a doctype of any length (XML 1.0, section 2.8).
pub fn root(head: &[u8], is_whole: bool) -> Root {
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    if head
        .trim_ascii_start()
        .first()
        .is_some_and(|byte| *byte != b'<')
    {
        return Root::Other;
    }
    let mut scanner = Scanner::new(head, Dialect::Xml);
    while let Some(token) = scanner.next() {
        let text = head[scanner.text()].trim_ascii();
        if scanner.has_open_declaration() && !is_whole {
            return Root::Beyond;
        }
        match token {
            // A tag of which there is the beginning.
            Token::Other if scanner.text().end == head.len() && matches!(text, b"<" | b"</") => {
                return Root::Beyond;
            }
            _ if !text.is_empty() => return Root::Other,
            Token::Other => {}
            Token::Start(name) if scanner.text().end + 1 + name.len() == head.len() => {
                return Root::Beyond;
            }
            Token::Start(name) => return kind_of_root(local(name)).map_or(Root::Other, Root::Of),
            Token::End(_) | Token::Data(_) => return Root::Other,
        }
    }
    Root::Beyond
}

fn kind_of_root(name: &[u8]) -> Option<Kind> {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    if is("urlset") {
        Some(Kind::Sitemap)
    } else if is("sitemapindex") {
        Some(Kind::Index)
    } else if is("rss") || is("rdf") {
        Some(Kind::Rss)
    } else {
        is("feed").then_some(Kind::Atom)
    }
}

/// What a feed says of itself, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Its first title; empty without one.
    pub title: String,
    /// Its language; empty without one.
    pub language: String,
}

/// What a document says, one after the other.
#[derive(Clone, Copy, Debug)]
pub enum Said<'a> {
    /// An entry begins, or ends: what was said of the one before is all.
    Entry,
    /// A link.
    Link {
        /// Where it stands.
        source: Source,
        /// As written.
        href: &'a str,
        /// What it refers to if it is relative.
        base: &'a Url,
        /// It leads to the page that the entry is about.
        is_page: bool,
    },
    /// When the page of the entry changed, as written.
    Date(&'a str),
}

/// A text that counts.
enum Text {
    Link { href: String, is_page: bool },
    Date(String),
}

impl Text {
    fn said<'a>(&'a self, source: Source, base: &'a Url) -> Said<'a> {
        match self {
            Text::Date(date) => Said::Date(date),
            Text::Link { href, is_page } => Said::Link {
                source,
                href,
                base,
                is_page: *is_page,
            },
        }
    }
}

/// Shows what a document of this kind, which has this URL, says, until `show` wants no more. Dates
/// are shown where they are wanted.
pub fn said(
    document: &str,
    kind: Kind,
    url: &Url,
    options: &Options,
    mut show: impl FnMut(Said<'_>) -> bool,
) -> About {
    let scanner = Scanner::new(document.as_bytes(), Dialect::Xml);
    let about = About::default();
    let mut reader = Reader {
        document,
        kind,
        options,
        scanner,
        about,
        root: None,
        is_in_entry: false,
        field: None,
    };
    let mut bases = Bases::new(url);
    let source = reader.source();
    while let Some(token) = reader.scanner.next() {
        if reader
            .text(token)
            .is_some_and(|text| !show(text.said(source, bases.here())))
        {
            break;
        }
        match token {
            Token::Start(name) => {
                let Some(base) = reader.base() else { break };
                bases.start(name, base);
                let is_whole = bases.are_said() && reader.scanner.closes_itself();
                if reader.is_entry(name) {
                    reader.is_in_entry = true;
                    show(Said::Entry);
                }
                if reader
                    .start(name)
                    .is_some_and(|text| !show(text.said(source, bases.here())))
                {
                    break;
                }
                if is_whole {
                    bases.end(name);
                }
            }
            Token::End(name) => {
                if reader.is_entry(name) {
                    reader.is_in_entry = false;
                    show(Said::Entry);
                }
                bases.end(name);
            }
            Token::Data(_) | Token::Other => {}
        }
    }
    show(Said::Entry);
    reader.about
}

struct Reader<'a> {
    document: &'a str,
    kind: Kind,
    options: &'a Options,
    scanner: Scanner<'a>,
    about: About,
    /// Prefix of the root's name.
    root: Option<&'a [u8]>,
    /// It reads an entry: what a sitemap or feed has many of.
    is_in_entry: bool,
    /// The element being read whose text counts, and what was read of it.
    field: Option<(Field, String)>,
}

/// What the text of an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Link,
    /// The link of the page that an entry is about.
    Page,
    /// The same if it is a link: an identifier may be anything.
    Identifier,
    Date,
    Title,
    Language,
}

/// Elements of HTML that mark up text: `<loc>` or `<title>` goes on behind them.
const MARKUP: [&str; 26] = [
    "a", "abbr", "b", "big", "br", "cite", "code", "div", "em", "font", "i", "img", "nobr", "p",
    "pre", "q", "s", "small", "span", "strong", "sub", "sup", "tt", "u", "var", "wbr",
];

impl<'a> Reader<'a> {
    /// Reads the text before a token, and a CDATA section; gives the one that ends there.
    fn text(&mut self, token: Token<'a>) -> Option<Text> {
        let (_, read) = self.field.as_mut()?;
        read.push_str(&text(
            &self.document.as_bytes()[self.scanner.text()],
            UTF_8,
            Syntax::Xml,
        ));
        match token {
            Token::Other => None,
            Token::Data(data) => {
                read.push_str(&String::from_utf8_lossy(data));
                None
            }
            Token::Start(name) | Token::End(name) if is_markup(local(name)) => None,
            Token::Start(_) | Token::End(_) => self.end_of_field(),
        }
    }

    fn end_of_field(&mut self) -> Option<Text> {
        let (field, read) = self.field.take()?;
        let read = read.trim();
        let is_link = match field {
            Field::Link | Field::Page => !read.is_empty(),
            Field::Identifier => read.starts_with("http://") || read.starts_with("https://"),
            Field::Title => {
                self.about.title = read.to_owned();
                false
            }
            Field::Language => {
                self.about.language = read.to_owned();
                false
            }
            Field::Date => return Some(Text::Date(read.to_owned())),
        };
        let is_page = field != Field::Link && self.is_in_entry;
        is_link.then(|| self.link(read.to_owned(), is_page))
    }

    fn link(&self, href: String, is_page: bool) -> Text {
        Text::Link { href, is_page }
    }

    /// Returns whether an element of this name is an entry.
    fn is_entry(&self, name: &[u8]) -> bool {
        let entry = match self.kind {
            Kind::Sitemap => "url",
            Kind::Index => "sitemap",
            Kind::Rss => "item",
            Kind::Atom => "entry",
        };
        local(name).eq_ignore_ascii_case(entry.as_bytes())
    }

    /// What a start tag says its base is; none when the tag is not whole.
    fn base(&self) -> Option<Option<String>> {
        let [base] = self.scanner.peek(["xml:base"])?;
        Some(base.map(|base| self.value(base).into_owned()))
    }

    /// A start tag; gives the link that it is.
    fn start(&mut self, name: &'a [u8]) -> Option<Text> {
        if self.root.is_none() {
            self.root = Some(prefix(name));
            let [language] = self.values(["xml:lang"])?;
            self.about.language = language.unwrap_or_default().into_owned();
            return None;
        }
        match self.kind {
            Kind::Sitemap | Kind::Index => self.in_sitemap(name),
            Kind::Rss | Kind::Atom => self.in_feed(name),
        }
    }

    fn source(&self) -> Source {
        match self.kind {
            Kind::Sitemap | Kind::Index => Source::Sitemap,
            Kind::Rss | Kind::Atom => Source::Feed,
        }
    }

    fn in_sitemap(&mut self, name: &'a [u8]) -> Option<Text> {
        let is_of_root = Some(prefix(name)) == self.root;
        match local(name).to_ascii_lowercase().as_slice() {
            // An index may name its sitemaps without further ado.
            b"loc" | b"sitemap" if is_of_root => self.read(Field::Page),
            b"lastmod" if is_of_root => self.date(),
            // Links to images and videos.
            b"loc" | b"content_loc" | b"player_loc" | b"thumbnail_loc" if self.options.embedded => {
                self.read(Field::Link)
            }
            // The page in other languages, for instance, which changes by itself.
            b"link" => self.typed_link(false),
            _ => None,
        }
    }

    fn in_feed(&mut self, name: &'a [u8]) -> Option<Text> {
        let has_prefix = !prefix(name).is_empty();
        match local(name).to_ascii_lowercase().as_slice() {
            b"link" if self.kind == Kind::Rss && !has_prefix => self.read(Field::Page),
            b"link" => self.typed_link(self.kind == Kind::Atom),
            b"updated" | b"published" | b"modified" | b"pubdate" | b"date" => self.date(),
            b"comments" if !has_prefix => self.read(Field::Link),
            b"guid" => {
                let [is_permalink] = self.values(["ispermalink"])?;
                let is_link = is_permalink.is_none_or(|said| !said.eq_ignore_ascii_case("false"));
                if is_link {
                    self.read(Field::Identifier)
                } else {
                    None
                }
            }
            b"title" if !has_prefix && self.about.title.is_empty() => self.read(Field::Title),
            b"language" if self.about.language.is_empty() => self.read(Field::Language),
            b"enclosure" | b"content" | b"thumbnail" if self.options.embedded => {
                let [url, src] = self.values(["url", "src"])?;
                Some(self.link(url.or(src)?.into_owned(), false))
            }
            // An entry whose content is elsewhere.
            b"content" if self.kind == Kind::Atom => {
                let [src] = self.values(["src"])?;
                Some(self.link(src?.into_owned(), false))
            }
            _ => None,
        }
    }

    /// `atom:link`, `xhtml:link`. `leads_to_page`: an alternate is the page of the entry.
    fn typed_link(&mut self, leads_to_page: bool) -> Option<Text> {
        let [href, rel] = self.values(["href", "rel"])?;
        let href = href?.into_owned();
        let rel = rel.unwrap_or(Cow::Borrowed("alternate"));
        let is_wanted = match &*rel {
            "enclosure" => self.options.embedded,
            rel => source_of_link(rel.as_bytes(), self.options).is_some(),
        };
        let is_page = leads_to_page && self.is_in_entry && rel == "alternate";
        is_wanted.then(|| self.link(href, is_page))
    }

    /// When the page of an entry changed.
    fn date(&mut self) -> Option<Text> {
        match self.options.news.is_some() && self.is_in_entry {
            true => self.read(Field::Date),
            false => None,
        }
    }

    /// Begins to read the text of an element, up to the next tag.
    fn read(&mut self, field: Field) -> Option<Text> {
        self.field = Some((field, String::new()));
        None
    }

    fn values<const N: usize>(&mut self, names: [&str; N]) -> Option<[Option<Cow<'a, str>>; N]> {
        Some(
            self.scanner
                .values(names)?
                .map(|value| value.map(|value| self.value(value))),
        )
    }

    fn value(&self, at: Range<usize>) -> Cow<'a, str> {
        text(&self.document.as_bytes()[at], UTF_8, Syntax::Xml)
    }
}

fn is_markup(name: &[u8]) -> bool {
    MARKUP
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// The URLs of a plain-text sitemap: one a line, absolute.
pub fn lines(document: &str) -> impl Iterator<Item = &str> {
    document
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|line| is_absolute(line))
}

/// Returns whether it begins like a URL of the web: schemes are of any case (RFC 3986, section
/// 3.1).
fn is_absolute(line: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        line.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}
