//! Scan: which records are in a WARC file, and where.
//!
//! In: a file, as members with a record each, or plain. Out: the head of each record with its
//! offset; what is damaged, with its offset and the reason. Behind what is damaged the next record
//! is looked for. Invariant: memory does not grow with the file.

use super::packing::Packing;
use super::record::{Damage, Head};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

/// Bytes that are searched at once.
const SEARCHED_BYTES: usize = 1 << 20;
/// What stands behind a block: two empty lines.
const BLOCK_END: &[u8] = b"\r\n\r\n";

/// How records lie in a file.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// One after the other.
    Plain,
    /// Each as a member.
    Members(Packing),
    /// Compressed together: none can be read without those before it.
    Packed(Packing),
}

impl Form {
    /// The form of a file, by its beginning.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn of(path: &Path) -> io::Result<Form> {
        let mut file = BufReader::new(File::open(path)?);
        let Some(packing) = Packing::of(&mut file)? else {
            return Ok(Form::Plain);
        };
        let is_shared = matches!(
            member(&mut packing.member(&mut file)?),
            Ok(Member {
                is_shared: true,
                ..
            })
        );
        Ok(if is_shared {
            Form::Packed(packing)
        } else {
            Form::Members(packing)
        })
    }
}

/// What is found in a file.
pub(crate) enum Found {
    Record(Head),
    Damaged(Damage),
}

/// Finds the records of a file that is not packed, each at its offset.
///
/// # Errors
/// The file cannot be read, or `found` fails.
pub(crate) fn scan(
    path: &Path,
    form: &Form,
    found: &mut impl FnMut(u64, Found) -> io::Result<()>,
) -> io::Result<()> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut offset = 0;
    while offset < bytes {
        reader.seek(SeekFrom::Start(offset))?;
        let read = match form {
            Form::Plain => plain(&mut reader, offset, bytes),
            Form::Members(packing) | Form::Packed(packing) => {
                member_at(&mut reader, packing, offset)
            }
        };
        offset = match read {
            Ok((head, end)) => {
                if let Some(head) = head {
                    found(offset, Found::Record(head))?;
                }
                end
            }
            Err(damage) => {
                found(offset, Found::Damaged(damage))?;
                next(&mut reader, form, offset + 1)?.unwrap_or(bytes)
            }
        };
    }
    Ok(())
}

/// The record at an offset of a plain file, and where it ends.
fn plain(
    reader: &mut BufReader<File>,
    offset: u64,
    bytes: u64,
) -> Result<(Option<Head>, u64), Damage> {
    let mut counted = Counted {
        inner: &mut *reader,
        bytes: 0,
    };
    let Some(head) = Head::read(&mut counted)? else {
        return Ok((None, bytes));
    };
    let block_ends = (offset + counted.bytes).saturating_add(head.block_bytes);
    if block_ends > bytes {
        return Err("the file ends within the record".into());
    }
    let skipped = i64::try_from(head.block_bytes).map_err(|error| error.to_string())?;
    reader
        .seek_relative(skipped)
        .map_err(|error| error.to_string())?;
    let mut end = Vec::new();
    reader
        .take(BLOCK_END.len() as u64)
        .read_to_end(&mut end)
        .map_err(|error| error.to_string())?;
    let ends = block_ends + end.len() as u64;
    // Some writers leave out the empty line behind their last record.
    if end != BLOCK_END && !(ends == bytes && BLOCK_END.starts_with(&end)) {
        return Err("the record is not as long as it says".into());
    }
    Ok((Some(head), ends))
}

/// The record in the member at an offset, and where the member ends.
fn member_at(
    reader: &mut BufReader<File>,
    packing: &Packing,
    offset: u64,
) -> Result<(Option<Head>, u64), Damage> {
    let mut counted = Counted {
        inner: reader,
        bytes: 0,
    };
    let mut plain = packing
        .member(&mut counted)
        .map_err(|error| error.to_string())?;
    let Member {
        head,
        is_short,
        is_shared,
    } = member(&mut plain)?;
    // To the end, where the checksum is.
    skip(&mut plain)?;
    drop(plain);
    if is_short {
        return Err("the member ends before its record does".into());
    }
    if is_shared {
        return Err("the member holds more than one record, those before it did not".into());
    }
    Ok((head, offset + counted.bytes))
}

struct Member {
    head: Option<Head>,
    /// There is less in it than the record.
    is_short: bool,
    /// There is more in it than the record.
    is_shared: bool,
}

/// Reads the first record of a member, and a little further.
fn member(plain: &mut impl Read) -> Result<Member, Damage> {
    let mut plain = BufReader::new(plain);
    let head = Head::read(&mut plain)?;
    let block_bytes = head.as_ref().map_or(0, |head| head.block_bytes);
    let skipped = skip(&mut (&mut plain).take(block_bytes))?;
    // Another record would begin behind these.
    let mut end = Vec::new();
    (&mut plain)
        .take(2 * BLOCK_END.len() as u64)
        .read_to_end(&mut end)
        .map_err(|error| error.to_string())?;
    Ok(Member {
        head,
        is_short: skipped < block_bytes,
        is_shared: !end.iter().all(u8::is_ascii_whitespace),
    })
}

fn skip(from: &mut impl Read) -> Result<u64, Damage> {
    io::copy(from, &mut io::sink()).map_err(|error| error.to_string())
}

