//! Curves and bars as SVG. Invariant: only numbers, and words of our own, get into one; how it
//! looks is said by classes.

use maud::{Markup, html};
use std::fmt::Write as _;

/// The size of the drawing of a curve, in its own units, and the room below and beside it for
/// words.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 120.0;
const ABOVE: f64 = 12.0;
const BELOW: f64 = 24.0;
const BESIDE: f64 = 80.0;

/// Values over time, as steps: `says` is read to who cannot see them. `in_words` tells the highest,
/// `until` stands at the end.
pub(super) fn curve(
    values: &[f64],
    says: &str,
    in_words: fn(f64) -> String,
    until: &str,
) -> Markup {
    let highest = values.iter().copied().fold(0.0, f64::max);
    let path = steps(values, highest);
    let highest = in_words(highest);
    let right = BESIDE + WIDTH;
    let bottom = ABOVE + HEIGHT;
    let words_at = ABOVE + HEIGHT + BELOW - 4.0;
    html! {
        svg.curve viewBox=(format!("0 0 {right} {}", bottom + BELOW)) role="img" aria-label=(says) {
            line.axis x1=(BESIDE) y1=(bottom) x2=(right) y2=(bottom) {}
            line.grid x1=(BESIDE) y1=(ABOVE) x2=(right) y2=(ABOVE) {}
            @if !path.is_empty() {
                path.area d=(format!("{path}V{bottom}H{BESIDE}Z")) {}
                path.line d=(path) {}
            }
            text x=(BESIDE - 6.0) y=(ABOVE + 4.0) text-anchor="end" { (highest) }
            text x=(BESIDE - 6.0) y=(bottom) text-anchor="end" { "0" }
            text x=(BESIDE) y=(words_at) { "0 s" }
            text x=(right) y=(words_at) text-anchor="end" { (until) }
        }
    }
}

/// The path of the steps, from left to right.
fn steps(values: &[f64], highest: f64) -> String {
    let mut path = String::new();
    if values.is_empty() {
        return path;
    }
    let step = WIDTH / values.len() as f64;
    for (at, value) in values.iter().enumerate() {
        let y = ABOVE + HEIGHT * (1.0 - if highest > 0.0 { value / highest } else { 0.0 });
        let from = BESIDE + step * at as f64;
        let to = BESIDE + step * (at + 1) as f64;
        let _ = match at {
            0 => write!(path, "M{from:.1} {y:.1}H{to:.1}"),
            _ => write!(path, "V{y:.1}H{to:.1}"),
        };
    }
    path
}

/// How much a number is of the largest one.
pub(super) fn bar(part: u64, largest: u64) -> Markup {
    let width = if largest == 0 {
        0.0
    } else {
        100.0 * part as f64 / largest as f64
    };
    html! {
        svg.bar aria-hidden="true" { rect width=(format!("{width:.0}%")) height="100%" {} }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_stays_within_its_drawing() {
        let path = steps(&[1.0, 4.0, 0.0], 4.0);
        assert_eq!(path, "M80.0 102.0H320.0V12.0H560.0V132.0H800.0");
        assert_eq!(steps(&[0.0], 0.0), "M80.0 132.0H800.0");
        assert!(
            !curve(&[], "nothing", |_| String::new(), "0 s")
                .into_string()
                .contains("<path")
        );
    }

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        assert!(bar(1, 4).into_string().contains("width=\"25%\""));
        assert!(bar(0, 0).into_string().contains("width=\"0%\""));
    }
}
