//! Test kit: host roots, busy processes, cgroup trees of the test's own.
