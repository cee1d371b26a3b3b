//! Lines of a schemata file, both ways: `L3:0=f;1=f`, `MB:0=20;1=20`. Lines are compared by what they mean.

use std::collections::BTreeMap;
use std::fmt;

/// A resource with a line of its own that is written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchemataResource {
    /// Ways of the last-level cache, masks in hexadecimal.
    L3,
    /// The same for code alone, where the file system was mounted with `cdp`.
    L3Code,
    /// The same for data alone.
    L3Data,
    /// Memory bandwidth, decimal.
    Mb,
}

impl SchemataResource {
    /// All, in the order in which they are written.
    pub const ALL: [Self; 4] = [Self::L3, Self::L3Code, Self::L3Data, Self::Mb];

    /// What its line begins with.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L3 => "L3",
            Self::L3Code => "L3CODE",
            Self::L3Data => "L3DATA",
            Self::Mb => "MB",
        }
    }

    /// Whether its values are masks of ways.
    pub const fn is_mask(self) -> bool {
        !matches!(self, Self::Mb)
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }

    const fn radix(self) -> u32 {
        if self.is_mask() { 16 } else { 10 }
    }
}

/// Values by cache id. Ids have holes (C089).
pub type CacheValues = BTreeMap<u32, u64>;

/// One line: a resource with its value for each cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemataLine {
    /// The resource.
    pub resource: SchemataResource,
    /// Its values.
    pub values: CacheValues,
}

impl SchemataLine {
    /// The same value for each of `caches`; `None` where there is no cache.
    pub fn of_all(
        resource: SchemataResource,
        value: u64,
        caches: impl IntoIterator<Item = u32>,
    ) -> Option<Self> {
        let values: CacheValues = caches.into_iter().map(|cache| (cache, value)).collect();
        (!values.is_empty()).then_some(Self { resource, values })
    }

    /// The text that is written: ids ascending, with the line break that the kernel wants.
    pub fn text(&self) -> String {
        format!("{self};\n")
    }
}

impl fmt::Display for SchemataLine {
    /// As the kernel shows it, without the blanks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource.name())?;
        for (place, (cache, value)) in self.values.iter().enumerate() {
            f.write_str(if place == 0 { ":" } else { ";" })?;
            if self.resource.is_mask() {
                write!(f, "{cache}={value:x}")?;
            } else {
                write!(f, "{cache}={value}")?;
            }
        }
        Ok(())
    }
}

/// Why a schemata's text cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemataError {
    /// A value is no number.
    #[error("{resource} of cache {cache} is {text:?}, which is no number", resource = resource.name())]
    Value {
        /// The line.
        resource: SchemataResource,
        /// The cache.
        cache: u32,
        /// The value's text, shortened.
        text: String,
    },
    /// A line has not as many values as there are caches.
    #[error("{resource} has {found} values, where {wanted} are due", resource = resource.name())]
    Count {
        /// The line.
        resource: SchemataResource,
        /// How many it has.
        found: usize,
        /// How many it should have.
        wanted: usize,
    },
}

/// All lines of a group that are of interest here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schemata {
    lines: BTreeMap<SchemataResource, CacheValues>,
}

impl Schemata {
    /// Reads a schemata file. Lines of other resources, and what is not `id=value`, are skipped.
    ///
    /// # Errors
    /// A value is no number.
    pub fn parse(text: &str) -> Result<Self, SchemataError> {
        let mut lines = BTreeMap::new();
        for line in text.lines() {
            let Some((name, values)) = line.split_once(':') else { continue };
            let Some(resource) = SchemataResource::from_name(name.trim()) else { continue };
            let values = parse_values(resource, values)?;
            if !values.is_empty() {
                lines.insert(resource, values);
            }
        }
        Ok(Self { lines })
    }

