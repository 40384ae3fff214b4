//! Structure: the rules of the house that the compiler does not hold.
//!
//! In: the sources of the repository. Out: a failure that names file and line of what breaks a
//! rule.
//!
//! Invariant: no rule has an exception; lengths, which have grown, do not grow further.

mod circles;
mod functions;
mod imports;
mod lengths;
mod lines;
mod sources;

use circles::Modules;
use sources::{Source, read_all, repository};
use std::fs;
use std::path::Path;

/// The files from which crates begin: libraries and binaries. The crates of the tests do not count.
fn roots(sources: &[Source]) -> impl Iterator<Item = &str> {
    const ROOTS: &[&str] = &["/src/lib.rs", "/src/main.rs"];
    let paths = sources
        .iter()
        .map(|source| source.path.as_str())
        .filter(|path| !path.starts_with("tests/"));
    paths.filter(|path| ROOTS.iter().any(|root| path.ends_with(root)) || path.contains("/src/bin/"))
}

fn all_circles(sources: &[Source]) -> Vec<String> {
    let mut messages = Vec::new();
    for root in roots(sources) {
        let needs = Modules::read(sources, root).needs();
        for circle in circles::circles(&needs) {
            let files: Vec<&str> = circles::files(&circle).into_iter().collect();
            messages.push(format!(
                "a circle of {} files: {}",
                files.len(),
                files.join(", ")
            ));
            let closing = circle.iter().map(|need| {
                format!(
                    "  {}:{} needs {} ({})",
                    need.from, need.line, need.to, need.path
                )
            });
            messages.extend(closing);
        }
    }
    messages
}

fn circles_of_rooms(sources: &[Source]) -> Vec<String> {
    let mut messages = Vec::new();
    for root in roots(sources) {
        let needs = circles::needs_of_rooms(&Modules::read(sources, root).needs(), root);
        for circle in circles::circles(&needs) {
            let rooms: Vec<&str> = circles::files(&circle).into_iter().collect();
            messages.push(format!(
                "{root}: a circle of {} rooms: {}",
                rooms.len(),
                rooms.join(", ")
            ));
            messages.extend(circle.iter().map(|need| {
                format!(
                    "  {} needs {} ({}:{})",
                    need.from, need.to, need.path, need.line
                )
            }));
        }
    }
    messages
}

/// The packages that a manifest depends on, each with its line.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for (line, text) in (1..).zip(manifest.lines()) {
        if let Some(section) = text.strip_prefix('[') {
            let section = section.trim_end().trim_end_matches(']');
            is_inside = section.ends_with("dependencies");
            // `[dependencies.name]`
            found.extend(
                section
                    .split_once("dependencies.")
                    .map(|(_, name)| (line, name)),
            );
        } else if is_inside && !text.trim_start().starts_with('#') {
            found.extend(
                text.split_once(['.', ' ', '='])
                    .map(|(name, _)| (line, name)),
            );
            let renamed = text
                .split_once("package = \"")
                .and_then(|(_, rest)| rest.split_once('"'));
            found.extend(renamed.map(|(name, _)| (line, name)));
        }
    }
    found
}

/// The name of the package of a manifest.
fn package(manifest: &str) -> &str {
    let name = manifest
        .lines()
        .find_map(|line| line.strip_prefix("name = \""));
    name.and_then(|rest| rest.split('"').next())
        .expect("a package has a name")
}

/// Stages that depend on stages.
fn stages_that_meet(manifests: &[(String, String)]) -> Vec<String> {
    let stages: Vec<&str> = manifests.iter().map(|(_, text)| package(text)).collect();
    let mut messages = Vec::new();
    for (path, text) in manifests {
        for (line, name) in dependencies(text)
            .into_iter()
            .filter(|(_, name)| stages.contains(name))
        {
            messages.push(format!(
                "{path}:{line}: the stage {} depends on the stage {name}",
                package(text)
            ));
        }
    }
    messages
}

fn manifests_of_stages(root: &Path) -> Vec<(String, String)> {
    let folders = fs::read_dir(root.join("stages"))
        .expect("the folder of the stages")
        .flatten();
    // Whose programs are of all stages.
    let folders = folders.filter(|folder| folder.file_name() != "programs");
    let manifests = folders.filter_map(|folder| {
        let text = fs::read_to_string(folder.path().join("Cargo.toml")).ok()?;
        Some((
            format!("stages/{}/Cargo.toml", folder.file_name().display()),
            text,
        ))
    });
    manifests.collect()
}

