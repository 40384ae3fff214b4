//! Links: finds the URLs an HTML document mentions, as they are written.
//!
//! In: the bytes of a document in an encoding that contains ASCII. Out: where in the document the
//! values lie, in document order, and what the document says about itself (base, title, language,
//! nofollow, use). Nothing is decoded here, and nothing copied but metas that speak of use, which few
//! pages have, and the text around links when that is wanted.
//!
//! Invariants: any bytes are accepted; memory is bounded by the document's size.
//! Source: HTML Living Standard, sections 4.2.4, 4.6.6 and 13.2.

use std::borrow::Cow;
use std::ops::Range;

use encoding_rs::Encoding;

use self::prefixes::Prefixes;
use crate::options::Options;
use crate::prose::Prose;
use crate::references::{Syntax, text};
use crate::source::Source;
use rhumb_markup::metas::{METAS_BYTES_MAX, METAS_MAX, Meta};
use rhumb_markup::scanner::{Dialect, Scanner, Token, local, prefix, raw_text};
use rhumb_url::sketch::Sketch;
use rhumb_usage::{is_of_meta, robots_tag};

mod drawing;
mod embedded;
mod prefixes;

/// An attribute value that is, or contains, a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Where the value lies in the document, without its quotes, in bytes.
    pub at: Range<usize>,
    /// What it is the value of.
    pub source: Source,
    /// Where in [`Mentions::prose`] the link's text is.
    pub words: Range<usize>,
}

/// What a document says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// The values, in document order.
    pub values: Vec<Mention>,
    /// Where the `href` of the first `base` that has one lies; it applies to the whole document.
    pub base: Option<Range<usize>>,
    /// A robots `meta` says nofollow or none.
    pub nofollow: bool,
    /// The `meta` elements that may say something of the use of the page: what
    /// [`metas`](rhumb_markup::metas::metas) finds, without another reading.
    pub metas: Vec<Meta>,
    /// Where the text of the first `title` lies.
    pub title: Option<Range<usize>>,
    /// Where the language that `html` names lies, else that of a `meta`.
    pub language: Option<Range<usize>>,
    /// The document's text, when [`Options::anchors`] wants it.
    pub prose: Prose,
    /// What its text looks like, when [`Options::sketch`] wants it.
    pub sketch: Sketch,
}

/// Finds what `document` mentions.
///
/// `agent` is the product token that robots `meta` elements may address.
pub fn mentions(
    document: &[u8],
    dialect: Dialect,
    encoding: &'static Encoding,
    options: &Options,
    agent: &str,
) -> Mentions {
    let scanner = Scanner::new(document, dialect);
    let mut reader = Reader {
        document,
        dialect,
        encoding,
        options,
        agent,
        scanner,
        found: Mentions::default(),
        link: None,
        templates: 0,
        prefixes: Prefixes::default(),
    };
    reader.read();
    reader.found
}

/// What the text before the next token is.
#[derive(Clone, Copy, Debug)]
enum TextOf {
    Title,
    Style,
}

