//! What the figures of all experiments are made of: SVG, written by hand.
//!
//! Invariants: well-formed XML that needs no font, script or file from elsewhere; nothing is
//! escaped, so texts must not need it.

use std::fmt::Write as _;

/// A line's colour, which people who do not see all colours can tell apart (Okabe and Ito 2008),
/// and its dashes.
pub(crate) type Style = (&'static str, &'static str);

/// A figure of these elements, under a heading.
pub(crate) fn figure(
    (width, height): (f64, f64),
    heading: &str,
    title: &str,
    elements: &[String],
) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let mut line = |element: &str| {
        text.push_str(element);
        text.push('\n');
    };
    line(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" font-family=\"Helvetica, Arial, \
         sans-serif\" font-size=\"12\" fill=\"#222\">"
    ));
    line(&format!("<title>{title}</title>"));
    // On a page in dark colours, black would be lost.
    line(&format!(
        "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>"
    ));
    line(&format!(
        "<text x=\"{}\" y=\"24\" font-size=\"15\" text-anchor=\"middle\">{heading}</text>",
        width / 2.0
    ));
    elements.iter().for_each(|element| line(element));
    line("</svg>");
    text
}

/// A line through these points.
pub(crate) fn polyline(style: Style, points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut places = String::new();
    for (x, y) in points {
        let gap = if places.is_empty() { "" } else { " " };
        // Writing into a string cannot fail.
        let _ = write!(places, "{gap}{x:.1},{y:.1}");
    }
    format!("<polyline points=\"{places}\"{}/>", stroke(style))
}

/// A line's sample and name, for a legend.
pub(crate) fn sample(style: Style, (x, y): (f64, f64), name: &str) -> String {
    let sample = format!("<path d=\"M{x:.1} {y:.1}h30\"{}/>", stroke(style));
    format!(
        "{sample}\n<text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
        x + 38.0,
        y + 4.0
    )
}

fn stroke((colour, dashes): Style) -> String {
    let dashes = if dashes.is_empty() {
        String::new()
    } else {
        format!(" stroke-dasharray=\"{dashes}\"")
    };
    format!(" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"{dashes}")
}

#[cfg(test)]
pub(crate) mod tests {
    /// Every tag closed in order, every attribute quoted, nothing outside the root.
    pub(crate) fn assert_well_formed(xml: &str) {
        let mut open = Vec::new();
        let body = xml
            .strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
            .unwrap();
        for piece in body.split('<').skip(1) {
            let (tag, text) = piece.split_once('>').unwrap();
            assert!(
                !text.contains('&') && tag.matches('"').count() % 2 == 0,
                "{piece}"
            );
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{piece}");
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap());
            }
            assert!(
                !open.is_empty() || tag.ends_with('/') || text.trim().is_empty(),
                "{piece}"
            );
        }
        assert!(open.is_empty(), "{open:?}");
    }
}
