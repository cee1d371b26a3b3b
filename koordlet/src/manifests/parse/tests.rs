use proptest::prelude::*;

use super::*;
use crate::units::MilliCpu;

fn parse(name: &str, text: &str) -> ParsedFile {
    parse_file(Path::new(name), text.as_bytes(), "n1")
}

fn one_error(name: &str, text: &str) -> ManifestError {
    let parsed = parse(name, text);
    assert_eq!(parsed.errors.len(), 1, "{parsed:?}");
    parsed.errors[0].clone()
}

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, uid: u-1}
spec:
  nodeName: n1
  containers:
  - name: main
    image: nginx
    resources: {requests: {cpu: 1500m}, limits: {cpu: 2}}
";

#[test]
fn documents_of_all_kinds_are_read() {
    let text = format!(
        "# all in one\n---\n{POD}---\nkind: Node\nmetadata: {{name: n1}}\nstatus: {{capacity: {{cpu: 8}}}}\n--- # policy\n\
         apiVersion: slo.koordinator.sh/v1alpha1\nkind: NodeSLO\nmetadata: {{name: n1}}\nspec: {{}}\n---\n\
         apiVersion: topology.node.k8s.io/v1alpha1\nkind: NodeResourceTopology\nmetadata: {{name: n1}}\n...\n---\n"
    );
    let parsed = parse("a.yaml", &text);
    assert_eq!(parsed.errors, []);
    let shown: Vec<_> = parsed.objects.iter().map(|found| (found.object.to_string(), found.line)).collect();
    let wanted =
        [("Pod default/web", 2), ("Node n1", 12), ("NodeSLO n1", 16), ("NodeResourceTopology n1", 21)];
    assert_eq!(shown, wanted.map(|(object, line)| (object.to_owned(), line)));
    let Object::Pod(pod) = &parsed.objects[0].object else { panic!("not a pod") };
    assert_eq!(pod.spec.containers[0].resources.requests["cpu"].milli_cpu(), MilliCpu(1500));
}

#[test]
fn lists_and_json_are_read() {
    let item = r#"{"metadata": {"name": "a", "uid": "u1", "namespace": null}, "spec": {"nodeName": "n1"}}"#;
    for (kind, item) in
        [("PodList", item.to_owned()), ("List", item.replacen('{', "{\"kind\": \"Pod\", ", 1))]
    {
        let text = format!("{{\"kind\": \"{kind}\", \"items\": [{item}, {}]}}", item.replace("u1", "u2"));
        for name in ["a.json", "a.yaml"] {
            let parsed = parse(name, &text);
            assert_eq!((parsed.objects.len(), parsed.errors.len()), (2, 0), "{kind} {name} {parsed:?}");
        }
    }
    let several = "{\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}\n\n{\"kind\":\"NodeSLO\",\n\"metadata\":{\"name\":\"n1\"}}\n";
    let lines: Vec<_> = parse("a.json", several).objects.iter().map(|found| found.line).collect();
    assert_eq!(lines, [1, 3]);
    assert_eq!(parse("a.json", "{\"kind\": \"PodList\", \"items\": null}"), ParsedFile::default());
    // Escaped surrogates are JSON, but not YAML.
    let emoji = r#"{"kind":"Node","metadata":{"name":"n1","labels":{"a":"\ud83d\ude00"}}}"#;
    assert_eq!(parse("a.json", emoji).objects.len(), 1);
}

#[test]
fn errors_name_file_line_and_field_also_in_later_documents() {
    let bad = POD.replace("1500m", "lots");
    let text = format!("{POD}---\n{}", bad.replace("u-1", "u-2"));
    let error = one_error("pods.yaml", &text);
    assert_eq!((error.line, error.field.as_str()), (19, "spec.containers[0].resources.requests.cpu"));
    assert!(
        error.to_string().starts_with("pods.yaml:19: spec.containers[0].resources.requests.cpu: "),
        "{error}"
    );
    assert!(error.what.contains("lots"), "{error}");

    let syntax = format!("{POD}---\n{}", POD.replace("kind: Pod", "kind: \"Pod"));
    assert!(one_error("a.yaml", &syntax).line > 10);

    let json = "{\"kind\": \"Node\",\n \"metadata\": {\"name\": \"n1\"}}\n{\"kind\": \"Node\",\n \"metadata\": {\n  \"name\": [7]}}";
    let error = one_error("a.json", json);
    assert_eq!((error.line, error.field.as_str()), (5, "metadata.name"), "{error}");
    let error = one_error("a.json", &json.replace("[7]", "7"));
    assert_eq!((error.line, error.field.as_str()), (5, "name"), "{error}");
    assert_eq!(one_error("a.json", "{\"kind\": \"Node\",\n\n oops}").line, 3);
}

#[test]
fn the_good_documents_of_a_bad_file_are_kept() {
    let text = format!("{POD}---\nkind: Pod\nmetadata: [\n---\n{}", POD.replace("u-1", "u-2"));
    let parsed = parse("a.yaml", &text);
    assert_eq!((parsed.objects.len(), parsed.errors.len()), (2, 1), "{parsed:?}");
}

#[test]
fn objects_of_other_nodes_and_kinds_are_left_out() {
    let text = format!(
        "{}---\nkind: Node\nmetadata: {{name: n2}}\n---\nkind: Deployment\nmetadata: {{name: x}}\n---\n\
         apiVersion: metrics.example/v1\nkind: Node\nmetadata: {{name: n1}}\n",
        POD.replace("nodeName: n1", "nodeName: n2")
    );
    let parsed = parse("a.yaml", &text);
    assert_eq!((parsed.objects.len(), parsed.errors.len(), parsed.ignored.len()), (0, 0, 4), "{parsed:?}");
    assert!(parsed.ignored[0].contains("spec.nodeName of pod web is \"n2\""), "{parsed:?}");
}

