//! Drawings: the links of SVG and MathML in a page, and what they load.
//!
//! In: start tags. Out: more values in [`Mentions`](super::Mentions).
//! Source: SVG 2, section 16.1.5: `href` or, where that is not there, `xlink:href`.

use std::ops::Range;

use super::Reader;
use crate::source::Source;

/// Elements that make browsers load what they refer to, if it is in another document.
const REFERRING: [&str; 9] = [
    "image",
    "feImage",
    "script",
    "use",
    "textPath",
    "mpath",
    "pattern",
    "linearGradient",
    "radialGradient",
];

impl Reader<'_> {
    /// A start tag of SVG or MathML, by its name without a prefix; none when it is not whole.
    pub(super) fn drawing(&mut self, name: &[u8]) -> Option<()> {
        if name.eq_ignore_ascii_case(b"a") {
            let [href, xlink_href, rel] = self.scanner.values(["href", "xlink:href", "rel"])?;
            if !self.is_unwanted(&rel) {
                self.mention(href.or(xlink_href), Source::A);
            }
        } else if self.options.embedded
            && REFERRING
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        {
            let [href, xlink_href] = self.scanner.values(["href", "xlink:href"])?;
            let is_script = name.eq_ignore_ascii_case(b"script");
            self.reference(
                href.or(xlink_href),
                if is_script {
                    Source::Script
                } else {
                    Source::Image
                },
            );
        }
        Some(())
    }

    /// A reference; a mere fragment stays within the document.
    fn reference(&mut self, href: Option<Range<usize>>, source: Source) {
        if !self.bytes(&href).trim_ascii_start().starts_with(b"#") {
            self.mention(href, source);
        }
    }
}
