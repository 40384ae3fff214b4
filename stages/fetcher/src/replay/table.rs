//! A sorted table on disk: from a key to the rows that have it.
//!
//! ```text
//! | RHUMBAR1 | what it was made from | recordings | damaged | rows | rows of 28 bytes, sorted ... | checksum |
//! ```
//!
//! In: rows in any order. Out: the rows of a key, sorted by rank. Memory: one key for
//! [`BLOCK_ROWS`] rows, while it is made [`RUN_ROWS`] rows. Invariant: the file is whole when it
//! has its name. Limit: of a key the [`ROWS_OF_KEY_MAX`] rows of the highest rank are kept.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

const MAGIC: u64 = u64::from_le_bytes(*b"RHUMBAR1");
const HEAD_BYTES: usize = 40;
const ROW_BYTES: usize = 28;
const BLOCK_ROWS: u64 = 128;
const RUN_ROWS: usize = 1 << 20;
const ROWS_OF_KEY_MAX: usize = 256;

/// A row, in the order in which rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) key: u64,
    pub(crate) rank: u64,
    /// Number of a file.
    pub(crate) file: u32,
    pub(crate) offset: u64,
}

impl Row {
    fn bytes(self) -> [u8; ROW_BYTES] {
        let mut bytes = [0; ROW_BYTES];
        bytes[..8].copy_from_slice(&self.key.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.rank.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.file.to_le_bytes());
        bytes[20..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8; ROW_BYTES]) -> Row {
        let mut file = [0; 4];
        file.copy_from_slice(&bytes[16..20]);
        let file = u32::from_le_bytes(file);
        Row {
            key: number(&bytes[..8]),
            rank: number(&bytes[8..16]),
            file,
            offset: number(&bytes[20..]),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(bytes);
    u64::from_le_bytes(eight)
}

/// What a table was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    /// By which that is known again.
    pub(crate) signature: u64,
    /// Responses there.
    pub(crate) recordings: u64,
    /// Damaged records there.
    pub(crate) damaged: u64,
}

/// A table that is being made, in a folder.
pub(crate) struct Making {
    dir: PathBuf,
    rows: Vec<Row>,
    runs: Vec<PathBuf>,
}

impl Making {
    pub(crate) fn new(dir: &Path) -> Making {
        Making {
            dir: dir.to_owned(),
            rows: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The disk is full, or cannot be written.
    pub(crate) fn add(&mut self, row: Row) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() < RUN_ROWS {
            Ok(())
        } else {
            self.end_run()
        }
    }

    fn end_run(&mut self) -> io::Result<()> {
        self.rows.sort_unstable();
        let path = self.dir.join(format!("run-{}", self.runs.len()));
        let mut file = BufWriter::new(File::create(&path)?);
        for row in self.rows.drain(..) {
            file.write_all(&row.bytes())?;
        }
        file.flush()?;
        self.runs.push(path);
        Ok(())
    }

    /// Writes the table to a file of its folder.
    ///
    /// # Errors
    /// The disk is full, or cannot be written.
    pub(crate) fn finish(mut self, name: &str, about: About) -> io::Result<()> {
        self.end_run()?;
        let new = self.dir.join(format!("{name}.new"));
        let mut out = Summed {
            inner: BufWriter::new(File::create(&new)?),
            sum: Xxh3::new(),
        };
        // How many rows there are is known at the end.
        out.inner.write_all(&[0; HEAD_BYTES])?;
        let mut rows = 0;
        let mut of_key: VecDeque<Row> = VecDeque::new();
        let mut merged = Merged::new(&self.runs)?;
        loop {
            let row = merged.next()?;
            if of_key
                .front()
                .is_some_and(|first| row.is_none_or(|row| row.key != first.key))
            {
                for row in of_key.drain(..) {
                    out.write_all(&row.bytes())?;
                    rows += 1;
                }
            }
            let Some(row) = row else { break };
            of_key.push_back(row);
            if of_key.len() > ROWS_OF_KEY_MAX {
                of_key.pop_front();
            }
        }
        let sum = out.sum.digest();
        out.inner.write_all(&sum.to_le_bytes())?;
        let file = out.inner.into_inner()?;
        file.write_all_at(&head(about, rows), 0)?;
        file.sync_all()?;
        for run in &self.runs {
            fs::remove_file(run)?;
        }
        fs::rename(new, self.dir.join(name))
    }
}

fn head(about: About, rows: u64) -> [u8; HEAD_BYTES] {
    let About {
        signature,
        recordings,
        damaged,
    } = about;
    let mut head = [0; HEAD_BYTES];
    for (place, number) in head
        .chunks_exact_mut(8)
        .zip([MAGIC, signature, recordings, damaged, rows])
    {
        place.copy_from_slice(&number.to_le_bytes());
    }
    head
}

/// The rows of several sorted files, in order.
struct Merged {
    runs: Vec<BufReader<File>>,
    next: BinaryHeap<Reverse<(Row, usize)>>,
}

impl Merged {
    fn new(paths: &[PathBuf]) -> io::Result<Merged> {
        let runs: io::Result<Vec<_>> = paths
            .iter()
            .map(|path| Ok(BufReader::new(File::open(path)?)))
            .collect();
        let mut merged = Merged {
            runs: runs?,
            next: BinaryHeap::new(),
        };
        for run in 0..merged.runs.len() {
            merged.draw(run)?;
        }
        Ok(merged)
    }

