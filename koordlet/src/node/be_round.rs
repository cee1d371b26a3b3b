//! The round of best-effort resources (collection.md 6.4): what it may use, from its cgroup files; what it asks for,
//! from its pods; what it used, from the sample that the round follows -> `Facts::be` and `node_be`.

use std::sync::Arc;

use tokio::sync::watch;

use super::be_files::BeFiles;
use super::follower::Follow;
use super::round_log::RoundResult;
use crate::state::be_resources::{BeResources, BeUse, request};
use crate::state::facts::Published;
use crate::state::hub::Readers;
use crate::state::pods::PodTable;
use crate::state::series::key::{BeAllocation, SeriesKey};
use crate::state::series::shared::SharedSeries;
use crate::state::tree::CgroupTree;
use crate::state::usage::Usage;
use crate::units::MilliCpu;

/// The step of the follower.
#[derive(Debug)]
pub struct BeRound {
    files: BeFiles,
    pods: watch::Receiver<Arc<PodTable>>,
    tree: watch::Receiver<Arc<CgroupTree>>,
    used: BeUse,
    /// What the pods of this table ask for.
    asked: (Arc<PodTable>, MilliCpu),
    published: Published<BeResources>,
    series: SharedSeries,
}

impl BeRound {
    /// Reads `files` and the snapshots of `readers`.
    pub fn new(
        files: BeFiles,
        readers: &Readers,
        published: Published<BeResources>,
        series: SharedSeries,
    ) -> Self {
        let (pods, tree) = (readers.pods.clone(), readers.tree.clone());
        let (used, asked) = (BeUse::default(), (Arc::default(), MilliCpu(0)));
        Self { files, pods, tree, used, asked, published, series }
    }

    fn request(&mut self) -> Option<MilliCpu> {
        let pods = Arc::clone(&self.pods.borrow());
        if !Arc::ptr_eq(&pods, &self.asked.0) {
            let amount = request(&pods);
            self.asked = (pods, amount);
        }
        self.asked.0.synced.then_some(self.asked.1)
    }
}

impl Follow for BeRound {
    fn name(&self) -> &'static str {
        "be-resources"
    }

    /// A limit that cannot be read leaves the other figures.
    fn follow(&mut self, usage: &Usage) -> RoundResult {
        let tree = Arc::clone(&self.tree.borrow());
        let limit = self.files.real_limit(&tree);
        let round = BeResources {
            at: usage.at,
            real_limit: limit.as_ref().ok().copied().flatten(),
            request: self.request(),
            usage: self.used.sample(usage.at, usage.be_cpu_time),
        };
        self.series.append(round.at, samples(&round));
        self.published.set(round);
        limit?;
        Ok(())
    }
}

fn samples(round: &BeResources) -> impl Iterator<Item = (SeriesKey, f64)> {
    let figures = [
        (BeAllocation::Usage, round.usage),
        (BeAllocation::RealLimit, round.real_limit),
        (BeAllocation::Request, round.request),
    ];
    figures.into_iter().filter_map(|(what, figure)| Some((SeriesKey::be(what), figure?.0 as f64)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FolderHost, dir};
    use super::*;
    use crate::state::hub::hub;
    use crate::state::series::settings::SeriesSettings;
    use crate::state::usage::CpuReading;
    use crate::units::Nanos;

    const S: u64 = 1_000_000_000;

    fn sample(at: u64, total: u64) -> Usage {
        let reading = CpuReading { total: Nanos(total), identity: Some(1), born: None };
        Usage { at: Nanos(at), be_cpu_time: Some(reading), ..Usage::default() }
    }

    #[test]
    fn figures_are_published_and_kept_and_one_that_cannot_be_read_leaves_the_others() {
        let host = FolderHost::new(&[]);
        host.put("cgroup/cpu/kubepods/besteffort/cpu.cfs_quota_us", "150000\n");
        host.put("cgroup/cpu/kubepods/besteffort/cpu.cfs_period_us", "100000\n");
        host.put("cgroup/cpuset/kubepods/besteffort/cpuset.cpus", "0-3\n");
        let files = BeFiles::new(host.layout(), &dir("kubepods/besteffort"));
        let (writers, readers) = hub();
        let published = Published::default();
        let series = SharedSeries::new(SeriesSettings::default());
        let mut round = BeRound::new(files, &readers, published.clone(), series.clone());

        round.follow(&sample(S, 5)).unwrap();
        let at = Nanos(S);
        let first =
            BeResources { at, real_limit: Some(MilliCpu(1500)), request: None, usage: Some(MilliCpu(0)) };
        assert_eq!(*published.get().unwrap(), first);
        writers.pods.set(Arc::new(PodTable { synced: true, ..PodTable::default() }));
        host.put("cgroup/cpu/kubepods/besteffort/cpu.cfs_quota_us", "much\n");
        let error = round.follow(&sample(2 * S, 5 + S / 2)).unwrap_err();
        assert!(error.to_string().contains("CfsQuota"), "{error}");
        let at = Nanos(2 * S);
        let second =
            BeResources { at, real_limit: None, request: Some(MilliCpu(0)), usage: Some(MilliCpu(500)) };
        assert_eq!(*published.get().unwrap(), second);

        let kept = |what| {
            series.newest(&SeriesKey::be(what), Nanos(0), Nanos(9 * S)).map(|(at, value)| (at.0 / S, value))
        };
        assert_eq!(kept(BeAllocation::Usage), Some((2, 500.0)));
        assert_eq!(kept(BeAllocation::RealLimit), Some((1, 1500.0)));
        assert_eq!(kept(BeAllocation::Request), Some((2, 0.0)));
    }
}
