//! How a WARC file is compressed: as gzip members or as Zstandard frames, all of which give back
//! what they hold by themselves.
//!
//! In: the beginning of a file. Out: readers of single members, and of all. A dictionary that the
//! frames were made with is the first frame of their file, which can be skipped. Sources: WARC 1.1
//! (annex A); the IIPC's "Zstandard compression for WARC files" 1.0; RFC 8878, section 3.1.

use flate2::bufread::{GzDecoder, MultiGzDecoder};
use std::fmt;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use zstd::dict::DecoderDictionary;
use zstd::stream::read::Decoder as ZstdDecoder;

/// The first bytes of a gzip member that is deflated.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
/// The first bytes of a Zstandard frame.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The first bytes of a frame that holds the dictionary of a WARC file.
const DICTIONARY: [u8; 4] = [0x5d, 0x2a, 0x4d, 0x18];
/// A dictionary takes no more, packed or not.
const DICTIONARY_BYTES_MAX: u64 = 16 << 20;

/// How a file is compressed.
#[derive(Clone, Debug)]
pub(crate) enum Packing {
    /// As gzip members.
    Gzip,
    /// As Zstandard frames.
    Zstd(Dictionary),
}

/// What frames were made with; often nothing.
#[derive(Clone, Default)]
pub(crate) struct Dictionary(Option<Arc<DecoderDictionary<'static>>>);

impl Packing {
    /// The packing of a file, by its beginning; none of one that is not packed.
    ///
    /// # Errors
    /// It cannot be read, or its dictionary is damaged.
    pub(crate) fn of(file: &mut impl BufRead) -> io::Result<Option<Packing>> {
        let begins = file.fill_buf()?;
        if begins.starts_with(&GZIP) {
            return Ok(Some(Packing::Gzip));
        }
        if begins.starts_with(&ZSTD) {
            return Ok(Some(Packing::Zstd(Dictionary::default())));
        }
        if begins.starts_with(&DICTIONARY) {
            return Ok(Some(Packing::Zstd(Dictionary::read(file)?)));
        }
        Ok(None)
    }

    /// The first bytes of a member.
    pub(crate) fn sign(&self) -> &'static [u8] {
        match self {
            Packing::Gzip => &GZIP,
            Packing::Zstd(_) => &ZSTD,
        }
    }

    /// Reads the member that begins here. At its end no more of `packed` has been taken.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn member<'a>(
        &'a self,
        packed: impl BufRead + 'a,
    ) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Packing::Gzip => Box::new(GzDecoder::new(packed)),
            Packing::Zstd(dictionary) => Box::new(dictionary.decoder(packed)?.single_frame()),
        })
    }

    /// Reads all members from here on.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn all<'a>(&'a self, packed: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Packing::Zstd(dictionary) => Box::new(dictionary.decoder(packed)?),
        })
    }
}

impl Dictionary {
    /// Reads the frame of a dictionary, which may be a Zstandard frame itself.
    fn read(file: &mut impl BufRead) -> io::Result<Dictionary> {
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        let [.., a, b, c, d] = head;
        let bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
        let mut content = Vec::new();
        file.take(bytes.min(DICTIONARY_BYTES_MAX + 1))
            .read_to_end(&mut content)?;
        let mut dictionary = Vec::new();
        if content.starts_with(&ZSTD) {
            ZstdDecoder::with_buffer(&content[..])?
                .take(DICTIONARY_BYTES_MAX + 1)
                .read_to_end(&mut dictionary)?;
        } else {
            dictionary.clone_from(&content);
        }
        let is_whole =
            content.len() as u64 == bytes && dictionary.len() as u64 <= DICTIONARY_BYTES_MAX;
        if !is_whole {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the dictionary at the beginning of the file is cut, or larger than 16 MiB: no \
                 record of it can be read",
            ));
        }
        Ok(Dictionary(Some(Arc::new(DecoderDictionary::copy(
            &dictionary,
        )))))
    }

    fn decoder<'a, R: BufRead + 'a>(&'a self, packed: R) -> io::Result<ZstdDecoder<'a, R>> {
        match &self.0 {
            Some(dictionary) => ZstdDecoder::with_prepared_dictionary(packed, dictionary),
            None => ZstdDecoder::with_buffer(packed),
        }
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(if self.0.is_some() {
            "Dictionary"
        } else {
            "NoDictionary"
        })
    }
}
