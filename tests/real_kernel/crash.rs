//! `kill -9` at random moments, with policies switched off between: a restarted agent puts right whatever the
//! killed one left.

use std::time::Duration;

use anyhow::Result;
use kit::agent::Agent;
use kit::manifest::{Manifests, NODE, NodeManifest, NodeSloManifest, PodManifest};
use kit::{Class, Tree, guest_scale, need, offers, until_value};

use crate::enforce::{limited_ls_pod, quota_becomes};

/// A sequence of pseudo-random numbers (xorshift), so that a failing run can be named by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[test]
fn kill_9_at_random_moments_leaves_no_value_that_a_restart_does_not_put_right() -> Result<()> {
    need!(offers::cgroups());
    let (tree, manifests) = (Tree::new()?, Manifests::new()?);
    let (web, web_dirs) = limited_ls_pod(&tree, "web", 3)?;
    let hog = PodManifest::new("hog", Class::BestEffort)
        .qos("BE")
        .container("app", "hog0", |container| container.batch(500, 64 << 20));
    let hog_dirs = tree.make_pod(&hog)?;
    manifests.write_pods("pods", [&web, &hog])?;
    manifests.write("node", &NodeManifest::this_host(NODE))?;
    manifests.write("slo", &NodeSloManifest::off(NODE))?;
    let (be, app) = (tree.class_dir(Class::BestEffort), web_dirs.container("app"));
    let agent = Agent::of(&tree, &manifests)?.flag("feature-gates", "CPUNormalization=true");
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut suppress, mut ratio) = (false, false);
    for round in 0..guest_scale(50, 5) {
        let running = agent.spawn()?;
        std::thread::sleep(Duration::from_millis(guest_scale(1, 10) * dice.roll(400)));
        if dice.roll(2) == 0 {
            suppress = !suppress;
            manifests.write("slo", &slo(suppress))?;
        }
        if dice.roll(2) == 0 {
            ratio = !ratio;
            manifests.write("node", &node(ratio))?;
        }
        std::thread::sleep(Duration::from_millis(guest_scale(1, 10) * dice.roll(400)));
        running.kill_9();
        // Switched off while nobody looks.
        suppress = false;
        ratio = dice.roll(2) == 0;
        manifests.write("slo", &slo(suppress))?;
        manifests.write("node", &node(ratio))?;
        if round % 5 != 4 {
            continue;
        }
        let running = agent.start()?;
        // The ratio scales the LS limit and the batch limit alike.
        let wanted = if ratio { [-1, 200_000, 33_334, 33_334] } else { [-1, 300_000, 50_000, 50_000] };
        let dirs = [&be, &app, &hog_dirs.pod, &hog_dirs.container("app")];
        let quotas = || dirs.map(|dir| tree.cfs_quota(dir).unwrap_or(i64::MIN));
        let seen = until_value(kit::patience(), quotas, |seen| *seen == wanted);
        assert_eq!(seen, wanted, "round {round}: {}", running.log());
        running.kill_9();
    }
    Ok(())
}

fn slo(suppress: bool) -> NodeSloManifest {
    if suppress { NodeSloManifest::suppress(NODE, "cfsQuota", 65) } else { NodeSloManifest::off(NODE) }
}

fn node(ratio: bool) -> NodeManifest {
    let node = NodeManifest::this_host(NODE);
    if ratio { node.normalization_ratio("1.5") } else { node }
}

#[test]
fn a_limit_whose_gate_is_off_after_a_crash_is_given_back() -> Result<()> {
    need!(offers::cgroups());
    let (tree, manifests) = (Tree::new()?, Manifests::new()?);
    let hog =
        PodManifest::new("hog", Class::BestEffort).qos("BE").container("app", "hog0", |container| container);
    tree.make_pod(&hog)?;
    manifests.write("pod", &hog)?;
    manifests.write("node", &node(false))?;
    manifests.write("slo", &slo(true))?;
    let be = tree.class_dir(Class::BestEffort);
    for (flag, off) in [("feature-gates", "BECPUSuppress=false"), ("cpu-suppress-interval-seconds", "0")] {
        let agent = Agent::of(&tree, &manifests)?;
        let running = agent.start()?;
        let limited = until_value(kit::patience(), || tree.cfs_quota(&be).unwrap_or(-1), |quota| *quota > 0);
        assert!(limited > 0, "{}", running.log());
        running.kill_9();
        let agent = agent.flag(flag, off);
        let running = agent.start()?;
        quota_becomes(&tree, &be, -1)?;
        assert!(running.stop()?.success());
    }
    Ok(())
}
