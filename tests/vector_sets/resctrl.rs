//! `resctrl.jsonl`: masks, bandwidths, groups and lines of the classes, and the lines of a pod's own group.

use koordlet::api::annotations::Annotations;
use koordlet::api::keys;
use koordlet::api::pod::Pod;
use koordlet::api::pod_resctrl::pod_resctrl;
use koordlet::resctrl::bandwidth::{CpuVendor, class_bandwidth};
use koordlet::resctrl::group::ResctrlGroup;
use koordlet::resctrl::l3_mask::{MaskError, l3_mask, parse_cbm};
use koordlet::resctrl::schemata::{CacheValues, Schemata, SchemataLine, SchemataResource};
use koordlet::rules::pod_resctrl::lines::pod_lines;
use koordlet::state::resctrl::{L3Cache, ResctrlFacts, ResctrlTree};
use serde_json::{Map, Value, json};

use crate::set::{Row, Verdict, check};

#[test]
fn vector_resctrl() {
    check(
        "resctrl",
        &[
            ("group_lines", 7, group_lines),
            ("l3_mask", 63, mask),
            ("mba_value", 35, bandwidth),
            ("pod_group", 13, pod_group),
            ("resctrl_pod_schemata", 57, pod_schemata),
            ("schemata_parse", 20, parse),
        ],
    );
}

fn mask(row: &Row) -> Verdict {
    let (start, end) = (row.int("startPercent").unwrap_or(0), row.int("endPercent").unwrap_or(0));
    let cbm = row.text("cbm");
    let found = parse_cbm(cbm).and_then(|cbm| l3_mask(cbm, start, end, 1));
    if row.defect.is_none() {
        return row.compare(found.map(|mask| json!({ "mask": format!("{mask:x}") })));
    }
    // Q34: at least one bit, from the range's beginning on, as far as there is one.
    let ways = i64::from(u32::from_str_radix(cbm, 16).unwrap_or(0).count_ones());
    let first = (0..=ways).find(|way| way * 100 >= ways * start).unwrap_or(ways);
    let want = match ways {
        0 => json!("error"),
        ways => json!(format!("{:x}", 1_u32 << first.min(ways - 1))),
    };
    let got = match found {
        Ok(mask) => json!(format!("{mask:x}")),
        Err(MaskError::TooFew { .. }) => json!("error"),
        Err(error) => return Verdict::Wrong(error.to_string()),
    };
    row.compare_with(&want, &got)
}

fn bandwidth(row: &Row) -> Verdict {
    let figure = class_bandwidth(CpuVendor::from_id(row.text("vendor")), row.int("mbaPercent").unwrap_or(0));
    let value = figure.map(|figure| figure.to_string());
    row.compare(Ok::<_, String>(json!({ "value": value })))
}

fn caches(row: &Row) -> Vec<u32> {
    let ids = row.input.get("cacheIds").and_then(Value::as_array).into_iter().flatten();
    ids.filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

fn group_lines(row: &Row) -> Verdict {
    let text = |resource, value: &str, radix| {
        let value = u64::from_str_radix(value, radix).expect("a number");
        SchemataLine::of_all(resource, value, caches(row)).map_or(String::new(), |line| line.text())
    };
    row.compare(Ok::<_, String>(json!({
        "l3": text(SchemataResource::L3, row.text("mask"), 16),
        "mb": text(SchemataResource::Mb, row.text("mbaValue"), 10),
    })))
}

fn pod_group(row: &Row) -> Verdict {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"labels": {keys::QOS_CLASS: row.text("qosLabel")}},
        "status": {"qosClass": row.text("kubeQOS")},
    }))
    .expect("a pod");
    let group = ResctrlGroup::of_class(pod.effective_qos());
    let name = group.as_ref().map_or("Unknown", ResctrlGroup::name);
    row.compare(Ok::<_, String>(json!({ "group": name })))
}

fn parse(row: &Row) -> Verdict {
    let wanted = row.int("l3Num").and_then(|count| usize::try_from(count).ok());
    let object = |values: Option<&CacheValues>| {
        let entries = values.into_iter().flatten().map(|(cache, value)| (cache.to_string(), json!(value)));
        Value::Object(entries.collect::<Map<_, _>>())
    };
    row.compare(Schemata::parse_counted(row.text("content"), wanted).map(|schemata| {
        json!({
            "L3": object(schemata.values(SchemataResource::L3)),
            "MB": object(schemata.values(SchemataResource::Mb)),
        })
    }))
}

