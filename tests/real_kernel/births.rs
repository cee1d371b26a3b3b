//! Enforcement at birth: a container directory of a known pod gets its value although the runtime writes its
//! own after making the directory.

use std::time::{Duration, Instant};

use anyhow::Result;
use kit::agent::Agent;
use kit::latency::Latencies;
use kit::manifest::{Manifests, NODE, NodeManifest, PodManifest};
use kit::{Class, Tree, guest_scale, need, offers, until};

fn normalized_pod(number: usize) -> PodManifest {
    PodManifest::new(&format!("web{number}"), Class::Burstable).qos("LS").container(
        "app",
        &format!("c{number}"),
        |container| container.cpu_limit("3"),
    )
}

#[test]
fn a_known_pods_container_gets_its_value_after_mkdir_and_after_the_runtimes_own_write() -> Result<()> {
    need!(offers::cgroups());
    let (tree, manifests) = (Tree::new()?, Manifests::new()?);
    let count = guest_scale(50, 10);
    let pods: Vec<_> = (0..count).map(normalized_pod).collect();
    manifests.write_pods("pods", &pods)?;
    manifests.write("node", &NodeManifest::this_host(NODE).normalization_ratio("1.5"))?;
    let agent = Agent::of(&tree, &manifests)?.flag("feature-gates", "CPUNormalization=true");
    let running = agent.start()?;
    let (mut after_mkdir, mut after_write) = (Latencies::default(), Latencies::default());
    for (number, pod) in pods.iter().enumerate() {
        let dirs = tree.pod_dirs(pod);
        tree.make(&dirs.pod)?;
        tree.set_cfs_quota(&dirs.pod, 300_000)?;
        let app = dirs.container("app");
        tree.make(&app)?;
        let born = Instant::now();
        let runtime_writes = number % 2 == 0;
        if runtime_writes {
            // What runc does: it writes its own quota some milliseconds after it has made the groups.
            std::thread::sleep(Duration::from_millis(3));
            tree.set_cfs_quota(&app, 300_000)?;
        }
        let since = if runtime_writes { Instant::now() } else { born };
        let right = || tree.cfs_quota(&app).is_ok_and(|quota| quota == 200_000);
        assert!(until_tight(kit::patience(), right), "{app}: {:?}: {}", tree.cfs_quota(&app), running.log());
        if runtime_writes { &mut after_write } else { &mut after_mkdir }.push(since.elapsed());
    }
    let report = format!(
        "birth to value held, in all: mkdir {}; the runtime's own write {}",
        after_mkdir.summary(),
        after_write.summary()
    );
    kit::skip::note(format_args!("{report}"));
    assert!(
        until(kit::patience(), || pods.iter().all(|pod| {
            tree.cfs_quota(&tree.pod_dirs(pod).container("app")).is_ok_and(|quota| quota == 200_000)
        })),
        "all values hold at the end"
    );
    Ok(())
}

/// Like `until`, looking every 100 us: the figure is a latency.
fn until_tight(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !done() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    true
}
