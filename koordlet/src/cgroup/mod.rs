//! The only room that knows cgroup v1 from v2: a resource to a file, a value to text and back, a path to
//! (QoS class, pod UID, container id) and back. Readers and the executor both use it.

pub mod codec;
pub mod driver;
pub mod held_file;
pub mod hierarchy;
pub mod idle_pages;
pub mod kubelet;
pub mod layout;
pub mod mainline;
pub mod memory_lists;
mod mounts;
pub mod naming;
pub mod path;
pub(crate) mod path_hash;
pub mod place;
pub mod read;
pub mod resource;
pub mod semantics;
pub mod value;
