//! Prose: the text of a document as a reader sees it, and what of it belongs to a link.
//!
//! In: decoded text, piece by piece. Out: white space collapsed, and the [`Anchor`] of a range.
//! Invariant: what is given out keeps its limit and ends at character boundaries.

use rhumb_wire::message::Anchor;
use std::ops::Range;

/// Bytes of a link's text.
const TEXT_BYTES_MAX: usize = 128;
/// Bytes of the text around a link, itself included.
const CONTEXT_BYTES_MAX: usize = 256;

/// Text in which white space is collapsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prose {
    text: String,
    /// White space came after the text.
    is_apart: bool,
}

impl Prose {
    /// Adds text.
    pub fn add(&mut self, text: &str) {
        for character in text.chars() {
            if character.is_whitespace() {
                self.is_apart = true;
            } else {
                self.end_space();
                self.text.push(character);
            }
        }
    }

    /// What follows stands apart from what is there.
    pub fn space(&mut self) {
        self.is_apart = true;
    }

    /// How long it is, in bytes: where what is added next will stand.
    pub fn place(&mut self) -> usize {
        self.end_space();
        self.text.len()
    }

    /// What was written in a range, and around it.
    pub fn anchor(&self, range: &Range<usize>) -> Anchor {
        let text = cut(self.text[range.clone()].trim(), TEXT_BYTES_MAX);
        let before = range
            .start
            .saturating_sub((CONTEXT_BYTES_MAX - text.len()) / 2);
        let around = &self.text[next_boundary(&self.text, before)..];
        Anchor {
            text: text.to_owned(),
            context: cut(around.trim_start(), CONTEXT_BYTES_MAX).to_owned(),
        }
    }

    fn end_space(&mut self) {
        if std::mem::take(&mut self.is_apart) && !self.text.is_empty() && !self.text.ends_with(' ')
        {
            self.text.push(' ');
        }
    }
}

/// Returns the beginning of `text` with white space collapsed, at most `bytes_max` bytes.
pub fn collapsed(text: &str, bytes_max: usize) -> String {
    let mut prose = Prose::default();
    for word in text.split_whitespace() {
        if prose.text.len() > bytes_max {
            break;
        }
        prose.add(cut(word, bytes_max));
        prose.space();
    }
    prose.text.truncate(cut(&prose.text, bytes_max).len());
    prose.text
}

/// Returns the beginning of `text`, at most `bytes_max` bytes, without white space at its end.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim_end()
}

fn next_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_collapsed_and_text_cut_between_characters() {
        assert_eq!(collapsed(" a\n\t b\u{A0}c ", 256), "a b c");
        assert_eq!(collapsed("", 256), "");
        assert_eq!(collapsed("ééé", 5), "éé");
        assert_eq!(collapsed("aa bb cc", 6), "aa bb");
        assert_eq!(collapsed(&"é ".repeat(1000), 256).len(), 254);
    }

    #[test]
    fn an_anchor_has_its_text_and_what_stands_around_it() {
        let mut prose = Prose::default();
        prose.add(" See ");
        let start = prose.place();
        prose.add("the ");
        prose.add("\npage");
        let end = prose.place();
        prose.space();
        prose.add("for more");
        let anchor = prose.anchor(&(start..end));
        assert_eq!(
            anchor,
            Anchor {
                text: "the page".into(),
                context: "See the page for more".into()
            }
        );

        let mut long = Prose::default();
        long.add(&"é".repeat(1000));
        let anchor = long.anchor(&(600..1400));
        assert_eq!(
            (anchor.text.len(), anchor.context.len()),
            (TEXT_BYTES_MAX, CONTEXT_BYTES_MAX)
        );
        assert_eq!(long.anchor(&(2000..2000)).text, "");
    }
}
