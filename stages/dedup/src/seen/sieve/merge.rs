//! The keys of several runs, merged in order by one sequential pass over each.

use super::layout::{BLOCK_BYTES, BLOCK_HEADER_BYTES, BLOCKS_AT_ONCE, GROUP_HEADER_BYTES, Groups};
use super::run::{Run, Window};
use crate::seen::Key;
use crate::seen::error::SeenError;
use crate::seen::folder::number;

/// All keys of a run, in order.
struct RunKeys<'r> {
    run: &'r Run,
    window: Window,
    /// Block that the group is in, and where in its groups the next one begins.
    block: usize,
    next_group_at: usize,
    host: u64,
    /// URLs of the group not given yet: where the next lies in the window, and how many there are.
    url_at: usize,
    left: usize,
}

impl<'r> RunKeys<'r> {
    fn new(run: &'r Run) -> Self {
        RunKeys {
            run,
            window: Window::default(),
            block: 0,
            next_group_at: 0,
            host: 0,
            url_at: 0,
            left: 0,
        }
    }

    fn next(&mut self) -> Result<Option<Key>, SeenError> {
        while self.left == 0 {
            if self.block >= self.run.index.len() {
                return Ok(None);
            }
            self.next_group()?;
        }
        let Some(url) = number(&self.window.buffer, self.url_at).map(u64::from_le_bytes) else {
            return Ok(None);
        };
        self.url_at += 8;
        self.left -= 1;
        Ok(Some((self.host, url)))
    }

    /// The next group of the block, or on to the next block.
    fn next_group(&mut self) -> Result<(), SeenError> {
        let at_once = BLOCKS_AT_ONCE.min(self.run.index.len() - self.block);
        let in_window =
            (self.window.first..self.window.first + self.window.blocks).contains(&self.block);
        let groups = if in_window && self.next_group_at > 0 {
            // Checked when its first group was read.
            let at = (self.block - self.window.first) * BLOCK_BYTES;
            let bytes = number(&self.window.buffer, at + 8).map_or(0, u32::from_le_bytes) as usize;
            &self.window.buffer[at + BLOCK_HEADER_BYTES..][..bytes]
        } else {
            self.run.block(self.block, at_once, &mut self.window)?
        };
        let mut rest = Groups {
            rest: &groups[self.next_group_at..],
        };
        match rest.next().map_err(|wrong| self.run.damaged(wrong))? {
            Some((host, urls)) => {
                let groups_bytes = groups.len();
                let rest = rest.rest.len();
                let left = urls.len();
                let groups_at = (self.block - self.window.first) * BLOCK_BYTES + BLOCK_HEADER_BYTES;
                self.url_at = groups_at + self.next_group_at + GROUP_HEADER_BYTES;
                self.next_group_at = groups_bytes - rest;
                (self.host, self.left) = (host, left);
            }
            None => (self.block, self.next_group_at) = (self.block + 1, 0),
        }
        Ok(())
    }
}

/// Visits all keys of the runs and of the sorted keys, in order and each once.
pub(super) fn merge(
    runs: &[&Run],
    keys: &[Key],
    visit: &mut dyn FnMut(Key) -> Result<(), SeenError>,
) -> Result<(), SeenError> {
    let mut sources: Vec<RunKeys<'_>> = runs.iter().map(|run| RunKeys::new(run)).collect();
    let mut heads = Vec::with_capacity(sources.len());
    for source in &mut sources {
        heads.push(source.next()?);
    }
    let mut keys = keys.iter().copied();
    let mut head = keys.next();
    let mut last = None;
    loop {
        // At most two runs and the keys: nothing faster than looking at each.
        let least = heads.iter().copied().flatten().chain(head).min();
        let Some(key) = least else { return Ok(()) };
        if head == least {
            head = keys.next();
        }
        for (next, source) in heads.iter_mut().zip(&mut sources) {
            if *next == least {
                *next = source.next()?;
            }
        }
        if last.is_some_and(|last| last >= key) {
            return Err(SeenError::damaged(
                &runs
                    .first()
                    .map(|run| run.file.path.clone())
                    .unwrap_or_default(),
                "its keys do not ascend",
            ));
        }
        last = least;
        visit(key)?;
    }
}
