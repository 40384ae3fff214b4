//! Figure: arms, hit rates, tables and rows as SVG, a panel each.
//!
//! Invariants: well-formed XML that needs no font, script or file from elsewhere; and nothing in it
//! comes from outside, so nothing has to be escaped.

use super::Findings;
use super::arm::{Arm, Clock};
use super::hit_rates::{HitRates, Policy};
use super::lookups::{Kind, Lookup};
use super::rows::Measured;
use crate::plot;

/// A panel with its labels.
const PANEL: (f64, f64) = (520.0, 300.0);
/// Margins of a panel: left, top, right, bottom. Bars have their names on the left.
const MARGIN: (f64, f64, f64, f64) = (56.0, 34.0, 20.0, 60.0);
const NAMES_WIDTH: f64 = 210.0;
/// Room above the panels, for the title.
const HEAD: f64 = 34.0;
/// Colours: of what is ours, of what is simulated, and of the paper.
const OURS: &str = "#d55e00";
const SIMULATED: &str = "#0072b2";
const PAPER: &str = "#bbbbbb";

/// The figure of what was measured.
pub(super) fn svg(findings: &Findings) -> String {
    let panels = [
        arms(&findings.arms),
        rows(&findings.rows),
        hit_rates(&findings.hit_rates),
        lookups(&findings.lookups),
    ];
    let elements: Vec<String> = panels
        .iter()
        .enumerate()
        .map(|(number, panel)| {
            let x = PANEL.0 * (number % 2) as f64;
            let y = HEAD + PANEL.1 * (number / 2) as f64;
            format!("<g transform=\"translate({x} {y})\">\n{panel}\n</g>")
        })
        .collect();
    let heading = "Names and pages a second: caches, windows, tables, queues";
    plot::figure(
        (2.0 * PANEL.0, HEAD + 2.0 * PANEL.1),
        heading,
        heading,
        &elements,
    )
}

/// An axis from one value to another, on a line from one place to another.
#[derive(Clone, Copy)]
struct Axis {
    values: (f64, f64),
    places: (f64, f64),
    is_logarithmic: bool,
}

impl Axis {
    fn place(self, value: f64) -> f64 {
        let scaled = |value: f64| {
            if self.is_logarithmic {
                value.max(1e-9).log10()
            } else {
                value
            }
        };
        let from = scaled(self.values.0);
        let to = scaled(self.values.1);
        let share = ((scaled(value) - from) / (to - from)).clamp(0.0, 1.0);
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// Values at powers of ten, or at fifths.
    fn ticks(self) -> Vec<f64> {
        let (from, to) = self.values;
        if self.is_logarithmic {
            let exponents = (from.log10().ceil() as i32)..=(to.log10().floor() as i32);
            exponents.map(|exponent| 10f64.powi(exponent)).collect()
        } else {
            (0..=5)
                .map(|fifth| from + (to - from) * f64::from(fifth) / 5.0)
                .collect()
        }
    }
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"11\">{text}</text>"
    )
}

fn title(title: &str) -> String {
    format!(
        "<text x=\"{:.1}\" y=\"24\" text-anchor=\"middle\">{title}</text>",
        PANEL.0 / 2.0
    )
}

/// A number in as few digits as possible.
fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{:.0}M", value / 1e6),
        1e4.. => format!("{:.0}k", value / 1e3),
        100.0.. => format!("{value:.0}"),
        1.0.. => format!("{:.1}", value).trim_end_matches(".0").to_owned(),
        _ => format!("{value:.2}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
    }
}

/// The length of a bar, its colour, and the words at its end.
type Bar<'a> = (f64, &'a str, String);

/// A line: its name and points.
type Curve<'a> = (&'a str, plot::Style, Vec<(f64, f64)>);

