//! `rhumb inject --known`: makes pages known from a crawl log, without a fetch.
//!
//! The log is read in a thread of its own, some thousand lines ahead of what the broker has stored:
//! its length costs no memory. Each line goes on in its turn; the schedulers go by the latest of a
//! page.

use crate::commands::arguments::BadArguments;
use crate::commands::progress::Progress;
use crate::crawl_log::CrawlLog;
use crate::output::line;
use crate::seeds::{self, KnownPage, KnownPages};
use anyhow::anyhow;
use rhumb_bus::Bus;
use rhumb_config::Pipeline;
use std::mem;
use std::thread;
use tokio::sync::mpsc::{Sender, channel};

/// Pages that are published together.
const PIECE: usize = 4096;
/// Pieces that wait for the broker.
const PIECES_WAITING: usize = 2;

/// What a log had.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    lines: u64,
    /// Those whose outcome makes no page known.
    others: u64,
    /// Those that are no lines of a crawl log.
    bad: u64,
    /// The first of them: where, and what is wrong with it.
    first_bad: String,
}

/// Gives the pages of a log to the crawl. `topic` is that of lines that name none.
///
/// # Errors
/// The log cannot be read, nor some of its lines, or the broker does not store them.
pub(super) async fn give(
    bus: &Bus,
    pipeline: &Pipeline,
    log: CrawlLog,
    topic: &str,
) -> anyhow::Result<()> {
    let pages = KnownPages::new(pipeline, topic);
    let (pieces, mut received) = channel(PIECES_WAITING);
    // A read of standard input may last: it must hold up neither the broker nor the end.
    let reading = thread::spawn(move || read(&log, &pages, &pieces));
    let injection = seeds::injection();
    let mut progress = Progress::new();
    let mut given = 0;
    for number in 0_u64.. {
        let Some(piece) = received.recv().await else {
            break;
        };
        let id = format!("known-{injection:016x}-{number}");
        seeds::give(bus, pipeline, &piece, &id).await?;
        given += piece.len();
        progress.show(format!("{given} lines given"));
    }
    progress.end();
    let read = reading
        .join()
        .map_err(|_| anyhow!("the log was not read to its end"))??;
    tell(given, &read)
}

/// Says what became of the lines.
///
/// # Errors
/// Some are bad.
fn tell(given: usize, read: &Read) -> anyhow::Result<()> {
    let Read {
        lines,
        others,
        bad,
        first_bad,
    } = read;
    line(format_args!(
        "{given} of {lines} lines are given as known pages; {others} have an outcome that makes no \
         page known"
    ));
    match bad {
        0 => Ok(()),
        _ => Err(BadArguments(format!(
            "{bad} of {lines} lines cannot be read and were left out; the first is \
             {first_bad}"
        ))
        .into()),
    }
}

/// Reads a log to its end, or until nobody takes its pages any more.
fn read(
    log: &CrawlLog,
    pages: &KnownPages,
    pieces: &Sender<Vec<KnownPage>>,
) -> anyhow::Result<Read> {
    let mut read = Read::default();
    let mut piece = Vec::new();
    log.each(|place, text| {
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        match pages.read(text) {
            Ok(Some(page)) => piece.push(page),
            Ok(None) => read.others += 1,
            // It is still being written, or never will be.
            Err(error) if place.is_cut(&error) => return Ok(()),
            Err(error) => {
                read.bad += 1;
                if read.bad == 1 {
                    read.first_bad = format!("{place}: {error}");
                }
            }
        }
        read.lines += 1;
        if piece.len() >= PIECE {
            pieces.blocking_send(mem::take(&mut piece))?;
        }
        Ok(())
    })?;
    if !piece.is_empty() {
        pieces.blocking_send(piece)?;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const GOOD: &str = r#"{"time":"2026-01-31T11:00:00Z","url":"http://a.test/","outcome":"gone"}"#;
    const OTHER: &str =
        r#"{"time":"2026-01-31T11:00:00Z","url":"http://a.test/","outcome":"trapped"}"#;

    /// What a log has, and the pages of each piece.
    fn pieces(text: &str) -> (Read, Vec<usize>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("crawl.jsonl");
        fs::write(&file, text).unwrap();
        let pages = KnownPages::new(&Pipeline::default(), "default");
        let (sender, mut received) = channel(100);
        let read = read(&CrawlLog::at(&file).unwrap(), &pages, &sender).unwrap();
        drop(sender);
        let mut pieces = Vec::new();
        while let Some(piece) = received.blocking_recv() {
            pieces.push(piece.len());
        }
        (read, pieces)
    }

    #[test]
    fn bad_lines_are_counted_the_first_is_named_and_the_others_are_given() {
        let text = format!("{GOOD}\n\n{OTHER}\nno line\n{GOOD}\r\n{{}}\n");
        let (read, pieces) = pieces(&text);
        assert_eq!((read.lines, read.others, read.bad), (5, 1, 2));
        let said = &read.first_bad;
        assert!(said.contains("crawl.jsonl:4: expected ident"), "{said}");
        assert_eq!(pieces, [2]);
        let error = tell(2, &read).unwrap_err().to_string();
        assert!(error.starts_with("2 of 5 lines cannot be read"), "{error}");
    }

    #[test]
    fn a_last_line_that_was_cut_is_left_out() {
        let (read, pieces) = pieces(&format!("{GOOD}\n{}", &GOOD[..40]));
        assert_eq!((read.lines, read.bad, pieces), (1, 0, vec![1]));
        assert!(tell(1, &read).is_ok());
    }

    #[test]
    fn a_long_log_goes_on_in_pieces() {
        let (read, pieces) = pieces(&format!("{GOOD}\n").repeat(2 * PIECE + 1));
        assert_eq!(read.lines as usize, 2 * PIECE + 1);
        assert_eq!(pieces, [PIECE, PIECE, 1]);
    }
}
