//! Parts: the rows of a partition in messages.
//!
//! ```text
//! part = version of the layout (1)  last (1)  partition (2)  version of the ownership (8)  number (4)
//!        crawl (8)  checksum of all but itself (8)  row*
//! row  = length of the table's name (1)  of the key (2)  of the value (4)  table  key  value
//! ```
//! Numbers are little-endian; the checksum is a 64-bit xxh3, and so is the hash that stands for the crawl's id and its stage.
//!
//! In: rows; bytes that came. Out: parts of about [`PART_BYTES`]; rows again, or what is wrong. Invariant: a part that is
//! damaged, or that is another one than the receiver waits for, gives no row.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

/// A part takes no more rows when it is as long as this.
pub(super) const PART_BYTES: usize = 512 << 10;
const LAYOUT: u8 = 1;
const HEADER_BYTES: usize = 32;
/// Where the checksum is.
const SUM_AT: usize = 24;

/// What a part belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bill {
    crawl: u64,
    partition: u16,
    version: u64,
}

/// Why a part is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Unfit {
    #[error("part {number} is damaged")]
    Damaged { number: u32 },
    #[error("part {number} is of another crawl or stage")]
    Crawl { number: u32 },
    #[error("part {number} is of partition {partition}")]
    Partition { number: u32, partition: u16 },
    #[error("part {number} was sent under version {version} of the ownership, {expected} is under way")]
    Version { number: u32, version: u64, expected: u64 },
    #[error("part {number} came where part {expected} was expected")]
    Order { number: u32, expected: u32 },
    #[error("part {number} has a layout (version {layout}) that this version of the program does not know")]
    Layout { number: u32, layout: u8 },
    #[error("part {number} has a row that is not understood: {why}")]
    Row { number: u32, why: String },
}

impl Bill {
    /// The bill of a partition of a stage that an owner gives under this version.
    pub fn new(crawl: &str, stage: &str, partition: u16, version: u64) -> Self {
        Bill { crawl: xxh3_64(format!("{crawl} {stage}").as_bytes()), partition, version }
    }

    /// The rows of the part with this number, when it is the one: and whether it is the last.
    ///
    /// # Errors
    /// It is another, or damaged.
    pub fn check<'a>(&self, number: u32, bytes: &'a [u8]) -> Result<Part<'a>, Unfit> {
        let damaged = Unfit::Damaged { number };
        let Some((header, rows)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Err(damaged) };
        if header[0] != LAYOUT {
            return Err(Unfit::Layout { number, layout: header[0] });
        }
        if header[SUM_AT..] != sum(header, rows).to_le_bytes() {
            return Err(damaged);
        }
        let (partition, version) = (u16::from_le_bytes([header[2], header[3]]), eight(header, 4));
        let (found, crawl) = (u32::from_le_bytes([header[12], header[13], header[14], header[15]]), eight(header, 16));
        if crawl != self.crawl {
            Err(Unfit::Crawl { number })
        } else if partition != self.partition {
            Err(Unfit::Partition { number, partition })
        } else if version != self.version {
            Err(Unfit::Version { number, version, expected: self.version })
        } else if found != number {
            Err(Unfit::Order { number: found, expected: number })
        } else {
            Ok(Part { number, rows, is_last: header[1] == 1 })
        }
    }
}

/// A part that is the one that was waited for.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    number: u32,
    rows: &'a [u8],
    /// No other follows.
    pub is_last: bool,
}

impl Part<'_> {
    /// Visits the rows: table, key, value.
    ///
    /// # Errors
    /// One is not understood, by this or by `visit`.
    pub fn visit(&self, mut visit: impl FnMut(&str, &[u8], &[u8]) -> Result<(), String>) -> Result<(), Unfit> {
        let unfit = |why: String| Unfit::Row { number: self.number, why };
        let mut rest = self.rows;
        while !rest.is_empty() {
            let ((table, key, value), after) = row(rest).ok_or_else(|| unfit("it does not fit its part".into()))?;
            visit(table, key, value).map_err(unfit)?;
            rest = after;
        }
        Ok(())
    }
}

/// Parts that are being filled.
#[derive(Debug)]
pub struct Loading {
    bill: Bill,
    number: u32,
    bytes: Vec<u8>,
    /// A part takes no more rows when it is as long as this.
    full: usize,
}

impl Loading {
    /// Begins the first part.
    pub fn new(bill: Bill) -> Self {
        Loading::of_parts(bill, PART_BYTES)
    }

    /// The same with parts of another length.
    pub fn of_parts(bill: Bill, full: usize) -> Self {
        Loading { bill, number: 0, bytes: vec![0; HEADER_BYTES], full }
    }

