//! What commands print, on standard output.

use std::fmt::Display;
use std::io::Write as _;

/// Prints a line. A reader that has seen enough (`| head`) ends the program, as it would `cat`.
pub fn line(text: impl Display) {
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}
