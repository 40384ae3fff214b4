//! Links: finds the URLs a document mentions, as they are written.
//!
//! In: the bytes of a document in an encoding that contains ASCII. Out: where in the document the values lie, in
//! document order, and what the document says about itself (base, nofollow). Nothing is decoded or copied here.
//!
//! Invariants: any bytes are accepted; an error of the tokenizer (memory limit) keeps what was found before it;
//! memory is bounded by the document's size and a constant.
//! Source: HTML Living Standard, sections 4.2.4, 4.6.6 and 13.2.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::LazyLock;

use lol_html::html_content::Element;
use lol_html::{AsciiCompatibleEncoding, ElementContentHandlers, HtmlRewriter, MemorySettings, Selector, Settings};

use crate::robots_meta::meta_says_nofollow;

/// Most memory the tokenizer may use beside the document, in bytes: deep nesting grows its stack. Documents some
/// hundred thousand elements deep keep the links before that depth.
const TOKENIZER_BYTES_MAX: usize = 16 << 20;

/// What kind of value a [`Mention`] points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A link to another page: `a`, `area`, `iframe`, `frame`, `link` that leads to a page.
    Link,
    /// The page's own preferred address: `link rel=canonical`.
    Canonical,
    /// The content of a `meta` refresh, which contains a URL.
    Refresh,
}

/// An attribute value that is, or contains, a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Where the value lies in the document, without its quotes, in bytes.
    pub at: Range<usize>,
    /// What it is.
    pub kind: Kind,
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
}

/// Makes the content of `noscript` readable to a tokenizer that takes scripting for granted.
///
/// Crawlers run no scripts, so what is in `noscript` is on the page. Renaming the start tag in place does it without
/// moving anything; the end tag without a start is ignored by every HTML tokenizer.
pub fn expose_noscript(mut document: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    const TAG: &[u8] = b"<noscript";
    let found: Vec<usize> = [b"<n", b"<N"]
        .into_iter()
        .flat_map(|start| memchr::memmem::find_iter(&document, start))
        .filter(|&at| document[at..].get(..TAG.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(TAG)))
        .collect();
    if !found.is_empty() {
        let bytes = document.to_mut();
        for at in found {
            bytes[at + 1] = b'x';
        }
    }
    document
}

/// Finds what `document` mentions.
///
/// `agent` is the product token that robots `meta` elements may address. Links that say `nofollow`, `ugc` or
/// `sponsored` are left out.
pub fn mentions(document: &[u8], encoding: AsciiCompatibleEncoding, agent: &str) -> Mentions {
    let found = RefCell::new(Mentions::default());
    let mut settings = Settings::new()
        .with_encoding(encoding)
        .with_strict(false)
        .with_memory_settings(MemorySettings::new().with_max_allowed_memory_usage(TOKENIZER_BYTES_MAX));
    for (tag, selector) in SELECTORS.iter() {
        let handler = |element: &mut Element<'_, '_>| {
            record(*tag, &Attributes { document, element }, agent, &mut found.borrow_mut());
            Ok(())
        };
        settings = settings.append_element_content_handler((
            Cow::Borrowed(selector),
            ElementContentHandlers::default().element(handler),
        ));
    }
    let mut tokenizer = HtmlRewriter::new(settings, |_: &[u8]| {});
    // After an error the tokenizer must not be used again; what was found stays.
    if tokenizer.write(document).is_ok() {
        let _ = tokenizer.end();
    } else {
        drop(tokenizer);
    }
    found.into_inner()
}

#[derive(Clone, Copy, Debug)]
enum Tag {
    Anchor,
    Link,
    Frame,
    Base,
    Meta,
}

/// Tag names alone: the tokenizer reads attributes only of the tags that match.
static SELECTORS: LazyLock<Vec<(Tag, Selector)>> = LazyLock::new(|| {
    [
        (Tag::Anchor, "a, area"),
        (Tag::Link, "link"),
        (Tag::Frame, "iframe, frame"),
        (Tag::Base, "base"),
        (Tag::Meta, "meta"),
    ]
    .into_iter()
    .map(|(tag, selector)| (tag, selector.parse().expect("a list of tag names is a selector")))
    .collect()
});

/// The attributes of one tag, by their place in the document: no copies.
struct Attributes<'a, 'r, 't> {
    document: &'a [u8],
    element: &'a Element<'r, 't>,
}

impl Attributes<'_, '_, '_> {
    /// Where the values of the first attributes of these names lie; an attribute without a value has none.
    fn find<const N: usize>(&self, names: [&str; N]) -> [Option<Range<usize>>; N] {
        let mut found = [const { None }; N];
        for attribute in self.element.attributes() {
            let Some(name) = attribute.name_source_location() else { continue };
            let name = &self.document[name.bytes()];
            for (slot, wanted) in found.iter_mut().zip(names) {
                if slot.is_none() && name.eq_ignore_ascii_case(wanted.as_bytes()) {
                    *slot = attribute.value_source_location().map(|value| value.bytes());
                }
            }
        }
        found
    }

    fn bytes(&self, at: Option<Range<usize>>) -> &[u8] {
        at.map_or(&[], |at| &self.document[at])
    }
}

fn record(tag: Tag, attributes: &Attributes<'_, '_, '_>, agent: &str, found: &mut Mentions) {
    match tag {
        Tag::Anchor => {
            let [href, rel] = attributes.find(["href", "rel"]);
            if let Some(at) = href
                && !has_word(attributes.bytes(rel), &["nofollow", "ugc", "sponsored"])
            {
                found.values.push(Mention { at, kind: Kind::Link });
            }
        }
        Tag::Link => {
            let [href, rel] = attributes.find(["href", "rel"]);
            if let (Some(at), Some(kind)) = (href, kind_of_link(attributes.bytes(rel))) {
                found.values.push(Mention { at, kind });
            }
        }
        Tag::Frame => {
            if let [Some(at)] = attributes.find(["src"]) {
                found.values.push(Mention { at, kind: Kind::Link });
            }
        }
        Tag::Base => {
            if found.base.is_none() {
                [found.base] = attributes.find(["href"]);
            }
        }
        Tag::Meta => record_meta(attributes, agent, found),
    }
}

fn record_meta(attributes: &Attributes<'_, '_, '_>, agent: &str, found: &mut Mentions) {
    let [name, http_equiv, content] = attributes.find(["name", "http-equiv", "content"]);
    let Some(content) = content else { return };
    if attributes.bytes(http_equiv).trim_ascii().eq_ignore_ascii_case(b"refresh") {
        found.values.push(Mention { at: content.clone(), kind: Kind::Refresh });
    }
    found.nofollow |= meta_says_nofollow(attributes.bytes(name), attributes.bytes(Some(content)), agent);
}

/// What a `link` of this `rel` leads to, `None` when it is no page.
fn kind_of_link(rel: &[u8]) -> Option<Kind> {
    if has_word(rel, &["stylesheet", "icon"]) {
        None
    } else if has_word(rel, &["canonical"]) {
        Some(Kind::Canonical)
    } else {
        has_word(rel, &PAGE_RELATIONS).then_some(Kind::Link)
    }
}

/// Relations whose targets are pages: those of HTML that lead on, and the older ones by which documents are still
/// joined (HTML 4.01, section 6.12).
const PAGE_RELATIONS: [&str; 19] = [
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
];

fn has_word(words: &[u8], wanted: &[&str]) -> bool {
    words
        .split(|byte| byte.is_ascii_whitespace())
        .any(|word| wanted.iter().any(|wanted| word.eq_ignore_ascii_case(wanted.as_bytes())))
}
