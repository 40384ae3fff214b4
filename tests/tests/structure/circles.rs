//! Circles: files of a crate that need one another.
//!
//! In: the files of a crate. Out: what each file needs of which other ([`Need`]), and the circles
//! among them.
//!
//! A file needs the file that defines a name, also where a re-export passes the name on. The module
//! at the head of a folder is made of the modules below it: what it takes from them is no need, but
//! what they take from it is one.

use crate::imports::File;
use crate::sources::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Re-exports that are followed from one to the next, at most.
const HOPS_MAX: usize = 16;

/// The modules of a crate, by their path below its root.
pub(crate) struct Modules<'a> {
    sources: &'a [Source],
    files: BTreeMap<Vec<String>, (usize, File)>,
}

/// What one file takes from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    pub(crate) from: String,
    pub(crate) line: usize,
    pub(crate) to: String,
    /// As written.
    pub(crate) path: String,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Module(Vec<String>),
    /// A name that a module defines.
    Name(Vec<String>),
}

impl Target {
    fn module(&self) -> &[String] {
        match self {
            Target::Module(path) | Target::Name(path) => path,
        }
    }
}

impl<'a> Modules<'a> {
    /// Reads the modules of the crate whose root is the given file, from declaration to
    /// declaration.
    pub(crate) fn read(sources: &'a [Source], root: &str) -> Modules<'a> {
        let by_path: BTreeMap<&str, usize> = sources
            .iter()
            .enumerate()
            .map(|(index, source)| (source.path.as_str(), index))
            .collect();
        let mut files = BTreeMap::new();
        let mut open: Vec<(Vec<String>, usize)> = by_path
            .get(root)
            .map(|&index| (Vec::new(), index))
            .into_iter()
            .collect();
        while let Some((module, index)) = open.pop() {
            let file = File::read(&sources[index]);
            let folder = folder_of_modules(&sources[index].path, module.is_empty());
            for name in &file.modules {
                let at = [
                    format!("{folder}/{name}.rs"),
                    format!("{folder}/{name}/mod.rs"),
                ];
                let found = at.iter().find_map(|path| by_path.get(path.as_str()));
                open.extend(found.map(|&index| (below(&module, name), index)));
            }
            files.insert(module, (index, file));
        }
        Modules { sources, files }
    }

    /// What its files need of one another.
    pub(crate) fn needs(&self) -> BTreeSet<Need> {
        let mut needs = BTreeSet::new();
        for (module, (_, file)) in &self.files {
            let mut add = |line, path: &[String], target: &[String]| {
                if !target.starts_with(module) {
                    let from = self.path_of(module);
                    let to = self.path_of(target);
                    needs.insert(Need {
                        from,
                        line,
                        to,
                        path: path.join("::"),
                    });
                }
            };
            for mention in &file.mentions {
                if let Some(target) = self.resolve(module, &mention.path, HOPS_MAX) {
                    add(mention.line, &mention.path, target.module());
                }
            }
            for import in &file.imports {
                let is_mentioned = file
                    .mentions
                    .iter()
                    .any(|mention| mention.path[0] == import.name);
                match self.resolve(module, &import.path, HOPS_MAX) {
                    Some(Target::Module(_)) if is_mentioned => {}
                    Some(target) => add(import.line, &import.path, target.module()),
                    None => {}
                }
            }
        }
        needs
    }

    fn path_of(&self, module: &[String]) -> String {
        self.sources[self.files[module].0].path.clone()
    }

    /// Follows a path that stands in a module; none when it leads out of the crate.
    fn resolve(&self, module: &[String], path: &[String], hops: usize) -> Option<Target> {
        let (mut at, mut rest) = self.begin(module, path, hops)?;
        while let Some((name, more)) = rest.split_first() {
            if self.files.contains_key(&below(&at, name)) {
                at.push(name.clone());
                rest = more;
            } else if name == "*" {
                break;
            } else {
                return Some(self.resolve_name(&at, name, more, hops));
            }
        }
        Some(Target::Module(at))
    }

    /// The module in which a path begins, and what is left of it.
    fn begin<'p>(
        &self,
        module: &[String],
        path: &'p [String],
        hops: usize,
    ) -> Option<(Vec<String>, &'p [String])> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), rest)),
            "self" => Some((module.to_vec(), rest)),
            "super" => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                Some((
                    module[..module.len().saturating_sub(ups)].to_vec(),
                    &path[ups..],
                ))
            }
            name if self.files.contains_key(&below(module, name)) => Some((module.to_vec(), path)),
            name => {
                let imports = &self.files.get(module)?.1.imports;
                let import = imports
                    .iter()
                    .find(|import| import.name == name && import.path != [name])?;
                match self.resolve(module, &import.path, hops.checked_sub(1)?)? {
                    Target::Module(target) => Some((target, rest)),
                    // The import is a need already.
                    Target::Name(_) => None,
                }
            }
        }
    }

    /// Finds who defines a name that a module has: itself, or a module from which it imports the
    /// name.
    fn resolve_name(&self, module: &[String], name: &str, more: &[String], hops: usize) -> Target {
        let here = Target::Name(module.to_vec());
        let file = &self.files[module].1;
        if hops == 0 || file.definitions.iter().any(|defined| defined == name) {
            return here;
        }
        if let Some(import) = file.imports.iter().find(|import| import.name == name) {
            let path = [import.path.as_slice(), more].concat();
            return self.resolve(module, &path, hops - 1).unwrap_or(here);
        }
        let globs = file.imports.iter().filter(|import| import.name == "*");
        let mut targets = globs.filter_map(|import| self.resolve(module, &import.path, hops - 1));
        let defines = |target: &Target| matches!(target, Target::Module(path) if self.files[path].1.definitions.iter().any(|defined| defined == name));
        targets
            .find(defines)
            .map_or(here, |target| Target::Name(target.module().to_vec()))
    }
}

