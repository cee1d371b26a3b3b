//! A backend whose writes are timed.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::{Backend, is_gone};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::executor::stats::ExecutorStats;

/// Passes everything on and notes how long each write took. A write that met no cgroup is no measurement.
pub struct Timed<B> {
    inner: B,
    stats: Arc<ExecutorStats>,
}

impl<B> Timed<B> {
    /// Times the writes of `inner`.
    pub fn new(inner: B, stats: Arc<ExecutorStats>) -> Self {
        Self { inner, stats }
    }
}

impl<B: Backend> Backend for Timed<B> {
    fn id(&self, dir: &CgroupDir, resource: Resource) -> io::Result<u64> {
        self.inner.id(dir, resource)
    }

    fn read(&self, dir: &CgroupDir, resource: Resource) -> io::Result<String> {
        self.inner.read(dir, resource)
    }

    fn write(&self, dir: &CgroupDir, resource: Resource, id: u64, text: &str) -> io::Result<()> {
        let start = Instant::now();
        let outcome = self.inner.write(dir, resource, id, text);
        if !outcome.as_ref().is_err_and(is_gone) {
            self.stats.write_times.note(outcome.is_ok(), start.elapsed());
        }
        outcome
    }

    fn children(&self, dir: &CgroupDir, resource: Resource) -> io::Result<Vec<CgroupDir>> {
        self.inner.children(dir, resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes fail with the error number that stands in the text; 0 is success.
    struct Answers;

    impl Backend for Answers {
        fn id(&self, _: &CgroupDir, _: Resource) -> io::Result<u64> {
            Ok(1)
        }

        fn read(&self, _: &CgroupDir, _: Resource) -> io::Result<String> {
            Ok(String::new())
        }

        fn write(&self, _: &CgroupDir, _: Resource, _: u64, text: &str) -> io::Result<()> {
            match text.parse().unwrap() {
                0 => Ok(()),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        }

        fn children(&self, _: &CgroupDir, _: Resource) -> io::Result<Vec<CgroupDir>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn taken_and_refused_writes_are_timed_and_vanished_ones_are_not() {
        let stats = Arc::new(ExecutorStats::default());
        let timed = Timed::new(Answers, Arc::clone(&stats));
        let dir = CgroupDir::new("kubepods").unwrap();
        for errno in [0, 0, libc::EINVAL, libc::ENOENT, libc::ENODEV] {
            drop(timed.write(&dir, Resource::CfsQuota, 1, &errno.to_string()));
        }
        let counted = |taken| stats.write_times.histogram(taken).1.iter().map(|(_, n)| n).sum::<u64>();
        assert_eq!((counted(true), counted(false)), (2, 1));
    }
}
