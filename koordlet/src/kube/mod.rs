//! The API server and the kubelet as sources of objects, and the only place that writes to the API server.
//!
//! Nothing here decides anything, and nothing waits for it: while a server is away, what was seen last stays.

pub mod update;
