#!/usr/bin/env python3
"""Compares what the agent says of the node's use with the kernel's own figures.

CPU: user + nice + system + irq + softirq of /proc/stat's first line. Memory: MemTotal - MemAvailable of
/proc/meminfo. Written from the specification (collection.md 6.2), without the agent's code.

The agent samples at moments that nobody outside knows, so nothing is compared with a single reading. Its page
is asked for again and again: between the last answer without a new sample and the first one with it lies the
sample. The kernel is read before the one and after the other, which gives a range that the sample's own
reading lies in. Over a window of samples follow bounds of the CPU time that the agent must have seen, to be
compared with the sum of its (cores x time since the sample before); what is not known of the samples' moments
makes the bounds wider.

CPU agrees if the two differ by at most 1 % of the kernel's figure, or by what /proc/stat cannot tell: one
clock tick of each CPU at either end of the window, which is more than 1 % on an idle machine. Memory agrees
if each sample around which memory was steady is within 1 %.

A window says something only if its bounds are narrower than that; where other work on the machine makes them
wide, the next window is tried. No window is passed over because it disagrees: the first that is narrow enough
decides. With none the answer is 3, which is neither right nor wrong.

    node_usage.py URL [--samples N] [--windows N] [--tolerance SHARE]

Exit status: 0 agree, 1 differ, 2 usage or no answer, 3 never narrow enough. The last line is JSON.
"""

import argparse
import json
import os
import sys
import time
import urllib.request

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CPUS = os.sysconf("SC_NPROCESSORS_ONLN")

# Longest time in seconds from when the agent takes a sample to when its page shows it.
PUBLISHING = 0.01


def busy_seconds():
    """CPU time of all CPUs since boot in which something ran."""
    with open("/proc/stat", encoding="ascii") as stat:
        columns = stat.readline().split()
    assert columns[0] == "cpu", columns
    user, nice, system, _idle, _iowait, irq, softirq = (int(column) for column in columns[1:8])
    return (user + nice + system + irq + softirq) / TICKS_PER_SECOND


def memory_in_use():
    """Bytes in use without what could be given back."""
    wanted = {}
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        for line in meminfo:
            name, _, rest = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                wanted[name] = int(rest.split()[0])
    return (wanted["MemTotal"] - wanted["MemAvailable"]) * 1024


def series(page, name, label=""):
    """The value of the first series of that name with that label, None if there is none."""
    for line in page.splitlines():
        if line.startswith(name) and line[len(name)] in " {" and label in line:
            return float(line.rsplit(" ", 1)[1])
    return None


class Reading:
    """The kernel's figures at a moment."""

    def __init__(self):
        self.time = time.monotonic()
        self.busy = busy_seconds()
        self.memory = memory_in_use()


class Sample:
    """A sample of the agent, with the kernel's figures before and after it."""

    def __init__(self, before, after, cpu, memory):
        self.before, self.after, self.cpu, self.memory = before, after, cpu, memory


class Agent:
    """The agent's page."""

    def __init__(self, url):
        self.url = url

    def ask(self):
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            page = answer.read().decode()
        ticks = series(page, "koordlet_part_runs_total", 'part="sample"')
        assert ticks is not None, "the page does not count samples"
        cpu = series(page, "koordlet_node_used_cpu_cores")
        memory = series(page, "koordlet_node_used_memory_bytes")
        return ticks, cpu, memory

    def next_sample(self, interval):
        """Waits for the next sample; how many there were since the last, and the last of them. `interval`:
        about how long that takes."""
        readings = [Reading()]
        time.sleep(PUBLISHING)
        quiet = time.monotonic()
        ticks, _, _ = self.ask()
        # Asking costs the agent time: nothing is asked while no sample can be due.
        time.sleep(interval * 0.9)
        while True:
            reading = Reading()
            now, cpu, memory = self.ask()
            if now != ticks:
                # Shown after the last quiet answer, and taken at most so long before it was shown.
                before = [r for r in readings if r.time <= quiet - PUBLISHING]
                return now - ticks, Sample(before[-1], Reading(), cpu, memory)
            readings.append(reading)
            quiet = reading.time
            time.sleep(0.002)


