//! The agent's log on stderr: text, or one JSON object a line. Colours only for a terminal.

use std::fmt;
use std::io::{self, IsTerminal};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::log_bounds::{Lines, PerPlace, cut};
use crate::config::Output;

/// Sends all log lines from `level` up to stderr from now on. May be called once.
pub(super) fn init(level: Level, output: Output) -> anyhow::Result<()> {
    let log = tracing_subscriber::fmt().with_max_level(level);
    let set = match output {
        Output::Text => {
            let colour = wants_colour();
            let log = log.with_ansi(colour).with_target(false);
            log.with_writer(move || Lines::new(io::stderr(), colour))
                .finish()
                .with(PerPlace::new(level))
                .try_init()
        }
        Output::Json => {
            let log = log.with_ansi(false).event_format(JsonLines).with_writer(io::stderr);
            log.finish().with(PerPlace::new(level)).try_init()
        }
    };
    set.map_err(|error| anyhow::anyhow!("the log cannot be set up: {error}"))
}

fn wants_colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// One JSON object a line: `time`, `level`, `target`, `message` and the event's fields.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let Fields(mut line) = fields;
        line.insert("time".to_owned(), time.into());
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        line.insert("target".to_owned(), event.metadata().target().into());
        writeln!(writer, "{}", Value::Object(line))
    }
}

struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), cut(&format!("{value:?}")).into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), cut(value).into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn json_lines_hold_the_message_and_the_fields() {
        let lines = Lines::default();
        let make = lines.clone();
        let log = tracing_subscriber::fmt().event_format(JsonLines).with_writer(move || make.clone());
        tracing::subscriber::with_default(log.finish(), || {
            tracing::warn!(count = 3, path = "a\"b", "it \"happened\"\nhere");
            tracing::debug!("not shown");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["level"], &line["count"]), (&"WARN".into(), &3.into()));
        assert_eq!((&line["message"], &line["path"]), (&"it \"happened\"\nhere".into(), &"a\"b".into()));
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')));
    }
}
