//! Refusals: bad input is named with its reason before anything starts.

use rhumb_tests::harness::rhumb;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

#[test]
fn bad_input_is_named_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data").display().to_string();
    let long = format!("http://a.test/{}", "x".repeat(3_000));
    let seeds = folder.path().join("seeds.txt");
    std::fs::write(&seeds, "\u{feff}http://a.test/\nno url\n").expect("a file");
    let seeds = seeds.display().to_string();
    let local = "network.allow_private_addresses=true";
    for (arguments, named) in [
        (vec!["no url"], "'no url'"),
        (vec!["no url", "--set", local], "'no url'"),
        (vec![long.as_str(), "--set", local], "3014 bytes"),
        (vec!["--seeds", &seeds, "--set", local], "seeds.txt:2"),
        (
            vec![
                "http://a.test/",
                "--set",
                local,
                "--summary",
                "/no/such/folder/s.json",
            ],
            "/no/such/folder/s.json",
        ),
        (vec!["http://a.test/"], "network.user_agent"),
        (
            vec!["http://a.test/", "--set", local, "--accept-loss"],
            "needs --resume",
        ),
        (
            vec![
                "http://a.test/",
                "--set",
                local,
                "--set",
                "broker.url=foo bar",
            ],
            "broker.url",
        ),
    ] {
        let said = rhumb(&[["crawl", "--data", &data].as_slice(), &arguments].concat());
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        assert!(said.err.contains(named), "{arguments:?}: {}", said.err);
    }
    assert!(!folder.path().join("data").exists());
}

#[test]
fn hostile_urls_are_refused_as_arguments_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let long = format!("http://a.test/{}", "x".repeat(100_000));
    let parameters = format!("http://a.test/?{}", "a=1&".repeat(10_000));
    let not_utf8 = OsStr::from_bytes(b"http://a.test/\xFF");
    for (url, code, reason) in [
        (OsStr::new(&long), 1, "longer than"),
        (OsStr::new(&parameters), 1, "longer than"),
        (
            OsStr::new("http://a%00.test/"),
            1,
            "neither a valid name nor an address",
        ),
        (not_utf8, 2, "UTF-8"),
    ] {
        let said = rhumb(&[OsStr::new("canonical"), url]);
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{}", said.err);
        assert!(
            said.err.contains(reason) && said.err.len() < 2_000,
            "{}",
            said.err
        );
        // No crawl runs: a bad URL is named before one is looked for.
        let said = rhumb(&[
            OsStr::new("inject"),
            OsStr::new("--data"),
            data.as_os_str(),
            url,
        ]);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(
            said.err.contains(reason) && said.err.len() < 2_000,
            "{}",
            said.err
        );
    }
    for (line, reason) in [
        (long.as_bytes(), "seeds:2"),
        (b"http://a\0b/", "seeds:2"),
        (b"http://a.test/\xFF", "UTF-8"),
    ] {
        let seeds = folder.path().join("seeds");
        std::fs::write(&seeds, [b"http://a.test/\n", line].concat()).expect("a file");
        let arguments =
            ["--set", "network.allow_private_addresses=true", "--seeds"].map(OsStr::new);
        let crawl = [
            &[OsStr::new("crawl"), OsStr::new("--data"), data.as_os_str()],
            &arguments[..],
            &[seeds.as_os_str()],
        ];
        let said = rhumb(&crawl.concat());
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(
            said.err.contains(reason) && said.err.len() < 2_000,
            "{}",
            said.err
        );
    }
    assert!(!data.exists());
}

#[test]
fn a_command_without_a_crawl_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().display().to_string();
    for command in [
        ["status"].as_slice(),
        &["tap", "pages"],
        &["dead"],
        &["scale", "fetcher=2"],
    ] {
        let mut arguments = command.to_vec();
        arguments.extend([
            "--set",
            "network.allow_private_addresses=true",
            "--data",
            &data,
        ]);
        let said = rhumb(&arguments);
        assert_eq!(said.code, 1, "{command:?}: {}", said.err);
        assert!(
            said.err.contains(&data) && said.err.contains("--data"),
            "{command:?}: {}",
            said.err
        );
    }
}
