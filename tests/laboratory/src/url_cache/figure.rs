//! Figure: hit rate over size, as SVG: a panel per stream, a line per policy.
//!
//! Invariants: well-formed XML that needs no font, script or file from elsewhere; and nothing in it
//! comes from a trace, so nothing has to be escaped. Source: after the figures of Broder, Najork
//! and Wiener 2003, section 5.

use super::curves::{Curves, Policy};
use crate::plot;

/// Panels side by side.
const COLUMNS: usize = 2;
/// A panel with its labels.
const PANEL: (f64, f64) = (440.0, 300.0);
/// Margins of a panel: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (56.0, 34.0, 14.0, 44.0);
/// Room above the panels, for the title, and below them, for the legend.
const HEAD: f64 = 34.0;
const LEGEND: f64 = 34.0;

/// A policy's colour, which people who do not see all colours can tell apart (Okabe and Ito 2008),
/// and its dashes: LRU and CLOCK lie on one another.
fn style(policy: Policy) -> plot::Style {
    match policy {
        Policy::Infinite => ("#999999", "2 3"),
        Policy::Min => ("#000000", ""),
        Policy::Clock => ("#d55e00", "7 4"),
        Policy::Lru => ("#0072b2", ""),
        Policy::Random => ("#009e73", ""),
        Policy::Static => ("#cc79a7", ""),
    }
}

/// The figure of what was measured.
pub(super) fn svg(measured: &[Curves]) -> String {
    let rows = measured.len().div_ceil(COLUMNS);
    let width = PANEL.0 * COLUMNS as f64;
    let height = HEAD + PANEL.1 * rows as f64 + LEGEND;
    let mut lines = Vec::new();
    for (number, curves) in measured.iter().enumerate() {
        let x = PANEL.0 * (number % COLUMNS) as f64;
        let y = HEAD + PANEL.1 * (number / COLUMNS) as f64;
        lines.push(format!(
            "<g transform=\"translate({x} {y})\">\n{}\n</g>",
            panel(curves)
        ));
    }
    let step = width / Policy::ALL.len() as f64;
    for (number, policy) in Policy::ALL.into_iter().enumerate() {
        let x = step * (number as f64 + 0.2);
        let y = height - LEGEND / 2.0;
        lines.push(plot::sample(style(policy), (x, y), policy.name()));
    }
    let heading = "Hit rate of a URL cache over its size";
    plot::figure(
        (width, height),
        heading,
        &format!("{heading}, by policy"),
        &lines,
    )
}

/// Finds the place in a panel for a size and a rate.
struct Scale {
    /// Exponents of the smallest and the largest size.
    exponents: (f64, f64),
}

impl Scale {
    fn of(curves: &Curves) -> Self {
        let exponents = || {
            curves
                .points
                .iter()
                .map(|point| (point.entries as f64).log2())
        };
        let least = exponents().fold(f64::INFINITY, f64::min).floor();
        let most = exponents().fold(f64::NEG_INFINITY, f64::max).ceil();
        // One size alone still needs a width.
        if least < most {
            Scale {
                exponents: (least, most),
            }
        } else {
            Scale {
                exponents: (least, least + 1.0),
            }
        }
    }

    fn x(&self, entries: f64) -> f64 {
        let (least, most) = self.exponents;
        MARGIN.0 + (entries.log2() - least) / (most - least) * (PANEL.0 - MARGIN.0 - MARGIN.2)
    }

    fn y(&self, rate: f64) -> f64 {
        MARGIN.1 + (1.0 - rate) * (PANEL.1 - MARGIN.1 - MARGIN.3)
    }
}

