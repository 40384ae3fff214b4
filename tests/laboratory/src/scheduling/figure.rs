//! Figure: the three curves of each policy as SVG, a row of panels for each kind of quality.
//!
//! Source: after the figures of Cao, Jiang and Singh 2003, section 5.

use super::curves::Curves;
use super::policy::Policy;
use super::quality::Model;
use super::table::STEPS;
use crate::plot;

/// A panel with its labels.
const PANEL: (f64, f64) = (300.0, 250.0);
/// Margins of a panel: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (50.0, 34.0, 12.0, 44.0);
/// Room above the panels, for the title, and below them, for the legend.
const HEAD: f64 = 34.0;
const LEGEND: f64 = 34.0;

/// Colours and dashes of the policies.
fn style(policy: Policy) -> plot::Style {
    match policy {
        Policy::BreadthFirst => ("#999999", ""),
        Policy::InTurn => ("#999999", "2 3"),
        Policy::CapacityByDepth => ("#cc79a7", "7 4"),
        Policy::Performance => ("#009e73", "2 3"),
        Policy::Quality => ("#0072b2", "7 4"),
        Policy::Capacity => ("#d55e00", ""),
    }
}

/// A curve of a run.
struct Kind {
    title: &'static str,
    x: &'static str,
    of: fn(&Curves, f64) -> f64,
}

const KINDS: [Kind; 3] = [
    Kind {
        title: "pages over time",
        x: "time (breadth-first's completion)",
        of: Curves::pages_at,
    },
    Kind {
        title: "quality over pages",
        x: "pages",
        of: Curves::quality_after,
    },
    Kind {
        title: "quality over time",
        x: "time (breadth-first's completion)",
        of: Curves::quality_at,
    },
];

/// The figure of these runs.
pub(super) fn svg(runs: &[&Curves]) -> String {
    let width = PANEL.0 * KINDS.len() as f64;
    let height = HEAD + PANEL.1 * Model::ALL.len() as f64 + LEGEND;
    let mut elements = Vec::new();
    for (row, model) in Model::ALL.into_iter().enumerate() {
        for (column, kind) in KINDS.iter().enumerate() {
            let x = PANEL.0 * column as f64;
            let y = HEAD + PANEL.1 * row as f64;
            let panel = panel(model, kind, runs);
            elements.push(format!(
                "<g transform=\"translate({x} {y})\">\n{panel}\n</g>"
            ));
        }
    }
    let step = width / Policy::ALL.len() as f64;
    for (number, policy) in Policy::ALL.into_iter().enumerate() {
        let place = (step * (number as f64 + 0.2), height - LEGEND / 2.0);
        elements.push(plot::sample(style(policy), place, policy.name()));
    }
    let heading = "Pages and quality of a crawl, by policy";
    plot::figure((width, height), heading, heading, &elements)
}

fn x(share: f64) -> f64 {
    MARGIN.0 + share * (PANEL.0 - MARGIN.0 - MARGIN.2)
}

fn y(share: f64) -> f64 {
    MARGIN.1 + (1.0 - share) * (PANEL.1 - MARGIN.1 - MARGIN.3)
}

/// A panel, its upper left corner at 0, 0.
fn panel(model: Model, kind: &Kind, runs: &[&Curves]) -> String {
    let left = x(0.0);
    let right = x(1.0);
    let top = y(1.0);
    let bottom = y(0.0);
    let middle = x(0.5);
    let mut lines = Vec::new();
    lines.push(format!(
        "<text x=\"{middle:.1}\" y=\"24\" text-anchor=\"middle\">{model}: {}</text>",
        kind.title
    ));
    for percent in [0, 20, 40, 60, 80, 100] {
        let share = f64::from(percent) / 100.0;
        let x = x(share);
        let y = y(share);
        lines.push(format!(
            "<path d=\"M{left:.1} {y:.1}H{right:.1}M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"#ddd\"/>"
        ));
        lines.push(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"11\">{percent} %</text>",
            left - 6.0,
            y + 4.0
        ));
        let y = bottom + 16.0;
        lines.push(format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" \
             font-size=\"11\">{percent}</text>"
        ));
    }
    lines.push(format!(
        "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#222\"/>"
    ));
    lines.push(format!(
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">% of \
         {}</text>",
        bottom + 32.0,
        kind.x
    ));
    for run in runs.iter().filter(|run| run.model == model) {
        let share = |step| f64::from(step) / f64::from(STEPS);
        let points = (0..=STEPS).map(|step| (x(share(step)), y((kind.of)(run, share(step)))));
        lines.push(plot::polyline(style(run.setup.policy), points));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{curves, setup};
    use super::*;
    use crate::plot::tests::assert_well_formed;

    #[test]
    fn the_figure_is_well_formed_and_has_a_line_per_policy_and_panel() {
        let pages = [(1, 4.0), (2, 1.0), (3, 3.0), (4, 2.0)];
        let runs =
            Policy::ALL.map(|policy| curves(setup(policy, 64), Model::Zipf, &pages, Some(3.0)));
        let svg = svg(&runs.iter().collect::<Vec<_>>());
        assert_well_formed(&svg);
        assert_eq!(
            svg.matches("<polyline ").count(),
            KINDS.len() * Policy::ALL.len()
        );
        for policy in Policy::ALL {
            assert_eq!(svg.matches(&format!(">{}<", policy.name())).count(), 1);
        }
        for points in svg.split("points=\"").skip(1) {
            for place in points.split('"').next().unwrap().split([' ', ',']) {
                assert!(
                    (0.0..=300.0).contains(&place.parse::<f64>().unwrap()),
                    "{place}"
                );
            }
        }
    }
}
