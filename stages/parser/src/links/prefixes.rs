//! Prefixes: which of them stand for HTML in a document of XML.
//!
//! In: the prefix of a name. Out: yes or no, by the first declaration of the prefix in the
//! document: where it stands is not looked at. Source: Namespaces in XML 1.0, section 3.

use memchr::memmem;

const HTML: &[u8] = b"http://www.w3.org/1999/xhtml";
/// Prefixes looked up in a document; others are not those of HTML.
const PREFIXES_MAX: usize = 8;

/// The prefixes met so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefixes<'a> {
    met: Vec<(&'a [u8], bool)>,
}

impl<'a> Prefixes<'a> {
    /// Returns whether a prefix stands for HTML.
    pub(super) fn is_of_html(&mut self, prefix: &'a [u8], document: &[u8]) -> bool {
        if let Some((_, is_of_html)) = self.met.iter().find(|(met, _)| *met == prefix) {
            return *is_of_html;
        }
        if self.met.len() == PREFIXES_MAX {
            return false;
        }
        let is_of_html = is_declared(prefix, document);
        self.met.push((prefix, is_of_html));
        is_of_html
    }
}

fn is_declared(prefix: &[u8], document: &[u8]) -> bool {
    let attribute = [b"xmlns:", prefix].concat();
    let mut declarations = memmem::find_iter(document, &attribute).filter_map(|at| {
        let value = document[at + attribute.len()..]
            .trim_ascii_start()
            .strip_prefix(b"=")?
            .trim_ascii_start();
        value
            .strip_prefix(b"\"")
            .or_else(|| value.strip_prefix(b"'"))
    });
    declarations.next().is_some_and(|value| {
        let behind = value.strip_prefix(HTML).unwrap_or_default();
        matches!(behind.first(), Some(b'"' | b'\''))
    })
}
