//! Figure: the share of each topic in the connection time of each part of the run, both ways. Means
//! over the webs.

use super::of;
use super::shares::{PARTS, Run};
use super::theme::{TOPICS, Theme, Way};
use crate::plot::{self, Style};

/// Width and height of a panel, and the margins within it: left, top, right, bottom.
const PANEL: (f64, f64) = (380.0, 260.0);
const MARGIN: (f64, f64, f64, f64) = (52.0, 34.0, 14.0, 44.0);
/// Heights above and below the panels.
const HEAD: f64 = 36.0;
const LEGEND: f64 = 44.0;
const STYLES: [Style; TOPICS] = [("#0072b2", ""), ("#009e73", "7 4"), ("#d55e00", "2 3")];

/// The figure of the webs of the claims.
pub(super) fn svg(runs: &[Run]) -> String {
    let themes = Theme::KINDS[0];
    let width = PANEL.0 * Way::ALL.len() as f64;
    let height = HEAD + PANEL.1 + LEGEND;
    let panel = |(number, way): (usize, Way)| {
        let drawn = draw(way, &shares(runs, themes.name, way));
        format!(
            "<g transform=\"translate({} {HEAD})\">\n{drawn}\n</g>",
            PANEL.0 * number as f64
        )
    };
    let mut elements: Vec<String> = Way::ALL.into_iter().enumerate().map(panel).collect();
    for (number, (style, theme)) in STYLES.iter().zip(themes.topics).enumerate() {
        let x = width / TOPICS as f64 * (number as f64 + 0.15);
        let name = format!(
            "{}: {} servers, {:.0} ms",
            theme.name, theme.servers, theme.response_ms
        );
        elements.push(plot::sample(*style, (x, height - LEGEND / 2.0), &name));
    }
    let heading = "Connection time of three topics on one node, by twelfths of the run";
    plot::figure((width, height), heading, heading, &elements)
}

/// By topic and part.
fn shares(runs: &[Run], kind: &str, way: Way) -> [[f64; PARTS]; TOPICS] {
    let runs: Vec<&Run> = of(runs, kind, way).collect();
    let share = |topic: usize, part: usize| {
        let of = |run: &&Run| {
            let times = run.parts[part].time.map(|time| time.as_secs_f64());
            times[topic] / times.iter().sum::<f64>().max(f64::MIN_POSITIVE)
        };
        runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
    };
    std::array::from_fn(|topic| std::array::from_fn(|part| share(topic, part)))
}

fn draw(way: Way, shares: &[[f64; PARTS]; TOPICS]) -> String {
    let left = MARGIN.0;
    let right = PANEL.0 - MARGIN.2;
    let top = MARGIN.1;
    let bottom = PANEL.1 - MARGIN.3;
    let x = |part: usize| left + (right - left) * part as f64 / (PARTS - 1) as f64;
    let y = |share: f64| bottom - (bottom - top) * share;
    let text = |x: f64, y: f64, anchor: &str, text: &str| {
        format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" \
             font-size=\"11\">{text}</text>"
        )
    };
    let mut drawn = vec![text(
        (left + right) / 2.0,
        22.0,
        "middle",
        &format!("{way}"),
    )];
    for percent in (0..=100).step_by(20) {
        let at = y(f64::from(percent) / 100.0);
        drawn.push(format!(
            "<path d=\"M{left:.1} {at:.1}H{right:.1}\" stroke=\"#ddd\"/>"
        ));
        drawn.push(text(left - 6.0, at + 4.0, "end", &format!("{percent} %")));
    }
    drawn.extend(
        (0..PARTS).map(|part| text(x(part), bottom + 16.0, "middle", &format!("{}", part + 1))),
    );
    drawn.push(format!(
        "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#222\"/>"
    ));
    drawn.push(text(
        (left + right) / 2.0,
        bottom + 34.0,
        "middle",
        "twelfth of the run",
    ));
    for (style, shares) in STYLES.iter().zip(shares) {
        drawn.push(plot::polyline(
            *style,
            shares
                .iter()
                .enumerate()
                .map(|(part, share)| (x(part), y(*share))),
        ));
    }
    drawn.join("\n")
}
