//! Work that may never end, as of a program that makes tokens or a file on a disk that is away: done by another thread,
//! and waited for with patience that has an end. While one is under way no second one is begun, so that what hangs
//! costs one thread and nobody's time.

use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AttemptError {
    /// It may still come.
    #[error("reading them takes for ever")]
    Hangs,
    /// It never will.
    #[error("reading them was given up")]
    Broke,
}

/// At most one piece of work.
#[derive(Debug)]
pub(super) struct Attempt<T>(Option<JoinHandle<T>>);

impl<T> Default for Attempt<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> Attempt<T> {
    /// What `work` comes to within `patience`. Where an earlier one is under way, it is that one's outcome, if it has
    /// come by now: that one has had its time.
    pub(super) async fn run(
        &mut self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AttemptError> {
        let patience = if self.0.is_some() { Duration::ZERO } else { patience };
        let task = self.0.get_or_insert_with(|| spawn_blocking(work));
        let outcome = timeout(patience, task).await.map_err(|_| AttemptError::Hangs)?;
        self.0 = None;
        outcome.map_err(|_| AttemptError::Broke)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn what_hangs_is_waited_for_once_and_has_no_second_beside_it() {
        const SHORT: Duration = Duration::from_millis(1);
        const LONG: Duration = Duration::from_mins(1);
        let (go, wait) = channel::<()>();
        let mut attempt = Attempt::default();
        let hangs = move || wait.recv().map_or(0, |()| 1);
        assert_eq!(attempt.run(SHORT, hangs).await, Err(AttemptError::Hangs));
        for _ in 0..1000 {
            assert_eq!(attempt.run(LONG, || 2).await, Err(AttemptError::Hangs), "at once");
        }
        go.send(()).unwrap();
        let late = loop {
            match attempt.run(LONG, || 2).await {
                Err(AttemptError::Hangs) => tokio::time::sleep(SHORT).await,
                outcome => break outcome,
            }
        };
        assert_eq!(late, Ok(1), "what it came to is not thrown away");
        assert_eq!(attempt.run(LONG, || 3).await, Ok(3));
    }

    #[tokio::test]
    async fn a_panic_stays_in_its_thread() {
        let mut attempt = Attempt::<()>::default();
        let outcome = attempt.run(Duration::from_mins(1), || panic!("of a library")).await;
        assert_eq!(outcome, Err(AttemptError::Broke));
        assert_eq!(attempt.run(Duration::from_mins(1), || ()).await, Ok(()));
    }
}
