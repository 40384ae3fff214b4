//! Numbers and foreign text for people.

/// Characters of a foreign text that are shown.
const SHOWN_MAX: usize = 200;

/// A number with its digits in groups of three.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes, with three digits at least where it is large.
pub(super) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// A number that may be a part of one.
pub(super) fn decimal(number: f64) -> String {
    scaled(number, &["", "k", "M", "G"]).trim_end().to_owned()
}

fn scaled(number: f64, units: &[&str]) -> String {
    let mut number = number;
    let mut at = 0;
    while number >= 999.5 && at + 1 < units.len() {
        (number, at) = (number / 1000.0, at + 1);
    }
    let digits = if number >= 99.95 || at == 0 && number.fract() == 0.0 {
        0
    } else {
        1
    };
    format!("{number:.digits$} {}", units[at])
}

/// A part of a whole.
pub(super) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        "–".to_owned()
    } else {
        format!("{:.1} %", 100.0 * part as f64 / whole as f64)
    }
}

/// A time span.
pub(super) fn span(seconds: f64) -> String {
    if seconds < 60.0 {
        let digits = usize::from(seconds.fract() != 0.0);
        return format!("{seconds:.digits$} s");
    }
    let whole = seconds as u64;
    let days = whole / 86_400;
    let hours = whole / 3600 % 24;
    let minutes = whole / 60 % 60;
    let seconds = whole % 60;
    match (days, hours) {
        (0, 0) => format!("{minutes} min {seconds} s"),
        (0, _) => format!("{hours} h {minutes} min"),
        (_, _) => format!("{days} d {hours} h"),
    }
}

/// A text that comes from the web, or from whoever wrote a configuration: one line of letters that
/// stand where they are, of a bounded length. (Whoever puts it on a page escapes it.)
pub(super) fn foreign(text: &str) -> String {
    let is_tricky = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown: String = text
        .chars()
        .take(SHOWN_MAX)
        .map(|c| {
            if is_tricky(c) {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_large_ones_are_short() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(number),
            ["0", "999", "1,000", "1,234,567"]
        );
        let sizes = [0, 17, 999, 1000, 12_345, 999_950, u64::MAX].map(bytes);
        assert_eq!(
            sizes,
            [
                "0 B", "17 B", "999 B", "1.0 kB", "12.3 kB", "1.0 MB", "18.4 EB"
            ]
        );
        assert_eq!(
            [0.0, 0.25, 12.0, 1500.0].map(decimal),
            ["0", "0.2", "12", "1.5 k"]
        );
        assert_eq!(
            (share(1, 8), share(0, 0)),
            ("12.5 %".to_owned(), "–".to_owned())
        );
    }

    #[test]
    fn spans_have_two_units() {
        let spans = [0.25, 59.0, 61.0, 3661.0, 90_000.0].map(span);
        assert_eq!(
            spans,
            ["0.2 s", "59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]
        );
    }

    #[test]
    fn foreign_text_is_one_line_that_turns_nothing_around() {
        assert_eq!(foreign("a\nb\u{202e}c\u{0}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(foreign(&"ä".repeat(500)).chars().count(), SHOWN_MAX + 1);
    }
}