struct Reader<'a> {
    document: &'a [u8],
    dialect: Dialect,
    encoding: &'static Encoding,
    options: &'a Options,
    agent: &'a str,
    scanner: Scanner<'a>,
    found: Mentions,
    /// The link whose text is being read: its place among the values, and where its text begins.
    link: Option<(usize, usize)>,
    /// Templates open around the place: what is in them is not of the document.
    templates: usize,
    prefixes: Prefixes<'a>,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        let mut text_of = None;
        // Text of scripts and the like is not for readers.
        let mut is_raw = false;
        while let Some(token) = self.scanner.next() {
            let was_raw = std::mem::take(&mut is_raw);
            if self.options.sketch && !was_raw {
                self.found.sketch.add(&self.document[self.scanner.text()]);
                self.found.sketch.space();
            }
            match text_of.take() {
                None => {}
                Some(TextOf::Title) => self.found.title = Some(self.scanner.text()),
                Some(TextOf::Style) => text_of = self.style(&token),
            }
            if self.options.anchors {
                self.prose(&token, was_raw);
            }
            if let Token::End(name) = token
                && is_template(if self.dialect.is_xml() {
                    local(name)
                } else {
                    name
                })
            {
                self.templates = self.templates.saturating_sub(1);
            }
            let Token::Start(name) = token else { continue };
            is_raw = raw_text(name).is_some();
            // The first title, and no tooltip of a drawing.
            text_of = if self.found.title.is_none()
                && name.eq_ignore_ascii_case(b"title")
                && !self.scanner.is_foreign()
            {
                Some(TextOf::Title)
            } else if self.options.embedded && name.eq_ignore_ascii_case(b"style") {
                Some(TextOf::Style)
            } else {
                None
            };
            // A tag that does not end is none; the scanner says so by itself.
            let _ = self.element(name);
        }
        self.end_link();
    }

    /// Reads the text before a token.
    fn prose(&mut self, token: &Token<'_>, is_raw: bool) {
        if !is_raw {
            self.found
                .prose
                .add(&self.said(&self.document[self.scanner.text()], Syntax::Text));
        }
        let (Token::Start(name) | Token::End(name)) = token else {
            return;
        };
        if name.eq_ignore_ascii_case(b"a") {
            self.end_link();
        } else if !INLINE
            .iter()
            .any(|inline| name.eq_ignore_ascii_case(inline.as_bytes()))
        {
            self.found.prose.space();
        }
    }

    fn end_link(&mut self) {
        if let Some((link, start)) = self.link.take() {
            let end = self.found.prose.place();
            self.found.values[link].words = start..end.max(start);
        }
    }

    fn mention(&mut self, at: Option<Range<usize>>, source: Source) {
        let Some(at) = at else { return };
        let start = if self.options.anchors {
            self.found.prose.place()
        } else {
            0
        };
        if self.options.anchors && source == Source::A {
            self.link = Some((self.found.values.len(), start));
        }
        self.found.values.push(Mention {
            at,
            source,
            words: start..start,
        });
    }

    /// A start tag; none when it is not whole.
    fn element(&mut self, name: &'a [u8]) -> Option<()> {
        const NAME_BYTES_MAX: usize = 6;
        if self.options.embedded {
            self.attributes_of_any(name)?;
        }
        if self.scanner.is_foreign() {
            return self.drawing(local(name));
        }
        let name = if self.dialect.is_xml() {
            self.of_xhtml(name)?
        } else {
            name
        };
        if name.len() > NAME_BYTES_MAX {
            let is_empty = self.dialect.is_xml() && self.scanner.closes_itself();
            self.templates += usize::from(is_template(name) && !is_empty);
            return None;
        }
        let mut lower = [0; NAME_BYTES_MAX];
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        match &*lower {
            b"a" => self.link(Source::A),
            b"area" => self.link(Source::Area),
            b"link" if self.options.embedded => self.loading_link(),
            b"link" => {
                let [href, rel] = self.scanner.values(["href", "rel"])?;
                if let Some(source) = source_of_link(self.bytes(&rel), self.options) {
                    self.mention(href, source);
                }
                Some(())
            }
            b"iframe" if self.options.embedded => self.frame(),
            b"iframe" | b"frame" => self.values(["src"], Source::Frame),
            b"base" if self.found.base.is_none() && self.templates == 0 => {
                [self.found.base] = self.scanner.values(["href"])?;
                Some(())
            }
            b"meta" => self.meta(),
            b"html" if self.found.language.is_none() => {
                let [lang, xml_lang] = self.scanner.values(["lang", "xml:lang"])?;
                self.found.language = lang.or(xml_lang);
                Some(())
            }
            b"form" if self.options.forms => self.form(),
            b"img" => self.image(),
            _ if self.options.embedded => self.embedded(lower),
            _ => None,
        }
    }

    fn values<const N: usize>(&mut self, names: [&str; N], source: Source) -> Option<()> {
        self.scanner
            .values(names)?
            .into_iter()
            .for_each(|value| self.mention(value, source));
        Some(())
    }

    fn link(&mut self, source: Source) -> Option<()> {
        let [href, rel] = self.scanner.values(["href", "rel"])?;
        if !self.is_unwanted(&rel) {
            self.mention(href, source);
        }
        Some(())
    }

    fn form(&mut self) -> Option<()> {
        let [action, method, rel] = self.scanner.values(["action", "method", "rel"])?;
        let method = self.bytes(&method).trim_ascii();
        // Any other word than these means GET.
        let is_get =
            !method.eq_ignore_ascii_case(b"post") && !method.eq_ignore_ascii_case(b"dialog");
        if is_get && !self.bytes(&action).is_empty() && !self.is_unwanted(&rel) {
            self.mention(action, Source::Form);
        }
        Some(())
    }

    fn image(&mut self) -> Option<()> {
        if !self.options.embedded && !self.options.anchors {
            return None;
        }
        let [src, srcset, alt] = self.scanner.values(["src", "srcset", "alt"])?;
        if self.options.anchors {
            // What stands for the image is read in its place.
            let alt = self.said(self.bytes(&alt), Syntax::Attribute).into_owned();
            self.found.prose.add(&alt);
        }
        if self.options.embedded {
            self.mention(src, Source::Image);
            self.mention(srcset, Source::Srcset);
        }
        Some(())
    }

    fn meta(&mut self) -> Option<()> {
        let [name, http_equiv, content] = self.scanner.values(["name", "http-equiv", "content"])?;
        self.usage(&name, &content);
        let http_equiv = self.bytes(&http_equiv).trim_ascii();
        if http_equiv.eq_ignore_ascii_case(b"content-language") && self.found.language.is_none() {
            self.found.language.clone_from(&content);
        }
        if http_equiv.eq_ignore_ascii_case(b"refresh") {
            self.mention(content, Source::MetaRefresh);
        } else {
            let content = self.bytes(&content);
            if robots_tag::addresses(self.bytes(&name), self.agent) {
                robots_tag::of_meta(content, |said| self.found.nofollow |= said.says_nofollow());
            }
        }
        Some(())
    }

    /// Takes a `meta` that may say something of use.
    fn usage(&mut self, name: &Option<Range<usize>>, content: &Option<Range<usize>>) {
        let is_near = name.as_ref().is_some_and(|at| at.end <= METAS_BYTES_MAX);
        let name = self.bytes(name);
        if is_near && self.found.metas.len() < METAS_MAX && is_of_meta(name, self.agent) {
            let meta = (name.to_vec(), self.bytes(content).to_vec());
            self.found.metas.push(meta);
        }
    }

    /// The name of an element of XHTML, which is written in lower case.
    fn of_xhtml(&mut self, name: &'a [u8]) -> Option<&'a [u8]> {
        let is_it =
            prefix(name).is_empty() || self.prefixes.is_of_html(prefix(name), self.document);
        let name = local(name);
        (is_it && !name.iter().any(u8::is_ascii_uppercase)).then_some(name)
    }

    fn said<'t>(&self, written: &'t [u8], syntax: Syntax) -> Cow<'t, str> {
        let syntax = if self.dialect.is_xml() {
            Syntax::Xml
        } else {
            syntax
        };
        text(written, self.encoding, syntax)
    }

    fn is_unwanted(&self, rel: &Option<Range<usize>>) -> bool {
        self.options.obeys_nofollow()
            && has_word(self.bytes(rel), &["nofollow", "ugc", "sponsored"])
    }

    fn bytes(&self, at: &Option<Range<usize>>) -> &'a [u8] {
        at.clone().map_or(&[], |at| &self.document[at])
    }
}

