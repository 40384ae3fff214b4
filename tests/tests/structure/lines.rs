//! Lines: each says one thing, and fits.
//!
//! In: the sources. Out: `let` statements that bind several values side by side
//! (`let (a, b) = (x, y);`), and how many lines are wider than a page.

use crate::sources::{Source, find_outside_brackets, line_of, words};

/// Columns of a line, but for URLs and strings that cannot be broken.
const COLUMNS: usize = 100;

/// The `let` statements that bind each part of a pattern to a part of a tuple.
pub(crate) fn packed_lets(source: &Source) -> Vec<String> {
    let code = &source.code;
    let packed = words(code).filter(|word| word.text == "let" && is_packed(code, word.end()));
    packed
        .map(|word| {
            let line = line_of(code, word.at);
            format!("{}:{line}: a let for each value", source.path)
        })
        .collect()
}

/// Returns whether a pattern in parentheses, which begins at `from`, is bound to a tuple there.
fn is_packed(code: &str, from: usize) -> bool {
    let Some(rest) = code[from..].trim_start().strip_prefix('(') else {
        return false;
    };
    let tuple = find_outside_brackets(rest, 0, &[')'])
        .map(|end| rest[end + 1..].trim_start())
        .and_then(|rest| rest.strip_prefix('='))
        .and_then(|rest| rest.trim_start().strip_prefix('('));
    let Some(tuple) = tuple else { return false };
    let has_parts =
        find_outside_brackets(tuple, 0, &[',', ')']).is_some_and(|at| tuple[at..].starts_with(','));
    let end = find_outside_brackets(tuple, 0, &[')']);
    has_parts && end.is_some_and(|end| tuple[end + 1..].trim_start().starts_with(';'))
}

/// Lines of all files, and those of them that are wider than a page.
pub(crate) fn wide(sources: &[Source]) -> (usize, usize) {
    let lines = || sources.iter().flat_map(|source| source.code.lines());
    let wide = lines().filter(|line| line.chars().count() > COLUMNS);
    (lines().count(), wide.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_let_of_a_tuple_is_packed_when_it_takes_the_tuple_apart_at_once() {
        let packed = |line: &str| packed_lets(&Source::new("a.rs", line)).len();
        assert_eq!(packed("let (a, b) = (x, y);"), 1);
        assert_eq!(packed("let (mut a, (b, c)) =\n    (f(x, 1), g());"), 1);
        for line in [
            "let (a, b) = f(x, y);",
            "let (a, b) = (x + y).parts();",
            "let a = (x, y);",
            "let (Some(a), None) = (x, y) else { return };",
            "if let (Some(a), None) = (x, y) {}",
            "// let (a, b) = (x, y);",
        ] {
            assert_eq!(packed(line), 0, "{line}");
        }
    }

    #[test]
    fn wide_lines_are_counted_by_letters() {
        let text = format!("{}\n{}\n", "é".repeat(100), "x".repeat(101));
        assert_eq!(wide(&[Source::new("a.rs", &text)]), (2, 1));
    }
}
