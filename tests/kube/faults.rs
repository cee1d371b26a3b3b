//! The API server away, the token refused, the definitions missing: what was seen stays, and all catches up.

use anyhow::Result;
use kit::need;
use koordlet::kube::kind::Kind;
use koordlet::kube::reason::Reason;
use koordlet::kube::{KubeUpdate, KubeUpdates};
use serde_json::json;

use crate::api_server::offers;
use crate::scene::{NODE, NODES, SLOS, Scene, wait_for};

async fn label(updates: &mut KubeUpdates, value: &str) -> Result<()> {
    wait_for(updates, &format!("label {value} of the Node"), |update| {
        let KubeUpdate::Node(node) = update else { return None };
        // The server being away is no absence.
        let node = node.expect("the Node stays");
        (node.metadata.labels.get("step").map(String::as_str) == Some(value)).then_some(())
    })
    .await
}

async fn set_label(scene: &Scene, value: &str) -> Result<()> {
    scene.patch(&format!("{NODES}/{NODE}"), &json!({"metadata": {"labels": {"step": value}}})).await?;
    Ok(())
}

#[tokio::test]
async fn a_server_that_was_killed_and_a_token_that_was_refused_are_caught_up_with() -> Result<()> {
    need!(offers());
    let mut scene = Scene::new(true).await?;
    let (sources, mut updates) = scene.sources().await?;
    set_label(&scene, "1").await?;
    label(&mut updates, "1").await?;

    scene.server.kill_server();
    while sources.stats().trouble(Kind::Node).is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    scene.server.start_server().await?;
    scene.admin = scene.server.admin().await?;
    set_label(&scene, "2").await?;
    label(&mut updates, "2").await?;
    assert_eq!(sources.stats().trouble(Kind::Node), None);
    assert!(sources.stats().errors(Kind::Node, Reason::Connection) > 0);

    // The old token is refused at once; the new one is found without a restart.
    scene.renew_account().await?;
    scene.server.kill_server();
    scene.server.start_server().await?;
    scene.admin = scene.server.admin().await?;
    while sources.stats().errors(Kind::Node, Reason::Unauthorized) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    scene.write_token().await?;
    set_label(&scene, "3").await?;
    label(&mut updates, "3").await
}

#[tokio::test]
async fn without_definitions_the_node_is_followed_all_the_same_and_the_others_are_absent() -> Result<()> {
    need!(offers());
    let scene = Scene::new(false).await?;
    let (sources, mut updates) = scene.sources().await?;
    let absent = wait_for(&mut updates, "answer that there is no NodeSLO", |update| match update {
        KubeUpdate::NodeSlo(slo) => Some(slo),
        _ => None,
    });
    assert_eq!(absent.await?, None);
    set_label(&scene, "1").await?;
    label(&mut updates, "1").await?;
    let trouble = sources.stats().trouble(Kind::NodeSlo).unwrap_or_default();
    assert!(trouble.starts_with("cannot watch"), "{trouble}");

    // Asked for again within 15 to 30 s.
    scene.install_definitions().await?;
    let slo =
        json!({"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": NODE}});
    scene.create(SLOS, &slo).await?;
    wait_for(&mut updates, "NodeSLO", |update| match update {
        KubeUpdate::NodeSlo(slo) => slo,
        _ => None,
    })
    .await?;
    Ok(())
}
