//! Figure: the way from uniform visits to the optimum by visits a page, and by spread and speed of
//! rates; the freshness by recall and precision of signals.

use super::Settings;
use super::crawl::By;
use super::runs::{PRECISIONS, RECALLS, Run, SPREADS, VISITS, long, of, plain, plan};
use super::web::{Shape, Signalling};
use crate::plot::{self, Style};

/// Width and height of a panel, and the margins within it: left, top, right, bottom.
const PANEL: (f64, f64) = (330.0, 300.0);
const MARGIN: (f64, f64, f64, f64) = (52.0, 34.0, 14.0, 44.0);
/// Heights above and below the panels.
const HEAD: f64 = 36.0;
const LEGEND: f64 = 76.0;
const STYLES: [Style; 3] = [("#0072b2", ""), ("#d55e00", "7 4"), ("#009e73", "2 3")];

/// A panel: its title, the name of the axis below, the places there, and its curves with their
/// names.
struct Panel {
    title: &'static str,
    below: &'static str,
    places: Vec<String>,
    /// The lowest and the highest mark.
    range: (f64, f64),
    curves: Vec<(String, Vec<f64>)>,
}

/// The figure of these runs.
pub(super) fn svg(settings: &Settings, runs: &[Run]) -> String {
    let panels = [
        by_visits(settings, runs),
        by_spread(settings, runs),
        by_signals(settings, runs),
    ];
    let width = PANEL.0 * panels.len() as f64;
    let height = HEAD + PANEL.1 + LEGEND;
    let mut elements = Vec::new();
    for (number, panel) in panels.iter().enumerate() {
        let left = PANEL.0 * number as f64;
        let drawn = panel.draw();
        elements.push(format!(
            "<g transform=\"translate({left} {HEAD})\">\n{drawn}\n</g>"
        ));
        for (line, ((name, _), style)) in panel.curves.iter().zip(STYLES).enumerate() {
            let y = HEAD + PANEL.1 + 18.0 + 22.0 * line as f64;
            elements.push(plot::sample(style, (left + MARGIN.0, y), name));
        }
    }
    let heading = "Freshness of a copy whose pages are visited by value";
    plot::figure((width, height), heading, heading, &elements)
}

fn by_visits(settings: &Settings, runs: &[Run]) -> Panel {
    let plain = plain(settings);
    let curve = |shape, plan| {
        let of =
            |visits: usize| of(runs, shape, plan).map_or(f64::NAN, |run| run.way_after(visits)[0]);
        VISITS.map(of).to_vec()
    };
    let aged = |ages| Shape { ages, ..plain };
    Panel {
        title: "Way from uniform to the optimum",
        below: "visits a page so far",
        places: VISITS.map(|visits| visits.to_string()).to_vec(),
        range: (0.0, 1.0),
        curves: vec![
            ("learned from bits".into(), curve(plain, long())),
            (
                "true Last-Modified at half".into(),
                curve(aged(0.5), long()),
            ),
            ("true Last-Modified".into(), curve(aged(1.0), long())),
        ],
    }
}

fn by_spread(settings: &Settings, runs: &[Run]) -> Panel {
    let plain = plain(settings);
    let shapes = SPREADS.map(|spread| Shape { spread, ..plain });
    let found = |shape| of(runs, shape, plan(By::LearnedRates));
    let known = |shape| of(runs, shape, plan(By::KnownRates));
    let learned = |shape| found(shape).map_or(f64::NAN, |run| run.way_after(10)[0]);
    let settled = |shape| known(shape).map_or(f64::NAN, |run| run.way_settled()[0]);
    Panel {
        title: "Way from uniform to the optimum",
        below: "spread of the rates (sigma)",
        places: SPREADS.map(|spread| spread.to_string()).to_vec(),
        range: (0.0, 1.0),
        curves: vec![
            (
                "learned, after 10 visits".into(),
                shapes.map(learned).to_vec(),
            ),
            ("rates known".into(), shapes.map(settled).to_vec()),
        ],
    }
}

fn by_signals(settings: &Settings, runs: &[Run]) -> Panel {
    let plain = plain(settings);
    let without = of(runs, plain, plan(By::LearnedRates));
    let freshness = |run: &Run| run.median(|of| of.after(10))[0];
    let without = without.map_or(f64::NAN, freshness);
    let curve = |precision: f64| {
        let of = |recall: f64| {
            let signals = Signalling::of_precision(recall, precision);
            let run = of(runs, Shape { signals, ..plain }, plan(By::LearnedRates));
            run.map_or(f64::NAN, freshness)
        };
        let mut freshness = vec![without];
        freshness.extend(RECALLS.map(of));
        (format!("precision {precision}"), freshness)
    };
    let mut places = vec!["0".to_owned()];
    places.extend(RECALLS.map(|recall| recall.to_string()));
    Panel {
        title: "Freshness, signals learned",
        below: "share of the changes that are signalled",
        places,
        range: (0.5, 1.0),
        curves: PRECISIONS.map(curve).to_vec(),
    }
}

impl Panel {
    fn draw(&self) -> String {
        let left = MARGIN.0;
        let right = PANEL.0 - MARGIN.2;
        let top = MARGIN.1;
        let bottom = PANEL.1 - MARGIN.3;
        let places = self.places.len() as f64;
        let x = |place: usize| left + (right - left) * (place as f64 + 0.5) / places;
        let part = |value: f64| (value - self.range.0) / (self.range.1 - self.range.0);
        let y = |value: f64| bottom - (bottom - top) * part(value).clamp(0.0, 1.0);
        let text = |x: f64, y: f64, anchor: &str, text: &str| {
            format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" \
                 font-size=\"11\">{text}</text>"
            )
        };
        let middle = (left + right) / 2.0;
        let mut drawn = vec![
            text(middle, 22.0, "middle", self.title),
            text(middle, bottom + 34.0, "middle", self.below),
        ];
        for fifth in 0..=5 {
            let value = self.range.0 + (self.range.1 - self.range.0) * f64::from(fifth) / 5.0;
            let at = y(value);
            drawn.push(format!(
                "<path d=\"M{left:.1} {at:.1}H{right:.1}\" stroke=\"#ddd\"/>"
            ));
            drawn.push(text(left - 6.0, at + 4.0, "end", &format!("{value:.1}")));
        }
        for (place, name) in self.places.iter().enumerate() {
            drawn.push(text(x(place), bottom + 16.0, "middle", name));
        }
        for ((_, values), style) in self.curves.iter().zip(STYLES) {
            let points = values
                .iter()
                .enumerate()
                .map(|(place, value)| (x(place), y(*value)));
            drawn.push(plot::polyline(style, points));
        }
        drawn.push(format!(
            "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" \
             stroke=\"#222\"/>"
        ));
        drawn.join("\n")
    }
}
