//! The only room that knows cgroup v1 from v2: a resource to a file, a value to text and back, a path to
//! (QoS class, pod UID, container id) and back. Readers and the executor both use it.

pub mod driver;
pub mod layout;
pub mod path;
pub mod read;
pub mod resource;
pub mod value;
