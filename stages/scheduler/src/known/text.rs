//! Text: what is kept of the text of a known page, in its record.
//!
//! Invariant: of a page without a text that could be compared it takes one byte, or nine.

use crate::known::unjudged::Unjudged;
use crate::store::codec::{Reader, Writer};
use rhumb_stage::Difference;
use rhumb_wire::message::KnownText;

/// What is kept of a page's text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Text {
    /// As the parser told it.
    pub(crate) known: KnownText,
    /// What the last visit that brought the page found beside the one before.
    pub(crate) difference: Difference,
    /// It brought another body, and nobody has said whether the text is another one.
    pub(crate) unjudged: Option<Unjudged>,
}

/// The body has no content coding, so that its fingerprint is that of the body as sent.
const AS_SENT: u8 = 8;
const HAS_BODY: u8 = 16;
const HAS_SKETCH: u8 = 32;
const IS_UNJUDGED: u8 = 64;

impl Text {
    /// `sent`: the fingerprint of the body as sent.
    pub(crate) fn write(&self, sent: u64, row: &mut Writer) {
        let KnownText {
            body,
            sketch,
            noise,
        } = self.known;
        let of_body = match body {
            0 => 0,
            _ if body == sent => AS_SENT,
            _ => HAS_BODY,
        };
        let of_sketch = if sketch.is_some() { HAS_SKETCH } else { 0 };
        let of_unjudged = match self.unjudged {
            Some(_) => IS_UNJUDGED,
            None => 0,
        };
        row.byte(difference_byte(self.difference) | of_body | of_sketch | of_unjudged);
        if of_body == HAS_BODY {
            row.array(body.to_le_bytes());
        }
        if let Some(sketch) = sketch {
            row.array(sketch.to_le_bytes());
            row.byte(noise);
        }
        if let Some(unjudged) = self.unjudged {
            unjudged.write(row);
        }
    }

    pub(crate) fn read(sent: u64, row: &mut Reader<'_>) -> Option<Self> {
        let flags = row.byte()?;
        let mut known = KnownText {
            body: if flags & AS_SENT != 0 { sent } else { 0 },
            ..KnownText::default()
        };
        if flags & HAS_BODY != 0 {
            known.body = u64::from_le_bytes(row.array()?);
        }
        if flags & HAS_SKETCH != 0 {
            known.sketch = Some(u64::from_le_bytes(row.array()?));
            known.noise = row.byte()?;
        }
        let is_unjudged = flags & IS_UNJUDGED != 0;
        Some(Text {
            known,
            difference: difference_of(flags & 7),
            unjudged: if is_unjudged {
                Some(Unjudged::read(row)?)
            } else {
                None
            },
        })
    }
}

const fn difference_byte(difference: Difference) -> u8 {
    match difference {
        Difference::Untold => 0,
        Difference::SameBody => 1,
        Difference::OtherBody => 2,
        Difference::SameText => 3,
        Difference::OtherText => 4,
    }
}

const fn difference_of(byte: u8) -> Difference {
    match byte {
        1 => Difference::SameBody,
        2 => Difference::OtherBody,
        3 => Difference::SameText,
        4 => Difference::OtherText,
        _ => Difference::Untold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visits::{Estimate, Signalled};

    const SENT: u64 = 1 << 40;

    fn row_of(text: &Text) -> Vec<u8> {
        let mut row = Writer::with_capacity(0);
        text.write(SENT, &mut row);
        row.finish()
    }

    #[test]
    fn a_text_comes_back_as_it_was_and_takes_few_bytes() {
        let unjudged = Unjudged {
            estimate: Estimate::from_bytes([7; 12]),
            interval_s: 300,
            wait_ms: 1 << 30,
            signalled: Signalled::default(),
        };
        for (body, sketch, unjudged, difference, bytes) in [
            (0, None, None, Difference::Untold, 1),
            (SENT, Some(5), None, Difference::SameBody, 10),
            (7, None, None, Difference::OtherBody, 9),
            (7, Some(u64::MAX), None, Difference::SameText, 18),
            (7, Some(5), Some(unjudged), Difference::OtherText, 41),
        ] {
            let text = Text {
                known: KnownText {
                    body,
                    sketch,
                    noise: sketch.map_or(0, |_| 200),
                },
                difference,
                unjudged,
            };
            let row = row_of(&text);
            // One byte of each row is its version.
            assert_eq!(row.len(), 1 + bytes, "{text:?}");
            let read = |row| Text::read(SENT, &mut Reader::new(row)?);
            assert_eq!(read(&row), Some(text));
            assert!((0..row.len()).all(|length| read(&row[..length]).is_none()));
        }
    }
}
