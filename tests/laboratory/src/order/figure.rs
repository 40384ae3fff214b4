//! Figure: the share of PageRank by the share of pages, by order, and what it costs to let news
//! wait.

use super::rules::Order;
use super::runs::{FACTORS, Run, plain};
use crate::plot::{self, Style};

/// Width and height of a panel, and the margins within it: left, top, right, bottom.
const PANEL: (f64, f64) = (420.0, 340.0);
const MARGIN: (f64, f64, f64, f64) = (56.0, 34.0, 14.0, 44.0);
/// Heights above and below the panels.
const HEAD: f64 = 36.0;
const LEGEND: f64 = 64.0;
const LEGEND_COLUMNS: usize = 3;
/// The styles of the orders, in their order.
const STYLES: [Style; 6] = [
    ("#555555", ""),
    ("#56b4e9", "2 3"),
    ("#0072b2", ""),
    ("#d55e00", ""),
    ("#cc79a7", "7 4"),
    ("#009e73", "9 3 2 3"),
];
/// The least and the most of the way that are drawn.
const WAY: (f64, f64) = (-0.2, 1.0);

/// A mark on an axis: where it is, from 0 to 1, and its name.
type Mark = (f64, String);

/// The figure of these runs.
pub(super) fn svg(runs: &[Run]) -> String {
    let width = 2.0 * PANEL.0;
    let height = HEAD + PANEL.1 + LEGEND;
    let panels = [curves(runs), factors(runs)];
    let at = |number: usize| PANEL.0 * number as f64;
    let mut elements: Vec<String> = panels
        .iter()
        .enumerate()
        .map(|(number, panel)| {
            format!(
                "<g transform=\"translate({} {HEAD})\">\n{panel}\n</g>",
                at(number)
            )
        })
        .collect();
    for (number, (style, order)) in STYLES.iter().zip(Order::ALL).enumerate() {
        let x = width / LEGEND_COLUMNS as f64 * ((number % LEGEND_COLUMNS) as f64 + 0.25);
        let y = height - LEGEND + 20.0 + 24.0 * (number / LEGEND_COLUMNS) as f64;
        elements.push(plot::sample(*style, (x, y), &order.to_string()));
    }
    let heading = "Order of a crawl in which each server fetches a page a round";
    plot::figure((width, height), heading, heading, &elements)
}

fn x(part: f64) -> f64 {
    MARGIN.0 + (PANEL.0 - MARGIN.2 - MARGIN.0) * part
}

fn y(part: f64) -> f64 {
    let bottom = PANEL.1 - MARGIN.3;
    bottom - (bottom - MARGIN.1) * part
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"11\">{text}</text>"
    )
}

/// Title, name of the lower axis, marks on both, frame.
fn axes(title: &str, below: &str, marks_x: &[Mark], marks_y: &[Mark]) -> Vec<String> {
    let mut drawn = vec![
        text(x(0.5), 22.0, "middle", title),
        text(x(0.5), y(0.0) + 34.0, "middle", below),
    ];
    for (at, name) in marks_y {
        drawn.push(format!(
            "<path d=\"M{:.1} {:.1}H{:.1}\" stroke=\"#ddd\"/>",
            x(0.0),
            y(*at),
            x(1.0)
        ));
        drawn.push(text(x(0.0) - 6.0, y(*at) + 4.0, "end", name));
    }
    drawn.extend(
        marks_x
            .iter()
            .map(|(at, name)| text(x(*at), y(0.0) + 16.0, "middle", name)),
    );
    let left = x(0.0);
    let right = x(1.0);
    let top = y(1.0);
    let bottom = y(0.0);
    drawn.push(format!(
        "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#222\"/>"
    ));
    drawn
}

fn curves(runs: &[Run]) -> String {
    let marks: Vec<Mark> = (0..=5)
        .map(|fifth| (f64::from(fifth) / 5.0, format!("{} %", fifth * 20)))
        .collect();
    let mut drawn = axes("PageRank", "share of the pages", &marks, &marks);
    for (style, order) in STYLES.iter().zip(Order::ALL) {
        let curve = plain(runs, order, 0.0)
            .map(|run| run.curve.as_slice())
            .unwrap_or_default();
        let points = curve
            .iter()
            .enumerate()
            .map(|(part, share)| (x(part as f64 / 100.0), y(*share)));
        drawn.push(plot::polyline(*style, points));
    }
    drawn.join("\n")
}

fn factors(runs: &[Run]) -> String {
    let place = |number: usize| (number as f64 + 0.5) / FACTORS.len() as f64;
    let up = |way: f64| ((way - WAY.0) / (WAY.1 - WAY.0)).clamp(0.0, 1.0);
    let marks_x: Vec<_> = FACTORS
        .iter()
        .enumerate()
        .map(|(number, factor)| (place(number), factor.to_string()))
        .collect();
    let marks_y: Vec<_> = (-1..=5)
        .map(|fifth| (up(f64::from(fifth) / 5.0), format!("{} %", fifth * 20)))
        .collect();
    let title = "Way from discovery to PageRank";
    let mut drawn = axes(
        title,
        "what further links must be worth to leave, to what has left",
        &marks_x,
        &marks_y,
    );
    for (style, order) in STYLES
        .iter()
        .zip(Order::ALL)
        .filter(|(_, order)| order.is_lifted())
    {
        let of = |(number, factor): (usize, &f64)| {
            Some((x(place(number)), y(up(plain(runs, order, *factor)?.way))))
        };
        drawn.push(plot::polyline(
            *style,
            FACTORS.iter().enumerate().filter_map(of),
        ));
    }
    drawn.join("\n")
}
