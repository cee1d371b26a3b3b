//! Set `executor`: the reference's cached, batched and levelled writes (hooks.md 7) against ours.
//!
//! Compared is what each file means after each step, and that no more writes were made than recorded; the steps
//! themselves and their order are ours. A step's updates join one plan; without inotify repair (as the
//! recorded agent has none) a foreign write stays until its target changes or has aged.
//!
//! One write more than recorded is allowed where the recorded batch moves a CPU list of a directory and of one
//! beneath it at once: the reference writes them in the given order, which a v1 kernel refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::resource::Resource;
use koordlet::cgroup::value::Value as Wish;
use koordlet::claims::claim::{Owner, Reason};
use koordlet::claims::plan::{Decision, Desired, Plan, Subtree};
use koordlet::claims::target::CgroupTarget;
use koordlet::executor::backend::Backend;
use koordlet::executor::diff::Files;
use koordlet::executor::engine::{Engine, EngineParts, SlowWrites};
use koordlet::executor::ledger::Ledger;
use koordlet::executor::watch::NoWatch;
use koordlet::units::{CfsQuota, CpuShares, MemoryLimit, Nanos};
use nix::errno::Errno;
use serde_json::Value;

use crate::set::{self, Row, Verdict};

/// Files in memory: what a folder does not do (replace a text whole, keep `cpu.max`'s period) the kernel does.
#[derive(Default)]
struct Texts {
    files: BTreeMap<CgroupTarget, String>,
    writes: Vec<CgroupTarget>,
}

struct Memory {
    v2: bool,
    texts: Mutex<Texts>,
}

impl Memory {
    fn text_of_write(&self, target: &CgroupTarget, text: &str) -> String {
        let CgroupTarget { resource, .. } = target;
        if self.v2 && *resource == Resource::CfsQuota { format!("{text} 100000") } else { text.to_owned() }
    }
}

impl Backend for Memory {
    fn id(&self, _dir: &CgroupDir, _resource: Resource) -> io::Result<u64> {
        Ok(1)
    }

    fn read(&self, dir: &CgroupDir, resource: Resource) -> io::Result<String> {
        let texts = self.texts.lock().unwrap();
        texts.files.get(&CgroupTarget::new(dir, resource)).cloned().ok_or_else(|| Errno::ENOENT.into())
    }

    fn write(&self, dir: &CgroupDir, resource: Resource, _id: u64, text: &str) -> io::Result<()> {
        let target = CgroupTarget::new(dir, resource);
        let text = self.text_of_write(&target, text);
        let mut texts = self.texts.lock().unwrap();
        *texts.files.get_mut(&target).ok_or(Errno::ENOENT)? = text;
        texts.writes.push(target);
        Ok(())
    }

    fn children(&self, _dir: &CgroupDir, _resource: Resource) -> io::Result<Vec<CgroupDir>> {
        Ok(Vec::new())
    }
}

/// One row being played.
struct Play {
    layout: Arc<Layout>,
    memory: Arc<Memory>,
    engine: Engine,
    plan: Plan,
    now: Nanos,
    /// Targets whose last update is more than a minute old.
    aged: BTreeSet<CgroupTarget>,
    /// What each file holds in the reference, by the recorded writes.
    recorded: BTreeMap<CgroupTarget, String>,
}

fn target_of(dir: &str, resource: &str) -> CgroupTarget {
    CgroupTarget::new(&CgroupDir::new(dir).unwrap(), Resource::from_v1_name(resource).unwrap())
}

fn triple(value: &Value) -> (CgroupTarget, &str) {
    let part = |index: usize| value[index].as_str().unwrap();
    (target_of(part(0), part(1)), part(2))
}

impl Play {
    fn new(row: &Row) -> Self {
        let v2 = row.text("cgroup") == "v2";
        let layout = Arc::new(set::layout(row.text("cgroup")));
        let files = row.input["files"].as_object().unwrap().iter().map(|(path, text)| {
            let (dir, resource) = path.rsplit_once('/').unwrap();
            (target_of(dir, resource), text.as_str().unwrap().to_owned())
        });
        let files: BTreeMap<CgroupTarget, String> = files.collect();
        let texts = Mutex::new(Texts { files: files.clone(), writes: Vec::new() });
        let memory = Arc::new(Memory { v2, texts });
        let engine = Engine::new(EngineParts {
            files: Files::new(Arc::clone(&layout), None),
            backend: Arc::clone(&memory) as Arc<dyn Backend>,
            watch: Box::new(NoWatch),
            ledger: Ledger::in_memory(),
            boot: String::new(),
            dry_run: false,
            slow_writes: SlowWrites::Inline,
            stats: Arc::default(),
        });
        let (plan, now) = (Plan::default(), Nanos(1));
        Self { layout, memory, engine, plan, now, aged: BTreeSet::new(), recorded: files }
    }

    /// The typed value of a recorded text; `None` where a text cannot be a value, and so is not written.
    fn wish(&self, target: &CgroupTarget, text: &str) -> Option<Wish> {
        let CgroupTarget { resource, .. } = target;
        let number = || match text {
            "max" => Some(i64::MAX),
            _ => text.parse::<i64>().ok(),
        };
        let wish = match resource {
            Resource::Cpus => Wish::Cpus(text.parse().ok()?),
            Resource::CfsQuota => Wish::Quota(CfsQuota::from_raw(number()?)),
            Resource::CpuShares => Wish::Shares(CpuShares(u64::try_from(number()?).ok()?)),
            Resource::MemoryLimit if number()? == -1 => Wish::Memory(MemoryLimit::Unlimited),
            Resource::MemoryLimit | Resource::MemoryMin | Resource::MemoryLow | Resource::MemoryHigh => {
                match u64::try_from(number()?).ok()? {
                    bytes if bytes == i64::MAX.unsigned_abs() => Wish::Memory(MemoryLimit::Unlimited),
                    bytes => Wish::Memory(MemoryLimit::Bytes(bytes)),
                }
            }
            _ => Wish::Int(number()?),
        };
        self.layout.check(*resource, &wish).ok()?;
        Some(wish)
    }