/// What a `link` (or a `Link` header) of this `rel` is the source of, if it is wanted.
pub(crate) fn source_of_link(rel: &[u8], options: &Options) -> Option<Source> {
    if has_word(rel, &EMBEDDED_RELATIONS) {
        options.embedded.then_some(Source::Link)
    } else if has_word(rel, &["canonical"]) {
        Some(Source::Canonical)
    } else if has_word(rel, &["amphtml"]) {
        options.amphtml.then_some(Source::Link)
    } else if options.obeys_nofollow() && has_word(rel, &["nofollow"]) {
        None
    } else {
        let is_wanted = has_word(rel, &PAGE_RELATIONS) || options.embedded && has_word(rel, &HINTS);
        is_wanted.then_some(Source::Link)
    }
}

/// Relations that say when to load a target, not what it is.
const HINTS: [&str; 4] = ["preload", "modulepreload", "prefetch", "prerender"];

/// Relations whose targets are what a page is made with; a style sheet remains one when it is an
/// alternate.
const EMBEDDED_RELATIONS: [&str; 8] = [
    "stylesheet",
    "icon",
    "apple-touch-icon",
    "apple-touch-icon-precomposed",
    "apple-touch-startup-image",
    "mask-icon",
    "image_src",
    "manifest",
];

/// Relations whose targets are pages: those of HTML and of feeds that lead on, and the older ones
/// by which documents are still joined (HTML 4.01, section 6.12).
const PAGE_RELATIONS: [&str; 25] = [
    "next",
    "prev",
    "previous",
    "alternate",
    "first",
    "last",
    "up",
    "start",
    "contents",
    "index",
    "glossary",
    "chapter",
    "section",
    "subsection",
    "appendix",
    "help",
    "search",
    "author",
    "license",
    "related",
    "via",
    "replies",
    "current",
    "next-archive",
    "prev-archive",
];

/// Elements that do not part the text before them from that behind.
const INLINE: [&str; 20] = [
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "em", "font", "i", "kbd", "mark", "small",
    "span", "strong", "sub", "sup", "tt", "u", "wbr",
];

fn is_template(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"template")
}

fn has_word(words: &[u8], wanted: &[&str]) -> bool {
    words.split(|byte| byte.is_ascii_whitespace()).any(|word| {
        wanted
            .iter()
            .any(|wanted| word.eq_ignore_ascii_case(wanted.as_bytes()))
    })
}
