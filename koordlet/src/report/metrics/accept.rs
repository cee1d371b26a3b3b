//! Which format a request asks for, by its `Accept` header.

use super::exposition::Format;

/// Content type of the classic text format.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Content type of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Format {
    /// The format for a request with these `Accept` headers: OpenMetrics if it is named, and wanted at least as much
    /// as plain text; else the classic format, also where the request wants neither.
    pub fn asked_for<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut open, mut classic) = (0, 0);
        for item in accept.into_iter().flat_map(|header| header.split(',')) {
            let mut parts = item.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut wanted, mut version) = (1000, None);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => wanted = thousandths(value.trim()),
                    "version" => version = Some(value.trim().trim_matches('"')),
                    _ => {}
                }
            }
            match media_type.as_str() {
                "application/openmetrics-text" if matches!(version, None | Some("1.0.0")) => {
                    open = wanted.max(open);
                }
                "text/plain" | "text/*" | "*/*" => classic = wanted.max(classic),
                _ => {}
            }
        }
        if open > 0 && open >= classic { Self::OpenMetrics } else { Self::Classic }
    }

    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Classic => CLASSIC,
            Self::OpenMetrics => OPEN_METRICS,
        }
    }
}

/// A quality, `0` to `1` with up to three digits, in thousandths; what is none counts as 0.
fn thousandths(text: &str) -> u16 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(3);
    let is_number = fraction.len() <= 3 && fraction.bytes().all(|digit| digit.is_ascii_digit());
    match whole {
        "1" if is_number => 1000,
        "0" if is_number => digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_liked_format_wins() {
        let open = [
            "application/openmetrics-text",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "text/plain;q=0.5, application/openmetrics-text;q=0.5",
            "Application/OpenMetrics-Text;Version=\"1.0.0\";Q=0.001",
            // Prometheus 2.42 and 3.
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
             application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
             text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        ];
        for accept in open {
            assert_eq!(Format::asked_for([accept]), Format::OpenMetrics, "{accept}");
        }
        let classic = [
            "",
            "*/*",
            "text/plain",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;q=0, */*",
            "application/openmetrics-text;q=0.4, text/plain",
            "application/openmetrics-text;q=2",
            "application/openmetrics-text;q=ü",
            "application/json",
            ";;;,,==;q",
        ];
        for accept in classic {
            assert_eq!(Format::asked_for([accept]), Format::Classic, "{accept}");
        }
        assert_eq!(Format::asked_for([]), Format::Classic);
        assert_eq!(
            Format::asked_for(["text/plain;q=0.2", "application/openmetrics-text"]),
            Format::OpenMetrics
        );
    }
}
