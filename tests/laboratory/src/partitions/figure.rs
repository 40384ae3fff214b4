//! Figure: what moves when an instance joins, how URLs vary over instances, and how the directory
//! grows.
//!
//! Means over the webs of a kind.

use super::growth::{Growth, Size};
use super::scaling::{Scaling, Scheme, Step};
use super::web::Kind;
use crate::plot::{self, Style};

/// Width and height of a panel, and the margins within it: left, top, right, bottom.
const PANEL: (f64, f64) = (300.0, 280.0);
const MARGIN: (f64, f64, f64, f64) = (52.0, 40.0, 12.0, 46.0);
/// Heights above and below the panels.
const HEAD: f64 = 36.0;
const LEGEND: f64 = 56.0;
const IDEAL: Style = ("#999999", "2 3");
const POINTERS: Style = ("#cc79a7", "");

const fn style(scheme: Scheme) -> Style {
    match scheme {
        Scheme::Modulo => ("#009e73", ""),
        Scheme::Rendezvous => ("#0072b2", "7 4"),
        Scheme::Planner => ("#d55e00", ""),
    }
}

/// A panel: lines over the same axes, both from their first mark to their last.
struct Panel {
    title: String,
    x: &'static str,
    /// Marks with their places.
    x_marks: Vec<(f64, String)>,
    y_marks: Vec<(f64, String)>,
    lines: Vec<(Style, Vec<(f64, f64)>)>,
}

/// The figure of what was measured.
pub(super) fn svg(scalings: &[Scaling], growths: &[Growth]) -> String {
    let panels = [moved(scalings), varied(scalings), grown(growths)];
    let width = PANEL.0 * panels.len() as f64;
    let height = HEAD + PANEL.1 + LEGEND;
    let mut elements = Vec::new();
    for (number, panel) in panels.iter().enumerate() {
        let x = PANEL.0 * number as f64;
        elements.push(format!(
            "<g transform=\"translate({x} {HEAD})\">\n{}\n</g>",
            panel.draw()
        ));
    }
    let names = Scheme::ALL.map(|scheme| (style(scheme), scheme.to_string()));
    let further = [
        (IDEAL, "ideal share; entries".to_owned()),
        (POINTERS, "pointers".to_owned()),
    ];
    let names: Vec<_> = names.into_iter().chain(further).collect();
    for (number, (style, name)) in names.iter().enumerate() {
        let x = width / names.len() as f64 * (number as f64 + 0.15);
        elements.push(plot::sample(*style, (x, height - LEGEND / 2.0), name));
    }
    let heading = "Partitions as instances come and go, and as a web grows";
    plot::figure((width, height), heading, heading, &elements)
}

fn percents(tens: impl Iterator<Item = u32>) -> Vec<(f64, String)> {
    tens.map(|percent| (f64::from(percent) / 100.0, format!("{percent} %")))
        .collect()
}

/// Means over webs of a number of each join, by the instances that there are then.
fn means<'a>(
    of: impl Iterator<Item = &'a Scaling>,
    number: impl Fn(&Step) -> f64,
) -> Vec<(f64, f64)> {
    let steps: Vec<&Step> = of.flat_map(Scaling::joins).collect();
    let most = steps.iter().map(|step| step.to).max().unwrap_or(1);
    let mean = |instances: u16| {
        let of: Vec<f64> = steps
            .iter()
            .filter(|step| step.to == instances)
            .map(|step| number(step))
            .collect();
        (
            f64::from(instances),
            of.iter().sum::<f64>() / of.len() as f64,
        )
    };
    (2..=most).map(mean).collect()
}

fn instances(points: &[(f64, f64)]) -> Vec<(f64, String)> {
    points
        .iter()
        .map(|&(instances, _)| (instances, format!("{instances}")))
        .collect()
}

fn moved(scalings: &[Scaling]) -> Panel {
    let of = |scheme| scalings.iter().filter(move |of| of.scheme == scheme);
    let ideal = means(of(Scheme::Planner), Step::ideal);
    let x_marks = instances(&ideal);
    let mut lines = vec![(IDEAL, ideal)];
    lines.extend(Scheme::ALL.map(|scheme| {
        (
            style(scheme),
            means(of(scheme), |step| step.moved_partitions),
        )
    }));
    let title = "partitions that move".to_owned();
    Panel {
        title,
        x: "instances after one joined",
        x_marks,
        y_marks: percents((0..=100).step_by(20)),
        lines,
    }
}

