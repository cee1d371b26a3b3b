//! The definitions that the project ships, at a real API server.

use anyhow::Result;
use kit::need;
use serde_json::{Value, json};

use crate::api_server::offers;
use crate::scene::{METRICS, NODE, SLOS, Scene};

fn slo(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn wrong_fields_are_refused_and_unknown_ones_survive() -> Result<()> {
    need!(offers());
    let scene = Scene::new(true).await?;
    let refused = [
        (
            json!({"resourceUsedThresholdWithBE": {"cpuSuppressThresholdPercent": 101}}),
            "less than or equal to 100",
        ),
        (json!({"resourceUsedThresholdWithBE": {"enable": "yes"}}), "must be of type boolean"),
        (
            json!({"resourceUsedThresholdWithBE": {"memoryEvictThresholdPercent": 70, "memoryEvictLowerPercent": 70}}),
            "memoryEvictLowerPercent must be below memoryEvictThresholdPercent",
        ),
        (
            json!({"resourceQOSStrategy": {"beClass": {"resctrlQOS": {"catRangeStartPercent": 30,
                                                                        "catRangeEndPercent": 20}}}}),
            "catRangeStartPercent must be below catRangeEndPercent",
        ),
        (json!({"systemStrategy": {"totalNetworkBandwidth": "fast"}}), "totalNetworkBandwidth"),
    ];
    for (spec, why) in refused {
        let error = format!("{:#}", scene.create(SLOS, &slo("bad", &spec)).await.unwrap_err());
        assert!(error.contains(why), "{spec}: {error}");
    }
    // The example of qos.md 1, and fields of a version to come.
    let spec = json!({
        "resourceUsedThresholdWithBE": {"enable": true, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset",
                                        "memoryEvictThresholdPercent": 70, "memoryEvictLowerPercent": 65, "newer": 1},
        "resourceQOSStrategy": {
            "policies": {"cpuPolicy": "groupIdentity", "netQOSPolicy": "tc"},
            "beClass": {"cpuQOS": {"enable": true, "groupIdentity": -1},
                        "blkioQOS": {"enable": true, "blocks": [{"name": "/dev/sdb", "type": "device",
                                                                 "ioCfg": {"readBPS": 104_857_600}}]}}},
        "systemStrategy": {"totalNetworkBandwidth": "0"},
        "hostApplications": [{"name": "redis", "qos": "LS", "cgroupPath": {"base": "CgroupRoot"}}],
        "extensions": {"Object": {"any": [1, "thing"]}},
        "strategyToCome": {"enable": true},
    });
    assert_eq!(scene.create(SLOS, &slo(NODE, &spec)).await?["spec"], spec);
    let network = json!({"resourceQOSStrategy": {"lsClass": {"networkQOS": {"enable": true}}}});
    let stored = scene.create(SLOS, &slo("network", &network)).await?;
    let filled = json!({"enable": true, "ingressRequest": 0, "ingressLimit": 100, "egressRequest": 0, "egressLimit": 100});
    assert_eq!(
        stored["spec"]["resourceQOSStrategy"]["lsClass"]["networkQOS"], filled,
        "the API's own defaults"
    );
    let metric = json!({"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": NODE},
                        "spec": {"metricCollectPolicy": {"nodeMemoryCollectPolicy": "all"}}});
    let error = format!("{:#}", scene.create(METRICS, &metric).await.unwrap_err());
    assert!(error.contains("usageWithPageCache"), "{error}");
    Ok(())
}
