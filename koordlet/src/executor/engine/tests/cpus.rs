//! CPU lists that their parent does not have.

use super::*;

#[test]
fn a_list_is_cut_to_its_parents_and_grows_with_it() {
    let mut rig = Rig::new(&["pods", "pods/p1"]);
    rig.kernel.set("pods", |group| group.cpus = "0-3".parse().unwrap());
    rig.kernel.set("pods/p1", |group| group.cpus = "0-3".parse().unwrap());
    let plan = PlanOf::synced().hold("pods/p1", Resource::Cpus, cpus("2-5"));
    assert_eq!(rig.apply(&plan, seconds(1)), ["pods/p1 cpuset.cpus 2-3"]);
    assert_eq!(rig.kernel.take_refusals(), ["pods/p1 cpuset.cpus 2-5: EACCES"], "asked once");
    assert!(rig.engine.take_notices().is_empty());
    assert_eq!(rig.apply(&plan, seconds(2)), Vec::<String>::new());
    let (state, detail) = rig.state("pods/p1", Resource::Cpus);
    assert_eq!(state, TargetState::Held);
    assert!(detail.contains("2-5 cut to 2-3"), "{detail}");
    for s in 1..30 {
        assert_eq!(rig.tick(seconds(s * 5)), Vec::<String>::new(), "nothing has changed");
    }
    // Somebody widens the parent: seen within a round of the re-check.
    rig.kernel.set("pods", |group| group.cpus = "0-7".parse().unwrap());
    let writes: Vec<String> = (30..45).flat_map(|s| rig.tick(seconds(s * 5))).collect();
    assert_eq!(writes, ["pods/p1 cpuset.cpus 2-5"]);
    assert_eq!(rig.state("pods/p1", Resource::Cpus), (TargetState::Held, String::new()));
    rig.no_refusal();
    rig.apply(&PlanOf::synced(), seconds(300));
    assert_eq!(rig.kernel.group("pods/p1").cpus, "0-3".parse().unwrap(), "what was there at first");
}

#[test]
fn a_list_of_which_the_parent_has_nothing_is_refused_and_told_once() {
    let mut rig = Rig::new(&["pods", "pods/p1"]);
    rig.kernel.set("pods", |group| group.cpus = "0-1".parse().unwrap());
    rig.kernel.set("pods/p1", |group| group.cpus = "0-1".parse().unwrap());
    let plan = PlanOf::synced().hold("pods/p1", Resource::Cpus, cpus("4-5"));
    assert_eq!(rig.apply(&plan, seconds(1)), Vec::<String>::new());
    assert_eq!(rig.kernel.take_refusals(), ["pods/p1 cpuset.cpus 4-5: EACCES"]);
    assert_eq!(rig.state("pods/p1", Resource::Cpus).0, TargetState::Refused);
    assert_eq!(rig.engine.take_notices().len(), 1);
}
