//! The lines of a file from its end to its beginning, read in blocks: memory is bounded whatever is in it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes read at once.
const BLOCK: usize = 32 << 10;
/// Longest line; a longer one is passed over.
pub const MAX_LINE: usize = 256 << 10;

/// A line, or what stands in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its line break.
    Text(Vec<u8>),
    /// Longer than `MAX_LINE`.
    TooLong,
}

/// A place in a file that moves towards its beginning. What is appended meanwhile is not seen.
#[derive(Debug)]
pub struct Backwards {
    file: File,
    /// Where the part that was not handed out yet ends: after a line break, or 0.
    end: u64,
    /// The bytes up to `end` that were read already.
    buffer: Vec<u8>,
}

impl Backwards {
    /// At the end of the last whole line.
    pub fn new(file: File) -> io::Result<Self> {
        let mut this = Self { end: file.metadata()?.len(), file, buffer: Vec::new() };
        // A line without its end is being written, or was cut short: no event.
        this.skip_to_line_break()?;
        Ok(this)
    }

    /// Whether every line was handed out.
    pub fn is_done(&self) -> bool {
        self.end == 0
    }

    /// The line before the last one that was handed out; `None` at the beginning. The file may have been
    /// cut meanwhile: then there is no more.
    pub fn previous(&mut self) -> io::Result<Option<Line>> {
        if self.is_done() {
            return Ok(None);
        }
        if self.buffer.is_empty() && !self.read_block()? {
            return Ok(None);
        }
        // The line break at its own end.
        self.drop_last(1);
        let (mut searched, mut too_long) = (0, false);
        loop {
            let unsearched = self.buffer.len().saturating_sub(searched);
            let line_break = self.buffer.iter().take(unsearched).rposition(|byte| *byte == b'\n');
            if let Some(at) = line_break {
                let line = self.buffer.split_off(at + 1);
                self.end = self.end.saturating_sub(line.len() as u64);
                return Ok(Some(if too_long { Line::TooLong } else { Line::Text(line) }));
            }
            searched = self.buffer.len();
            if searched > MAX_LINE {
                too_long = true;
                self.drop_last(searched);
                searched = 0;
            }
            if !self.read_block()? {
                let line = std::mem::take(&mut self.buffer);
                self.end = 0;
                return Ok(Some(if too_long { Line::TooLong } else { Line::Text(line) }));
            }
        }
    }

    /// Lets go of what was read ahead, for the time until the next page.
    pub fn rest(&mut self) {
        self.buffer = Vec::new();
    }

    fn drop_last(&mut self, count: usize) {
        let left = self.buffer.len().saturating_sub(count);
        self.end = self.end.saturating_sub((self.buffer.len() - left) as u64);
        self.buffer.truncate(left);
    }

    /// Puts the block before the buffer in front of it; false at the beginning of the file.
    fn read_block(&mut self) -> io::Result<bool> {
        let start = self.end.saturating_sub(self.buffer.len() as u64);
        let size = start.min(BLOCK as u64);
        if size == 0 {
            return Ok(false);
        }
        let mut block = vec![0; usize::try_from(size).unwrap_or(BLOCK)];
        match self.file.read_exact_at(&mut block, start - size) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                (self.end, self.buffer) = (0, Vec::new());
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        block.append(&mut self.buffer);
        self.buffer = block;
        Ok(true)
    }

    fn skip_to_line_break(&mut self) -> io::Result<()> {
        while self.end > 0 {
            if self.buffer.is_empty() && !self.read_block()? {
                return Ok(());
            }
            let after = self.buffer.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            self.drop_last(self.buffer.len().saturating_sub(after));
            if after > 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn all(bytes: &[u8], rest: bool) -> Vec<Line> {
        let mut backwards = Backwards::new(file(bytes)).unwrap();
        let mut lines = Vec::new();
        while let Some(line) = backwards.previous().unwrap() {
            lines.push(line);
            if rest {
                backwards.rest();
            }
        }
        assert!(backwards.is_done());
        lines
    }

    fn text(line: &str) -> Line {
        Line::Text(line.as_bytes().to_vec())
    }

    #[test]
    fn whole_lines_come_from_the_end() {
        assert_eq!(all(b"", false), []);
        assert_eq!(all(b"cut", false), []);
        assert_eq!(all(b"a\n", false), [text("a")]);
        assert_eq!(all(b"a\n\nbc\ncut", true), [text("bc"), text(""), text("a")]);
    }

    #[test]
    fn a_long_line_is_passed_over_and_its_neighbours_are_not() {
        let at_bound = "y".repeat(MAX_LINE);
        let long = "x".repeat(3 * MAX_LINE);
        for rest in [false, true] {
            let lines = all(format!("a\n{long}\n{at_bound}\nb\n").as_bytes(), rest);
            assert_eq!(lines, [text("b"), text(&at_bound), Line::TooLong, text("a")]);
            assert_eq!(all(format!("{long}\n").as_bytes(), rest), [Line::TooLong]);
        }
    }

    #[test]
    fn a_file_that_was_cut_meanwhile_ends() {
        let file = file(&b"line\n".repeat(20_000));
        let mut backwards = Backwards::new(file.try_clone().unwrap()).unwrap();
        assert!(backwards.previous().unwrap().is_some());
        backwards.rest();
        file.set_len(0).unwrap();
        assert_eq!(backwards.previous().unwrap(), None);
        assert!(backwards.is_done());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_line_is_seen_once(lengths in prop::collection::vec(0..50_000_usize, 0..20), rest: bool) {
            let lines: Vec<String> =
                lengths.iter().enumerate().map(|(i, n)| format!("{i}:{}", "z".repeat(*n))).collect();
            let bytes: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            let expected: Vec<Line> = lines.iter().rev().map(|line| text(line)).collect();
            prop_assert_eq!(all(bytes.as_bytes(), rest), expected);
        }
    }
}
