//! Perf events of real groups. Machines without counters of the CPU run the same code with the kernel's own events:
//! CPU time of tasks and context switches.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::{Class, Driver, Tree, need, offers};
use koordlet::api::pod::Pod;
use koordlet::api::qos::KubeQos;
use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::resource::Controller;
use koordlet::host::roots::Roots;
use koordlet::node::cpi::{CPI_EVENTS, CpiCollector, offer};
use koordlet::node::perf_group::PerfEvent;
use koordlet::node::rounds::Collect as _;
use koordlet::state::cpi::CpiCounts;
use koordlet::state::facts::Published;
use koordlet::state::hub::{Readers, Writers, hub};
use koordlet::state::pods::{ContainerEntry, ContainerKind, PodEntry, PodTable};
use koordlet::units::Nanos;

const SOFTWARE: [PerfEvent; 2] = [PerfEvent::TaskClock, PerfEvent::ContextSwitches];