    /// Adds a row. Returns a part when it is full.
    pub fn push(&mut self, table: &str, key: &[u8], value: &[u8]) -> Option<Bytes> {
        self.bytes.push(table.len() as u8);
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        [table.as_bytes(), key, value].into_iter().for_each(|bytes| self.bytes.extend_from_slice(bytes));
        (self.bytes.len() >= self.full).then(|| self.close(false))
    }

    /// The last part: what is left, or nothing.
    pub fn end(mut self) -> Bytes {
        self.close(true)
    }

    fn close(&mut self, is_last: bool) -> Bytes {
        let mut bytes = std::mem::replace(&mut self.bytes, vec![0; HEADER_BYTES]);
        let Bill { crawl, partition, version } = self.bill;
        if let Some((header, rows)) = bytes.split_first_chunk_mut::<HEADER_BYTES>() {
            (header[0], header[1]) = (LAYOUT, u8::from(is_last));
            header[2..4].copy_from_slice(&partition.to_le_bytes());
            header[4..12].copy_from_slice(&version.to_le_bytes());
            header[12..16].copy_from_slice(&self.number.to_le_bytes());
            header[16..24].copy_from_slice(&crawl.to_le_bytes());
            let sum = sum(header, rows);
            header[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        }
        self.number += 1;
        bytes.into()
    }
}

/// The checksum of a part.
fn sum(header: &[u8; HEADER_BYTES], rows: &[u8]) -> u64 {
    let of_header = xxh3_64(&header[..SUM_AT]);
    xxhash_rust::xxh3::xxh3_64_with_seed(rows, of_header)
}

fn eight(header: &[u8; HEADER_BYTES], at: usize) -> u64 {
    header[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Table, key and value.
type Row<'a> = (&'a str, &'a [u8], &'a [u8]);

/// The first row, and what follows it.
fn row(bytes: &[u8]) -> Option<(Row<'_>, &[u8])> {
    let (lengths, rest) = bytes.split_first_chunk::<7>()?;
    let (table, rest) = rest.split_at_checked(usize::from(lengths[0]))?;
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([lengths[1], lengths[2]])))?;
    let value = u32::from_le_bytes([lengths[3], lengths[4], lengths[5], lengths[6]]);
    let (value, rest) = rest.split_at_checked(value as usize)?;
    Some(((std::str::from_utf8(table).ok()?, key, value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill() -> Bill {
        Bill::new("a", "dedup", 5, 3)
    }

    fn loaded(rows: usize) -> Vec<Bytes> {
        let mut loading = Loading::new(bill());
        let value = vec![7; 1000];
        let mut parts: Vec<Bytes> =
            (0..rows).filter_map(|row| loading.push("urls", &row.to_be_bytes(), &value)).collect();
        parts.push(loading.end());
        parts
    }

    #[test]
    fn rows_come_out_as_they_went_in() {
        let parts = loaded(1200);
        assert_eq!(parts.len(), 3);
        let mut rows = 0usize;
        for (number, bytes) in (0..).zip(&parts) {
            let part = bill().check(number, bytes).unwrap();
            assert_eq!(part.is_last, number == 2);
            part.visit(|table, key, value| {
                assert_eq!((table, key, value.len()), ("urls", rows.to_be_bytes().as_slice(), 1000));
                rows += 1;
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(rows, 1200);
        assert!(bill().check(0, &loaded(0)[0]).unwrap().is_last);
    }

    #[test]
    fn a_part_that_is_damaged_or_another_one_is_refused_by_name() {
        let part = &loaded(1)[0];
        for at in 0..part.len() {
            let mut damaged = part.to_vec();
            damaged[at] ^= 1;
            assert!(bill().check(0, &damaged).is_err(), "{at}");
            assert!(bill().check(0, &part[..at]).is_err(), "{at}");
        }
        let of = |bill: Bill, number| bill.check(number, part).unwrap_err();
        assert_eq!(of(Bill::new("b", "dedup", 5, 3), 0), Unfit::Crawl { number: 0 });
        assert_eq!(of(Bill::new("a", "scheduler", 5, 3), 0), Unfit::Crawl { number: 0 });
        assert_eq!(of(Bill::new("a", "dedup", 6, 3), 0), Unfit::Partition { number: 0, partition: 5 });
        assert_eq!(of(Bill::new("a", "dedup", 5, 4), 0), Unfit::Version { number: 0, version: 3, expected: 4 });
        assert_eq!(of(bill(), 1), Unfit::Order { number: 0, expected: 1 });
        let refused = bill().check(0, part).unwrap().visit(|_, _, _| Err("no such table".into())).unwrap_err();
        assert_eq!(refused.to_string(), "part 0 has a row that is not understood: no such table");
    }
}
