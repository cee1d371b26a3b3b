use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::*;

fn definitions() -> BTreeMap<String, Value> {
    let parse = |text: &str| serde_yaml_ng::from_str(text).unwrap();
    files().unwrap().into_iter().map(|(file, text)| (file, parse(&text))).collect()
}

fn schema(file: &str) -> Value {
    definitions()[file].pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap().clone()
}

#[test]
fn the_written_definitions_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/crds");
    for (file, text) in files().unwrap() {
        let written = fs::read_to_string(folder.join(&file)).unwrap_or_default();
        assert!(written == text, "deploy/crds/{file} is stale: run `cargo xtask crds`");
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), 3);
}

#[test]
fn names_scopes_and_subresources_are_the_apis() {
    let facts: Vec<_> = definitions()
        .values()
        .map(|definition| {
            let names = &definition["spec"]["names"];
            let version = &definition["spec"]["versions"][0];
            json!([
                definition["metadata"]["name"],
                names["kind"],
                names["singular"],
                definition["spec"]["scope"],
                version["name"],
                version["subresources"]
            ])
        })
        .collect();
    let expected = [
        json!(["nodemetrics.slo.koordinator.sh", "NodeMetric", "nodemetric", "Cluster", "v1alpha1", {"status": {}}]),
        json!(["nodeslos.slo.koordinator.sh", "NodeSLO", "nodeslo", "Cluster", "v1alpha1", {"status": {}}]),
        json!([
            "noderesourcetopologies.topology.node.k8s.io",
            "NodeResourceTopology",
            "noderesourcetopology",
            "Cluster",
            "v1alpha1",
            null,
        ]),
    ];
    assert_eq!(facts, expected);
}

/// Ranges of qos.md 1.1 to 1.3, column CRD.
#[test]
fn ranges_are_those_of_the_table() {
    let schema = schema("slo.koordinator.sh_nodeslos.yaml");
    let field = |path: &str| {
        let pointer = format!("/properties/spec/properties/{}", path.replace('.', "/properties/"));
        let field = schema.pointer(&pointer).unwrap_or_else(|| panic!("{path}"));
        (
            field["type"].as_str().unwrap_or("int-or-string").to_owned(),
            field["minimum"].as_f64(),
            field["maximum"].as_f64(),
        )
    };
    let rows = [
        ("resourceUsedThresholdWithBE.enable", "boolean", None, None),
        ("resourceUsedThresholdWithBE.cpuSuppressThresholdPercent", "integer", Some(0.0), Some(100.0)),
        ("resourceUsedThresholdWithBE.cpuSuppressPolicy", "string", None, None),
        ("resourceUsedThresholdWithBE.cpuAllocatableEvictThresholdPercent", "integer", Some(0.0), None),
        ("resourceUsedThresholdWithBE.cpuEvictBESatisfactionLowerPercent", "integer", None, None),
        ("resourceQOSStrategy.lsrClass.memoryQOS.wmarkMinAdj", "integer", Some(-25.0), Some(50.0)),
        ("resourceQOSStrategy.beClass.memoryQOS.wmarkScalePermill", "integer", Some(1.0), Some(1000.0)),
        ("resourceQOSStrategy.systemClass.resctrlQOS.mbaPercent", "integer", Some(0.0), Some(100.0)),
        ("resourceQOSStrategy.policies.netQOSPolicy", "string", None, None),
        ("resourceQOSStrategy.lsClass.networkQOS.ingressLimit", "int-or-string", None, None),
        ("cpuBurstStrategy.cpuBurstPercent", "integer", Some(0.0), Some(10000.0)),
        ("cpuBurstStrategy.cfsQuotaBurstPeriodSeconds", "integer", None, None),
        ("systemStrategy.totalNetworkBandwidth", "int-or-string", None, None),
        ("systemStrategy.memcgReapBackGround", "integer", None, None),
        ("hostApplications", "array", None, None),
        ("extensions", "object", None, None),
    ];
    for (path, kind, least, most) in rows {
        assert_eq!(field(path), (kind.to_owned(), least, most), "{path}");
    }
    let qos = "/properties/spec/properties/resourceQOSStrategy/properties/cgroupRoot/properties/blkioQOS";
    let weight = format!("{qos}/properties/blocks/items/properties/ioCfg/properties/ioWeightPercent");
    assert_eq!(schema.pointer(&weight).unwrap()["minimum"], 1);
}

#[test]
fn nothing_is_required_but_what_the_api_requires() {
    fn required(schema: &Value, path: &str, found: &mut Vec<String>) {
        if let Some(names) = schema["required"].as_array() {
            found.extend(names.iter().map(|name| format!("{path}.{}", name.as_str().unwrap())));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            required(property, &format!("{path}.{name}"), found);
        }
        if schema["items"].is_object() {
            required(&schema["items"], &format!("{path}[]"), found);
        }
    }
    let mut found = Vec::new();
    required(&schema("slo.koordinator.sh_nodeslos.yaml"), "", &mut found);
    assert!(found.is_empty(), "{found:?}");
    required(&schema("topology.node.k8s.io_noderesourcetopologies.yaml"), "", &mut found);
    assert_eq!(found.len(), 2 + 2 + 2 + 2 + 4, "{found:?}");
    found.clear();
    required(&schema("slo.koordinator.sh_nodemetrics.yaml"), ".", &mut found);
    found.retain(|path| !path.contains(".devices[]"));
    assert_eq!(found, ["..status.nodeMetric.numaUsages[].numaNodeID"]);
}

#[test]
fn fields_of_a_newer_version_survive_in_the_schema_and_in_the_types() {
    let kept = "x-kubernetes-preserve-unknown-fields";
    let slo = schema("slo.koordinator.sh_nodeslos.yaml");
    for path in
        ["", "/properties/cpuBurstStrategy", "/properties/extensions", "/properties/hostApplications/items"]
    {
        let at = slo.pointer(&format!("/properties/spec{path}")).unwrap();
        assert_eq!(at[kept], true, "spec{path}");
    }
    let object = json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": "n1"},
        "spec": {"cpuBurstStrategy": {"policy": "auto", "newer": {"a": [1]}}, "newest": 2,
                 "extensions": {"Object": {"x": 1}}, "systemStrategy": {"totalNetworkBandwidth": "0"}},
    });
    let read: NodeSlo = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), object);
}
