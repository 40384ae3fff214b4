//! Srcset: the URLs of a list of images for different screens.
//!
//! In: the decoded value of `srcset`. Out: its URLs as written.
//! Source: HTML Living Standard, "Parsing a srcset attribute".

/// The URLs in `srcset`, in order.
pub fn urls(srcset: &str) -> impl Iterator<Item = &str> {
    let mut rest = srcset;
    std::iter::from_fn(move || {
        let start = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        if start.is_empty() {
            return None;
        }
        let end = start
            .find(|c: char| c.is_ascii_whitespace())
            .unwrap_or(start.len());
        let (written, behind) = start.split_at(end);
        let url = written.trim_end_matches(',');
        // A comma at the end of a URL ends its candidate; descriptors may hold commas in
        // parentheses.
        rest = if url.len() < written.len() {
            behind
        } else {
            &behind[descriptors_bytes(behind)..]
        };
        Some(url)
    })
}

fn descriptors_bytes(text: &str) -> usize {
    let mut in_parentheses = false;
    let end = text.find(|c| {
        in_parentheses = c == '(' || in_parentheses && c != ')';
        c == ',' && !in_parentheses
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_candidate_has_one_url() {
        let cases: &[(&str, &[&str])] = &[
            ("a.png", &["a.png"]),
            (" a.png 1x, b.png 2x ", &["a.png", "b.png"]),
            ("a.png, b.png 2x", &["a.png", "b.png"]),
            ("a,b.png 2x,c.png", &["a,b.png", "c.png"]),
            (",, a.png ,,", &["a.png"]),
            ("a.png (1,2) 3x, b.png", &["a.png", "b.png"]),
            (
                "data:image/png;base64,xx 1x, b 2x",
                &["data:image/png;base64,xx", "b"],
            ),
            ("a.png 1x (", &["a.png"]),
            ("é.png 1x,\u{A0}b", &["é.png", "\u{A0}b"]),
            ("", &[]),
            (" ,", &[]),
        ];
        for (srcset, expected) in cases {
            assert_eq!(
                super::urls(srcset).collect::<Vec<_>>(),
                *expected,
                "{srcset}"
            );
        }
    }
}