    /// One step with its recorded writes; the files that the wishes alone would give.
    fn step(&mut self, step: &Value, out: &Value) {
        match step["op"].as_str().unwrap() {
            "foreign" => {
                let (target, text) = triple(&step["write"]);
                self.memory.texts.lock().unwrap().files.insert(target.clone(), text.to_owned());
                self.recorded.insert(target, text.to_owned());
            }
            "age" => {
                self.now = self.now + Nanos(61_000_000_000);
                self.aged.extend(self.plan.entries.keys().cloned());
            }
            "batch" => self.update(step["updates"].as_array().into_iter().flatten()),
            "levelled" => {
                let levels = step["levels"].as_array().unwrap();
                self.update(levels.iter().filter_map(Value::as_array).flatten());
            }
            other => panic!("no such step: {other}"),
        }
        for write in out["writes"].as_array().unwrap() {
            let (target, text) = triple(write);
            let text = self.memory.text_of_write(&target, text);
            self.recorded.insert(target, text);
        }
    }

    fn update<'a>(&mut self, updates: impl Iterator<Item = &'a Value>) {
        let mut touched = Vec::new();
        for update in updates {
            let (target, text) = triple(update);
            let Some(value) = self.wish(&target, text) else { continue };
            let desired = Desired {
                decision: Decision::Hold(value),
                owner: Owner::BatchResource,
                reason: Arc::new(Reason { text: String::new(), inputs: BTreeMap::new() }),
                claims: Vec::new(),
                subtree: Subtree::Pod("p".into()),
            };
            self.plan.entries.insert(target.clone(), desired.into());
            touched.push(target);
        }
        self.engine.apply(Arc::new(self.plan.clone()), self.now);
        let aged: Vec<CgroupTarget> = touched.into_iter().filter(|target| self.aged.remove(target)).collect();
        self.engine.recheck_targets(&aged, self.now);
    }

    /// The meaning of a text, so that different texts of one value compare equal.
    fn meaning(&self, target: &CgroupTarget, text: &str) -> String {
        let CgroupTarget { resource, .. } = target;
        self.layout.parse(*resource, text).map_or_else(|_| text.to_owned(), |value| format!("{value:?}"))
    }

    fn difference(&self, target: &CgroupTarget, wanted: &str) -> Option<String> {
        let texts = self.memory.texts.lock().unwrap();
        let found = texts.files.get(target).map_or("", String::as_str);
        // Shares have two weights in the field, and both count as right (C014).
        if let Some(Decision::Hold(wish)) = self.plan.entries.get(target).map(|desired| &desired.decision) {
            let CgroupTarget { resource, .. } = target;
            if [found, wanted].iter().all(|text| self.layout.same(*resource, wish, text)) {
                return None;
            }
        }
        (self.meaning(target, found) != self.meaning(target, wanted))
            .then(|| format!("{target} holds {found:?}, should hold {wanted:?}"))
    }

    /// Whether our writes of this step are no more than `recorded`.
    fn too_many_writes(&self, recorded: usize) -> Option<String> {
        let writes = std::mem::take(&mut self.memory.texts.lock().unwrap().writes);
        let targets: BTreeSet<&CgroupTarget> = writes.iter().collect();
        let unions = writes.len() - targets.len();
        let lists =
            targets.iter().filter(|CgroupTarget { resource, .. }| *resource == Resource::Cpus).count();
        (targets.len() > recorded || unions > lists)
            .then(|| format!("{} writes to {} files, {recorded} recorded", writes.len(), targets.len()))
    }

    /// For rows that show a defect: each file that was wished means the last wish.
    fn last_wishes(&self) -> Vec<String> {
        let entries = self.plan.entries.iter().filter_map(|(target, desired)| match &desired.decision {
            Decision::Hold(value) => Some((target, value)),
            _ => None,
        });
        entries
            .filter_map(|(target, value)| {
                let CgroupTarget { resource, .. } = target;
                let texts = self.memory.texts.lock().unwrap();
                let found = texts.files.get(target)?;
                let held = self.layout.same(*resource, value, found);
                (!held).then(|| format!("{target} holds {found:?}, should mean {value}"))
            })
            .collect()
    }
}

fn executor_steps(row: &Row) -> Verdict {
    let mut play = Play::new(row);
    let steps = row.input["steps"].as_array().unwrap();
    let outs = row.out.as_ref().and_then(Value::as_array).unwrap();
    for (index, (step, out)) in steps.iter().zip(outs).enumerate() {
        play.step(step, out);
        let recorded = out["writes"].as_array().unwrap().len();
        let mut wrong: Vec<String> = play.too_many_writes(recorded).into_iter().collect();
        let foreign = steps.iter().take(index + 1).any(|step| step["op"] == "foreign");
        if row.defect.is_none() {
            wrong.extend(play.recorded.iter().filter_map(|(target, text)| play.difference(target, text)));
        } else if !foreign {
            wrong.extend(play.last_wishes());
        }
        if !wrong.is_empty() {
            return Verdict::Wrong(format!("step {index}: {}", wrong.join("; ")));
        }
    }
    Verdict::Right
}

#[test]
fn vector_executor() {
    set::check("executor", &[("executor_steps", 45, executor_steps)]);
}
