//! One reader of the log: the newest event first, across rotated files, page by page. It holds the file that it
//! is in, so that neither a rotation nor a removal between two pages repeats or loses an event.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::backwards::{Backwards, Line};
use super::event::Event;
use super::file_name::{CURRENT, RotatedName};
use super::files::rotated_names;

/// Most bytes of one page; a page that is full earlier than asked for is followed by another one.
const MAX_PAGE: usize = 1 << 20;

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Lines of events, without line breaks, the newest first.
    pub lines: Vec<Vec<u8>>,
    /// Whether there is nothing older.
    pub is_last: bool,
}

/// See the module's text.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    place: Place,
}

/// Where a reader is.
#[derive(Debug)]
enum Place {
    /// Before its first page.
    Newest,
    /// In a file; `older` is the newest one of those before it when it was opened. Later ones come in after it
    /// and are none of this reader's.
    In { lines: Backwards, older: Option<RotatedName> },
    /// Nothing is left.
    End,
}

impl Reader {
    /// A reader that begins with the newest event at its first page.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), place: Place::Newest }
    }

    /// The next events, `size` at most. A line that is no event counts as one and is left out
    /// (collection.md 13.2), so that a damaged file does not make a page endless.
    pub fn page(&mut self, size: usize) -> io::Result<Page> {
        let mut page = Page::default();
        let (mut seen, mut bytes) = (0, 0);
        while seen < size && bytes < MAX_PAGE {
            match self.line()? {
                Some(Line::Text(line)) if Event::is_in(&line) => {
                    bytes += line.len();
                    page.lines.push(line);
                }
                Some(_) => {}
                None => break,
            }
            seen += 1;
        }
        page.is_last = self.is_at_end()?;
        if let Place::In { lines, .. } = &mut self.place {
            lines.rest();
        }
        Ok(page)
    }

    fn line(&mut self) -> io::Result<Option<Line>> {
        if self.is_at_end()? {
            return Ok(None);
        }
        match &mut self.place {
            Place::In { lines, .. } => match lines.previous()? {
                Some(line) => Ok(Some(line)),
                // Cut by somebody: on with the next file.
                None => self.line(),
            },
            Place::Newest | Place::End => Ok(None),
        }
    }

    /// Moves on to the next file that has a line; whether there is none.
    fn is_at_end(&mut self) -> io::Result<bool> {
        loop {
            match &self.place {
                Place::End => return Ok(true),
                Place::In { lines, .. } if !lines.is_done() => return Ok(false),
                Place::In { older, .. } => {
                    let older = older.clone();
                    self.place = self.before(older.as_ref())?;
                }
                Place::Newest => self.place = self.newest()?,
            }
        }
    }

    /// In the current file, else in the newest rotated one.
    fn newest(&self) -> io::Result<Place> {
        let current = open(&self.dir.join(CURRENT))?;
        // Listed after it was opened: whatever was rotated meanwhile is in the list, the opened one too.
        let names = rotated_names(&self.dir)?;
        let Some(file) = current else { return self.before(names.last()) };
        let held = file.metadata()?;
        let is_held = |name: &&RotatedName| {
            let there = std::fs::symlink_metadata(self.dir.join(name.to_string()));
            there.is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino()))
        };
        let itself = names.iter().rev().find(is_held);
        let older = names.iter().rev().find(|name| itself.is_none_or(|itself| *name < itself)).cloned();
        Ok(Place::In { lines: Backwards::new(file)?, older })
    }

    /// In the rotated file `name`, or the newest one that is older and still there.
    fn before(&self, name: Option<&RotatedName>) -> io::Result<Place> {
        let Some(name) = name else { return Ok(Place::End) };
        let names = rotated_names(&self.dir)?;
        let mut left = names.iter().rev().skip_while(|other| *other > name);
        while let Some(name) = left.next() {
            if let Some(file) = open(&self.dir.join(name.to_string()))? {
                return Ok(Place::In { lines: Backwards::new(file)?, older: left.next().cloned() });
            }
        }
        Ok(Place::End)
    }
}

/// Opens a file to read; `None` if there is none, or something else in its place.
fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file()) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(file.metadata()?.is_file().then_some(file))
}

#[cfg(test)]
mod tests;
