//! Feeds: the links of XML documents made of nothing else: sitemaps and their indexes, RSS and Atom.
//!
//! In: a document, decoded. Out: its links as written, its title and its language. What it is its root element says,
//! whatever the server calls it.
//!
//! Read by the scanner, not by an XML parser: sitemaps that are cut, or feeds with a stray `&` or an element left open,
//! keep what can be read. No entity is expanded but those of HTML, so nothing grows.
//! Invariant: any text is accepted; memory is bounded by the longest element.
//! Sources: sitemaps.org protocol 0.9; RSS 0.91, 1.0 and 2.0; RFC 4287.

use std::borrow::Cow;

use encoding_rs::UTF_8;
use shared::url::URL_BYTES_MAX;

use crate::links::{source_of_link, text};
use crate::options::Options;
use crate::scanner::{Dialect, Scanner, Token};
use crate::source::Source;

/// What kind of document it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `urlset`, `sitemapindex`.
    Sitemap,
    /// `rss`, `rdf:RDF`.
    Rss,
    /// `feed`.
    Atom,
}

/// Bytes of a document in which its root element must begin.
pub const HEAD_BYTES: usize = 4096;

/// What a document is whose first [`HEAD_BYTES`] (or all) are these; none when it is nothing of the kind.
pub fn kind(head: &[u8]) -> Option<Kind> {
    let head = &head[..head.len().min(HEAD_BYTES)];
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    if head.trim_ascii_start().first() != Some(&b'<') {
        return None;
    }
    let mut scanner = Scanner::new(head, Dialect::Xml);
    while let Some(token) = scanner.next() {
        if !head[scanner.text()].trim_ascii().is_empty() {
            return None;
        }
        match token {
            Token::Other => {}
            Token::Start(name) => return kind_of_root(local(name)),
            Token::End(_) | Token::Data(_) => return None,
        }
    }
    None
}

fn kind_of_root(name: &[u8]) -> Option<Kind> {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    if is("urlset") || is("sitemapindex") {
        Some(Kind::Sitemap)
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

/// Shows the links of a document of this kind, relative ones with what they refer to if that is not the document
/// itself, until `show` wants no more.
pub fn links(
    document: &str,
    kind: Kind,
    options: &Options,
    mut show: impl FnMut(Source, &str, Option<&str>) -> bool,
) -> About {
    let scanner = Scanner::new(document.as_bytes(), Dialect::Xml);
    let mut reader =
        Reader { document, kind, options, scanner, about: About::default(), base: None, root: None, field: None };
    while let Some(token) = reader.scanner.next() {
        if let Some((source, link)) = reader.token(token)
            && !show(source, &link, reader.base.as_deref())
        {
            break;
        }
    }
    reader.about
}

struct Reader<'a> {
    document: &'a str,
    kind: Kind,
    options: &'a Options,
    scanner: Scanner<'a>,
    about: About,
    /// `xml:base` of the root.
    base: Option<String>,
    /// Prefix of the root's name.
    root: Option<&'a [u8]>,
    /// The element being read whose text counts, and what was read of it.
    field: Option<(Field, String)>,
}

/// What the text of an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Link,
    /// A link if it is one: an identifier may be anything.
    Identifier,
    Title,
    Language,
}

impl<'a> Reader<'a> {
    /// Reads a token and the text before it; gives the link that ends there.
    fn token(&mut self, token: Token<'a>) -> Option<(Source, String)> {
        if let Some((_, read)) = &mut self.field {
            read.push_str(&text(&self.document.as_bytes()[self.scanner.text()], UTF_8, false));
        }
        match token {
            Token::Other => None,
            Token::Data(data) => {
                if let Some((_, read)) = &mut self.field {
                    read.push_str(&String::from_utf8_lossy(data));
                }
                None
            }
            Token::End(_) => self.end(),
            Token::Start(name) => {
                self.field = None;
                if self.root.is_none() {
                    self.root(name)?;
                    return None;
                }
                match self.kind {
                    Kind::Sitemap => self.in_sitemap(name),
                    Kind::Rss | Kind::Atom => self.in_feed(name),
                }
            }
        }
    }

