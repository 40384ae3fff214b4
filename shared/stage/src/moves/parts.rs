//! Parts: the rows of a partition in messages.
//!
//! ```text
//! part = version of the layout (1)  what follows (1)  partition (2)  version of the ownership (8)  copy (8)  number (4)
//!        0 (4)  crawl (8)  checksum of all but itself (8)  row*
//! row  = length of the table's name (1)  of the key (2)  of the value, or 2^32 - 1 for a removal (4)  table  key  value
//! ```
//! Numbers are little-endian; the checksum is a 64-bit xxh3, and so is the hash that stands for the
//! crawl's id and its stage. A partition is copied anew after a copy that was cut short: the number
//! of the copy tells them apart.
//!
//! In: rows; bytes that came. Out: parts of about [`PART_BYTES`]; rows again, or what is wrong.
//! Invariant: a part that is damaged, or that is another one than the receiver waits for, gives no
//! row.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

/// A part takes no more rows when it is as long as this.
pub const PART_BYTES: usize = 512 << 10;
const LAYOUT: u8 = 2;
const HEADER_BYTES: usize = 44;
/// Where the checksum is.
const SUM_AT: usize = 36;
/// The length of a value that there is none of.
const REMOVAL: u32 = u32::MAX;

/// What follows a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Follows {
    /// Another of its kind.
    More = 0,
    /// What changed while those up to this one were sent: when the owner uses the partition no
    /// more.
    Changes = 1,
    /// Nothing.
    Nothing = 2,
}

impl Follows {
    fn from_byte(byte: u8) -> Option<Self> {
        [Follows::More, Follows::Changes, Follows::Nothing]
            .into_iter()
            .find(|follows| *follows as u8 == byte)
    }
}

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
    #[error(
        "part {number} was sent under version {version} of the ownership, {expected} is under way"
    )]
    Version {
        number: u32,
        version: u64,
        expected: u64,
    },
    #[error("part {number} is of copy {copy}, {expected} is under way")]
    Copy {
        number: u32,
        copy: u64,
        expected: u64,
    },
    #[error("part {number} came where part {expected} was expected")]
    Order { number: u32, expected: u32 },
    #[error(
        "part {number} has a layout (version {layout}) that this version of the program does not \
         know"
    )]
    Layout { number: u32, layout: u8 },
    #[error("part {number} has a row that is not understood: {why}")]
    Row { number: u32, why: String },
}

impl Bill {
    /// The bill of a partition of a stage that an owner gives under this version.
    pub fn new(crawl: &str, stage: &str, partition: u16, version: u64) -> Self {
        Bill {
            crawl: xxh3_64(format!("{crawl} {stage}").as_bytes()),
            partition,
            version,
        }
    }

    /// The part with this number, when it is the one. `copy`: the copy that is under way; none
    /// before the first part.
    ///
    /// # Errors
    /// It is another, or damaged.
    pub fn check<'a>(
        &self,
        copy: Option<u64>,
        number: u32,
        bytes: &'a [u8],
    ) -> Result<Part<'a>, Unfit> {
        let damaged = Unfit::Damaged { number };
        let Some((header, rows)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(damaged);
        };
        if header[0] != LAYOUT {
            return Err(Unfit::Layout {
                number,
                layout: header[0],
            });
        }
        if header[SUM_AT..] != sum(header, rows).to_le_bytes() {
            return Err(damaged);
        }
        let Some(follows) = Follows::from_byte(header[1]) else {
            return Err(damaged);
        };
        let partition = u16::from_le_bytes([header[2], header[3]]);
        let version = eight(header, 4);
        let of = eight(header, 12);
        let found = u32::from_le_bytes([header[20], header[21], header[22], header[23]]);
        let crawl = eight(header, 28);
        if crawl != self.crawl {
            Err(Unfit::Crawl { number })
        } else if partition != self.partition {
            Err(Unfit::Partition { number, partition })
        } else if version != self.version {
            Err(Unfit::Version {
                number,
                version,
                expected: self.version,
            })
        } else if let Some(expected) = copy.filter(|copy| *copy != of) {
            Err(Unfit::Copy {
                number,
                copy: of,
                expected,
            })
        } else if found != number {
            Err(Unfit::Order {
                number: found,
                expected: number,
            })
        } else {
            Ok(Part {
                number,
                rows,
                copy: of,
                follows,
            })
        }
    }
}

