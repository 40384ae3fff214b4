//! The files of the page. They are part of the program: nothing comes from elsewhere.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use include_dir::{Dir, include_dir};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/console/assets");

/// The file that a path names.
pub(super) async fn file(uri: Uri) -> Response {
    let path = match uri.path().trim_start_matches('/') {
        "" => "index.html",
        path => path,
    };
    match FILES.get_file(path) {
        Some(file) => {
            let headers = [
                (header::CONTENT_TYPE, media_type(path)),
                (header::CACHE_CONTROL, "no-cache"),
            ];
            (headers, file.contents()).into_response()
        }
        None => (StatusCode::NOT_FOUND, "the console has no such page\n").into_response(),
    }
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn all<'a>(dir: &'a Dir<'a>) -> Vec<&'a include_dir::File<'a>> {
        dir.files().chain(dir.dirs().flat_map(all)).collect()
    }

    /// Goal: the page stays small. The packed files are what a browser would get from a server that
    /// packs.
    #[test]
    fn the_page_is_at_most_250_kb_packed_and_names_nothing_elsewhere() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        for file in all(&FILES) {
            packed.write_all(file.contents()).unwrap();
            let text = String::from_utf8_lossy(file.contents());
            let names_others = text.contains("src=\"http")
                || text.contains("href=\"http")
                || text.contains("@import");
            assert!(!names_others, "{}", file.path().display());
        }
        let bytes = packed.finish().unwrap().len();
        assert!(bytes <= 250_000, "{bytes} bytes");
    }

    #[tokio::test]
    async fn a_path_gives_its_file_with_its_type_and_nothing_outside() {
        let get = |path: &'static str| file(Uri::from_static(path));
        for (path, media_type) in [
            ("/", "text/html; charset=utf-8"),
            (
                "/vendor/uPlot.iife.min.js",
                "text/javascript; charset=utf-8",
            ),
        ] {
            let answer = get(path).await;
            assert_eq!(
                (answer.status(), &answer.headers()["content-type"]),
                (StatusCode::OK, &media_type.parse().unwrap())
            );
        }
        for path in ["/none.js", "/../Cargo.toml", "/vendor/../../assets.rs"] {
            assert_eq!(get(path).await.status(), StatusCode::NOT_FOUND, "{path}");
        }
    }
}