/// The folder in which the modules stand that a file declares.
fn folder_of_modules(path: &str, is_root: bool) -> &str {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    if is_root || path.ends_with("/mod.rs") {
        folder
    } else {
        path.trim_end_matches(".rs")
    }
}

fn below(module: &[String], name: &str) -> Vec<String> {
    [module, &[name.to_owned()]].concat()
}

/// The circles among files, largest first; each with the needs that close it.
pub(crate) fn circles(needs: &BTreeSet<Need>) -> Vec<Vec<&Need>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for need in needs {
        next.entry(&need.from).or_default().push(&need.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = next
        .keys()
        .map(|&file| (file, reach(&next, file)))
        .collect();
    let is_mutual =
        |one: &str, other: &str| reached[one].contains(other) && reached[other].contains(one);
    let mut circles: Vec<Vec<&Need>> = Vec::new();
    for need in needs
        .iter()
        .filter(|need| next.contains_key(need.to.as_str()) && is_mutual(&need.from, &need.to))
    {
        match circles
            .iter_mut()
            .find(|circle| is_mutual(&circle[0].from, &need.from))
        {
            Some(circle) => circle.push(need),
            None => circles.push(vec![need]),
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(files(circle).len()));
    circles
}

/// What the rooms of a crate need of one another: its modules at the top, each with all that is
/// below it.
pub(crate) fn needs_of_rooms(needs: &BTreeSet<Need>, root: &str) -> BTreeSet<Need> {
    let room = |path: &str| {
        let below = path
            .strip_prefix(folder_of_modules(root, true))
            .unwrap_or(path)
            .trim_start_matches('/');
        below
            .split('/')
            .next()
            .unwrap_or(below)
            .trim_end_matches(".rs")
            .to_owned()
    };
    let of_rooms = needs.iter().map(|need| Need {
        from: room(&need.from),
        line: need.line,
        to: room(&need.to),
        path: format!("{} in {}", need.path, need.from),
    });
    of_rooms.filter(|need| need.from != need.to).collect()
}

/// The files of a circle.
pub(crate) fn files<'a>(circle: &[&'a Need]) -> BTreeSet<&'a str> {
    circle.iter().map(|need| need.from.as_str()).collect()
}

