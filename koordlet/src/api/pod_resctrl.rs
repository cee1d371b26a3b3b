//! `node.koordinator.sh/resctrl`: the part of the last-level cache and of memory bandwidth that a pod may use
//! (hooks.md 11.1).

use serde::{Deserialize, Serialize};

use super::annotations::{AnnotationError, Annotations, parse};
use super::{keys, null_default};

/// What a pod may use of caches and bandwidth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResctrl {
    /// Ways of the last-level cache.
    #[serde(deserialize_with = "null_default")]
    pub llc: CacheWish,
    /// Memory bandwidth.
    #[serde(deserialize_with = "null_default")]
    pub mb: BandwidthWish,
}

/// Ranges of the last-level cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CacheWish {
    /// For each cache.
    pub schemata: Option<CacheRange>,
    /// For single caches, which overrides the above.
    #[serde(deserialize_with = "null_default")]
    pub schemata_per_cache: Vec<RangeOfCache>,
}

/// A range in percent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheRange {
    /// Beginning and end; any other number of figures means nothing.
    #[serde(deserialize_with = "null_default")]
    pub range: Vec<i64>,
}

/// A range of one cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RangeOfCache {
    /// The cache.
    #[serde(rename = "cacheID", deserialize_with = "null_default")]
    pub cache_id: i64,
    /// Beginning and end.
    #[serde(deserialize_with = "null_default")]
    pub range: Vec<i64>,
}

/// Percent of memory bandwidth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BandwidthWish {
    /// For each cache.
    pub schemata: Option<BandwidthPercent>,
    /// For single caches, which overrides the above.
    #[serde(deserialize_with = "null_default")]
    pub schemata_per_cache: Vec<PercentOfCache>,
}

/// A percent of bandwidth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BandwidthPercent {
    /// Of the whole.
    #[serde(deserialize_with = "null_default")]
    pub percent: i64,
}

/// A percent of bandwidth through one cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PercentOfCache {
    /// The cache.
    #[serde(rename = "cacheID", deserialize_with = "null_default")]
    pub cache_id: i64,
    /// Of the whole.
    #[serde(deserialize_with = "null_default")]
    pub percent: i64,
}

/// The annotation of a pod.
///
/// # Errors
/// It is not the JSON that is expected.
pub fn pod_resctrl(annotations: &Annotations) -> Result<Option<PodResctrl>, AnnotationError> {
    parse(annotations, keys::RESCTRL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<PodResctrl>, AnnotationError> {
        pod_resctrl(&Annotations::from([(keys::RESCTRL.to_owned(), text.to_owned())]))
    }

    #[test]
    fn the_annotation_has_common_and_single_values() {
        let text = r#"{"llc":{"schemata":{"range":[0,30]},"schemataPerCache":[{"cacheID":1,"range":[0,50]}]},
                       "mb":{"schemata":{"percent":20},"schemataPerCache":[{"cacheID":0,"percent":55}]}}"#;
        let wish = read(text).unwrap().unwrap();
        assert_eq!(wish.llc.schemata.unwrap().range, [0, 30]);
        assert_eq!(wish.llc.schemata_per_cache, [RangeOfCache { cache_id: 1, range: vec![0, 50] }]);
        assert_eq!(wish.mb.schemata.unwrap().percent, 20);
        assert_eq!(wish.mb.schemata_per_cache, [PercentOfCache { cache_id: 0, percent: 55 }]);
        for text in ["{}", "null", r#"{"llc":null,"mb":{"schemata":null}}"#, r#"{"new":1}"#] {
            assert_eq!(read(text).unwrap(), Some(PodResctrl::default()), "{text}");
        }
        for text in
            ["x", "[]", r#"{"mb":{"schemata":{"percent":"5"}}}"#, r#"{"llc":{"schemata":{"range":1}}}"#]
        {
            assert!(read(text).unwrap_err().to_string().contains(keys::RESCTRL), "{text}");
        }
        assert_eq!((read("").unwrap(), pod_resctrl(&Annotations::new()).unwrap()), (None, None));
    }
}