/// The facts of a host whose root group has everything.
fn facts(row: &Row) -> ResctrlFacts {
    let vendor = CpuVendor::from_id(row.text("vendor"));
    let full = |value: &str| {
        let values: Vec<String> = caches(row).iter().map(|cache| format!("{cache}={value}")).collect();
        values.join(";")
    };
    let cbm = row.text("cbm");
    let root = format!("L3:{}\nMB:{}\n", full(cbm), full(&vendor.full_bandwidth().to_string()));
    let l3 = L3Cache { cbm_mask: cbm.to_owned(), min_cbm_bits: 1, shareable_bits: String::new() };
    let tree = ResctrlTree {
        l3: Some(l3),
        code_and_data: false,
        bandwidth: true,
        caches: caches(row).into_iter().collect(),
        root: Schemata::parse(&root).expect("a schemata"),
    };
    ResctrlFacts { vendor, cat_l3: true, mba: true, tree: Some(tree) }
}

fn pod_schemata(row: &Row) -> Verdict {
    let annotations = Annotations::from([(keys::RESCTRL.to_owned(), row.text("annotation").to_owned())]);
    let found = pod_resctrl(&annotations).map(|annotation| {
        let lines = pod_lines(&annotation.unwrap_or_default(), &facts(row)).lines;
        json!({ "schemata": lines.iter().map(SchemataLine::text).collect::<String>() })
    });
    match (&row.defect, found) {
        (None, found) => row.compare(found),
        (Some(_), Ok(found)) => row.compare_with(&json!({ "schemata": filled_up(row) }), &found),
        (Some(_), Err(error)) => Verdict::Wrong(error.to_string()),
    }
}

/// Q37: the lines of an annotation that speaks of single caches alone; the others have everything.
fn filled_up(row: &Row) -> String {
    let wish: Value = serde_json::from_str(row.text("annotation")).expect("JSON");
    let of_caches = |part: &str| -> Vec<(u32, Value)> {
        let list = wish.pointer(&format!("/{part}/schemataPerCache")).and_then(Value::as_array);
        let entry =
            |entry: &Value| (u32::try_from(entry["cacheID"].as_u64().unwrap()).unwrap(), entry.clone());
        list.into_iter().flatten().map(entry).collect()
    };
    let own = caches(row);
    let line = |name: &str, given: &[(u32, String)], full: &str| {
        if !given.iter().any(|(cache, _)| own.contains(cache)) {
            return String::new();
        }
        let value = |cache: &u32| {
            let given = given.iter().find(|(given, _)| given == cache);
            format!("{cache}={};", given.map_or(full, |(_, value)| value))
        };
        format!("{name}:{}\n", own.iter().map(value).collect::<String>())
    };
    let cbm = u32::from_str_radix(row.text("cbm"), 16).unwrap();
    let ways = cbm.trailing_ones();
    let masks: Vec<(u32, String)> = of_caches("llc")
        .into_iter()
        .map(|(cache, entry)| {
            let way =
                |place: usize| (f64::from(ways) * entry["range"][place].as_f64().unwrap() / 100.0).ceil();
            let bits = (0..ways).filter(|bit| (way(0)..way(1)).contains(&f64::from(*bit)));
            (cache, format!("{:x}", bits.map(|bit| 1_u64 << bit).sum::<u64>()))
        })
        .collect();
    let usable = cbm.count_ones() == ways && masks.iter().all(|(cache, _)| own.contains(cache));
    let is_amd = row.text("vendor") == "AuthenticAMD";
    let percents = of_caches("mb").into_iter().map(|(cache, entry)| {
        let percent = entry["percent"].as_f64().unwrap();
        let figure = if is_amd { (percent * 1.6).floor() } else { (percent / 10.0).ceil() * 10.0 };
        (cache, figure.to_string())
    });
    let percents: Vec<(u32, String)> = percents.collect();
    let l3 = if usable { line("L3", &masks, row.text("cbm")) } else { String::new() };
    l3 + &line("MB", &percents, if is_amd { "2048" } else { "100" })
}
