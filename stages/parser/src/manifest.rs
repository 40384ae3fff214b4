//! Manifests: what the manifest of a web app names.
//!
//! In: the body. Out: the URLs of its icons, its screenshots and its shortcuts' icons, and where
//! the app starts, as written. What is no JSON, or larger than a manifest is, has none. Source: Web
//! Application Manifest, sections 1.8 to 1.16.

use encoding_rs::UTF_8;
use serde_json::Value;

/// Bytes of a manifest; browsers' own are a few thousand.
const BYTES_MAX: usize = 1 << 20;

/// The URLs that `manifest` names.
pub fn urls(manifest: &[u8]) -> Vec<String> {
    if manifest.len() > BYTES_MAX {
        return Vec::new();
    }
    let (text, _) = UTF_8.decode_with_bom_removal(manifest);
    let Ok(manifest) = serde_json::from_str::<Value>(&text) else {
        return Vec::new();
    };
    let shortcuts = list(&manifest, "shortcuts").flat_map(|shortcut| list(shortcut, "icons"));
    let images = list(&manifest, "icons")
        .chain(list(&manifest, "screenshots"))
        .chain(shortcuts);
    let urls = images
        .filter_map(|image| image.get("src"))
        .chain(manifest.get("start_url"));
    urls.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_its_images_and_where_it_starts() {
        let cases: &[(&str, &[&str])] = &[
            (
                r#"{"icons": [{"src": "a.png", "sizes": "48x48"}, {"src": "b.png"}]}"#,
                &["a.png", "b.png"],
            ),
            (
                r#"{"screenshots": [{"src": "a"}], "shortcuts": [{"url": "/s", "icons": [{"src": "b"}]}]}"#,
                &["a", "b"],
            ),
            (
                "\u{FEFF}{\"start_url\": \"/?app\", \"icons\": [{\"src\": \"a\"}]}",
                &["a", "/?app"],
            ),
            (
                r#"{"icons": [1, {"src": 2}, {}, "x", [], {"src": "a"}], "shortcuts": {"icons": 1}}"#,
                &["a"],
            ),
            (r#"{"icons": {"src": "a"}, "start_url": []}"#, &[]),
            (r#"{"icons": [{"src": "a"}"#, &[]),
            ("[]", &[]),
            ("", &[]),
        ];
        for (manifest, expected) in cases {
            assert_eq!(urls(manifest.as_bytes()), *expected, "{manifest}");
        }
    }

    #[test]
    fn what_is_no_manifest_costs_little() {
        assert_eq!(urls("[".repeat(BYTES_MAX).as_bytes()), [""; 0]);
        let large = format!(r#"{{"icons": [{{"src": "{}"}}]}}"#, "x".repeat(BYTES_MAX));
        assert_eq!(urls(large.as_bytes()), [""; 0]);
        let numbers = format!(
            r#"{{"icons": [{}1, {{"src": "a"}}]}}"#,
            "1,".repeat(400_000)
        );
        assert_eq!(urls(numbers.as_bytes()), ["a"]);
    }
}
