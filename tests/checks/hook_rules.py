#!/usr/bin/env python3
"""Says what every cgroup file that the hook rules manage should hold: an oracle for tests, written from the
specification (hooks.md 2 to 9, design.md 2 and 4) without the agent's code.

Each line of the input is one state of the world, in the order in which the agent saw them, since a rule that cannot
be parsed leaves the last good one in force. Each line of the output answers one:

    {"files": {DIR: {FILE: TEXT or null or "any"}}, "native": {DIR: {FILE: TEXT}}}

`null` is a file that no rule manages: it holds what the kubelet and the runtime wrote, which `native` says. "any" is
a value that follows from the load and not from rules alone. Directories are relative to the kubelet's cgroup root.

A state of the world:

    cgroup     "v1" or "v2"
    driver     "systemd" or "cgroupfs"
    gates      feature gates that differ from their defaults
    node       the Node's annotations, absent before the Node was seen
    slo        the NodeSLO's spec, absent before it was seen
    topology   the NodeResourceTopology's annotations, absent before it was seen
    pods       Pod objects
    sandboxes  UID -> name of the sandbox's directory
    bvt        whether the kernel has cpu.bvt_warp_ns

    hook_rules.py [--mutation NAME]

A mutation breaks one formula on purpose: tests use them to see that they would notice.
"""

import argparse
import json
import math
import sys
from fractions import Fraction

UNLIMITED = -1
PERIOD = 100000
LEAST_QUOTA = 1000
V1_NO_MEMORY_LIMIT = 9223372036854771712
MUTATIONS = [
    "floor-instead-of-ceiling",
    "no-least-quota",
    "batch-scaled-below-one",
    "policy-ignored",
    "unlimited-container-not-seen",
    "annotation-not-read",
    "init-counts-in-batch-sum",
    "last-good-ratio-forgotten",
    "pod-lowered-without-hooks",
    "kata-containers-managed",
    "empty-pool-not-skipped",
    "numa-allocation-ignored",
    "quota-kept-beside-pinned-cpus",
]
DEFAULT_GATES = {
    "GroupIdentity": True,
    "CPUSetAllocator": True,
    "BatchResource": True,
    "CPUNormalization": False,
    "BECPUManager": False,
    "BECPUSuppress": True,
}
FILES = {
    "v1": {
        "shares": "cpu.shares",
        "quota": "cpu.cfs_quota_us",
        "memory": "memory.limit_in_bytes",
        "cpus": "cpuset.cpus",
        "bvt": "cpu.bvt_warp_ns",
    },
    "v2": {
        "shares": "cpu.weight",
        "quota": "cpu.max",
        "memory": "memory.max",
        "cpus": "cpuset.cpus",
        "bvt": "cpu.bvt_warp_ns",
    },
}
BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
RATIO = "node.koordinator.sh/cpu-normalization-ratio"
STATUS = "scheduling.koordinator.sh/resource-status"
EXTENDED = "node.koordinator.sh/extended-resource-spec"

mutation = None


class Malformed(Exception):
    """An annotation that cannot be used."""


# --- quantities and conversions, hooks.md 1


