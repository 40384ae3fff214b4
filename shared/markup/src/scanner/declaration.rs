//! Declarations: what begins with `<!` or `<?`: comments, doctypes, CDATA sections, instructions.
//!
//! In: where one begins. Out: where it ends; of a CDATA section also its content.
//! Sources: HTML Living Standard, sections 13.2.5.41 to 13.2.5.71; XML 1.0, sections 2.5 to 2.8.

use memchr::{memchr, memchr2, memmem};

use super::tag::{SPACE, past};
use super::{Dialect, Scanner, Token};

impl<'a> Scanner<'a> {
    /// What `<!` begins, from behind it.
    pub(super) fn declaration(&mut self, start: usize) -> Token<'a> {
        const DATA: &[u8] = b"[CDATA[";
        let rest = &self.document[start..];
        if rest.starts_with(b"--") {
            return self.comment(start + 2);
        }
        if rest.starts_with(DATA) && (self.dialect.is_xml() || self.foreign.has_data()) {
            let start = start + DATA.len();
            let found = memmem::find(&self.document[start..], b"]]>");
            let end = found.map_or(self.document.len(), |skipped| start + skipped);
            self.at = (end + 3).min(self.document.len());
            return Token::Data(&self.document[start..end]);
        }
        match self.dialect {
            // A doctype, too, ends at the first `>`, even in quotes.
            Dialect::Html => self.skip_past(start, b">"),
            Dialect::Xhtml | Dialect::Xml => self.doctype(start),
        }
    }

    /// What `<?` begins, from behind it. In XML it ends with `?>`; where none is left, as with `>`.
    pub(super) fn instruction(&mut self, start: usize) -> Token<'a> {
        if self.dialect.is_xml() && !self.has_open_instruction {
            if let Some(skipped) = memmem::find(&self.document[start..], b"?>") {
                self.at = start + skipped + 2;
                return Token::Other;
            }
            self.has_open_instruction = true;
        }
        self.skip_past(start, b">")
    }

    /// A doctype of XML, from behind `<!`. One whose quotes or brackets are not closed ends as if
    /// its quotes were none.
    fn doctype(&mut self, start: usize) -> Token<'a> {
        let end = if self.had_doctype {
            None
        } else {
            self.end_of_doctype(start)
        };
        self.has_open_doctype |= end.is_none();
        self.had_doctype = true;
        let end = end.or_else(|| {
            let opening = start + memchr2(b'>', b'[', &self.document[start..])?;
            if self.document[opening] == b'[' {
                self.end_of_declarations(opening)
            } else {
                Some(opening + 1)
            }
        });
        self.at = end.unwrap_or(self.document.len());
        Token::Other
    }

    /// Where a doctype ends: behind the first `>` that is neither in quotes nor in brackets. In
    /// brackets stand declarations, comments and instructions.
    fn end_of_doctype(&self, start: usize) -> Option<usize> {
        let mut at = start;
        let mut is_in_brackets = false;
        let mut is_in_declaration = true;
        loop {
            let rest = self.document.get(at..)?;
            at += rest.iter().position(|byte| b"\"'<>[]".contains(byte))?;
            let rest = &self.document[at..];
            at += match rest[0] {
                quote @ (b'"' | b'\'') if is_in_declaration => memchr(quote, &rest[1..])? + 2,
                b'<' if rest.starts_with(b"<!--") => memmem::find(&rest[4..], b"-->")? + 7,
                b'<' if rest.starts_with(b"<?") => memmem::find(&rest[2..], b"?>")? + 4,
                b'>' if !is_in_brackets => return Some(at + 1),
                byte => {
                    match byte {
                        b'[' if !is_in_brackets => {
                            (is_in_brackets, is_in_declaration) = (true, false)
                        }
                        b']' if !is_in_declaration => {
                            (is_in_brackets, is_in_declaration) = (false, true)
                        }
                        b'<' => is_in_declaration = true,
                        b'>' => is_in_declaration = false,
                        _ => {}
                    }
                    1
                }
            };
        }
    }

    /// Where the declarations of a doctype end that begin at `start`: behind `]` and, perhaps
    /// behind white space, `>`.
    fn end_of_declarations(&self, start: usize) -> Option<usize> {
        let mut from = start;
        loop {
            from += memchr(b']', self.document.get(from..)?)? + 1;
            let end = past(self.document, from, SPACE);
            if self.document.get(end) == Some(&b'>') {
                return Some(end + 1);
            }
            from = end;
        }
    }

    /// A comment, from behind `<!--`; it ends with `-->` or `--!>`, or at once with `>` or `->`. In
    /// XML only `-->` ends it.
    fn comment(&mut self, start: usize) -> Token<'a> {
        if self.dialect.is_xml() {
            return self.skip_past(start, b"-->");
        }
        let mut from = start;
        while let Some(found) = memchr(b'>', &self.document[from..]) {
            let end = from + found;
            from = end + 1;
            let content = &self.document[start..end];
            if matches!(content, [] | [b'-'])
                || content.ends_with(b"--")
                || content.ends_with(b"--!")
            {
                self.at = from;
                return Token::Other;
            }
        }
        self.at = self.document.len();
        Token::Other
    }
}
