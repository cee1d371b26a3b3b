use super::*;

fn environment() -> Environment {
    Environment { node_name: Some("n1".into()), ..Environment::default() }
}

fn call(args: &[&str]) -> Result<Invocation, Usage> {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    resolve(&args, &environment())
}

fn config(args: &[&str]) -> Config {
    call(args).unwrap().config
}

fn mistakes(args: &[&str]) -> Vec<String> {
    match call(args) {
        Err(Usage::Mistakes(mistakes)) => mistakes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_arguments_it_runs_with_the_defaults() {
    let invocation = call(&[]).unwrap();
    assert_eq!(invocation.verb, Verb::Run);
    assert_eq!(invocation.output, Output::Text);
    let config = invocation.config;
    assert_eq!(config.roots, Roots::host());
    assert_eq!(config.addr, ListenAddr { host: None, port: 9316 });
    assert_eq!(config.collect.usage, Duration::from_secs(1));
    assert_eq!(config.cpu_suppress_interval, Some(Duration::from_secs(1)));
    assert_eq!(config.recheck_interval, Duration::from_mins(1));
    assert_eq!(config.admin_socket, Path::new("/var/run/koordlet/admin.sock"));
    assert_eq!((config.ebpf, config.cpu_usage_source), (EbpfMode::Auto, CpuUsageSource::Ebpf));
    assert!(!config.dry_run && !config.restore_on_exit);
}

#[test]
fn the_verbs_take_their_arguments_and_every_flag() {
    assert_eq!(call(&["doctor", "-o", "json", "-addr=:1"]).unwrap().verb, Verb::Doctor);
    assert_eq!(call(&["inspect", "node"]).unwrap().verb, Verb::InspectNode);
    assert_eq!(call(&["explain"]).unwrap().verb, Verb::Explain { target: None });
    let explain = call(&["explain", "default/web", "-o=json"]).unwrap();
    assert_eq!(explain.verb, Verb::Explain { target: Some("default/web".into()) });
    assert_eq!(explain.output, Output::Json);
    assert_eq!(call(&["restore"]).unwrap().verb, Verb::Restore);
    assert!(matches!(call(&["--help"]), Err(Usage::Answer(text)) if text.contains("explain")));
    assert!(matches!(call(&["run", "-h"]), Err(Usage::Answer(text)) if text.contains("--manifests-dir")));
    assert!(matches!(call(&["--version"]), Err(Usage::Answer(_))));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let mistakes = mistakes(&[
        "--nope",
        "--ebpf=maybe",
        "--addr=9316",
        "--feature-gates=Nope=true,CPUBurst=yes",
        "--collect-res-used-interval=1",
        "--dry-run=perhaps",
        "--kubelet-sync-interval=often",
        "--cpu-suppress-interval-seconds=soon",
    ]);
    let named = [
        "--nope",
        "--ebpf",
        "--addr",
        "\"Nope\"",
        "CPUBurst",
        "--collect-res-used-interval",
        "--dry-run",
        "--kubelet-sync-interval",
        "--cpu-suppress-interval-seconds",
    ];
    assert_eq!(mistakes.len(), named.len(), "{mistakes:#?}");
    for name in named {
        assert!(mistakes.iter().any(|mistake| mistake.contains(name)), "{name}: {mistakes:#?}");
    }
}

#[test]
fn only_run_needs_a_node_name() {
    let nobody = Environment::default();
    assert!(resolve(&["doctor".into()], &nobody).is_ok());
    let Err(Usage::Mistakes(mistakes)) = resolve(&[], &nobody) else { panic!("it must be refused") };
    assert!(mistakes[0].contains("NODE_NAME"));
}

#[test]
fn the_mode_is_asked_for_or_found() {
    let mode = |agent_mode: Option<&str>, host_cgroup_exists| {
        let environment =
            Environment { agent_mode: agent_mode.map(String::from), host_cgroup_exists, ..environment() };
        resolve(&[], &environment).unwrap().config
    };
    assert_eq!(mode(Some("hostMode"), true).mode, Mode::Host);
    assert_eq!(mode(Some("dsMode"), false).mode, Mode::DaemonSet);
    assert_eq!(mode(Some("other"), false).mode, Mode::DaemonSet);
    let found = mode(None, true);
    assert_eq!((found.mode, found.roots.cgroup), (Mode::DaemonSet, "/host-cgroup".into()));
    assert_eq!(found.run_dir, Path::new("/host-var-run-koordlet"));
    assert!(found.notices.iter().any(|notice| notice.contains("agent_mode")));
    assert_eq!(mode(None, false).mode, Mode::Host);
}

#[test]
fn a_daemon_sets_arguments_are_taken_over_with_one_line() {
    let config = config(&[
        "-addr=:9316",
        "-cgroup-root-dir=/host-cgroup/",
        "-feature-gates=AllAlpha=true,AllBeta=true",
        "-feature-gates=BECPUManager=false",
        "-logtostderr=true",
        "-v=4",
        "-kube-api-qps=20.5",
        "-runtime-hooks-nri-backoff-cap=1281023h53m38.427387903s",
        "-enable-pprof",
    ]);
    assert_eq!(config.roots.cgroup, Path::new("/host-cgroup"));
    assert_eq!((config.kube.qps, config.kube.burst), (20.5, 30));
    assert_eq!(config.log_level, tracing::Level::INFO);
    assert!(config.gates.is_on(Gate::CpuNormalization) && !config.gates.is_on(Gate::BeCpuManager));
    let lines: Vec<_> = config.notices.iter().filter(|line| line.contains("not used")).collect();
    assert_eq!(lines.len(), 1);
    for flag in ["--logtostderr", "--runtime-hooks-nri-backoff-cap", "--enable-pprof"] {
        assert!(lines[0].contains(flag), "{lines:?}");
    }
}

#[test]
fn the_gate_libpfm4_is_taken_and_said_to_change_nothing() {
    let notices = |gates: &str| config(&[&format!("--feature-gates={gates}")]).notices;
    let lines = |gates| notices(gates).iter().filter(|line| line.contains("Libpfm4 changes nothing")).count();
    assert_eq!((lines("CPICollector=true,Libpfm4=true"), lines("CPICollector=true")), (1, 0));
    let with = config(&["--feature-gates=CPICollector=true,Libpfm4=true"]).collect.cpi;
    assert_eq!(with, config(&["--feature-gates=CPICollector=true"]).collect.cpi);
}

#[test]
fn both_suppression_gates_raise_a_warning() {
    assert!(config(&["--feature-gates=AllAlpha=true"]).notices.iter().any(|n| n.contains("BECPUManager")));
    assert!(!config(&[]).notices.iter().any(|notice| notice.contains("BECPUManager")));
}

#[test]
fn addresses_and_intervals_have_the_references_forms() {
    let addr = |text| {
        let addr = config(&["--addr", text]).addr;
        (addr.host, addr.port)
    };
    assert_eq!(addr("127.0.0.1:0"), (Some("127.0.0.1".into()), 0));
    assert_eq!(addr("[::1]:80"), (Some("::1".into()), 80));
    assert_eq!(addr("localhost:80"), (Some("localhost".into()), 80));
    for bad in ["::1:80", "x", ":70000", "[::1:80", ""] {
        assert_eq!(mistakes(&["--addr", bad]).len(), 1, "{bad}");
    }
    assert_eq!(config(&["--cpu-suppress-interval-seconds=0"]).cpu_suppress_interval, None);
    assert_eq!(config(&["--cpu-suppress-interval-seconds=-1"]).cpu_suppress_interval, None);
    assert_eq!(config(&["--collect-res-used-interval=1m30s"]).collect.usage.as_secs(), 90);
    assert_eq!(mistakes(&["--collect-res-used-interval=10ms"]).len(), 1);
}

#[test]
fn the_kubelets_root_is_no_nesting_when_empty() {
    let root = |text| config(&["--kubelet-cgroup-root", text]).kubelet_cgroup_root;
    assert_eq!(root("/"), None);
    assert_eq!(root(""), None);
    assert_eq!(root("/koordtest-a/b/"), Some(CgroupDir::new("koordtest-a/b").unwrap()));
    assert_eq!(mistakes(&["--kubelet-cgroup-root=/a/../b"]).len(), 1);
}

#[test]
fn the_last_of_a_repeated_flag_counts() {
    assert!(!config(&["--dry-run", "--dry-run=false"]).dry_run);
    assert_eq!(config(&["--ebpf=off", "--ebpf", "required"]).ebpf, EbpfMode::Required);
    assert_eq!(config(&["-v=8", "--log-level=warn"]).log_level, tracing::Level::WARN);
}