def quantity(text):
    """A Kubernetes quantity as a fraction."""
    text = str(text)
    units = {"": 1, "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
    units.update({unit: 1000 ** (power + 1) for power, unit in enumerate("kMGTPE")})
    units.update({unit + "i": 1024 ** (power + 1) for power, unit in enumerate("KMGTPE")})
    for length in (2, 1):
        if text[-length:] in units and text[-length:]:
            return Fraction(text[:-length]) * units[text[-length:]]
    return Fraction(text)


def milli(resources, kind):
    """Milli-cores of a request or limit, 0 if there is none."""
    amount = resources.get(kind, {}).get("cpu")
    return 0 if amount is None else math.ceil(quantity(amount) * 1000)


def shares(cores_m):
    return 2 if cores_m <= 0 else min(max(cores_m * 1024 // 1000, 2), 262144)


def quota(cores_m):
    micros = cores_m * PERIOD // 1000
    return UNLIMITED if micros <= 0 else max(micros, LEAST_QUOTA)


def scale(micros, ratio):
    """hooks.md 9.4; at least what the kernel takes, 9.5."""
    if micros <= 0 or (ratio <= 1.0 and mutation != "batch-scaled-below-one"):
        return micros
    cut = math.floor if mutation == "floor-instead-of-ceiling" else math.ceil
    scaled = cut(micros / ratio)
    return scaled if mutation == "no-least-quota" else max(scaled, LEAST_QUOTA)


# --- what a pod says


def label(pod, key):
    return (pod["metadata"].get("labels") or {}).get(key, "")


def annotation(pod, key):
    """Its text; an empty one is none."""
    return (pod["metadata"].get("annotations") or {}).get(key) or None


def qos(pod):
    text = label(pod, "koordinator.sh/qosClass")
    return text if text in ("LSE", "LSR", "LS", "BE", "SYSTEM") else None


def kube_qos(pod):
    return pod["status"]["qosClass"]


def is_kata(pod):
    return pod["spec"].get("runtimeClassName") == "kata"


def resources(container):
    return container.get("resources") or {}


def is_sidecar(container):
    return container.get("restartPolicy") == "Always"


def apps(pod):
    return pod["spec"]["containers"]


def inits(pod):
    return pod["spec"].get("initContainers") or []


def running(pod):
    """Containers that run together: app containers and sidecars."""
    return apps(pod) + [each for each in inits(pod) if is_sidecar(each)]


def statuses(pod):
    """Container name -> id, of started ones."""
    status = pod["status"]
    all_of_them = (status.get("containerStatuses") or []) + (status.get("initContainerStatuses") or [])
    return {each["name"]: each["containerID"] for each in all_of_them if each.get("containerID")}


def has_waiting(pod):
    """Whether a container has not started, so that the sandbox's directory cannot be told (hooks.md 1)."""
    status = pod["status"]
    all_of_them = (status.get("containerStatuses") or []) + (status.get("initContainerStatuses") or [])
    return any(not each.get("containerID") for each in all_of_them)


def parsed(text, what):
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Malformed(what) from error
    if not isinstance(value, dict):
        raise Malformed(what)
    return value


def resource_status(pod):
    """The scheduler's allocation; raises if it is malformed (hooks.md 8.2, row 0)."""
    text = annotation(pod, STATUS)
    return {} if text is None else parsed(text, STATUS)


def allocated_cpus(pod):
    """The CPUs in it; a malformed one counts as none."""
    try:
        return resource_status(pod).get("cpuset") or ""
    except Malformed:
        return ""


# --- native values: what the kubelet and the runtime write


def effective(pod, kind, resource, amount):
    """Kubernetes' aggregation, hooks.md 4.3: a sum over what runs, at least each init container's stage."""
    own = pod["spec"].get("resources") or {}
    if resource in own.get(kind, {}):
        total = amount(own[kind][resource])
    else:
        of = lambda each: amount(resources(each).get(kind, {}).get(resource, 0))
        total = sum(of(each) for each in running(pod))
        sidecars = 0
        for each in inits(pod):
            if is_sidecar(each):
                sidecars += of(each)
            else:
                total = max(total, sidecars + of(each))
    overhead = (pod["spec"].get("overhead") or {}).get(resource)
    if overhead is not None and (kind == "requests" or total > 0):
        total += amount(overhead)
    return total


def to_milli(amount):
    return math.ceil(quantity(amount) * 1000)


def to_whole(amount):
    return math.ceil(quantity(amount))


def has_limit(pod, resource):
    """Whether the pod as a whole is limited, hooks.md 9.5."""
    if resource in (pod["spec"].get("resources") or {}).get("limits", {}):
        return True
    if mutation == "unlimited-container-not-seen":
        return any(resource in resources(each).get("limits", {}) for each in running(pod))
    return all(resource in resources(each).get("limits", {}) for each in running(pod))


def native_pod(pod):
    limit = lambda resource, amount: effective(pod, "limits", resource, amount) if has_limit(pod, resource) else 0
    requests = 0 if kube_qos(pod) == "BestEffort" else effective(pod, "requests", "cpu", to_milli)
    memory = limit("memory", to_whole)
    return {
        "shares": shares(requests),
        "quota": quota(limit("cpu", to_milli)),
        "memory": memory if memory > 0 else UNLIMITED,
    }


def native_container(pod, container):
    """A container without a request gets shares for its limit, one without a limit takes the pod's own."""
    mine = resources(container)
    own = pod["spec"].get("resources") or {}
    request = milli(mine, "requests") or milli(mine, "limits")
    limit = milli(mine, "limits") or milli(own, "limits")
    memory = mine.get("limits", {}).get("memory") or own.get("limits", {}).get("memory")
    return {
        "shares": shares(request),
        "quota": quota(limit),
        "memory": UNLIMITED if memory is None else to_whole(memory),
    }


# --- rules, hooks.md 5: what is parsed from Node, NodeSLO and topology


class Rules:
    """The rules in force. What cannot be parsed leaves the last good one."""

    def __init__(self):
        self.ratio = None
        self.pools = None

    def observe(self, world):
        if world.get("node") is not None:
            self.observe_ratio(world["node"].get(RATIO))
        if world.get("topology") is not None:
            try:
                self.pools = Pools(world["topology"])
            except Malformed:
                pass

    def observe_ratio(self, text):
        """hooks.md 9.1 and 9.2: hundredths are compared."""
        if text is None:
            self.ratio = None
            return
        try:
            ratio = float(text)
        except ValueError:
            ratio = math.nan
        if not (ratio > 0 and math.isfinite(ratio)):
            if mutation == "last-good-ratio-forgotten":
                self.ratio = None
            return
        if self.ratio is None or abs(math.floor(ratio * 100 + 1e-6) - math.floor(self.ratio * 100 + 1e-6)) >= 1:
            self.ratio = ratio


class Pools:
    """CPUSetAllocator's rule, hooks.md 8.2."""

    def __init__(self, annotations):
        self.ls = self.pool(annotations.get("node.koordinator.sh/cpu-shared-pools"))
        self.be = self.pool(annotations.get("node.koordinator.sh/be-cpu-shared-pools"))
        policy = annotations.get("kubelet.koordinator.sh/cpu-manager-policy")
        self.is_static = policy is not None and parsed(policy, "policy").get("policy") == "static"
        system = annotations.get("node.koordinator.sh/system-qos-resource")
        self.system = "" if system is None else parsed(system, "system").get("cpuset") or ""
        cpu_list(self.system)

    @staticmethod
    def pool(text):
        if not text:
            return []
        try:
            entries = json.loads(text)
        except ValueError as error:
            raise Malformed("pools") from error
        if not isinstance(entries, list):
            raise Malformed("pools")
        return [(entry.get("node", 0), entry.get("cpuset") or "") for entry in entries]


def cpu_list(text):
    """A CPU list as a set."""
    cpus = set()
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        try:
            cpus.update(range(int(first), int(last or first) + 1))
        except ValueError as error:
            raise Malformed("CPU list") from error
    return cpus


def list_text(cpus):
    """A set as a CPU list."""
    ranges = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] + 1 == cpu:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


# --- plugins: one target -> resource -> value


def batch_spec(pod):
    """Container name -> extended resources, hooks.md 4.2; None if there are none. An empty one is none (17 row 25)."""
    names_batch = lambda each: any(
        name in resources(each).get(kind, {}) for kind in ("requests", "limits") for name in (BATCH_CPU, BATCH_MEMORY)
    )
    in_annotation = {}
    text = annotation(pod, EXTENDED)
    if text is not None and mutation != "annotation-not-read":
        try:
            in_annotation = parsed(text, EXTENDED).get("containers") or {}
        except Malformed:
            in_annotation = {}
    in_spec = {each["name"]: resources(each) for each in apps(pod) + inits(pod) if names_batch(each)}
    by_spec = any(each["name"] in in_spec for each in apps(pod))
    # Each container: its own spec, else the annotation's entry. The pod: one or the other.
    each_one = {**in_annotation, **in_spec}
    of_pod = in_spec if by_spec else {**in_annotation, **{k: v for k, v in in_spec.items() if k not in in_annotation}}
    return each_one, (of_pod if by_spec or in_annotation else None)


def positive(entry, kind, name):
    """A positive whole amount, a fraction rounded up; 0 if there is none."""
    amount = (entry.get(kind) or {}).get(name)
    return 0 if amount is None else max(0, to_whole(amount))


def batch_values(request, limit, memory, ratio, quota_off):
    """hooks.md 8.3; 0 is no limit."""
    micros = UNLIMITED if quota_off else quota(limit)
    return {
        "shares": shares(request),
        "quota": micros if ratio is None else scale(micros, ratio),
        "memory": memory if memory > 0 else UNLIMITED,
    }


def batch_resource(pod, container, rules, world):
    """BatchResource, hooks.md 8.3. `container` is None for the pod's directory."""
    if qos(pod) != "BE":
        return {}
    threshold = (world.get("slo") or {}).get("resourceUsedThresholdWithBE") or {}
    quota_off = bool(threshold.get("enable")) and threshold.get("cpuSuppressPolicy") == "cfsQuota"
    quota_off = quota_off and mutation != "policy-ignored"
    each_one, of_pod = batch_spec(pod)
    if container is not None:
        entry = each_one.get(container["name"])
        if entry is None:
            return {}
        request, limit = positive(entry, "requests", BATCH_CPU), positive(entry, "limits", BATCH_CPU)
        return batch_values(request, limit, positive(entry, "limits", BATCH_MEMORY), rules.ratio, quota_off)
    if of_pod is None:
        return {}
    # Containers that run together; one without a limit has the pod unlimited (17 row 20).
    counted = apps(pod) + inits(pod) if mutation == "init-counts-in-batch-sum" else running(pod)
    entries = [of_pod.get(each["name"]) or {} for each in counted]
    known = {each["name"] for each in apps(pod) + inits(pod)}
    entries += [entry for name, entry in of_pod.items() if name not in known]
    request = sum(positive(entry, "requests", BATCH_CPU) for entry in entries)
    sums = []
    for name in (BATCH_CPU, BATCH_MEMORY):
        limits = [positive(entry, "limits", name) for entry in entries]
        sums.append(sum(limits) if all(limit > 0 for limit in limits) else 0)
    return batch_values(request, sums[0], sums[1], rules.ratio, quota_off)


def cpu_normalization(pod, container, rules):
    """CPUNormalization, hooks.md 9.3 and 9.4, with 9.5: a pod with CPUs of its own is none of its."""
    if rules.ratio is None or qos(pod) not in ("LS", None):
        return {}
    if allocated_cpus(pod):
        return {}
    native = native_pod(pod) if container is None else native_container(pod, container)
    return {"quota": scale(native["quota"], rules.ratio)} if native["quota"] > 0 else {}


def cpuset_of(pod, pools, world):
    """The CPU list of a container or sandbox, hooks.md 8.2, first match wins; None is no value, "" clears."""
    status = resource_status(pod)
    if status.get("cpuset"):
        return status["cpuset"]
    if pools is None:
        return None
    name = qos(pod)
    joined = lambda lists: ",".join(each for each in lists if each or mutation == "empty-pool-not-skipped")
    is_allocated = lambda each: any(
        key in (each.get("resources") or {}) and quantity(each["resources"][key]) > 0 for key in ("cpu", BATCH_CPU)
    )
    allocation = status.get("numaNodeResources") or []
    best_effort_by_gate = name == "BE" and gate(world, "BECPUManager")
    numa_aware = any(is_allocated(each) for each in allocation) and mutation != "numa-allocation-ignored"
    if numa_aware and (name != "BE" or best_effort_by_gate):
        pool = pools.be if best_effort_by_gate else pools.ls
        return joined(cpus for each in allocation for node, cpus in pool if node == each.get("node", 0))
    everything = joined(cpus for _, cpus in pools.ls)
    if name == "SYSTEM" and pools.system:
        return pools.system
    if name == "LS":
        return everything
    # By label too: best effort never gets the LS pools (17 row 26).
    if kube_qos(pod) == "BestEffort" or name == "BE":
        return ""
    return None if pools.is_static else everything


def cpuset_allocator(pod, rules, world):
    """Values of a container or sandbox, and whether the pod is pinned."""
    try:
        cpus = cpuset_of(pod, rules.pools, world)
    except Malformed:
        return {}, False
    values = {"cpus": cpus} if cpus else {}
    pinned = bool(allocated_cpus(pod)) and qos(pod) in ("LSE", "LSR", "LS", None)
    if mutation == "quota-kept-beside-pinned-cpus":
        pinned = False
    if pinned:
        values["quota"] = UNLIMITED
    return values, pinned


def group_identity(pod, world):
    """GroupIdentity, hooks.md 8.1; None is no value."""
    strategy = (world.get("slo") or {}).get("resourceQOSStrategy") or {}
    policy = (strategy.get("policies") or {}).get("cpuPolicy") in (None, "", "groupIdentity")

    def of(name):
        wish = (strategy.get(name) or {}).get("cpuQOS") or {}
        on = policy and bool(wish.get("enable"))
        default = {"lsrClass": 2, "lsClass": 2, "beClass": -1}[name]
        return on, wish.get("groupIdentity", default) if on else 0

    (lsr_on, lsr), (_, ls), (_, best) = of("lsrClass"), of("lsClass"), of("beClass")
    if isinstance(pod, str):
        return {"Guaranteed": 0, "Burstable": ls, "BestEffort": best}[pod]
    by_class = {"Guaranteed": lsr if lsr_on else ls, "Burstable": ls, "BestEffort": best}[kube_qos(pod)]
    value = {"LSE": lsr, "LSR": lsr, "LS": ls, "BE": best}.get(qos(pod), by_class)
    text = annotation(pod, "koordinator.sh/cpuQOS")
    if text is not None:
        try:
            own = parsed(text, "cpuQOS")
        except Malformed:
            return None
        if own.get("groupIdentity", 0) not in (-1, 0, 1, 2):
            return None
        if qos(pod) == "LS":
            value = own.get("groupIdentity", value) if own.get("enable") else 0
    return value


# --- combination, design.md 2 and 4


def gate(world, name):
    return (world.get("gates") or {}).get(name, DEFAULT_GATES[name])


def directories(world):
    """Class directories and a function from pod to the pod's."""
    systemd = world["driver"] == "systemd"
    top = "kubepods.slice" if systemd else "kubepods"
    classes = {"Guaranteed": top}
    for name in ("Burstable", "BestEffort"):
        part = name.lower()
        classes[name] = f"{top}/kubepods-{part}.slice" if systemd else f"{top}/{part}"

    def pod_dir(pod):
        name, uid = kube_qos(pod), pod["metadata"]["uid"]
        if not systemd:
            return f"{classes[name]}/pod{uid}"
        infix = "" if name == "Guaranteed" else f"-{name.lower()}"
        return f"{classes[name]}/kubepods{infix}-pod{uid.replace('-', '_')}.slice"

    def container_dir(pod, identity):
        scheme, _, name = identity.partition("://")
        prefix = {"docker": "docker-", "containerd": "cri-containerd-", "pouch": "pouch-", "cri-o": "crio-"}[scheme]
        return f"{pod_dir(pod)}/{prefix}{name}.scope" if systemd else f"{pod_dir(pod)}/{name}"

    return classes, pod_dir, container_dir


def pod_values(pod, rules, world):
    """Values of the pod's directory, the sandbox's, and each container's by name."""
    on = lambda name: gate(world, name)
    pinned, in_sandbox = False, {}
    if on("CPUSetAllocator"):
        in_sandbox, pinned = cpuset_allocator(pod, rules, world)

    def of(container):
        values = cpu_normalization(pod, container, rules) if on("CPUNormalization") else {}
        values.update(batch_resource(pod, container, rules, world) if on("BatchResource") else {})
        if container is not None:
            values.update(in_sandbox)
        elif pinned:
            values["quota"] = UNLIMITED
        return values

    own = of(None)
    if on("GroupIdentity") and world.get("bvt"):
        bvt = group_identity(pod, world)
        own.update({} if bvt is None else {"bvt": bvt})
    containers = {}
    for container in apps(pod) + inits(pod):
        containers[container["name"]] = of(container)
    fit(pod, own, containers, world)
    return own, in_sandbox, containers


def fit(pod, own, containers, world):
    """On v1 a child's quota above its parent's is refused: a pod whose runtime may write more keeps its native quota,
    as no hook was seen for it, and no container is above its pod."""
    if world["cgroup"] == "v2":
        return
    native = native_pod(pod)["quota"]
    by_runtime = [native] if is_kata(pod) else [
        native_container(pod, each)["quota"] for each in apps(pod) + inits(pod)
    ]
    if 0 < own.get("quota", UNLIMITED) < max(by_runtime) and mutation != "pod-lowered-without-hooks":
        del own["quota"]
    limit = own.get("quota", native)
    for values in containers.values():
        if 0 < limit < values.get("quota", UNLIMITED):
            values["quota"] = limit


def answer(world, rules):
    rules.observe(world)
    names = FILES[world["cgroup"]]
    classes, pod_dir, container_dir = directories(world)
    files, native = {}, {}

    def show(where, values, native_values):
        files[where] = {names[key]: text(world, key, values[key]) if key in values else None for key in names}
        if not world.get("bvt"):
            del files[where][names["bvt"]]
        native[where] = {names[key]: text(world, key, value) for key, value in native_values.items()}

    for name, where in classes.items():
        bvt = {"bvt": group_identity(name, world)} if gate(world, "GroupIdentity") and world.get("bvt") else {}
        show(where, bvt, {"quota": UNLIMITED})
    for pod in world["pods"]:
        own, in_sandbox, containers = pod_values(pod, rules, world)
        show(pod_dir(pod), own, native_pod(pod))
        sandbox = (world.get("sandboxes") or {}).get(pod["metadata"]["uid"])
        if sandbox is not None:
            known = {} if has_waiting(pod) else in_sandbox
            show(f"{pod_dir(pod)}/{sandbox}", known, {"shares": 2, "quota": UNLIMITED, "memory": UNLIMITED})
        ids = statuses(pod)
        # Containers of a virtual machine have no directories on the host.
        on_host = not is_kata(pod) or mutation == "kata-containers-managed"
        for container in apps(pod) + inits(pod):
            if container["name"] in ids and on_host:
                values, own_native = containers[container["name"]], native_container(pod, container)
                show(container_dir(pod, ids[container["name"]]), values, own_native)
    suppressed(world, classes["BestEffort"], files)
    return {"files": files, "native": native}


def suppressed(world, best_effort, files):
    """CPU suppression decides by the load, qos.md 5.1: the class directory's quota, or CPUs of all beneath it. What
    CPUs it gives back when it ends is the pool, which is not the rules' either."""
    if not gate(world, "BECPUSuppress"):
        return
    names = FILES[world["cgroup"]]
    threshold = (world.get("slo") or {}).get("resourceUsedThresholdWithBE") or {}
    if threshold.get("enable") and threshold.get("cpuSuppressPolicy") == "cfsQuota":
        files[best_effort][names["quota"]] = "any"
    for where in files:
        if where == best_effort or where.startswith(best_effort + "/"):
            files[where][names["cpus"]] = "any"


def text(world, key, value):
    """A value as the kernel's file shows it."""
    v2 = world["cgroup"] == "v2"
    if key == "cpus":
        try:
            return list_text(cpu_list(value))
        except Malformed:
            return value
    if key == "quota" and v2:
        return f"{'max' if value == UNLIMITED else value} {PERIOD}"
    if key == "memory":
        if value == UNLIMITED:
            return "max" if v2 else str(V1_NO_MEMORY_LIMIT)
        return str(value // 4096 * 4096)
    if key == "shares" and v2:
        return str(min(max(1 + (value - 2) * 9999 // 262142, 1), 10000))
    return str(value)


def main():
    global mutation
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutation", choices=MUTATIONS)
    parser.add_argument("--list-mutations", action="store_true", help="print their names and end")
    options = parser.parse_args()
    if options.list_mutations:
        print("\n".join(MUTATIONS))
        return
    mutation = options.mutation
    rules = Rules()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), rules)), flush=True)


if __name__ == "__main__":
    main()
