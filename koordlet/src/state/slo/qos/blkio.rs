//! `blkioQOS`, qos.md 1.2: limits, weights and latency targets of block devices. A member that is off keeps its fields:
//! consumers look at `enable`.

use serde::Serialize;
use serde_json::Value;

use super::{PerClass, Section};
use crate::state::slo::fields::{Faults, Fields};
use crate::units::Percent;

/// `blkioQOS` of all classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlkioStrategy {
    /// Of each class.
    pub classes: PerClass<BlkioQos>,
    /// Of the root group, `cgroupRoot`.
    pub root: BlkioQos,
}

/// `blkioQOS` of a class or of the root group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlkioQos {
    /// Switch; default false.
    pub enable: bool,
    /// Devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<BlockQos>,
}

/// What the name of a device means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockKind {
    /// A device file such as `/dev/sdb`.
    Device,
    /// An LVM volume group.
    VolumeGroup,
    /// A volume of a pod.
    PodVolume,
}

/// Limits of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockQos {
    /// Device, volume group or volume.
    pub name: String,
    /// Which of them; without it the entry means nothing.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<BlockKind>,
    /// The limits.
    pub io_cfg: IoLimits,
}

/// Limits as written; what is absent has its consumer's default. Rates are a second's, latencies in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IoLimits {
    /// Reads; 0 is no limit.
    #[serde(rename = "readIOPS", skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<u64>,
    /// Writes; 0 is no limit.
    #[serde(rename = "writeIOPS", skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<u64>,
    /// Bytes read; 0 is no limit.
    #[serde(rename = "readBPS", skip_serializing_if = "Option::is_none")]
    pub read_bps: Option<u64>,
    /// Bytes written; 0 is no limit.
    #[serde(rename = "writeBPS", skip_serializing_if = "Option::is_none")]
    pub write_bps: Option<u64>,
    /// Weight, 1 to 100.
    #[serde(rename = "ioWeightPercent", skip_serializing_if = "Option::is_none")]
    pub io_weight: Option<Percent>,
    /// Latency target of reads; root group only, as all that follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_latency: Option<u64>,
    /// Latency target of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_latency: Option<u64>,
    /// Reads that must be within it.
    #[serde(rename = "readLatencyPercent", skip_serializing_if = "Option::is_none")]
    pub read_latency_share: Option<Percent>,
    /// Writes that must be within it.
    #[serde(rename = "writeLatencyPercent", skip_serializing_if = "Option::is_none")]
    pub write_latency_share: Option<Percent>,
    /// Whether the device's cost model is the one given here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_user_model: Option<bool>,
    /// Of that model: bytes read.
    #[serde(rename = "modelReadBPS", skip_serializing_if = "Option::is_none")]
    pub model_read_bps: Option<u64>,
    /// Bytes written.
    #[serde(rename = "modelWriteBPS", skip_serializing_if = "Option::is_none")]
    pub model_write_bps: Option<u64>,
    /// Reads in sequence.
    #[serde(rename = "modelReadSeqIOPS", skip_serializing_if = "Option::is_none")]
    pub model_read_seq_iops: Option<u64>,
    /// Writes in sequence.
    #[serde(rename = "modelWriteSeqIOPS", skip_serializing_if = "Option::is_none")]
    pub model_write_seq_iops: Option<u64>,
    /// Reads at random.
    #[serde(rename = "modelReadRandIOPS", skip_serializing_if = "Option::is_none")]
    pub model_read_rand_iops: Option<u64>,
    /// Writes at random.
    #[serde(rename = "modelWriteRandIOPS", skip_serializing_if = "Option::is_none")]
    pub model_write_rand_iops: Option<u64>,
}

impl BlkioStrategy {
    pub(super) fn read(section: Section<'_>, faults: &mut Faults) -> Self {
        Self {
            classes: section.read_all("blkioQOS", faults, |_, fields| BlkioQos::read(fields)),
            root: section.read("cgroupRoot", "blkioQOS", faults, BlkioQos::read),
        }
    }
}

impl BlkioQos {
    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let entries = fields.list("blocks").unwrap_or_default();
        let block = |(path, entry)| read_block(path, entry, fields.faults());
        let blocks = entries.into_iter().map(block).collect();
        Self { enable: fields.boolean("enable").unwrap_or(false), blocks }
    }
}

fn read_block(path: String, entry: &Value, faults: &mut Faults) -> BlockQos {
    let kinds = [
        ("device", BlockKind::Device),
        ("volumegroup", BlockKind::VolumeGroup),
        ("podvolume", BlockKind::PodVolume),
    ];
    Fields::read(path, Some(entry), faults, |fields| BlockQos {
        name: fields.text("name").unwrap_or_default().to_owned(),
        kind: fields.word("type", &kinds),
        io_cfg: fields.section("ioCfg", IoLimits::read),
    })
}

impl IoLimits {
    fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            read_iops: fields.unsigned("readIOPS", 0),
            write_iops: fields.unsigned("writeIOPS", 0),
            read_bps: fields.unsigned("readBPS", 0),
            write_bps: fields.unsigned("writeBPS", 0),
            io_weight: fields.whole("ioWeightPercent", 1..=100).map(Percent),
            read_latency: fields.unsigned("readLatency", 0),
            write_latency: fields.unsigned("writeLatency", 0),
            read_latency_share: fields.percent("readLatencyPercent"),
            write_latency_share: fields.percent("writeLatencyPercent"),
            enable_user_model: fields.boolean("enableUserModel"),
            model_read_bps: fields.unsigned("modelReadBPS", 1),
            model_write_bps: fields.unsigned("modelWriteBPS", 1),
            model_read_seq_iops: fields.unsigned("modelReadSeqIOPS", 1),
            model_write_seq_iops: fields.unsigned("modelWriteSeqIOPS", 1),
            model_read_rand_iops: fields.unsigned("modelReadRandIOPS", 1),
            model_write_rand_iops: fields.unsigned("modelWriteRandIOPS", 1),
        }
    }
}