/// All files that a file needs, and those that these need.
fn reach<'a>(next: &BTreeMap<&'a str, Vec<&'a str>>, file: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        let needed = next.get(file).into_iter().flatten().copied();
        open.extend(needed.filter(|&needed| reached.insert(needed)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The needs of a crate, as `from:line to`.
    fn needs(files: &[(&str, &str)]) -> (Vec<String>, usize) {
        let sources: Vec<Source> = files
            .iter()
            .map(|(name, text)| Source::new(format!("src/{name}"), text))
            .collect();
        let needs = Modules::read(&sources, "src/lib.rs").needs();
        let circles = circles(&needs).len();
        let short = |path: &str| {
            path.trim_start_matches("src/")
                .trim_end_matches(".rs")
                .to_owned()
        };
        let listed = needs
            .iter()
            .map(|need| format!("{}:{} {}", short(&need.from), need.line, short(&need.to)));
        (listed.collect(), circles)
    }

    #[test]
    fn a_circle_of_three_files_is_found() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            ("a.rs", "use crate::b::B;\npub(crate) struct A(B);\n"),
            ("b.rs", "use super::c;\npub(crate) struct B(c::C);\n"),
            ("c.rs", "pub(crate) struct C(Option<Box<crate::a::A>>);\n"),
            ("d.rs", "use crate::a::A;\nuse std::fmt;\n"),
        ];
        assert_eq!(
            needs(&files),
            (
                vec![
                    "a:1 b".into(),
                    "b:2 c".into(),
                    "c:1 a".into(),
                    "d:1 a".into()
                ],
                1
            )
        );
    }

    #[test]
    fn a_circle_of_rooms_is_found_where_no_files_close_one() {
        let sources: Vec<Source> = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a/mod.rs", "mod one;\nmod two;\n"),
            ("a/one.rs", "use crate::b::B;\npub(crate) struct One(B);\n"),
            ("a/two.rs", "pub(crate) struct Two;\n"),
            (
                "b.rs",
                "use crate::a::two::Two;\npub(crate) struct B(Two);\n",
            ),
        ]
        .iter()
        .map(|(name, text)| Source::new(format!("src/{name}"), text))
        .collect();
        let needs = Modules::read(&sources, "src/lib.rs").needs();
        assert_eq!(circles(&needs).len(), 0);
        let rooms = needs_of_rooms(&needs, "src/lib.rs");
        let listed: Vec<String> = rooms
            .iter()
            .map(|need| format!("{} {}", need.from, need.to))
            .collect();
        assert_eq!(
            (listed, circles(&rooms).len()),
            (vec!["a b".into(), "b a".into()], 1)
        );
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines() {
        let files = [
            ("lib.rs", "mod a;\npub mod b;\n"),
            ("a.rs", "use crate::b::{Inner, Own, Other};\n"),
            (
                "b/mod.rs",
                "mod inner;\nmod glob;\npub use glob::*;\npub use inner::Inner;\npub struct Own;\n",
            ),
            ("b/inner.rs", "use super::Own;\npub struct Inner(Own);\n"),
            ("b/glob.rs", "pub enum Other {}\n"),
        ];
        let found = ["a:1 b/glob", "a:1 b/inner", "a:1 b/mod", "b/inner:1 b/mod"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(needs(&files), (found, 0));
    }

    #[test]
    fn a_module_is_made_of_those_below_it() {
        let parts = ("a/part.rs", "use super::Own;\npub struct Part(Own);\n");
        let head = (
            "a.rs",
            "mod part;\nuse part::Part;\npub struct Own;\nfn f(part: Part) {}\n",
        );
        assert_eq!(
            needs(&[("lib.rs", "mod a;\n"), head, parts]),
            (vec!["a/part:1 a".into()], 0)
        );
        // By way of a file beside it the circle is one.
        let head = (
            "a.rs",
            "mod part;\nuse crate::b::B;\npub struct Own(B);\npub use part::Part;\n",
        );
        let beside = (
            "b.rs",
            "use crate::a::Part;\npub struct B(Option<Box<Part>>);\n",
        );
        let found = ["a:2 b", "a/part:1 a", "b:1 a/part"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            needs(&[("lib.rs", "mod a;\nmod b;\n"), head, parts, beside]),
            (found, 1)
        );
    }

    #[test]
    fn tests_close_no_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod tests;\n"),
            ("a.rs", "use crate::b::B;\npub struct A;\n"),
            (
                "b.rs",
                "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            ),
            ("tests.rs", "use crate::a::A;\n"),
        ];
        assert_eq!(needs(&files), (vec!["a:1 b".into()], 0));
    }
}
