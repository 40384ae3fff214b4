//! Lengths: what is long does not grow.
//!
//! In: the sources, and `lengths.txt`, which has the length of each file above [`FILE_LINES`] and
//! of each function above [`FUNCTION_LINES`]. Out: what has grown, what has become long, and what
//! is long no longer.
//!
//! Invariant: the list names nothing that is short. Who has a reason to let something grow records
//! it (`RHUMB_LENGTHS=record`), and a reader of the change sees by how much.

use crate::functions::functions;
use crate::sources::Source;
use std::collections::BTreeMap;

/// Lines from which on the length of a file is recorded.
const FILE_LINES: usize = 500;
/// Lines from which on the length of a function is recorded.
const FUNCTION_LINES: usize = 60;

/// Lines of what is long: by path, and by the name of the function, which is empty for the file.
type Lengths = BTreeMap<(String, String), usize>;

/// The lengths of all that is long.
fn measured(sources: &[Source]) -> Lengths {
    let mut lengths = Lengths::new();
    for source in sources {
        if source.lines > FILE_LINES {
            lengths.insert((source.path.clone(), String::new()), source.lines);
        }
        for function in functions(source) {
            if function.lines > FUNCTION_LINES {
                // Of functions with one name the longest counts.
                let longest = lengths
                    .entry((source.path.clone(), function.name))
                    .or_default();
                *longest = function.lines.max(*longest);
            }
        }
    }
    lengths
}

/// The list as it is kept: a line for each, with lines, path and function.
pub(crate) fn list(sources: &[Source]) -> String {
    let mut text = String::new();
    for ((path, function), lines) in measured(sources) {
        text.push_str(format!("{lines} {path} {function}").trim_end());
        text.push('\n');
    }
    text
}

fn read(list: &str) -> Lengths {
    let mut lengths = Lengths::new();
    for line in list.lines() {
        let mut words = line.split(' ');
        let lines = words.next().and_then(|lines| lines.parse().ok());
        let path = words.next().unwrap_or_default().to_owned();
        let function = words.next().unwrap_or_default().to_owned();
        let lines = lines.unwrap_or_else(|| panic!("lengths.txt: '{line}' begins with no number"));
        lengths.insert((path, function), lines);
    }
    lengths
}

/// What is longer than the list says, or needs no entry there.
pub(crate) fn violations(sources: &[Source], list: &str) -> Vec<String> {
    let recorded = read(list);
    let measured = measured(sources);
    let mut found = Vec::new();
    for (what, &lines) in &measured {
        let name = name(what);
        match recorded.get(what) {
            Some(&before) if before < lines => {
                found.push(format!("{name} grew from {before} lines to {lines}"));
            }
            None => found.push(format!("{name} has become long: {lines} lines")),
            Some(_) => {}
        }
    }
    let short = recorded.keys().filter(|what| !measured.contains_key(what));
    found.extend(short.map(|what| format!("{} is not long: take it off the list", name(what))));
    found
}

fn name((path, function): &(String, String)) -> String {
    match function.as_str() {
        "" => path.clone(),
        function => format!("{path}: `{function}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_may_stay_so_and_does_not_grow() {
        let long = |lines: usize| {
            let text = format!("fn long() {{\n{}}}\n", "    f();\n".repeat(lines - 2));
            Source::new("a.rs", &text)
        };
        let file = Source::new("b.rs", &"\n".repeat(501));
        let list = list(&[long(61), file.clone()]);
        assert_eq!(list, "61 a.rs long\n501 b.rs\n");
        assert!(violations(&[long(61), file.clone()], &list).is_empty());
        assert_eq!(
            violations(&[long(62), file.clone()], &list),
            ["a.rs: `long` grew from 61 lines to 62"]
        );
        assert_eq!(
            violations(&[long(60), file.clone()], &list),
            ["a.rs: `long` is not long: take it off the list"]
        );
        assert_eq!(
            violations(&[long(61), file], "61 a.rs long\n"),
            ["b.rs has become long: 501 lines"]
        );
    }
}
