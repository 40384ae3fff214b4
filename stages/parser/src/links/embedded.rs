//! What a page is made with: the elements and attributes that make a browser load something.
//!
//! In: start tags. Out: more values in [`Mentions`](super::Mentions).
//! Sources: HTML Living Standard, sections 4.2.4, 4.8 and 16.3 (`background`).

use memchr::{memchr2, memchr3};

use super::{Reader, TextOf, source_of_link};
use crate::source::Source;
use rhumb_markup::scanner::Token;

/// Elements whose `background` is drawn.
const WITH_BACKGROUND: [&str; 9] = [
    "body", "table", "thead", "tbody", "tfoot", "tr", "td", "th", "col",
];
/// Names of the `param` of an `object` that says what `object data` does.
const PARAMETERS: [&str; 4] = ["movie", "src", "code", "url"];

impl Reader<'_> {
    /// Attributes that any element may have.
    pub(super) fn attributes_of_any(&mut self, name: &[u8]) -> Option<()> {
        let [style, background] = self.scanner.peek(["style", "background"])?;
        // Without brackets, which may be written as references, it loads nothing, and most do not.
        if memchr2(b'(', b'&', self.bytes(&style)).is_some() {
            self.mention(style, Source::StyleInMarkup);
        }
        if background.is_some()
            && WITH_BACKGROUND
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        {
            self.mention(background, Source::Image);
        }
        Some(())
    }

    /// An element of this name, in lower case.
    pub(super) fn embedded(&mut self, name: &[u8]) -> Option<()> {
        match name {
            b"source" => {
                let [src, srcset] = self.scanner.values(["src", "srcset"])?;
                self.mention(src, Source::Media);
                self.mention(srcset, Source::Srcset);
                Some(())
            }
            b"script" => self.values(["src"], Source::Script),
            b"video" => self.values(["src", "poster"], Source::Media),
            b"audio" | b"track" => self.values(["src"], Source::Media),
            b"embed" => self.values(["src"], Source::Image),
            b"object" => self.values(["data"], Source::Image),
            b"param" => {
                let [name, value] = self.scanner.values(["name", "value"])?;
                let name = self.bytes(&name).trim_ascii();
                if PARAMETERS
                    .iter()
                    .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
                {
                    self.mention(value, Source::Image);
                }
                Some(())
            }
            b"input" => {
                let [src, kind] = self.scanner.values(["src", "type"])?;
                if self.bytes(&kind).eq_ignore_ascii_case(b"image") {
                    self.mention(src, Source::Image);
                }
                Some(())
            }
            // In HTML another name of `img`.
            b"image" => {
                let [src, srcset] = self.scanner.values(["src", "srcset"])?;
                self.mention(src, Source::Image);
                self.mention(srcset, Source::Srcset);
                Some(())
            }
            _ => None,
        }
    }

    /// A `link` with the images that it may have for several screens.
    pub(super) fn loading_link(&mut self) -> Option<()> {
        let [href, rel, imagesrcset] = self.scanner.values(["href", "rel", "imagesrcset"])?;
        if let Some(source) = source_of_link(self.bytes(&rel), self.options) {
            self.mention(href, source);
            self.mention(imagesrcset, Source::Srcset);
        }
        Some(())
    }

    /// An `iframe`, and the document that may be written into it.
    pub(super) fn frame(&mut self) -> Option<()> {
        let [src, srcdoc] = self.scanner.values(["src", "srcdoc"])?;
        self.mention(src, Source::Frame);
        self.mention(srcdoc, Source::Srcdoc);
        Some(())
    }

    /// The text of a `style` element before a token; says whether there is more of it behind, as in
    /// drawings.
    pub(super) fn style(&mut self, token: &Token<'_>) -> Option<TextOf> {
        let text = self.scanner.text();
        let source = if self.scanner.is_in_markup() {
            Source::StyleInMarkup
        } else {
            Source::Style
        };
        let data = if let Token::Data(data) = token {
            Some(data)
        } else {
            None
        };
        // Behind `<![CDATA[`, which stands behind the text, nothing is written as a reference.
        let start = text.end + b"<![CDATA[".len();
        let data = data.map(|data| start..start + data.len());
        let goes_on = data.is_some().then_some(TextOf::Style);
        for (at, source) in [(Some(text), source), (data, Source::Style)] {
            // As in attributes; an import has no brackets.
            if memchr3(b'(', b'@', b'&', self.bytes(&at)).is_some() {
                self.mention(at, source);
            }
        }
        goes_on
    }
}
