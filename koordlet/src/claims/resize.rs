//! A pod as it is while it is being resized in place: for each container the larger of what the spec asks
//! for and what the kubelet says is applied, so that neither the old nor the new value is cut (design.md 4).

use std::borrow::Cow;

use crate::api::pod::{Container, ContainerStatus, Pod, ResourceList, ResourceRequirements};

/// What can be resized in place.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// The pod itself, or a copy with the larger resources where spec and status differ.
pub(super) fn larger_of_spec_and_status(pod: &Pod) -> Cow<'_, Pod> {
    let spec = &pod.spec;
    let app = changes(&spec.containers, &pod.status.container_statuses);
    let init = changes(&spec.init_containers, &pod.status.init_container_statuses);
    if app.is_empty() && init.is_empty() {
        return Cow::Borrowed(pod);
    }
    let mut larger = pod.clone();
    apply(app, &mut larger.spec.containers);
    apply(init, &mut larger.spec.init_containers);
    Cow::Owned(larger)
}

/// Containers, by index, with other resources than their spec.
fn changes(specs: &[Container], statuses: &[ContainerStatus]) -> Vec<(usize, ResourceRequirements)> {
    let larger = |(index, spec)| larger_resources(spec, statuses).map(|resources| (index, resources));
    specs.iter().enumerate().filter_map(larger).collect()
}

fn apply(changes: Vec<(usize, ResourceRequirements)>, containers: &mut [Container]) {
    for (index, resources) in changes {
        if let Some(container) = containers.get_mut(index) {
            container.resources = resources;
        }
    }
}

/// `None` where the status agrees with the spec or says nothing.
fn larger_resources(spec: &Container, statuses: &[ContainerStatus]) -> Option<ResourceRequirements> {
    let status = statuses.iter().find(|status| status.name == spec.name)?;
    let applied = status.resources.as_ref()?;
    if applied.requests.is_empty() && applied.limits.is_empty() {
        return None; // not started, or a kubelet that does not report them
    }
    let own = &spec.resources;
    let differs =
        |a: &ResourceList, b: &ResourceList| RESIZABLE.iter().any(|name| a.get(*name) != b.get(*name));
    if !differs(&own.requests, &applied.requests) && !differs(&own.limits, &applied.limits) {
        return None;
    }
    let mut larger = own.clone();
    for name in RESIZABLE {
        raise_request(name, &mut larger.requests, &applied.requests);
        raise_limit(name, &mut larger.limits, &applied.limits);
    }
    Some(larger)
}

/// No request counts as 0.
fn raise_request(name: &str, wanted: &mut ResourceList, applied: &ResourceList) {
    if let Some(held) = applied.get(name)
        && wanted.get(name).is_none_or(|wanted| wanted < held)
    {
        wanted.insert(name.to_owned(), *held);
    }
}

/// No limit counts as unlimited, in the spec and in the status.
fn raise_limit(name: &str, wanted: &mut ResourceList, applied: &ResourceList) {
    match (wanted.get(name).copied(), applied.get(name)) {
        (Some(limit), Some(held)) => {
            wanted.insert(name.to_owned(), limit.max(*held));
        }
        (Some(_), None) => {
            wanted.remove(name);
        }
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: &str, status: &str) -> Pod {
        serde_json::from_str(&format!(
            r#"{{"spec":{{"containers":[{{"name":"a","resources":{spec}}}]}},
                 "status":{{"containerStatuses":[{{"name":"a","resources":{status}}}]}}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn the_larger_of_spec_and_status_counts() {
        let limits = |spec: &str, status: &str| {
            let pod = pod(spec, status);
            let larger = larger_of_spec_and_status(&pod);
            let limits = &larger.spec.containers[0].resources.limits;
            let requests = &larger.spec.containers[0].resources.requests;
            [limits.get("cpu"), limits.get("memory"), requests.get("cpu")]
                .map(|q| q.map_or(-1, |q| q.milli()))
        };
        let two = r#"{"limits":{"cpu":"2"},"requests":{"cpu":"1"}}"#;
        assert_eq!(limits(two, r#"{"limits":{"cpu":"3"},"requests":{"cpu":"500m"}}"#), [3000, -1, 1000]);
        assert_eq!(limits(two, r#"{"limits":{"cpu":"1"},"requests":{"cpu":"1500m"}}"#), [2000, -1, 1500]);
        // A limit that is being added, or taken away.
        assert_eq!(limits(two, r#"{"requests":{"cpu":"1"}}"#), [-1, -1, 1000]);
        assert_eq!(limits(r#"{"requests":{"cpu":"1"}}"#, two), [-1, -1, 1000]);
        // A status without resources says nothing.
        assert_eq!(limits(two, "{}"), [2000, -1, 1000]);
        assert_eq!(limits(two, "null"), [2000, -1, 1000]);
    }

    #[test]
    fn a_pod_that_is_not_resized_is_not_copied() {
        let same = pod(r#"{"limits":{"cpu":"2"}}"#, r#"{"limits":{"cpu":"2000m"}}"#);
        assert!(matches!(larger_of_spec_and_status(&same), Cow::Borrowed(_)));
    }
}
