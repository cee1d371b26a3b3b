//! `systemStrategy`, qos.md 1.4: kernel settings of the node, and its network bandwidth.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::fields::{Faults, Fields};
use crate::api::quantity::Quantity;

const SECTION: &str = "spec.systemStrategy";

/// The section. What is absent is left as it is on the node; ranges are checked at use, where the kernel's are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemStrategy {
    /// Ten-thousandths of memory for `vm.min_free_kbytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_free_kbytes_factor: Option<i64>,
    /// `vm.watermark_scale_factor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark_scale_factor: Option<i64>,
    /// `memcg_reaper/reap_background`: 0 or 1.
    #[serde(rename = "memcgReapBackGround", skip_serializing_if = "Option::is_none")]
    pub memcg_reap_background: Option<i64>,
    /// `kernel.sched_group_identity_enabled`: 0 or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_group_identity_enabled: Option<i64>,
    /// `kernel.sched_idle_saver_wmark`, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_idle_saver_wmark: Option<i64>,
    /// Scheduler features by name: on or off.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sched_features: BTreeMap<String, bool>,
    /// `pagecache_limit/enabled`: 0 or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_limit_enabled: Option<i64>,
    /// Bandwidth that percentages of network QoS are of, in bits a second; default 0.
    #[serde(serialize_with = "decimal")]
    pub total_network_bandwidth: Quantity,
}

impl SystemStrategy {
    /// The section over its defaults.
    pub(super) fn read(section: Option<&Value>, faults: &mut Faults) -> Self {
        Fields::read(SECTION.to_owned(), section, faults, |fields| Self {
            min_free_kbytes_factor: fields.any_whole("minFreeKbytesFactor"),
            watermark_scale_factor: fields.any_whole("watermarkScaleFactor"),
            memcg_reap_background: fields.any_whole("memcgReapBackGround"),
            sched_group_identity_enabled: fields.any_whole("schedGroupIdentityEnabled"),
            sched_idle_saver_wmark: fields.any_whole("schedIdleSaverWmark"),
            sched_features: read_features(fields),
            page_cache_limit_enabled: fields.any_whole("pageCacheLimitEnabled"),
            total_network_bandwidth: fields.quantity("totalNetworkBandwidth").unwrap_or_default(),
        })
    }
}

fn read_features(fields: &mut Fields<'_, '_>) -> BTreeMap<String, bool> {
    const NAME: &str = "schedFeatures";
    let mut features = BTreeMap::new();
    for (name, value) in fields.members(NAME).into_iter().flatten() {
        if let Some(on) = value.as_bool() {
            features.insert(name.clone(), on);
        } else {
            let field = format!("{}.{name:.80}", fields.field(NAME));
            fields.faults().refuse(field, value, "is not true or false");
        }
    }
    features
}

/// As Kubernetes writes a bandwidth.
pub(super) fn decimal<S: Serializer>(quantity: &Quantity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&quantity.decimal_text())
}