/// Where the next record begins that can be read, from an offset on.
fn next(reader: &mut BufReader<File>, form: &Form, from: u64) -> io::Result<Option<u64>> {
    let sign = match form {
        Form::Plain => b"\nWARC/1.",
        Form::Members(packing) | Form::Packed(packing) => packing.sign(),
    };
    let mut at = from;
    let mut buffer = vec![0; SEARCHED_BYTES];
    loop {
        reader.seek(SeekFrom::Start(at))?;
        let mut bytes = 0;
        while bytes < buffer.len() {
            match reader.read(&mut buffer[bytes..])? {
                0 => break,
                more => bytes += more,
            }
        }
        let mut searched = 0;
        while let Some(place) = buffer[searched..bytes]
            .windows(sign.len())
            .position(|window| window == sign)
        {
            let candidate = at + (searched + place) as u64;
            let (Form::Members(packing) | Form::Packed(packing)) = form else {
                // The line's end belongs to the record before.
                return Ok(Some(candidate + 1));
            };
            reader.seek(SeekFrom::Start(candidate))?;
            let mut beginning = [0; 5];
            if packing
                .member(&mut *reader)?
                .read_exact(&mut beginning)
                .is_ok()
                && beginning == *b"WARC/"
            {
                return Ok(Some(candidate));
            }
            searched += place + 1;
        }
        if bytes < buffer.len() {
            return Ok(None);
        }
        at += (bytes + 1 - sign.len()) as u64;
    }
}

/// Counts what is taken.
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.bytes += bytes as u64;
        Ok(bytes)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.inner.consume(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn record(url: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nContent-Length: \
             {length}\r\n\r\n{body}\r\n\r\n"
        )
        .into_bytes()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd_with(bytes, &[])
    }

    fn zstd_with(bytes: &[u8], dictionary: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::Encoder::with_dictionary(Vec::new(), 3, dictionary).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The frame of a dictionary.
    fn skippable(content: &[u8]) -> Vec<u8> {
        [
            &b"\x5d\x2a\x4d\x18"[..],
            &u32::try_from(content.len()).unwrap().to_le_bytes(),
            content,
        ]
        .concat()
    }

    /// What is found in a file: URLs with their offsets, and the offsets of what is damaged.
    fn scanned(bytes: &[u8]) -> (Form, Vec<(u64, String)>, Vec<u64>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let form = Form::of(file.path()).unwrap();
        let mut records = Vec::new();
        let mut damaged = Vec::new();
        scan(file.path(), &form, &mut |offset, found| {
            match found {
                Found::Record(head) => records.push((offset, head.url)),
                Found::Damaged(_) => damaged.push(offset),
            }
            Ok(())
        })
        .unwrap();
        (form, records, damaged)
    }

    fn three() -> [Vec<u8>; 3] {
        ["1", "2", "3"].map(|n| record(n, &format!("body {n} {}", "x".repeat(300))))
    }

    #[test]
    fn records_are_found_in_members_and_in_a_plain_file() {
        let [a, b, c] = three();
        let (form, records, damaged) = scanned(&[a.clone(), b.clone(), c].concat());
        assert!(
            matches!(form, Form::Plain) && damaged.is_empty(),
            "{form:?}"
        );
        let offsets = [0, a.len() as u64, (a.len() + b.len()) as u64];
        assert_eq!(
            records,
            ["1", "2", "3"]
                .iter()
                .zip(offsets)
                .map(|(url, at)| (at, (*url).to_owned()))
                .collect::<Vec<_>>()
        );
        for pack in [gzip, zstd] {
            let members = three().map(|record| pack(&record));
            let (form, records, damaged) = scanned(&members.concat());
            assert!(
                matches!(form, Form::Members(_)) && damaged.is_empty(),
                "{form:?}"
            );
            assert_eq!(
                (records.len(), records[2].0),
                (3, (members[0].len() + members[1].len()) as u64)
            );
            assert!(matches!(
                scanned(&pack(&three().concat())).0,
                Form::Packed(_)
            ));
        }
    }

    #[test]
    fn records_are_found_in_frames_that_need_the_dictionary_of_their_file() {
        let dictionary = [record("http://a.test/", "sample"), vec![b'x'; 500]].concat();
        let frames = three().map(|record| zstd_with(&record, &dictionary));
        for content in [dictionary.clone(), zstd(&dictionary)] {
            let first = skippable(&content);
            let (form, records, damaged) = scanned(&[first.clone(), frames.concat()].concat());
            assert!(
                matches!(form, Form::Members(_)) && damaged.is_empty(),
                "{form:?}: {damaged:?}"
            );
            assert_eq!((records.len(), records[0].0), (3, first.len() as u64));
        }
        assert_eq!(
            scanned(&frames.concat()).2,
            [0],
            "without it nothing can be read"
        );
        let cut = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(cut.path(), &skippable(&dictionary)[..500]).unwrap();
        assert!(
            Form::of(cut.path())
                .unwrap_err()
                .to_string()
                .contains("dictionary")
        );
    }

    #[test]
    fn a_damaged_record_is_named_and_the_next_one_is_found() {
        let plain = |record: &[u8]| record.to_vec();
        for (pack, compressed) in [
            (plain as fn(&[u8]) -> Vec<u8>, false),
            (gzip, true),
            (zstd, true),
        ] {
            let records = three().map(|record| pack(&record));
            let at = records[0].len();
            let mut bytes = records.concat();
            // Into the length of a plain record, into the data of a compressed one.
            let flipped = if compressed {
                at + 40
            } else {
                at + records[1].windows(7).position(|w| w == b"Length:").unwrap()
            };
            bytes[flipped] ^= 0x55;
            let (_, found, damaged) = scanned(&bytes);
            let urls: Vec<&str> = found.iter().map(|(_, url)| url.as_str()).collect();
            assert_eq!(
                (urls, damaged),
                (vec!["1", "3"], vec![at as u64]),
                "{compressed}"
            );
            let cut = records.concat().len() - 20;
            let (_, found, damaged) = scanned(&records.concat()[..cut]);
            assert_eq!((found.len(), damaged.len()), (2, 1), "{compressed}: cut");
        }
    }
}
