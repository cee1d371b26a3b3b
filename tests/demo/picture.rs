//! A picture of the run as SVG: latency, CPU time, the limit, and the phases behind them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::phase::Enforcement;
use crate::record::{Record, Sample};
use crate::verdict::Verdict;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 50.0;
const TOP: f64 = 60.0;

/// One curve of a panel.
struct Curve {
    name: &'static str,
    color: &'static str,
    value: fn(&Sample) -> f64,
}

/// A set of axes with curves.
struct Panel {
    title: &'static str,
    curves: &'static [Curve],
}

const PANELS: &[Panel] = &[
    Panel { title: "LS latency p99, ms", curves: &[Curve { name: "p99", color: "#c0392b", value: p99_ms }] },
    Panel {
        title: "CPUs",
        curves: &[
            Curve { name: "used by LS", color: "#2471a3", value: |sample| sample.ls_cpu },
            Curve { name: "used by BE", color: "#b9770e", value: |sample| sample.be_cpu },
            Curve { name: "used by others", color: "#7f8c8d", value: |sample| sample.other_cpu },
            Curve { name: "limit of BE", color: "#1e8449", value: limit_or_nan },
        ],
    },
];

fn p99_ms(sample: &Sample) -> f64 {
    sample.latencies.percentile(99).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
}

/// No limit is a gap in the curve.
fn limit_or_nan(sample: &Sample) -> f64 {
    sample.be_limit.unwrap_or(f64::NAN)
}

/// Draws the record into a file.
pub(crate) fn draw(record: &Record, verdict: &Verdict, path: &Path) -> Result<()> {
    let mut file = File::options().create(true).truncate(true).write(true).open(path)?;
    Ok(file.write_all(picture(record, verdict)?.as_bytes())?)
}

fn picture(record: &Record, verdict: &Verdict) -> Result<String> {
    let height = TOP + PANELS.len() as f64 * (PANEL + GAP) + 10.0;
    let mut svg = String::new();
    writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12"><rect width="{WIDTH}" height="{height}" fill="#fff"/>"##
    )?;
    writeln!(svg, r#"<text x="{LEFT}" y="22" font-size="15">{}</text>"#, escape(&verdict.sentence()))?;
    let end = record.samples.last().map_or(1.0, |sample| sample.at.as_secs_f64());
    let x = |seconds: f64| LEFT + (WIDTH - LEFT - 20.0) * seconds / end;
    for (index, panel) in PANELS.iter().enumerate() {
        let top = TOP + index as f64 * (PANEL + GAP);
        bands(&mut svg, &record.samples, &x, top)?;
        draw_panel(&mut svg, panel, &record.samples, &x, top)?;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// Phases as coloured bands: the agent's part once for all phases that share it, the load in each.
fn bands(svg: &mut String, samples: &[Sample], x: &impl Fn(f64) -> f64, top: f64) -> Result<()> {
    let mut begin = 0.0;
    let mut before = None;
    for chunk in samples.chunk_by(|a, b| a.phase.title() == b.phase.title()) {
        let Some((phase, end)) = chunk.last().map(|last| (last.phase, last.at.as_secs_f64())) else {
            continue;
        };
        let color = match phase.enforcement {
            Enforcement::Absent => "#fdedec",
            Enforcement::On => "#eafaf1",
            Enforcement::SwitchedOff => "#f4f6f7",
        };
        let (from, width) = (x(begin), x(end) - x(begin));
        writeln!(
            svg,
            r##"<rect x="{from:.1}" y="{top}" width="{width:.1}" height="{PANEL}" fill="{color}" stroke="#fff"/>"##
        )?;
        let mut label = |row: f64, text: &str| {
            writeln!(
                svg,
                r##"<text x="{:.1}" y="{}" font-size="10" fill="#566573">{text}</text>"##,
                from + 3.0,
                top + row
            )
        };
        if before.replace(phase.enforcement) != Some(phase.enforcement) {
            label(12.0, phase.enforcement.text())?;
        }
        label(25.0, &format!("load {}", phase.demand.text()))?;
        begin = end;
    }
    Ok(())
}

fn draw_panel(
    svg: &mut String,
    panel: &Panel,
    samples: &[Sample],
    x: &impl Fn(f64) -> f64,
    top: f64,
) -> Result<()> {
    let values = panel.curves.iter().flat_map(|curve| samples.iter().map(curve.value));
    // A fifth of the height is for the labels of the phases.
    let full = values.filter(|value| value.is_finite()).fold(0.1_f64, f64::max) * 1.25;
    let y = |value: f64| top + PANEL * (1.0 - value / full);
    for part in [0.0, 0.5, 1.0] {
        let (value, line) = (full * part, y(full * part));
        writeln!(svg, r##"<path d="M{LEFT} {line:.1}H{:.1}" stroke="#d5d8dc"/>"##, WIDTH - 20.0)?;
        writeln!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{value:.1}</text>"#,
            LEFT - 6.0,
            line + 4.0
        )?;
    }
    writeln!(svg, r#"<text x="{LEFT}" y="{:.1}">{}</text>"#, top + PANEL + 18.0, panel.title)?;
    for (index, curve) in panel.curves.iter().enumerate() {
        writeln!(
            svg,
            r#"<path d="{}" fill="none" stroke="{}" stroke-width="1.6"/>"#,
            path_of(samples, curve.value, x, &y)?,
            curve.color
        )?;
        let place = LEFT + 160.0 + index as f64 * 120.0;
        writeln!(
            svg,
            r#"<text x="{place}" y="{:.1}" fill="{}">{}</text>"#,
            top + PANEL + 18.0,
            curve.color,
            curve.name
        )?;
    }
    Ok(())
}

/// A line through all values; a missing one lifts the pen.
fn path_of(
    samples: &[Sample],
    value: fn(&Sample) -> f64,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) -> Result<String> {
    let mut path = String::new();
    let mut down = false;
    for sample in samples {
        let value = value(sample);
        if value.is_finite() {
            let pen = if down { 'L' } else { 'M' };
            write!(path, "{pen}{:.1} {:.1}", x(sample.at.as_secs_f64()), y(value))?;
        }
        down = value.is_finite();
    }
    Ok(path)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