#[test]
fn a_pod_needs_a_uid_that_can_name_a_directory() {
    for uid in ["", "a/b", "..", "a b", "../../etc", "x\\0"] {
        let error = one_error("a.yaml", &POD.replace("uid: u-1", &format!("uid: \"{uid}\"")));
        assert_eq!(error.field, "metadata.uid");
    }
    let unbound = POD.replace("  nodeName: n1\n", "");
    assert_eq!(parse("a.yaml", &unbound).objects.len(), 1);
    assert_eq!(one_error("a.yaml", "metadata: {name: x}").field, "kind");
    assert_eq!(one_error("a.yaml", "kind: Node").field, "metadata.name");
    assert_eq!(one_error("a.yaml", "kind: [Node]").field, "kind");
    assert!(one_error("a.yaml", "just text").what.contains("object"));
}

#[test]
fn a_nodeslos_fields_are_found_again() {
    let text = "kind: Node\nmetadata: {name: n1}\n---\nkind: NodeSLO\nmetadata: {name: n1}\nspec:\n  cpuBurstStrategy:\n    enable: 1\n\
                \x20 resourceUsedThresholdWithBE:\n    enable: true\n    cpuSuppressThresholdPercent: 150\n";
    let parsed = parse("a.yaml", text);
    let slo = parsed.objects.last().unwrap();
    assert_eq!(slo.line_of("spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent"), 11);
    assert_eq!(slo.line_of("spec.resourceUsedThresholdWithBE.enable"), 10);
    assert_eq!(slo.line_of("spec.resourceUsedThresholdWithBE.gone"), 9);
    assert_eq!(slo.line_of("spec.cpuBurstStrategy[0].enable"), 7);
    assert_eq!(slo.line_of("spec.hostApplications"), 3);
}

#[test]
fn hostile_files_are_refused_in_bounded_time() {
    let bomb = (1..30).fold("kind: NodeSLO\na0: &a0 [x, x]\n".to_owned(), |text, i| {
        text + &format!("a{i}: &a{i} [*a{0}, *a{0}, *a{0}, *a{0}]\n", i - 1)
    });
    assert!(one_error("bomb.yaml", &bomb).what.contains("unfold"));

    let entries = (0..2000).map(|i| format!("    k{i}: v\n")).collect::<Vec<_>>().concat();
    let wide =
        format!("kind: PodList\nx: &x\n  labels:\n{entries}items:\n{}", "- metadata: *x\n".repeat(2000));
    assert!(one_error("wide.yaml", &wide).what.contains("unfold"));

    let deep = "[".repeat(200_000);
    assert!(one_error("deep.yaml", &format!("a: {deep}")).what.contains("brackets"));
    assert_eq!(parse("deep.json", &deep).errors.len(), 1);
    let flow = format!(
        "kind: NodeSLO\nmetadata: {{name: n1}}\nspec: {{extensions: {}{}}}",
        "[".repeat(500),
        "]".repeat(500)
    );
    assert!(one_error("flow.yaml", &flow).what.contains("recursion limit"));

    let huge = vec![b' '; MAX_FILE_BYTES + 1];
    assert!(parse_file(Path::new("a.yaml"), &huge, "n1").errors[0].what.contains("larger than 16 MiB"));
    assert!(one_error("commas.yaml", &format!("a: [{}]", "1,".repeat(1 << 20))).what.contains("too large"));
    assert_eq!(parse("many.yaml", &"a\n---\n".repeat(100)).errors.len(), MAX_ERRORS);
    assert!(parse("more.yaml", &"a\n---\n".repeat(30_000)).errors[0].what.contains("documents"));

    let error = &parse_file(Path::new("a.yaml"), b"a: 1\nb: \xff\n", "n1").errors[0];
    assert_eq!((error.line, error.what.as_str()), (2, "it is not UTF-8"));
}

#[test]
fn ordinary_aliases_are_read() {
    let text = POD.replace("requests: {cpu: 1500m}, limits: {cpu: 2}", "requests: &r {cpu: 2}, limits: *r");
    let parsed = parse("a.yaml", &text);
    let Object::Pod(pod) = &parsed.objects[0].object else { panic!("{parsed:?}") };
    assert_eq!(pod.spec.containers[0].resources.limits["cpu"].milli(), 2000);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), json in any::<bool>()) {
        parse_file(Path::new(if json { "a.json" } else { "a.yaml" }), &bytes, "n1");
    }

    #[test]
    fn no_yaml_like_text_panics(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "kind: ", "Pod", "NodeSLO", "List", "\n", "---\n", "items:", "- ", "  ", "metadata: ", "{", "}", "[",
                "]", ", ", "\"", "name: n1", "uid: u", "&a ", "*a", "spec: ", "null", "'", "%", "...\n", "#", "|\n", ": ",
            ]),
            0..40,
        ),
    ) {
        let text = words.concat();
        for name in ["a.json", "a.yaml"] {
            for error in parse(name, &text).errors {
                prop_assert!(error.line >= 1 && error.line <= text.lines().count() + 2, "{error}");
            }
        }
    }

    #[test]
    fn damaged_pods_give_pods_or_errors(at in 0usize..200, with in any::<char>()) {
        let damaged: String = POD.chars().enumerate().map(|(i, c)| if i == at { with } else { c }).collect();
        let parsed = parse("a.yaml", &damaged);
        prop_assert!(parsed.objects.len() + parsed.errors.len() + parsed.ignored.len() <= 2);
    }
}
