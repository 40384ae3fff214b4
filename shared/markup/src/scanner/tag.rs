//! Tags: from behind a tag's name to its end.
//!
//! In: a document, and where the attributes begin. Out: the attributes as written, and where the
//! tag ends. Source: HTML Living Standard, sections 13.2.5.32 to 13.2.5.40.

use std::ops::Range;

use memchr::memchr;

use super::Dialect;

/// White space between attributes; a carriage return counts as the line feed that it becomes.
pub(super) const SPACE: u8 = 1;
pub(super) const SLASH: u8 = 2;
pub(super) const GREATER: u8 = 4;
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

pub(super) fn is(byte: u8, classes: u8) -> bool {
    CLASSES[usize::from(byte)] & classes != 0
}

/// An attribute as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Where its value lies in the document, without quotes; empty when it has none.
    pub value: Range<usize>,
}

impl Attribute<'_> {
    /// Keeps the value if it is the first of one of these names.
    pub(super) fn note<const N: usize>(
        &self,
        names: [&str; N],
        values: &mut [Option<Range<usize>>; N],
        dialect: Dialect,
    ) {
        for (value, name) in values.iter_mut().zip(names) {
            if value.is_none() && self.name.eq_ignore_ascii_case(name.as_bytes()) {
                let is_it = dialect != Dialect::Xhtml || self.name == name.as_bytes();
                *value = is_it.then(|| self.value.clone());
            }
        }
    }
}

/// Shows the attributes of a tag from `at` on; tells where it ends, and whether it closes itself.
pub(crate) fn attributes<'a>(
    document: &'a [u8],
    mut at: usize,
    mut show: impl FnMut(Attribute<'a>),
) -> Option<(usize, bool)> {
    loop {
        let before = at;
        at = past(document, before, SPACE | SLASH);
        if *document.get(at)? == b'>' {
            let closes_itself = at > before && document[at - 1] == b'/';
            return Some((at + 1, closes_itself));
        }
        let (attribute, end) = attribute(document, at)?;
        at = end;
        show(attribute);
    }
}

/// An attribute, whose name may begin with `=`, and where it ends; none when the document ends in
/// its value.
fn attribute(document: &[u8], name_start: usize) -> Option<(Attribute<'_>, usize)> {
    let name_end = until(document, name_start + 1, SPACE | SLASH | GREATER | EQUALS);
    let name = &document[name_start..name_end];
    let equals = past(document, name_end, SPACE);
    if document.get(equals) != Some(&b'=') {
        return Some((
            Attribute {
                name,
                value: name_end..name_end,
            },
            equals,
        ));
    }
    let start = past(document, equals + 1, SPACE);
    match document.get(start)? {
        &quote @ (b'"' | b'\'') => {
            let value = start + 1..start + 1 + memchr(quote, &document[start + 1..])?;
            let end = value.end + 1;
            Some((Attribute { name, value }, end))
        }
        _ => {
            let end = until(document, start, SPACE | GREATER);
            Some((
                Attribute {
                    name,
                    value: start..end,
                },
                end,
            ))
        }
    }
}

/// The value of an attribute of the tag whose attributes begin at `at`.
pub(super) fn value_of<'a>(document: &'a [u8], at: usize, name: &str) -> Option<&'a [u8]> {
    let mut value = [None];
    attributes(document, at, |attribute| {
        attribute.note([name], &mut value, Dialect::Html)
    })?;
    let [value] = value;
    Some(&document[value?])
}

/// Where from `start` on the first byte of one of these classes is.
pub(super) fn until(document: &[u8], start: usize, classes: u8) -> usize {
    let rest = document.get(start..).unwrap_or_default();
    let found = rest.iter().position(|&byte| is(byte, classes));
    found.map_or(document.len(), |skipped| start + skipped)
}

/// Where from `start` on the first byte of none of these classes is.
pub(super) fn past(document: &[u8], start: usize, classes: u8) -> usize {
    let rest = document.get(start..).unwrap_or_default();
    let found = rest.iter().position(|&byte| !is(byte, classes));
    found.map_or(document.len(), |skipped| start + skipped)
}
