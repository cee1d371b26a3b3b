//! What a log may cost, whatever goes wrong and whoever chose the words: one place in the code says so much a
//! minute and no more, an event is one line without control characters, and a line has an end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Lines of one place in the code within [`WINDOW`].
const MAX_LINES: u32 = 200;
/// See [`MAX_LINES`].
const WINDOW: Duration = Duration::from_mins(1);
/// Longest text of one line, in bytes.
const MAX_TEXT: usize = 4096;

/// Crates whose lines are for debugging: they say at each try what this agent says once while it lasts.
const TALKATIVE: [&str; 2] = ["kube_client", "kube_runtime"];

/// Leaves out what a place in the code says too often. Whoever asks for debug lines gets all of these.
#[derive(Debug)]
pub(super) struct PerPlace {
    /// What the log shows.
    level: Level,
    places: Mutex<HashMap<Identifier, Window>>,
    start: Instant,
}

impl PerPlace {
    /// Nothing was said yet.
    pub(super) fn new(level: Level) -> Self {
        Self { level, places: Mutex::default(), start: Instant::now() }
    }
}

impl<S: Subscriber> Layer<S> for PerPlace {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let meta = event.metadata();
        if self.level < Level::DEBUG && TALKATIVE.iter().any(|name| meta.target().starts_with(name)) {
            return false;
        }
        if *meta.level() > Level::INFO {
            return true;
        }
        let verdict = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            places.entry(meta.callsite()).or_default().count(self.start.elapsed())
        };
        if verdict == Verdict::First {
            tracing::warn!(
                file = meta.file(),
                line = meta.line(),
                "more than {MAX_LINES} lines of one kind within a minute: the rest of them is left out"
            );
        }
        verdict == Verdict::Write
    }
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Write,
    /// The first that is left out in this window.
    First,
    LeaveOut,
}

/// What a place has said since the start of its window.
#[derive(Debug, Default)]
struct Window {
    from: Duration,
    lines: u32,
}

impl Window {
    fn count(&mut self, now: Duration) -> Verdict {
        if now.saturating_sub(self.from) >= WINDOW {
            *self = Self { from: now, lines: 0 };
        }
        self.lines = self.lines.saturating_add(1);
        match self.lines {
            ..=MAX_LINES => Verdict::Write,
            lines if lines == MAX_LINES + 1 => Verdict::First,
            _ => Verdict::LeaveOut,
        }
    }
}

/// The text, or as much of it as a line may hold.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_TEXT {
        return Cow::Borrowed(text);
    }
    let head = text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or_default();
    Cow::Owned(format!("{head}... ({} bytes)", text.len()))
}

/// The text on one line. With `colour`, the formatter's own escapes stay.
fn one_line(text: &str, colour: bool) -> Cow<'_, str> {
    let stays = |c: char| !c.is_control() || (colour && c == '\x1b');
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if stays(c) {
            line.push(c);
        } else {
            line.extend(c.escape_default());
        }
    }
    Cow::Owned(line)
}

/// Stderr for the text format, which hands over one event at a time.
pub(super) struct Lines<W> {
    out: W,
    colour: bool,
}

impl<W: Write> Lines<W> {
    /// Writes to `out`.
    pub(super) fn new(out: W, colour: bool) -> Self {
        Self { out, colour }
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let line = one_line(text, self.colour);
        self.out.write_all(format!("{}\n", cut(&line)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn a_place_is_silent_after_its_share_until_the_next_minute() {
        let (mut window, mut verdicts) = (Window::default(), Vec::new());
        for second in [0, 59, 60] {
            verdicts.extend((0..=MAX_LINES + 5).map(|_| window.count(Duration::from_secs(second))));
        }
        let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        assert_eq!(count(Verdict::Write), 2 * MAX_LINES as usize);
        assert_eq!(count(Verdict::First), 2);
    }

    #[test]
    fn only_the_noisy_place_is_cut_short() {
        #[derive(Clone, Default)]
        struct Out(std::sync::Arc<Mutex<Vec<u8>>>);
        impl Write for Out {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let out = Out::default();
        let make = out.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || make.clone())
            .finish()
            .with(PerPlace::new(Level::INFO));
        tracing::subscriber::with_default(log, || {
            for number in 0..10 * MAX_LINES {
                tracing::warn!(number, "noise");
            }
            tracing::warn!("signal");
            tracing::error!(target: "kube_client::client::builder", "failed again");
        });
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("noise").count(), MAX_LINES as usize);
        assert_eq!(text.matches("signal").count(), 1);
        assert!(!text.contains("failed again"), "told by us, once");
    }

    #[test]
    fn an_event_is_one_line_of_bounded_length_whatever_is_in_it() {
        let written = |event: &str, colour| {
            let mut out = Vec::new();
            Lines::new(&mut out, colour).write_all(event.as_bytes()).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written("a\nWARN forged \x1b[31m\r\n", false), "a\\nWARN forged \\u{1b}[31m\\r\n");
        assert_eq!(written("\x1b[33mWARN\x1b[0m plain\n", true), "\x1b[33mWARN\x1b[0m plain\n");
        let long = written(&"é".repeat(1 << 20), false);
        assert!(long.len() < MAX_TEXT + 40 && long.ends_with("... (2097152 bytes)\n"), "{}", long.len());
        assert_eq!(cut("short"), "short");
    }
}
