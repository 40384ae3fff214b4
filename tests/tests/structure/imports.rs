//! Imports: what a file takes from other modules of its crate.
//!
//! In: a [`Source`]. Out: its [`File`]: the modules it declares, the names it defines and imports,
//! and the paths that its code names in full. Tests (`#[cfg(test)]`) do not count.

use crate::sources::{Source, blanked, item_end, line_of, words};

/// A name that a file imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    /// As written; `*` at the end for all names of a module.
    pub(crate) path: Vec<String>,
    /// The name under which it is known here.
    pub(crate) name: String,
}

/// A path of two words or more in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
}

/// What a file has to do with other modules.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Modules that it declares and that are files of their own.
    pub(crate) modules: Vec<String>,
    /// Names of its own, outside of blocks.
    pub(crate) definitions: Vec<String>,
    pub(crate) imports: Vec<Import>,
    pub(crate) mentions: Vec<Mention>,
}

impl File {
    pub(crate) fn read(source: &Source) -> File {
        let code = without_tests(&source.code);
        let (imports, code) = take_imports(&code);
        File {
            modules: modules(&code),
            definitions: definitions(&code),
            imports,
            mentions: mentions(&code),
        }
    }
}

fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut code = code.to_owned();
    while let Some(at) = code.find(MARK) {
        let end = item_end(&code, at + MARK.len());
        code = blanked(&code, at, end);
    }
    code
}

/// The imports of code, and the code without them.
fn take_imports(code: &str) -> (Vec<Import>, String) {
    let mut imports = Vec::new();
    let mut rest = String::with_capacity(code.len());
    let mut taken = 0;
    for word in words(code) {
        // `use<'a>` says what a type captures.
        if word.text == "use" && !code[word.end()..].starts_with('<') {
            let end = code[word.end()..]
                .find(';')
                .map_or(code.len(), |at| word.end() + at);
            let line = line_of(code, word.at);
            for (path, name) in expand(&code[word.end()..end]) {
                imports.push(Import { line, path, name });
            }
            rest.push_str(&blanked(&code[taken..end], word.at - taken, end - taken));
            taken = end;
        }
    }
    rest.push_str(&code[taken..]);
    (imports, rest)
}

/// The paths of a tree as in `a::{b, c::{self, d as e}, f::*}`, each with the name that it gets.
fn expand(tree: &str) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    if let Some((prefix, group)) = tree.split_once('{') {
        let prefix = path(prefix);
        let group = group.trim_end().strip_suffix('}').unwrap_or(group);
        let inner = parts(group).into_iter().flat_map(expand);
        return inner
            .map(|(path, name)| full(&prefix, path, name))
            .collect();
    }
    if tree.is_empty() {
        return Vec::new();
    }
    let (path_text, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
    let path = path(path_text);
    let name = if alias.is_empty() {
        path.last().cloned().unwrap_or_default()
    } else {
        alias.trim().to_owned()
    };
    vec![(path, name)]
}

/// A path of a group behind the group's prefix; `self` is the prefix.
fn full(prefix: &[String], path: Vec<String>, name: String) -> (Vec<String>, String) {
    if path != ["self"] || prefix.is_empty() {
        return ([prefix, &path].concat(), name);
    }
    let name = if name == "self" {
        prefix.last().cloned().unwrap_or_default()
    } else {
        name
    };
    (prefix.to_vec(), name)
}

/// What stands between the commas of a group, not those of groups inside.
fn parts(group: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0;
    let mut from = 0;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[from..]);
    parts
}

fn path(text: &str) -> Vec<String> {
    text.split("::")
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Modules that are files of their own: `mod name;`.
fn modules(code: &str) -> Vec<String> {
    let words: Vec<_> = words(code).collect();
    let declared = words
        .windows(2)
        .filter(|pair| pair[0].text == "mod" && code[pair[1].end()..].starts_with(';'));
    declared.map(|pair| pair[1].text.to_owned()).collect()
}

/// Names that are defined outside of blocks.
fn definitions(code: &str) -> Vec<String> {
    const KINDS: &[&str] = &[
        "struct",
        "enum",
        "union",
        "trait",
        "type",
        "const",
        "static",
        "fn",
        "mod",
        "macro_rules",
    ];
    let mut depth = 0_usize;
    let mut before = 0;
    let words: Vec<_> = words(code).collect();
    let mut names = Vec::new();
    for pair in words.windows(2) {
        let between = &code[before..pair[0].at];
        depth = (depth + between.matches('{').count()).saturating_sub(between.matches('}').count());
        before = pair[0].at;
        if depth == 0 && KINDS.contains(&pair[0].text) {
            names.push(pair[1].text.to_owned());
        }
    }
    names
}

/// Paths that are written out in code, from their first word.
fn mentions(code: &str) -> Vec<Mention> {
    let mut mentions: Vec<Mention> = Vec::new();
    let mut line = 1;
    let mut counted = 0;
    let mut end = 0;
    for word in words(code) {
        line += line_of(&code[counted..word.at], word.at - counted) - 1;
        counted = word.at;
        let is_behind_colons = code[..word.at].ends_with("::");
        match mentions.last_mut() {
            Some(last) if is_behind_colons && end + 2 == word.at => {
                last.path.push(word.text.to_owned())
            }
            // Behind a type in brackets, as in `<A as B>::c`.
            _ if is_behind_colons => continue,
            _ => mentions.push(Mention {
                line,
                path: vec![word.text.to_owned()],
            }),
        }
        end = word.end();
    }
    mentions.retain(|mention| mention.path.len() > 1);
    mentions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File::read(&Source::new("a.rs", text))
    }

    #[test]
    fn imports_are_spelled_out() {
        let file = file(
            "use crate::a::{self, B, c::{D as E, F}};\npub(crate) use b::*;\npub use \
             c::G;\n#[cfg(test)]\nuse super::T;\n",
        );
        let found: Vec<_> = file
            .imports
            .iter()
            .map(|one| format!("{} {} {}", one.line, one.path.join("::"), one.name))
            .collect();
        assert_eq!(
            found,
            [
                "1 crate::a a",
                "1 crate::a::B B",
                "1 crate::a::c::D E",
                "1 crate::a::c::F F",
                "2 b::* *",
                "3 c::G G",
            ]
        );
    }

    #[test]
    fn a_file_is_read_without_its_tests() {
        let file = file(
            "mod a;\n#[cfg(test)]\nmod tests;\nconst B: u8 = crate::a::C;\nimpl D {\n    fn e() { \
             super::f::g::<u8>(); }\n}\n\
             #[cfg(test)]\nmod more {\n    fn h() { crate::i::j() }\n}\n",
        );
        assert_eq!(
            (file.modules, file.definitions),
            (vec!["a".to_owned()], vec!["a".to_owned(), "B".to_owned()])
        );
        let found: Vec<_> = file
            .mentions
            .iter()
            .map(|one| (one.line, one.path.join("::")))
            .collect();
        assert_eq!(
            found,
            [(4, "crate::a::C".to_owned()), (6, "super::f::g".to_owned())]
        );
    }
}
