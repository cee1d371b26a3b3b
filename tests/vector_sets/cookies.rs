//! Set `cookies`: core scheduling cookies of containers, one reconcile after another (hooks.md 10.1). The kernel is a
//! stand-in that counts cookies up and can lose the way to a process.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use koordlet::cgroup::path::CgroupDir;
use koordlet::executor::tasks::cookies::{CookieBook, CookieKernel};
use koordlet::units::Nanos;
use nix::errno::Errno;
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::set::{Row, Verdict, check};

#[test]
fn vector_cookies() {
    check("cookies", &[("cookie_steps", 22, steps)]);
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    #[serde(rename = "podUID")]
    pod_uid: String,
    #[serde(rename = "containerID")]
    container_id: String,
    group: String,
    policy: String,
    pids: Vec<i32>,
    #[serde(default)]
    foreign: Option<(i32, u64)>,
    #[serde(default)]
    unreachable: Option<i32>,
}

impl Step {
    /// All pods are LS, which expels.
    fn group(&self) -> Option<String> {
        match self.policy.as_str() {
            "none" => None,
            "exclusive" => Some(format!("{}-expeller", self.pod_uid)),
            _ => Some(format!("{}-expeller", self.group)),
        }
    }
}

#[derive(Default)]
struct FakeKernel {
    cookies: RefCell<BTreeMap<i32, u64>>,
    unreachable: RefCell<BTreeSet<i32>>,
    next: Cell<u64>,
}

impl FakeKernel {
    fn reach(&self, pid: Pid) -> io::Result<i32> {
        let lost = self.unreachable.borrow().contains(&pid.as_raw());
        if lost { Err(Errno::ESRCH.into()) } else { Ok(pid.as_raw()) }
    }

    fn set(&self, pid: i32, cookie: u64) {
        self.cookies.borrow_mut().insert(pid, cookie);
    }
}

impl CookieKernel for FakeKernel {
    fn cookie(&self, pid: Pid) -> io::Result<u64> {
        Ok(self.cookies.borrow().get(&self.reach(pid)?).copied().unwrap_or_default())
    }

    fn create_cookie(&self, pid: Pid) -> io::Result<()> {
        self.set(self.reach(pid)?, self.next.replace(self.next.get() + 1));
        Ok(())
    }

    fn share_cookie(&self, from: Option<Pid>, to: &[Pid]) -> io::Result<Vec<io::Result<()>>> {
        let cookie = from.map_or(Ok(0), |from| self.cookie(from))?;
        let share = |pid: &Pid| self.reach(*pid).map(|pid| self.set(pid, cookie));
        Ok(to.iter().map(share).collect())
    }
}

fn steps(row: &Row) -> Verdict {
    let steps: Vec<Step> = serde_json::from_value(row.input["steps"].clone()).unwrap();
    let kernel = FakeKernel::default();
    kernel.next.set(row.input["nextCookie"].as_u64().unwrap());
    let mut book = CookieBook::default();
    let states: Vec<Value> = steps.iter().map(|step| after(step, &kernel, &mut book)).collect();
    let got = Value::from(states);
    match row.defect.as_deref() {
        None => row.compare(Ok::<_, String>(got)),
        Some(_) => row.compare_with(&put_right(row.out.clone().unwrap_or_default(), &steps), &got),
    }
}

/// Takes one step; how everything stands then.
fn after(step: &Step, kernel: &FakeKernel, book: &mut CookieBook) -> Value {
    kernel.unreachable.borrow_mut().extend(step.unreachable);
    if let Some((pid, cookie)) = step.foreign {
        kernel.set(pid, cookie);
    }
    let container = CgroupDir::new(&format!("{}/{}", step.pod_uid, step.container_id)).unwrap();
    let pids: Vec<Pid> = step.pids.iter().map(|pid| Pid::from_raw(*pid)).collect();
    match step.group() {
        Some(group) => _ = book.hold(kernel, &container, &group.into(), &pids, Nanos(0)),
        None => _ = book.clear(kernel, &container, &pids),
    }
    let cookies = kernel.cookies.borrow();
    let cookies = cookies.iter().filter(|(_, cookie)| **cookie != 0);
    let containers =
        book.containers().iter().map(|(container, group)| (container.to_string(), json!(**group)));
    let groups = book.groups().iter().map(|(name, group)| {
        let pids: Vec<i32> = group.pids.iter().map(|pid| pid.as_raw()).collect();
        (name.to_string(), json!({"cookie": group.cookie, "pids": pids}))
    });
    json!({
        "cookies": cookies.map(|(pid, cookie)| (pid.to_string(), json!(cookie))).collect::<Value>(),
        "containerGroups": containers.collect::<Value>(),
        "groups": groups.collect::<Value>(),
    })
}

/// H31: the recorded states with the foreign cookie of a known process put right at once, worked out without the book:
/// by the cookie that others of its group hold, or by a new one where it was the only one.
fn put_right(mut states: Value, steps: &[Step]) -> Value {
    let states_now = states.as_array_mut().unwrap();
    for (at, step) in steps.iter().enumerate() {
        let (Some((pid, _)), Some(group), true) = (step.foreign, step.group(), at > 0) else { continue };
        let is_known = |state: &Value| {
            let pids = state["groups"][&group]["pids"].as_array();
            pids.is_some_and(|pids| pids.contains(&json!(pid)))
        };
        if !is_known(&states_now[at - 1]) {
            continue;
        }
        for state in states_now.iter_mut().skip(at) {
            put_right_in(state, pid, &group);
        }
    }
    states
}

fn put_right_in(state: &mut Value, pid: i32, group: &str) {
    let cookie = state["groups"][group]["cookie"].as_u64().unwrap();
    let cookies = state["cookies"].as_object_mut().unwrap();
    let newest = cookies.values().chain([&json!(cookie)]).filter_map(Value::as_u64).max().unwrap();
    let shared = cookies.iter().any(|(other, held)| *other != pid.to_string() && *held == json!(cookie));
    let due = if shared { cookie } else { newest + 1 };
    cookies.insert(pid.to_string(), json!(due));
    state["groups"][group]["cookie"] = json!(due);
    let pids = state["groups"][group]["pids"].as_array_mut().unwrap();
    if !pids.contains(&json!(pid)) {
        pids.push(json!(pid));
        pids.sort_by_key(Value::as_i64);
    }
}
