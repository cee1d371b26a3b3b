//! What the agent costs while nothing happens: CPU, memory, system calls at 200 pods.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use kit::load::Work;

use crate::field::Field;
use crate::process::{milli_cpu, resident_mib, syscalls_a_second};
use crate::row::Row;

/// Time until first passes and first looks are over.
const SETTLING: Duration = Duration::from_secs(8);
/// How long CPU time is watched.
const WATCHED: Duration = Duration::from_secs(20);
/// How long system calls are counted.
const COUNTED: Duration = Duration::from_secs(15);

/// 200 pods of one sleeping container, default gates, unchanged inputs; then 200 pods that do something.
pub(crate) fn two_hundred_pods() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    {
        let field = Field::with(200, 1, Some(Work::Sleep))?;
        let agent = field.agent.start()?;
        sleep(SETTLING);
        rows.push(
            Row::new("agent CPU, 200 sleeping pods", milli_cpu(agent.pid(), WATCHED)?, "millicores")
                .at_most(7.0),
        );
        rows.push(Row::new("agent RSS, 200 sleeping pods", resident_mib(agent.pid())?, "MiB").at_most(20.0));
        let calls = syscalls_a_second(agent.pid(), COUNTED)?;
        rows.push(Row::new("system calls, 200 sleeping pods", calls, "1/s").at_most(260.0));
    }
    let field = Field::with(200, 1, Some(Work::Duty { percent: 1 }))?;
    let agent = field.agent.start()?;
    sleep(SETTLING);
    rows.push(Row::new("agent CPU, 200 busy pods", milli_cpu(agent.pid(), WATCHED)?, "millicores"));
    rows.push(Row::new("system calls, 200 busy pods", syscalls_a_second(agent.pid(), COUNTED)?, "1/s"));
    Ok(rows)
}