def window(agent, samples):
    """`samples` samples, each the next one of the last; None if one was missed."""
    missed, first = agent.next_sample(0)
    found = [first]
    interval = 0
    while len(found) <= samples:
        missed, sample = agent.next_sample(interval)
        if missed != 1 or sample.cpu is None or sample.memory is None:
            return None
        interval = sample.before.time - found[-1].before.time
        found.append(sample)
    return found


def compare_cpu(found, tolerance):
    """Bounds of the CPU time by the kernel, and the agent's, widened by what is not known of its moments."""
    first, last = found[0], found[-1]
    least = last.before.busy - first.after.busy
    most = last.after.busy - first.before.busy
    middle = [(sample.before.time + sample.after.time) / 2 for sample in found]
    unknown = [(sample.after.time - sample.before.time) / 2 for sample in found]
    said, doubt = 0.0, 0.0
    for index in range(1, len(found)):
        said += found[index].cpu * (middle[index] - middle[index - 1])
        after = found[index + 1].cpu if index + 1 < len(found) else 0
        doubt += unknown[index] * abs(found[index].cpu - after)
    doubt += unknown[0] * found[1].cpu
    half = (most - least) / 2 + doubt
    kernel = (most + least) / 2
    elapsed = middle[-1] - middle[0]
    allowed = max(tolerance * kernel, 2 * CPUS / TICKS_PER_SECOND)
    return {
        "kernel_cores": kernel / elapsed,
        "agent_cores": said / elapsed,
        "seconds": elapsed,
        "doubt_cores": half / elapsed,
        "allowed_cores": allowed / elapsed,
        "narrow": half <= allowed,
        "agree": abs(said - kernel) <= allowed,
    }


def compare_memory(found, tolerance):
    """The worst difference of the samples around which memory was steady."""
    worst, steady, kernel, said = 0.0, 0, None, None
    for sample in found[1:]:
        low = min(sample.before.memory, sample.after.memory)
        high = max(sample.before.memory, sample.after.memory)
        if high - low > tolerance * low:
            continue
        steady += 1
        difference = max(0.0, low - sample.memory, sample.memory - high) / low
        if difference >= worst:
            worst, kernel, said = difference, low, sample.memory
    return {
        "kernel_bytes": kernel,
        "agent_bytes": said,
        "steady_samples": steady,
        "narrow": steady * 2 >= len(found) - 1,
        "agree": worst <= tolerance,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="the agent's metrics page")
    parser.add_argument("--samples", type=int, default=8, help="samples of a window")
    parser.add_argument("--windows", type=int, default=8, help="windows that are tried")
    parser.add_argument("--tolerance", type=float, default=0.01, help="share by which figures may differ")
    options = parser.parse_args()
    agent = Agent(options.url)
    verdicts = {"cpu": None, "memory": None}
    judges = {"cpu": compare_cpu, "memory": compare_memory}
    last, windows = dict(verdicts), 0
    while windows < options.windows and None in verdicts.values():
        windows += 1
        found = window(agent, options.samples)
        if found is None:
            continue
        for what, judge in judges.items():
            last[what] = judge(found, options.tolerance)
            if verdicts[what] is None and last[what]["narrow"]:
                verdicts[what] = last[what]
    decided = None not in verdicts.values()
    print(json.dumps({"windows": windows, "decided": decided, **{w: verdicts[w] or last[w] for w in judges}}))
    if not decided:
        return 3
    return 0 if all(verdict["agree"] for verdict in verdicts.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, AssertionError) as error:
        print(f"node_usage.py: {error}", file=sys.stderr)
        sys.exit(2)