impl Bill {
    /// Writes the header of a part, in front of whose rows there is room for it.
    fn seal(self, bytes: &mut [u8], copy: u64, number: u32, follows: Follows) {
        let Bill {
            crawl,
            partition,
            version,
        } = self;
        if let Some((header, rows)) = bytes.split_first_chunk_mut::<HEADER_BYTES>() {
            (header[0], header[1]) = (LAYOUT, follows as u8);
            header[2..4].copy_from_slice(&partition.to_le_bytes());
            header[4..12].copy_from_slice(&version.to_le_bytes());
            header[12..20].copy_from_slice(&copy.to_le_bytes());
            header[20..24].copy_from_slice(&number.to_le_bytes());
            header[28..36].copy_from_slice(&crawl.to_le_bytes());
            let sum = sum(header, rows);
            header[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// A part that is the one that was waited for.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    number: u32,
    rows: &'a [u8],
    /// The copy of the partition that it belongs to.
    pub copy: u64,
    /// What follows it.
    pub follows: Follows,
}

impl Part<'_> {
    /// The same rows as a part of another copy, under its bill. The number stays.
    pub fn billed(&self, bill: Bill, copy: u64, follows: Follows) -> Bytes {
        let mut bytes = [&[0; HEADER_BYTES], self.rows].concat();
        bill.seal(&mut bytes, copy, self.number, follows);
        bytes.into()
    }

    /// Visits the rows: table, key, value or none for a removal.
    ///
    /// # Errors
    /// One is not understood, by this or by `visit`.
    pub fn visit(
        &self,
        mut visit: impl FnMut(&str, &[u8], Option<&[u8]>) -> Result<(), String>,
    ) -> Result<(), Unfit> {
        let unfit = |why: String| Unfit::Row {
            number: self.number,
            why,
        };
        let mut rest = self.rows;
        while !rest.is_empty() {
            let ((table, key, value), after) =
                row(rest).ok_or_else(|| unfit("it does not fit its part".into()))?;
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
    copy: u64,
    number: u32,
    bytes: Vec<u8>,
    /// A part takes no more rows when it is as long as this.
    full: usize,
}

impl Loading {
    /// Begins the first part of a copy.
    pub fn new(bill: Bill, copy: u64) -> Self {
        Loading::of_parts(bill, copy, PART_BYTES)
    }

    /// The same with parts of another length.
    pub fn of_parts(bill: Bill, copy: u64, full: usize) -> Self {
        Loading {
            bill,
            copy,
            number: 0,
            bytes: vec![0; HEADER_BYTES],
            full,
        }
    }

    /// Adds a row, or the removal of one. Returns a part when it is full.
    pub fn push(&mut self, table: &str, key: &[u8], value: Option<&[u8]>) -> Option<Bytes> {
        self.bytes.push(table.len() as u8);
        self.bytes
            .extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(
            &value
                .map_or(REMOVAL, |value| value.len() as u32)
                .to_le_bytes(),
        );
        let all = [table.as_bytes(), key, value.unwrap_or_default()];
        all.into_iter()
            .for_each(|bytes| self.bytes.extend_from_slice(bytes));
        (self.bytes.len() >= self.full).then(|| self.close(Follows::More))
    }

    /// What is left, or nothing, as the last part of its kind.
    pub fn close(&mut self, follows: Follows) -> Bytes {
        let mut bytes = std::mem::replace(&mut self.bytes, vec![0; HEADER_BYTES]);
        self.bill.seal(&mut bytes, self.copy, self.number, follows);
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
    header[at..]
        .first_chunk::<8>()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Table, key, and value or none for a removal.
type Row<'a> = (&'a str, &'a [u8], Option<&'a [u8]>);

/// The first row, and what follows it.
fn row(bytes: &[u8]) -> Option<(Row<'_>, &[u8])> {
    let (lengths, rest) = bytes.split_first_chunk::<7>()?;
    let (table, rest) = rest.split_at_checked(usize::from(lengths[0]))?;
    let (key, rest) =
        rest.split_at_checked(usize::from(u16::from_le_bytes([lengths[1], lengths[2]])))?;
    let value = u32::from_le_bytes([lengths[3], lengths[4], lengths[5], lengths[6]]);
    let (value, rest) = match value {
        REMOVAL => (None, rest),
        length => rest
            .split_at_checked(length as usize)
            .map(|(value, rest)| (Some(value), rest))?,
    };
    Some(((std::str::from_utf8(table).ok()?, key, value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill() -> Bill {
        Bill::new("a", "dedup", 5, 3)
    }

    fn loaded(rows: usize) -> Vec<Bytes> {
        let mut loading = Loading::new(bill(), 9);
        let value = vec![7; 1000];
        let mut parts: Vec<Bytes> = (0..rows)
            .filter_map(|row| loading.push("urls", &row.to_be_bytes(), Some(&value)))
            .collect();
        parts.push(loading.close(Follows::Changes));
        assert!(loading.push("urls", b"gone", None).is_none());
        parts.push(loading.close(Follows::Nothing));
        parts
    }

    #[test]
    fn rows_come_out_as_they_went_in() {
        let parts = loaded(1200);
        assert_eq!(parts.len(), 4);
        let mut rows = 0usize;
        for (number, bytes) in (0..).zip(&parts[..3]) {
            let part = bill().check(Some(9), number, bytes).unwrap();
            assert_eq!(
                part.follows,
                if number == 2 {
                    Follows::Changes
                } else {
                    Follows::More
                }
            );
            part.visit(|table, key, value| {
                let length = value.map(<[u8]>::len);
                assert_eq!(
                    (table, key, length),
                    ("urls", rows.to_be_bytes().as_slice(), Some(1000))
                );
                rows += 1;
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(rows, 1200);
        let last = bill().check(None, 3, &parts[3]).unwrap();
        assert_eq!((last.copy, last.follows), (9, Follows::Nothing));
        last.visit(|table, key, value| {
            assert_eq!((table, key, value), ("urls", b"gone".as_slice(), None));
            Ok(())
        })
        .unwrap();
        assert_eq!(
            bill().check(None, 0, &loaded(0)[0]).unwrap().follows,
            Follows::Changes
        );
    }

    #[test]
    fn a_part_goes_on_with_its_rows_and_number_under_another_bill() {
        let parts = loaded(1200);
        let other = Bill::new("b", "dedup", 5, 1);
        let part = bill().check(Some(9), 2, &parts[2]).unwrap();
        let billed = part.billed(other, 4, Follows::Nothing);
        assert!(bill().check(None, 2, &billed).is_err());
        let again = other.check(Some(4), 2, &billed).unwrap();
        assert_eq!((again.rows, again.follows), (part.rows, Follows::Nothing));
    }

    #[test]
    fn a_part_that_is_damaged_or_another_one_is_refused_by_name() {
        let part = &loaded(1)[0];
        for at in 0..part.len() {
            let mut damaged = part.to_vec();
            damaged[at] ^= 1;
            assert!(bill().check(None, 0, &damaged).is_err(), "{at}");
            assert!(bill().check(None, 0, &part[..at]).is_err(), "{at}");
        }
        let of = |bill: Bill, number| bill.check(Some(9), number, part).unwrap_err();
        assert_eq!(
            of(Bill::new("b", "dedup", 5, 3), 0),
            Unfit::Crawl { number: 0 }
        );
        assert_eq!(
            of(Bill::new("a", "scheduler", 5, 3), 0),
            Unfit::Crawl { number: 0 }
        );
        assert_eq!(
            of(Bill::new("a", "dedup", 6, 3), 0),
            Unfit::Partition {
                number: 0,
                partition: 5
            }
        );
        assert_eq!(
            of(Bill::new("a", "dedup", 5, 4), 0),
            Unfit::Version {
                number: 0,
                version: 3,
                expected: 4
            }
        );
        assert_eq!(
            of(bill(), 1),
            Unfit::Order {
                number: 0,
                expected: 1
            }
        );
        let of_another = bill().check(Some(8), 0, part).unwrap_err();
        assert_eq!(
            of_another,
            Unfit::Copy {
                number: 0,
                copy: 9,
                expected: 8
            }
        );
        let refused = bill()
            .check(None, 0, part)
            .unwrap()
            .visit(|_, _, _| Err("no such table".into()))
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "part 0 has a row that is not understood: no such table"
        );
    }
}