/// Bars below one another, one or more for each name.
fn bars(heading: &str, axis: Axis, label: &str, bars: &[(String, Vec<Bar<'_>>)]) -> String {
    let top = MARGIN.1;
    let bottom = PANEL.1 - MARGIN.3;
    let mut lines = vec![title(heading)];
    for value in axis.ticks() {
        let x = axis.place(value);
        lines.push(format!(
            "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"#ddd\"/>"
        ));
        lines.push(text(x, bottom + 16.0, "middle", &short(value)));
    }
    lines.push(text(
        (axis.places.0 + axis.places.1) / 2.0,
        bottom + 34.0,
        "middle",
        label,
    ));
    let height = (bottom - top) / bars.len().max(1) as f64;
    for (at, (name, values)) in bars.iter().enumerate() {
        let y = top + height * at as f64;
        lines.push(text(NAMES_WIDTH - 6.0, y + height / 2.0 + 4.0, "end", name));
        let each = (height - 6.0) / values.len().max(1) as f64;
        for (number, (value, colour, words)) in values.iter().enumerate() {
            let begin = axis.places.0;
            let end = axis.place(*value);
            let y = y + 3.0 + each * number as f64;
            lines.push(format!(
                "<rect x=\"{begin:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{each:.1}\" \
                 fill=\"{colour}\"/>",
                (end - begin).max(0.5)
            ));
            lines.push(text(end + 4.0, y + each / 2.0 + 4.0, "start", words));
        }
    }
    lines.join("\n")
}

fn arms(arms: &[Arm]) -> String {
    let most = arms.iter().map(Arm::rate).fold(10.0, f64::max);
    let places = (NAMES_WIDTH, PANEL.0 - 60.0);
    let axis = Axis {
        values: (1.0, 10f64.powf(most.log10().ceil())),
        places,
        is_logarithmic: true,
    };
    let bar = |arm: &Arm| {
        let colour = if arm.clock == Clock::Real {
            OURS
        } else {
            SIMULATED
        };
        (
            arm.way.name().to_owned(),
            vec![(arm.rate(), colour, short(arm.rate()))],
        )
    };
    let all: Vec<_> = arms.iter().map(bar).collect();
    bars(
        "Names resolved a second",
        axis,
        "names/s (upper bars simulated, the last two real)",
        &all,
    )
}

fn rows(rows: &[Measured]) -> String {
    let most = |of: fn(&Measured) -> f64| rows.iter().map(of).fold(1e-3, f64::max);
    let ours = most(|row| row.pages_per_s);
    let paper = most(|row| row.paper_pages_per_s);
    let axis = Axis {
        values: (0.0, 1.0),
        places: (NAMES_WIDTH, PANEL.0 - 60.0),
        is_logarithmic: false,
    };
    let bar = |measured: &Measured| {
        let values = vec![
            (
                measured.pages_per_s / ours,
                OURS,
                format!("{:.0}/s", measured.pages_per_s),
            ),
            (
                measured.paper_pages_per_s / paper,
                PAPER,
                format!("{}/s", measured.paper_pages_per_s),
            ),
        ];
        (measured.row.name(), values)
    };
    let all: Vec<_> = rows.iter().map(bar).collect();
    bars(
        "Pages a second of seven crawlers",
        axis,
        "share of the best (grey: Yin, Yin and Huang 2008)",
        &all,
    )
}

/// A panel of lines, with a legend below it.
struct Lines<'a> {
    heading: &'a str,
    x: Axis,
    y: Axis,
    label: &'a str,
    /// Returns whether values of the y axis are shares.
    is_percent: bool,
}

impl Lines<'_> {
    fn draw(&self, curves: &[Curve<'_>]) -> String {
        let (left, right) = self.x.places;
        let (bottom, top) = self.y.places;
        let mut lines = vec![title(self.heading)];
        for value in self.y.ticks() {
            let y = self.y.place(value);
            lines.push(format!(
                "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>"
            ));
            let words = if self.is_percent {
                format!("{:.0} %", 100.0 * value)
            } else {
                short(value)
            };
            lines.push(text(left - 6.0, y + 4.0, "end", &words));
        }
        for value in self.x.ticks() {
            let x = self.x.place(value);
            lines.push(format!(
                "<path d=\"M{x:.1} {bottom:.1}v5\" stroke=\"#222\"/>"
            ));
            lines.push(text(x, bottom + 18.0, "middle", &short(value)));
        }
        lines.push(format!(
            "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#222\"/>"
        ));
        lines.push(text(
            (left + right) / 2.0,
            bottom + 34.0,
            "middle",
            self.label,
        ));
        let step = (right - left) / curves.len().max(1) as f64;
        for (at, (name, style, points)) in curves.iter().enumerate() {
            lines.push(plot::polyline(
                *style,
                points
                    .iter()
                    .map(|&(x, y)| (self.x.place(x), self.y.place(y))),
            ));
            lines.push(plot::sample(
                *style,
                (left + step * at as f64 - 20.0, bottom + 50.0),
                name,
            ));
        }
        lines.join("\n")
    }
}

fn plot_places() -> ((f64, f64), (f64, f64)) {
    (
        (MARGIN.0, PANEL.0 - MARGIN.2),
        (PANEL.1 - MARGIN.3, MARGIN.1),
    )
}

fn hit_rates(rates: &HitRates) -> String {
    let (x, y) = plot_places();
    let sizes = || rates.of(Policy::Lru).map(|point| point.entries as f64);
    let values = (
        sizes().fold(f64::INFINITY, f64::min).min(1e9),
        sizes().fold(2.0, f64::max),
    );
    let axis = Axis {
        values,
        places: x,
        is_logarithmic: true,
    };
    let panel = Lines {
        heading: "Hit rate of a name cache over its size",
        x: axis,
        y: Axis {
            values: (0.0, 1.0),
            places: y,
            is_logarithmic: false,
        },
        label: "names that it has room for",
        is_percent: true,
    };
    let curves = Policy::ALL.map(|policy| {
        let mut points: Vec<(f64, f64)> = rates
            .of(policy)
            .map(|point| (point.entries as f64, rates.rate(point)))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        // A policy without a size is equally good at every one.
        if let (Policy::Infinite, Some(&(_, rate))) = (policy, points.first()) {
            points = vec![(values.0, rate), (values.1, rate)];
        }
        let style = match policy {
            Policy::Infinite => ("#999999", "2 3"),
            Policy::Lru => ("#0072b2", ""),
            Policy::Clock => ("#d55e00", "7 4"),
            Policy::Transposition => ("#cc79a7", ""),
        };
        (policy.name(), style, points)
    });
    panel.draw(&curves)
}

fn lookups(lookups: &[Lookup]) -> String {
    let (x, y) = plot_places();
    let names = || lookups.iter().map(|lookup| lookup.names as f64);
    let times = || lookups.iter().map(|lookup| lookup.nanoseconds.max(1.0));
    let whole = |value: f64, round: fn(f64) -> f64| 10f64.powf(round(value.log10()));
    let least = whole(times().fold(f64::INFINITY, f64::min).min(1e9), f64::floor);
    let panel = Lines {
        heading: "CPU time of a lookup over the names in the table",
        x: Axis {
            values: (
                names().fold(f64::INFINITY, f64::min).min(1e9),
                names().fold(2.0, f64::max),
            ),
            places: x,
            is_logarithmic: true,
        },
        y: Axis {
            values: (
                least,
                whole(times().fold(1.0, f64::max), f64::ceil).max(10.0 * least),
            ),
            places: y,
            is_logarithmic: true,
        },
        label: "names (time in ns)",
        is_percent: false,
    };
    let curves = Kind::ALL.map(|kind| {
        let of = lookups.iter().filter(|lookup| lookup.kind == kind);
        let points: Vec<(f64, f64)> = of
            .map(|lookup| (lookup.names as f64, lookup.nanoseconds.max(1.0)))
            .collect();
        let style = match kind {
            Kind::SkipCheck => ("#009e73", ""),
            Kind::Chained => ("#cc79a7", ""),
            Kind::NameCache => ("#d55e00", "7 4"),
        };
        (kind.name(), style, points)
    });
    panel.draw(&curves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_between_the_ends_of_an_axis() {
        let axis = Axis {
            values: (1.0, 100.0),
            places: (50.0, 150.0),
            is_logarithmic: true,
        };
        assert_eq!(
            [0.0, 1.0, 10.0, 100.0, 1e9].map(|value| axis.place(value)),
            [50.0, 50.0, 100.0, 150.0, 150.0]
        );
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0]);
        let axis = Axis {
            values: (0.0, 1.0),
            places: (200.0, 100.0),
            is_logarithmic: false,
        };
        assert_eq!((axis.place(0.25), axis.ticks().len()), (175.0, 6));
    }

    #[test]
    fn numbers_are_written_short() {
        let written = [0.0, 0.2, 2.7, 8.0, 45.25, 123.4, 9_999.0, 20_000.0, 3e6].map(short);
        assert_eq!(
            written,
            ["0", "0.2", "2.7", "8", "45.2", "123", "9999", "20k", "3M"]
        );
    }
}
