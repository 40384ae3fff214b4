//! Exit codes: what each program ends with, and what that means.
//!
//! One table, from which help is made and with which a test compares the documentation
//! (docs/operating.md).

use std::fmt::Write as _;

/// Anything that failed; also a no for an answer, where a program answers by its exit code.
pub const FAILED: u8 = 1;
/// Bad configuration or arguments, and stored state that cannot be gone on from.
pub const BAD_INPUT: u8 = 2;
/// Ended by Ctrl-C or SIGTERM, as shells expect.
pub const INTERRUPTED: u8 = 130;

/// All codes, in the order of [`Row::means`].
pub const CODES: [u8; 4] = [0, FAILED, BAD_INPUT, INTERRUPTED];

/// What a program ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The program, or a command of `rhumb`.
    pub program: &'static str,
    /// What each of [`CODES`] means; empty: it does not end so.
    pub means: [&'static str; CODES.len()],
}

/// A stage's own program.
pub const STAGE: Row = Row {
    program: "a stage",
    means: [
        "drained after SIGTERM",
        "any other failure",
        "bad configuration or arguments; stored state or streams that cannot be gone on from",
        "",
    ],
};

/// `rhumb crawl`, and those that are the same in this.
pub const CRAWL: Row = Row {
    program: "`rhumb crawl`, `up`, `conduct`",
    means: [
        "complete, or at a limit (`complete` in the summary tells which)",
        "ended by itself, and no page was ever fetched: the last line says why; URLs are \
         unaccounted for in the end; any other failure",
        "bad configuration, arguments or seeds; parts of the crawl are missing, or another crawl's",
        "stopped by Ctrl-C or SIGTERM, drained",
    ],
};

/// The table.
pub const ROWS: [Row; 10] = [
    CRAWL,
    Row {
        program: "`rhumb status --check`",
        means: [
            "every URL is accounted for",
            "it is not, or it cannot be checked",
            "bad arguments",
            "Ctrl-C during a look",
        ],
    },
    Row {
        program: "`rhumb canonical`",
        means: [
            "crawlable",
            "not crawlable; the reason is printed",
            "bad arguments",
            "",
        ],
    },
    Row {
        program: "`rhumb robots`",
        means: ["allowed", "disallowed", "bad arguments", ""],
    },
    Row {
        program: "`rhumb lab`",
        means: ["all claims hold", "a claim fails", "bad arguments", ""],
    },
    Row {
        program: "`rhumb checkpoint`",
        means: [
            "taken; with `--every` the crawl has stopped",
            "not taken; the crawl goes on",
            "bad arguments; the folder holds something else",
            "Ctrl-C; the crawl goes on",
        ],
    },
    Row {
        program: "`rhumb compare`",
        means: [
            "nothing differs",
            "something does",
            "bad arguments; a crawl log is missing or cannot be read",
            "",
        ],
    },
    Row {
        program: "`rhumb delete`",
        means: [
            "deleted",
            "not confirmed, the crawl runs, or it failed",
            "bad arguments",
            "",
        ],
    },
    Row {
        program: "other `rhumb` commands",
        means: [
            "done",
            "failed",
            "bad arguments",
            "Ctrl-C, where a command waits",
        ],
    },
    STAGE,
];

/// The table as the documentation has it.
pub fn table() -> String {
    let mut table = "| program |".to_owned();
    for code in CODES {
        let _ = write!(table, " {code} |");
    }
    let _ = writeln!(table, "\n|{}", " --- |".repeat(1 + CODES.len()));
    for Row { program, means } in ROWS {
        let cells = means.map(|means| {
            if means.is_empty() {
                String::new()
            } else {
                format!(" {means}")
            }
        });
        let _ = writeln!(table, "| {program} |{} |", cells.join(" |"));
    }
    table
}

/// Lines for the help of a program.
pub fn help(row: &Row) -> String {
    let told = CODES
        .iter()
        .zip(row.means)
        .filter(|(_, means)| !means.is_empty());
    let lines: Vec<String> = told
        .map(|(code, means)| format!("  {code:<3}  {}", plain(means)))
        .collect();
    format!("Exit codes:\n{}", lines.join("\n"))
}

/// Lines for the help of `rhumb`: all programs.
pub fn help_of_all() -> String {
    let mut help = "Exit codes:".to_owned();
    for Row { program, means } in ROWS {
        let told = CODES
            .iter()
            .zip(means)
            .filter(|(_, means)| !means.is_empty());
        let told: Vec<String> = told
            .map(|(code, means)| format!("{code} {}", plain(means)))
            .collect();
        let _ = write!(help, "\n  {}:\n    {}", plain(program), told.join("\n    "));
    }
    help
}

/// Without the marks of code.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_cell_for_each_code() {
        let table = table();
        let columns: Vec<usize> = table
            .lines()
            .map(|line| line.matches('|').count())
            .collect();
        assert_eq!(columns, vec![CODES.len() + 2; ROWS.len() + 2], "{table}");
    }

    #[test]
    fn help_has_what_can_happen_alone() {
        assert_eq!(help(&STAGE).lines().count(), 4);
        assert_eq!(help(&CRAWL).lines().count(), 5);
        assert!(help(&CRAWL).contains("  130  stopped by Ctrl-C") && !help(&CRAWL).contains('`'));
        assert!(help_of_all().contains("\n  rhumb robots:\n    0 allowed\n    1 disallowed\n"));
    }
}
