//! A scripted API server beneath kube's client, for tests of what a real one cannot be made to do at will.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

type Frames = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;

/// One answer.
pub(crate) enum Answer {
    /// A status and a body.
    Json(u16, Value),
    /// Watch events, then the end of the stream.
    Ends(Vec<Value>),
    /// Watch events, then silence.
    Silent(Vec<Value>),
}

/// What was asked: method, path with query, body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) what: String,
    pub(crate) body: Value,
}

/// The requests so far.
pub(crate) type Log = Arc<Mutex<Vec<Asked>>>;

/// A client of a server that gives these answers one by one, and none after that.
pub(crate) fn scripted(answers: Vec<Answer>) -> (Client, Log) {
    let log = Log::default();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let service = service_fn({
        let log = Arc::clone(&log);
        move |request: Request<Body>| {
            let (log, answers) = (Arc::clone(&log), Arc::clone(&answers));
            async move {
                let what = summary(&request);
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                log.lock().unwrap().push(Asked { what, body });
                let answer = answers.lock().unwrap().pop_front();
                match answer {
                    Some(answer) => Ok::<_, kube::Error>(respond(answer)),
                    None => std::future::pending().await,
                }
            }
        }
    });
    (Client::new(service, "default"), log)
}

/// `list`, `watch from 5`, `get`, `PATCH .../status`.
fn summary(request: &Request<Body>) -> String {
    let query = request.uri().query().unwrap_or_default();
    let version = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).unwrap_or_default();
    match request.extensions().get::<&'static str>() {
        Some(&"watch") => format!("watch from {version}"),
        Some(name) => (*name).to_owned(),
        None => request.method().to_string(),
    }
}

fn respond(answer: Answer) -> Response<StreamBody<Frames>> {
    let (status, texts, silent) = match answer {
        Answer::Json(status, value) => (status, vec![value.to_string()], false),
        Answer::Ends(events) => (200, lines(&events), false),
        Answer::Silent(events) => (200, lines(&events), true),
    };
    let frames = stream::iter(texts.into_iter().map(|text| Ok(Frame::data(Bytes::from(text)))));
    let frames: Frames = if silent { Box::pin(frames.chain(stream::pending())) } else { Box::pin(frames) };
    Response::builder().status(status).body(StreamBody::new(frames)).unwrap()
}

fn lines(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| format!("{event}\n")).collect()
}

/// A `Status`, as the API server says no.
pub(crate) fn refusal(code: u16) -> Answer {
    Answer::Json(code, status(code))
}

/// A `Status` of that code.
pub(crate) fn status(code: u16) -> Value {
    let reason = if code == 404 { "NotFound" } else { "No" };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no", "reason": reason})
}

/// An object of a version.
pub(crate) fn object(name: &str, version: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": name, "resourceVersion": version.to_string()}})
}

/// A list.
pub(crate) fn list(version: u32, items: &[Value]) -> Answer {
    let list = json!({"kind": "XList", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()},
                      "items": items});
    Answer::Json(200, list)
}
