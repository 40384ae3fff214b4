//! Functions: how long each of a file is.
//!
//! In: a [`Source`]. Out: a [`Function`] for each that has a body, with those inside others.

use crate::sources::{Source, find_outside_brackets, item_end, line_of, words};

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of its `fn`, from 1.
    pub(crate) line: usize,
    /// Lines from its `fn` to its closing brace.
    pub(crate) lines: usize,
}

/// The functions of a file, in order.
pub(crate) fn functions(source: &Source) -> Vec<Function> {
    let code = &source.code;
    let mut functions = Vec::new();
    let mut words = words(code).peekable();
    while let Some(word) = words.next() {
        // A type of functions (`fn(A) -> B`) and a macro's `fn $name` have no name here.
        let Some(name) = words
            .peek()
            .filter(|name| word.text == "fn" && code[word.end()..name.at].trim().is_empty())
        else {
            continue;
        };
        let has_body = find_outside_brackets(code, name.end(), &['{', ';'])
            .is_some_and(|at| code[at..].starts_with('{'));
        if has_body {
            let line = line_of(code, word.at);
            let end = line_of(code, item_end(code, name.end()));
            functions.push(Function {
                name: name.text.to_owned(),
                line,
                lines: end + 1 - line,
            });
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_their_name_to_their_brace() {
        let text = "\
/// Not fn this() {
fn short() {}

trait T {
    fn without_a_body(&self) -> [u8; 2];
    fn long(&self, call: fn(u8) -> u8)
    where
        Self: Sized,
    {
        let brace = \"}\";
        fn inner() {
        }
    }
}
";
        let found: Vec<_> = functions(&Source::new("a.rs", text))
            .into_iter()
            .map(|one| (one.name, one.line, one.lines))
            .collect();
        assert_eq!(
            found,
            [
                ("short".into(), 2, 1),
                ("long".into(), 6, 8),
                ("inner".into(), 11, 2)
            ]
        );
    }
}