fn varied(scalings: &[Scaling]) -> Panel {
    let of = |scheme| {
        scalings
            .iter()
            .filter(move |of| of.scheme == scheme && of.kind == Kind::Zipf && of.is_split)
    };
    let lines: Vec<_> = Scheme::ALL
        .map(|scheme| (style(scheme), means(of(scheme), |step| step.cv_urls)))
        .into();
    let most = lines
        .iter()
        .flat_map(|(_, points)| points)
        .map(|&(_, y)| y)
        .fold(0.1, f64::max);
    let y_marks = (0..=(most * 5.0).ceil() as u32).map(|fifth| {
        (
            f64::from(fifth) / 5.0,
            format!("{:.1}", f64::from(fifth) / 5.0),
        )
    });
    let title = format!("variation of URLs ({}, split)", Kind::Zipf);
    let x_marks = instances(&lines[0].1);
    Panel {
        title,
        x: "instances after one joined",
        x_marks,
        y_marks: y_marks.collect(),
        lines,
    }
}

fn grown(growths: &[Growth]) -> Panel {
    let sizes = || {
        growths
            .iter()
            .filter(|of| of.kind == Kind::Zipf)
            .map(|of| &of.sizes)
    };
    let mean = |number: fn(&Size) -> f64| -> Vec<(f64, f64)> {
        let webs = sizes().count() as f64;
        let steps = sizes().next().map_or(0, Vec::len);
        let at = |step: usize| sizes().map(|sizes| number(&sizes[step])).sum::<f64>() / webs;
        (0..steps)
            .map(|step| {
                (
                    sizes().next().map_or(0.0, |sizes| sizes[step].urls.log2()),
                    at(step),
                )
            })
            .collect()
    };
    let lines = vec![
        (IDEAL, mean(|size| (size.partitions as f64).log2())),
        (POINTERS, mean(|size| f64::from(size.global_depth))),
    ];
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let numbers = || lines.iter().flat_map(|(_, points)| points).map(of);
        (
            numbers().fold(f64::INFINITY, f64::min).floor() as i32,
            numbers().fold(0.0, f64::max).ceil() as i32,
        )
    };
    let marks = |(least, most): (i32, i32), step| {
        let most = least.max(most);
        // The last mark ends the axis.
        let marks = (least..=most + step - 1).step_by(step as usize);
        marks
            .map(|exponent| (f64::from(exponent), format!("2^{exponent}")))
            .collect::<Vec<_>>()
    };
    let x_marks = marks(ends(|point| point.0), 1);
    let y_marks = marks(ends(|point| point.1), 2);
    let title = format!("directory ({})", Kind::Zipf);
    Panel {
        title,
        x: "URLs, in limits of a partition",
        x_marks,
        y_marks,
        lines,
    }
}

impl Panel {
    /// Draws it, its upper left corner at 0, 0.
    fn draw(&self) -> String {
        let place = |marks: &[(f64, String)], at: f64| match (marks.first(), marks.last()) {
            (Some((first, _)), Some((last, _))) if first < last => (at - first) / (last - first),
            _ => 0.0,
        };
        let x = |at: f64| MARGIN.0 + place(&self.x_marks, at) * (PANEL.0 - MARGIN.0 - MARGIN.2);
        let y =
            |at: f64| MARGIN.1 + (1.0 - place(&self.y_marks, at)) * (PANEL.1 - MARGIN.1 - MARGIN.3);
        let left = MARGIN.0;
        let right = PANEL.0 - MARGIN.2;
        let top = MARGIN.1;
        let bottom = PANEL.1 - MARGIN.3;
        let middle = (left + right) / 2.0;
        let text = |x: f64, y: f64, anchor: &str, size: u32, text: &str| {
            format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" \
                 font-size=\"{size}\">{text}</text>"
            )
        };
        let mut drawn = vec![text(middle, 24.0, "middle", 12, &self.title)];
        for (at, mark) in &self.y_marks {
            drawn.push(format!(
                "<path d=\"M{left:.1} {:.1}H{right:.1}\" stroke=\"#ddd\"/>",
                y(*at)
            ));
            drawn.push(text(left - 6.0, y(*at) + 4.0, "end", 11, mark));
        }
        drawn.extend(
            self.x_marks
                .iter()
                .map(|(at, mark)| text(x(*at), bottom + 16.0, "middle", 11, mark)),
        );
        drawn.push(format!(
            "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#222\"/>"
        ));
        drawn.push(text(middle, bottom + 34.0, "middle", 11, self.x));
        for (style, points) in &self.lines {
            drawn.push(plot::polyline(
                *style,
                points.iter().map(|&(at, number)| (x(at), y(number))),
            ));
        }
        drawn.join("\n")
    }
}