    /// Reads one of which each line has to have `caches` values, or without a number as many as the others, qos.md 5.6.
    ///
    /// # Errors
    /// A value is no number, or there are more or fewer.
    pub fn parse_counted(text: &str, caches: Option<usize>) -> Result<Self, SchemataError> {
        let schemata = Self::parse(text)?;
        let wanted = caches.or_else(|| schemata.lines.values().map(BTreeMap::len).next());
        for (resource, values) in &schemata.lines {
            let (resource, found) = (*resource, values.len());
            if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
                return Err(SchemataError::Count { resource, found, wanted });
            }
        }
        Ok(schemata)
    }

    /// The values of a line, if there is one.
    pub fn values(&self, resource: SchemataResource) -> Option<&CacheValues> {
        self.lines.get(&resource)
    }

    /// The line of a resource, if it has one.
    pub fn line(&self, resource: SchemataResource) -> Option<SchemataLine> {
        self.values(resource).map(|values| SchemataLine { resource, values: values.clone() })
    }

    /// Its lines.
    pub fn lines(&self) -> impl Iterator<Item = SchemataLine> + '_ {
        let line = |(resource, values): (&SchemataResource, &CacheValues)| SchemataLine {
            resource: *resource,
            values: values.clone(),
        };
        self.lines.iter().map(line)
    }

    /// Whether it says for each cache of `line` what the line says.
    pub fn holds(&self, line: &SchemataLine) -> bool {
        self.values(line.resource)
            .is_some_and(|values| line.values.iter().all(|(cache, value)| values.get(cache) == Some(value)))
    }
}

fn parse_values(resource: SchemataResource, text: &str) -> Result<CacheValues, SchemataError> {
    let mut values = CacheValues::new();
    for pair in text.split(';') {
        let mut parts = pair.split('=');
        let (Some(cache), Some(value), None) = (parts.next(), parts.next(), parts.next()) else { continue };
        let Ok(cache) = cache.parse() else { continue };
        let value = value.trim();
        // The parser of numbers would take a sign.
        let digits = Some(value).filter(|value| !value.starts_with('+'));
        let Some(number) = digits.and_then(|value| u64::from_str_radix(value, resource.radix()).ok()) else {
            let text = value.chars().take(32).collect();
            return Err(SchemataError::Value { resource, cache, text });
        };
        values.insert(cache, number);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_read_with_its_blanks() {
        let text = "    L2:0=ff\n    L3:0=7ff;16=3\n    MB:0= 90;16=100\n";
        let schemata = Schemata::parse_counted(text, Some(2)).unwrap();
        let lines: Vec<String> = schemata.lines().map(|line| line.to_string()).collect();
        assert_eq!(lines, ["L3:0=7ff;16=3", "MB:0=90;16=100"]);
        assert_eq!(schemata.line(SchemataResource::L3).unwrap().text(), "L3:0=7ff;16=3;\n");
        assert_eq!(schemata.values(SchemataResource::L3Code), None);
    }

    #[test]
    fn q23_each_line_is_compared_by_what_it_means_and_by_itself() {
        let schemata = Schemata::parse("MB:0=10;1=10\nL3:1=00f;0=F\n").unwrap();
        let l3 = |value, caches: &[u32]| {
            SchemataLine::of_all(SchemataResource::L3, value, caches.iter().copied()).unwrap()
        };
        assert!(schemata.holds(&l3(15, &[0, 1])) && schemata.holds(&l3(15, &[1])));
        assert!(!schemata.holds(&l3(7, &[0])) && !schemata.holds(&l3(15, &[0, 2])));
        assert_eq!(SchemataLine::of_all(SchemataResource::Mb, 10, []), None);
    }

    #[test]
    fn c089_ids_may_have_holes() {
        let schemata = Schemata::parse_counted("L3:0=fff;1=fff;16=fff;17=fff\n", Some(4)).unwrap();
        let line = schemata.line(SchemataResource::L3).unwrap();
        assert_eq!(line.values.keys().copied().collect::<Vec<_>>(), [0, 1, 16, 17]);
        assert_eq!(line.text(), "L3:0=fff;1=fff;16=fff;17=fff;\n");
    }

    #[test]
    fn what_is_no_schemata_is_refused_or_skipped() {
        for (text, caches) in [
            ("L3:0=xyz", None),
            ("MB:0=-1", None),
            ("MB:0=+1", None),
            ("L3:0=f;1=f\nMB:0=1", None),
            ("L3:0=f", Some(2)),
        ] {
            assert!(Schemata::parse_counted(text, caches).is_err(), "{text:?}");
        }
        for text in ["", ":", "L3", "L3:", "L3:0", "L3:0=f:1=f", "L3: 0=f", "L9:0=zz", "\0\n\n;;==:"] {
            assert_eq!(Schemata::parse_counted(text, Some(2)), Ok(Schemata::default()), "{text:?}");
        }
    }
}