/// The panel of a stream, its upper left corner at 0, 0.
fn panel(curves: &Curves) -> String {
    let scale = Scale::of(curves);
    let left = MARGIN.0;
    let right = PANEL.0 - MARGIN.2;
    let top = scale.y(1.0);
    let bottom = scale.y(0.0);
    let middle_x = (left + right) / 2.0;
    let middle_y = (top + bottom) / 2.0;
    let mut lines = Vec::new();

    lines.push(format!(
        "<text x=\"{middle_x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        24.0,
        curves.title()
    ));
    for fifth in 0..=5 {
        let y = scale.y(f64::from(fifth) / 5.0);
        lines.push(format!(
            "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>"
        ));
        let x = left - 6.0;
        let y = y + 4.0;
        let percent = fifth * 20;
        lines.push(format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\" font-size=\"11\">{percent} \
             %</text>"
        ));
    }
    let least = scale.exponents.0 as i32;
    let most = scale.exponents.1 as i32;
    for exponent in (least..=most).filter(|exponent| (exponent - least) % 2 == 0) {
        let x = scale.x(f64::from(exponent).exp2());
        lines.push(format!(
            "<path d=\"M{x:.1} {bottom:.1}v5\" stroke=\"#222\"/>"
        ));
        lines.push(format!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">2<tspan \
             dy=\"-5\" font-size=\"8\">{exponent}</tspan></text>",
            bottom + 19.0
        ));
    }
    lines.push(format!(
        "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#222\"/>"
    ));
    lines.push(format!(
        "<text x=\"{middle_x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
         font-size=\"11\">entries</text>",
        bottom + 36.0
    ));
    lines.push(format!(
        "<text transform=\"translate(14 {middle_y:.1}) rotate(-90)\" text-anchor=\"middle\" \
         font-size=\"11\">hits per link</text>"
    ));
    lines.extend(expected_knee(curves, &scale));

    let at = |entries: usize, hits: u64| (scale.x(entries as f64), scale.y(curves.rate(hits)));
    let infinite = scale.y(curves.rate(curves.infinite));
    lines.push(plot::polyline(
        style(Policy::Infinite),
        [(left, infinite), (right, infinite)],
    ));
    // The most important line comes last, and so lies on top.
    for policy in Policy::SIZED.into_iter().rev() {
        lines.push(plot::polyline(
            style(policy),
            curves.of(policy).map(|point| at(point.entries, point.hits)),
        ));
    }
    lines.join("\n")
}

/// A line where hosts x links per page lies, if it is known and within the plot.
fn expected_knee(curves: &Curves, scale: &Scale) -> Option<String> {
    if curves.stream != super::stream::StreamName::Full {
        return None;
    }
    let expected = curves.hosts_in_flight? as f64 * curves.links_per_page?;
    if !(scale.exponents.0..=scale.exponents.1).contains(&expected.log2()) {
        return None;
    }
    let x = scale.x(expected);
    let top = scale.y(1.0);
    let bottom = scale.y(0.0);
    Some(format!(
        "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"#888\" stroke-dasharray=\"1 \
         3\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" fill=\"#666\">hosts × links per \
         page</text>",
        x + 4.0,
        bottom - 6.0
    ))
}

#[cfg(test)]
mod tests {
    use super::super::stream::{Stream, StreamName};
    use super::*;
    use crate::plot::tests::assert_well_formed;

    fn measured(sizes: &[usize]) -> Vec<Curves> {
        let links: Vec<u64> = (0..3_000).map(|place| place * place % 977).collect();
        let streams = [
            (StreamName::Full, Some(2)),
            (StreamName::Cross, Some(2)),
            (StreamName::Full, None),
        ];
        let curves = |(name, hosts)| {
            let stream = Stream::new(name, hosts, hosts.map(|_| 61.0), links.clone());
            Curves::measure(&stream, sizes, &mut |_| ())
        };
        streams.into_iter().map(curves).collect()
    }

    #[test]
    fn the_figure_is_well_formed_and_has_a_line_per_policy_and_panel() {
        let svg = svg(&measured(&[8, 16, 50, 64, 128, 512]));
        assert_well_formed(&svg);
        assert!(svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<polyline ").count(), 3 * Policy::ALL.len());
        for policy in Policy::ALL {
            assert_eq!(
                svg.matches(&format!("stroke=\"{}\"", style(policy).0))
                    .count(),
                3 + 1,
                "{policy}"
            );
            assert_eq!(svg.matches(&format!(">{policy}<")).count(), 1);
        }
        for text in [
            "2 hosts in flight, cross stream",
            "recorded trace, full stream",
            ">entries<",
            "hits per link",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        // 2 x 61 lies within the first panel; the second and third know nothing of it.
        assert_eq!(svg.matches("hosts × links per page").count(), 1);
    }

    #[test]
    fn all_places_lie_within_the_picture_even_of_a_single_size() {
        for sizes in [&[1][..], &[1, 7], &[1 << 20]] {
            let svg = svg(&measured(sizes));
            assert_well_formed(&svg);
            for points in svg.split("points=\"").skip(1) {
                for place in points.split('"').next().unwrap().split([' ', ',']) {
                    assert!(
                        (0.0..=440.0).contains(&place.parse::<f64>().unwrap()),
                        "{place}"
                    );
                }
            }
        }
    }
}