    fn draw(&mut self, run: usize) -> io::Result<()> {
        let mut bytes = [0; ROW_BYTES];
        match self.runs[run].read_exact(&mut bytes) {
            Ok(()) => self.next.push(Reverse((Row::of(&bytes), run))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Row>> {
        let Some(Reverse((row, run))) = self.next.pop() else {
            return Ok(None);
        };
        self.draw(run)?;
        Ok(Some(row))
    }
}

/// A stream with the checksum of what passed.
struct Summed<S> {
    inner: S,
    sum: Xxh3,
}

impl<S: Write> Write for Summed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A table that is there.
#[derive(Debug)]
pub(crate) struct Table {
    file: File,
    rows: u64,
    pub(crate) about: About,
    /// The first key of each block.
    keys: Vec<u64>,
}

impl Table {
    /// Opens the table in a file, if that is whole and was made from this.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub(crate) fn open(path: &Path, signature: u64) -> io::Result<Option<Table>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = file.metadata()?.len();
        let mut reader = BufReader::with_capacity(1 << 20, &file);
        let mut found = [0; HEAD_BYTES];
        if bytes < (HEAD_BYTES + 8) as u64 {
            return Ok(None);
        }
        reader.read_exact(&mut found)?;
        let about = About {
            signature,
            recordings: number(&found[16..24]),
            damaged: number(&found[24..32]),
        };
        let rows = number(&found[32..]);
        let expected = rows
            .checked_mul(ROW_BYTES as u64)
            .and_then(|rows| rows.checked_add((HEAD_BYTES + 8) as u64));
        if found != head(about, rows) || expected != Some(bytes) {
            return Ok(None);
        }
        let mut keys = Vec::new();
        let mut sum = Xxh3::new();
        let mut row = [0; ROW_BYTES];
        for number in 0..rows {
            reader.read_exact(&mut row)?;
            sum.update(&row);
            if number % BLOCK_ROWS == 0 {
                keys.push(Row::of(&row).key);
            }
        }
        let mut expected = [0; 8];
        reader.read_exact(&mut expected)?;
        Ok((sum.digest().to_le_bytes() == expected).then_some(Table {
            file,
            rows,
            about,
            keys,
        }))
    }

    /// The rows of a key, the highest rank last.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn rows(&self, key: u64) -> io::Result<Vec<Row>> {
        let mut found = Vec::new();
        let first = self
            .keys
            .partition_point(|&other| other < key)
            .saturating_sub(1);
        for block in first.. {
            if self.keys.get(block).is_none_or(|&other| other > key) {
                break;
            }
            let from = block as u64 * BLOCK_ROWS;
            let rows = BLOCK_ROWS.min(self.rows - from);
            let mut bytes = vec![0; rows as usize * ROW_BYTES];
            self.file
                .read_exact_at(&mut bytes, HEAD_BYTES as u64 + from * ROW_BYTES as u64)?;
            found.extend(
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(Row::of)
                    .filter(|row| row.key == key),
            );
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About = About {
        signature: 5,
        recordings: 4,
        damaged: 3,
    };

    fn row(key: u64, rank: u64) -> Row {
        Row {
            key,
            rank,
            file: 1,
            offset: key * 10 + rank,
        }
    }

    #[test]
    fn rows_come_back_by_their_key_in_order_of_rank() {
        let folder = tempfile::tempdir().unwrap();
        let mut making = Making::new(folder.path());
        for n in 0..10_000 {
            // Keys in disorder, two rows each; several runs.
            let key = n * 7919 % 10_000;
            making.add(row(key, 2)).unwrap();
            making.add(row(key, 1)).unwrap();
            if n % 3000 == 0 {
                making.end_run().unwrap();
            }
        }
        for rank in 0..1000 {
            making.add(row(77_777, rank)).unwrap();
        }
        making.finish("t", ABOUT).unwrap();
        let table = Table::open(&folder.path().join("t"), 5).unwrap().unwrap();
        assert_eq!(
            (table.about, table.rows),
            (ABOUT, 20_000 + ROWS_OF_KEY_MAX as u64)
        );
        for key in 0..10_000 {
            assert_eq!(
                table.rows(key).unwrap(),
                [row(key, 1), row(key, 2)],
                "{key}"
            );
        }
        assert_eq!(table.rows(10_000).unwrap(), []);
        let many = table.rows(77_777).unwrap();
        assert_eq!(
            (many.len(), many[0].rank, many[255].rank),
            (256, 744, 999),
            "the highest are kept"
        );
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn a_table_of_something_else_or_a_damaged_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        assert!(Table::open(&path, 5).unwrap().is_none());
        let mut making = Making::new(folder.path());
        making.add(row(1, 1)).unwrap();
        making.finish("t", ABOUT).unwrap();
        assert!(Table::open(&path, 6).unwrap().is_none());
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            // The counts are not part of the sum.
            let is_count = (16..32).contains(&at);
            assert_eq!(
                Table::open(&path, 5).unwrap().is_none(),
                !is_count,
                "byte {at}"
            );
        }
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(Table::open(&path, 5).unwrap().is_none());
    }

    #[test]
    fn an_empty_table_has_no_rows() {
        let folder = tempfile::tempdir().unwrap();
        Making::new(folder.path()).finish("t", ABOUT).unwrap();
        let table = Table::open(&folder.path().join("t"), 5).unwrap().unwrap();
        assert_eq!((table.rows, table.rows(1).unwrap().len()), (0, 0));
    }
}
