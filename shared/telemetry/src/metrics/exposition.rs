//! The text that Prometheus reads, in its text format 0.0.4.
//!
//! In: rows with their numbers. Out: a family for each row that has numbers, with help and type.

use super::histogram::Histogram;
use super::row::Row;
use std::fmt::Write as _;

/// Text that grows.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// The type of the text, for HTTP.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// A family of numbers, named `<prefix>_<name of the row>`. Without numbers it leaves no trace.
    pub fn family<'a>(&'a mut self, prefix: &str, row: &'a Row) -> Family<'a> {
        Family {
            text: &mut self.text,
            name: format!("{prefix}_{}", row.name),
            row,
            is_begun: false,
        }
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// A family that is being written.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: String,
    row: &'a Row,
    is_begun: bool,
}

/// A label with its value.
type Label<'a> = (&'a str, &'a str);

impl Family<'_> {
    /// A number.
    pub fn value(&mut self, labels: &[Label<'_>], value: impl std::fmt::Display) {
        self.begin(labels);
        self.sample("", labels, None, value);
    }

    /// Durations.
    pub fn histogram(&mut self, labels: &[Label<'_>], histogram: &Histogram) {
        self.begin(labels);
        for (bound_us, count) in histogram.cumulative() {
            let bound = (bound_us as f64 / 1e6).to_string();
            self.sample("_bucket", labels, Some(&bound), count);
        }
        self.sample("_bucket", labels, Some("+Inf"), histogram.count());
        self.sample("_sum", labels, None, histogram.sum().as_secs_f64());
        self.sample("_count", labels, None, histogram.count());
    }

    fn begin(&mut self, labels: &[Label<'_>]) {
        debug_assert!(
            labels
                .iter()
                .all(|(label, _)| self.row.labels.contains(label)),
            "{} has labels that its row does not name: {labels:?}",
            self.name
        );
        if std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        let Family {
            text, name, row, ..
        } = self;
        let help = row.help.replace('\\', "\\\\").replace('\n', " ");
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {}",
            row.kind.name()
        );
    }

    fn sample(
        &mut self,
        suffix: &str,
        labels: &[Label<'_>],
        bound: Option<&str>,
        value: impl std::fmt::Display,
    ) {
        let Family { text, name, .. } = self;
        let _ = write!(text, "{name}{suffix}");
        let all = labels
            .iter()
            .copied()
            .chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (label, value) in all {
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(text, "{separator}{label}=\"{value}\"");
            separator = ',';
        }
        let end = if separator == ',' { "}" } else { "" };
        let _ = writeln!(text, "{end} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn families_have_help_type_and_numbers_and_none_without_numbers() {
        const ROWS: [Row; 3] = [
            Row::counter("found_total", "URLs", "URLs that were found."),
            Row::gauge("waiting", "URLs", "URLs that wait.").by(&["edge"]),
            Row::gauge("absent", "URLs", "It has no number."),
        ];
        let mut exposition = Exposition::default();
        exposition.family("rhumb_x", &ROWS[0]).value(&[], 7_u64);
        let mut family = exposition.family("rhumb_x", &ROWS[1]);
        family.value(&[("edge", "pages")], 0.25);
        family.value(&[("edge", "a\"b\\c\n")], 3);
        exposition.family("rhumb_x", &ROWS[2]);
        assert_eq!(
            exposition.into_text(),
            "# HELP rhumb_x_found_total URLs that were found.\n# TYPE rhumb_x_found_total \
             counter\nrhumb_x_found_total 7\n\
             # HELP rhumb_x_waiting URLs that wait.\n# TYPE rhumb_x_waiting \
             gauge\nrhumb_x_waiting{edge=\"pages\"} 0.25\n\
             rhumb_x_waiting{edge=\"a\\\"b\\\\c\\n\"} 3\n"
        );
    }

    #[test]
    fn a_histogram_has_all_its_buckets_a_sum_and_a_count() {
        const ROW: Row = Row::histogram("step_seconds", "How long steps take.").by(&["edge"]);
        let mut histogram = Histogram::default();
        histogram.observe(Duration::from_millis(2));
        let mut exposition = Exposition::default();
        exposition
            .family("rhumb_x", &ROW)
            .histogram(&[("edge", "pages")], &histogram);
        let text = exposition.into_text();
        for line in [
            "# TYPE rhumb_x_step_seconds histogram",
            "rhumb_x_step_seconds_bucket{edge=\"pages\",le=\"0.0001\"} 0",
            "rhumb_x_step_seconds_bucket{edge=\"pages\",le=\"0.0025\"} 1",
            "rhumb_x_step_seconds_bucket{edge=\"pages\",le=\"+Inf\"} 1",
            "rhumb_x_step_seconds_sum{edge=\"pages\"} 0.002",
            "rhumb_x_step_seconds_count{edge=\"pages\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
        }
    }
}
