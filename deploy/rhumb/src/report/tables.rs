//! Tables of a report. All text that is not ours comes in through [`foreign`], and maud escapes it.

use super::curves::bar;
use super::words;
use maud::{Markup, html};

/// A row: what it is about, and its numbers.
pub(super) struct Row {
    pub(super) name: Markup,
    pub(super) cells: Vec<String>,
    /// How long its bar is; none without one.
    pub(super) bar: Option<u64>,
}

impl Row {
    /// A row with a number, which its bar shows, and its part of the whole.
    pub(super) fn counted(name: Markup, n: u64, whole: u64) -> Row {
        Row {
            name,
            cells: vec![words::number(n), words::share(n, whole)],
            bar: Some(n),
        }
    }
}

/// A table with a caption. `heads` names the columns without that of the bars; words take the place
/// of a table without rows.
pub(super) fn table(caption: &str, heads: &[&str], rows: &[Row]) -> Markup {
    let largest = rows.iter().filter_map(|row| row.bar).max();
    html! {
        @if rows.is_empty() {
            p.none { b { (caption) } ": none." }
        } @else {
            // A region that can be scrolled is reached by the keyboard, too.
            div.scrolls role="region" tabindex="0" aria-label=(caption) {
                table {
                    caption { (caption) }
                    thead {
                        tr {
                            @for head in heads { th scope="col" { (head) } }
                            @if largest.is_some() { td.chart {} }
                        }
                    }
                    tbody {
                        @for Row { name, cells, bar: long } in rows {
                            tr {
                                th scope="row" { (name) }
                                @for cell in cells { td { (cell) } }
                                @if let Some(largest) = largest { td.chart { (bar(long.unwrap_or_default(), largest)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A text of ours, or a number.
pub(super) fn own(text: &str) -> Markup {
    html! { (text) }
}

/// A text that is not ours; `none` stands for an empty one.
pub(super) fn foreign(text: &str, none: &str) -> Markup {
    html! {
        @if text.is_empty() { i { (none) } } @else { bdi { (words::foreign(text)) } }
    }
}