/// Crates that are pure: what runs a core as a process is not below them.
const PURE: [&str; 14] = [
    "shared/url",
    "shared/telemetry",
    "shared/wire",
    "shared/partition",
    "shared/robots",
    "shared/markup",
    "shared/usage",
    "shared/config",
    "shared/stage",
    "stages/host-splitter",
    "stages/dedup",
    "stages/scheduler",
    "stages/parser",
    "stages/archiver",
];
/// What none of these builds, for its tests neither.
const IMPURE: [&str; 7] = [
    "tokio",
    "async-nats",
    "axum",
    "rustls",
    "fjall",
    "rhumb-bus",
    "rhumb-node",
];

fn impure(path: &str, manifest: &str) -> Vec<String> {
    let found = dependencies(manifest)
        .into_iter()
        .filter(|(_, name)| IMPURE.contains(name));
    found
        .map(|(line, name)| format!("{path}:{line}: {} depends on {name}", package(manifest)))
        .collect()
}

fn assert_none(rule: &str, violations: &[String]) {
    assert!(
        violations.is_empty(),
        "{rule}; this breaks it:\n{}",
        violations.join("\n")
    );
}

#[test]
fn what_is_long_does_not_grow() {
    let root = repository();
    let sources = read_all(&root);
    assert!(sources.len() > 100, "{} files found", sources.len());
    let list = root.join("tests/tests/structure/lengths.txt");
    if std::env::var("RHUMB_LENGTHS").is_ok_and(|value| value == "record") {
        fs::write(&list, lengths::list(&sources)).expect("the list can be written");
    }
    let recorded = fs::read_to_string(&list).expect("the list of lengths");
    assert_none(
        "what is long does not grow without a reason (RHUMB_LENGTHS=record writes it down)",
        &lengths::violations(&sources, &recorded),
    );
}

#[test]
fn a_line_says_one_thing_and_fits() {
    let sources = read_all(&repository());
    let packed: Vec<String> = sources.iter().flat_map(lines::packed_lets).collect();
    assert_none("a let binds one value", &packed);
    let (all, wide) = lines::wide(&sources);
    assert!(wide * 1000 < 2 * all, "{wide} of {all} lines are too wide");
}

#[test]
fn imports_within_a_crate_go_one_way() {
    let sources = read_all(&repository());
    assert!(roots(&sources).count() > 15, "too few crates found");
    assert_none(
        "files of a crate do not need one another in a circle",
        &all_circles(&sources),
    );
}

#[test]
fn rooms_of_a_crate_need_one_another_one_way() {
    let sources = read_all(&repository());
    assert_none(
        "modules at the top of a crate, with all below them, close no circle",
        &circles_of_rooms(&sources),
    );
}

#[test]
fn no_stage_depends_on_another() {
    let manifests = manifests_of_stages(&repository());
    assert!(manifests.len() >= 7, "{} stages found", manifests.len());
    assert_none(
        "stages meet in messages alone",
        &stages_that_meet(&manifests),
    );
}

#[test]
fn cores_build_without_a_broker_a_runtime_or_a_store_on_disk() {
    let root = repository();
    let read = |folder: &str| {
        fs::read_to_string(root.join(folder).join("Cargo.toml")).expect("a manifest")
    };
    let found: Vec<String> = PURE
        .iter()
        .flat_map(|folder| impure(folder, &read(folder)))
        .collect();
    assert_none("what is pure has no dependency that waits", &found);
    assert_eq!(
        impure(
            "a",
            "[package]\nname = \"a\"\n[dev-dependencies]\nfjall.workspace = true\n"
        )
        .len(),
        1
    );
}

#[test]
fn a_stage_that_depends_on_a_stage_is_found() {
    let manifest = |name: &str, more: &str| {
        let text = format!(
            "[package]\nname = \"{name}\"\n\n[lints]\nb = true\n\n[dependencies]\nanyhow.workspace \
             = true\n{more}"
        );
        (format!("stages/{name}/Cargo.toml"), text)
    };
    let stages = |more| stages_that_meet(&[manifest("a", more), manifest("b", "")]);
    assert!(stages("# b = \"1\"\n[features]\nb = []\n").is_empty());
    for more in [
        "b.workspace = true\n",
        "[dev-dependencies]\nb = { path = \"../b\" }\n",
        "c = { package = \"b\" }\n",
    ] {
        let found = stages(more);
        assert_eq!(found.len(), 1, "{more}: {found:?}");
        assert!(
            found[0].ends_with("the stage a depends on the stage b"),
            "{found:?}"
        );
    }
    assert_eq!(
        stages("\n[dependencies.b]\npath = \"../b\"\n"),
        ["stages/a/Cargo.toml:10: the stage a depends on the stage b"]
    );
}
