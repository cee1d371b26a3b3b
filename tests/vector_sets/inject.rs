//! Set `inject`: what annotations of a pod put into its containers (hooks.md 10.2, 11.2).

use koordlet::api::pod::Pod;
use koordlet::rules::oom_score_adj::OomScoreAdj;
use serde_json::json;

use crate::gpu_env::gpu_env;
use crate::set::{Row, Verdict, check};

#[test]
fn vector_inject() {
    check("inject", &[("oom_score_adj", 69, oom_score_adj), ("gpu_env", 20, gpu_env)]);
}

/// A recorded `null` is "nothing written", whatever the reason.
fn oom_score_adj(row: &Row) -> Verdict {
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"annotations": row.input["annotations"]}})).unwrap();
    let score = OomScoreAdj::score(&pod, row.text("container")).ok().flatten();
    row.compare(Ok::<_, String>(json!({"value": score.map(|score| score.value)})))
}
