//! A file that grows by whole writes.
//!
//! In: bytes to append. Out: a file that is synced up to its good length. Invariant: bytes behind
//! the good length belong to a write that failed or does not count; the next write removes or
//! overwrites them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// A file and its good length.
pub(super) struct GrowingFile {
    pub(super) file: File,
    /// The good length.
    pub(super) bytes: u64,
    /// Nothing lies behind the good length.
    is_clean: bool,
}

impl GrowingFile {
    /// A file that ends at its good length, `bytes`.
    pub(super) fn new(file: File, bytes: u64) -> GrowingFile {
        GrowingFile {
            file,
            bytes,
            is_clean: true,
        }
    }

    /// Appends and syncs. After an error the good length is what it was.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.clean()?;
        self.is_clean = false;
        self.file.write_all_at(bytes, self.bytes)?;
        self.file.sync_data()?;
        self.is_clean = true;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Cuts off what lies behind the good length.
    pub(super) fn clean(&mut self) -> io::Result<()> {
        if !self.is_clean {
            self.file.set_len(self.bytes)?;
            self.file.sync_data()?;
            self.is_clean = true;
        }
        Ok(())
    }

    /// Goes back to an earlier good length: what was written since does not count.
    pub(super) fn take_back(&mut self, bytes: u64) {
        self.is_clean &= self.bytes == bytes;
        self.bytes = bytes;
    }
}