    fn end(&mut self) -> Option<(Source, String)> {
        let (field, read) = self.field.take()?;
        let read = read.trim();
        let is_link = match field {
            Field::Link => !read.is_empty(),
            Field::Identifier => read.starts_with("http://") || read.starts_with("https://"),
            Field::Title => {
                self.about.title = read.to_owned();
                false
            }
            Field::Language => {
                self.about.language = read.to_owned();
                false
            }
        };
        is_link.then(|| (self.source(), read.to_owned()))
    }

    fn source(&self) -> Source {
        match self.kind {
            Kind::Sitemap => Source::Sitemap,
            Kind::Rss | Kind::Atom => Source::Feed,
        }
    }

    fn root(&mut self, name: &'a [u8]) -> Option<()> {
        let [base, language] = self.values(["xml:base", "xml:lang"])?;
        // A longer one makes no URL that could be crawled, and would be read anew for each link.
        self.base = base.filter(|base| base.len() <= URL_BYTES_MAX).map(Cow::into_owned);
        self.about.language = language.unwrap_or_default().into_owned();
        self.root = Some(prefix(name));
        Some(())
    }

    fn in_sitemap(&mut self, name: &'a [u8]) -> Option<(Source, String)> {
        let is_of_root = Some(prefix(name)) == self.root;
        match local(name).to_ascii_lowercase().as_slice() {
            // An index may name its sitemaps without further ado.
            b"loc" | b"sitemap" if is_of_root => self.read(Field::Link),
            // Links to images and videos.
            b"loc" | b"content_loc" | b"player_loc" | b"thumbnail_loc" if self.options.embedded => {
                self.read(Field::Link)
            }
            b"link" => self.typed_link(),
            _ => None,
        }
    }

    fn in_feed(&mut self, name: &'a [u8]) -> Option<(Source, String)> {
        let has_prefix = !prefix(name).is_empty();
        match local(name).to_ascii_lowercase().as_slice() {
            b"link" if self.kind == Kind::Rss && !has_prefix => self.read(Field::Link),
            b"link" => self.typed_link(),
            b"comments" if !has_prefix => self.read(Field::Link),
            b"guid" => {
                let [is_permalink] = self.values(["ispermalink"])?;
                let is_link = is_permalink.is_none_or(|said| !said.eq_ignore_ascii_case("false"));
                if is_link { self.read(Field::Identifier) } else { None }
            }
            b"title" if !has_prefix && self.about.title.is_empty() => self.read(Field::Title),
            b"language" if self.about.language.is_empty() => self.read(Field::Language),
            b"enclosure" | b"content" | b"thumbnail" if self.options.embedded => {
                let [url, src] = self.values(["url", "src"])?;
                Some((self.source(), url.or(src)?.into_owned()))
            }
            // An entry whose content is elsewhere.
            b"content" if self.kind == Kind::Atom => {
                let [src] = self.values(["src"])?;
                Some((self.source(), src?.into_owned()))
            }
            _ => None,
        }
    }

    /// `atom:link`, `xhtml:link`.
    fn typed_link(&mut self) -> Option<(Source, String)> {
        let [href, rel] = self.values(["href", "rel"])?;
        let (href, rel) = (href?.into_owned(), rel.unwrap_or(Cow::Borrowed("alternate")));
        let is_wanted = match &*rel {
            "enclosure" => self.options.embedded,
            rel => source_of_link(rel.as_bytes(), self.options).is_some(),
        };
        is_wanted.then(|| (self.source(), href))
    }

    /// Begins to read the text of an element, up to the next tag.
    fn read(&mut self, field: Field) -> Option<(Source, String)> {
        self.field = Some((field, String::new()));
        None
    }

    fn values<const N: usize>(&mut self, names: [&str; N]) -> Option<[Option<Cow<'a, str>>; N]> {
        let document = self.document.as_bytes();
        Some(self.scanner.values(names)?.map(|value| value.map(|value| text(&document[value], UTF_8, true))))
    }
}

fn local(name: &[u8]) -> &[u8] {
    memchr::memchr(b':', name).map_or(name, |colon| &name[colon + 1..])
}

fn prefix(name: &[u8]) -> &[u8] {
    memchr::memchr(b':', name).map_or(&[], |colon| &name[..colon])
}

/// The URLs of a plain-text sitemap: one a line, absolute.
pub fn lines(document: &str) -> impl Iterator<Item = &str> {
    let lines = document.lines().map(str::trim);
    lines.filter(|line| line.starts_with("http://") || line.starts_with("https://"))
}
