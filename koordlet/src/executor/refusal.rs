//! What the kernel said no to, and when to ask again: exponential back-off, forgotten as soon as the wish or
//! the present value changes. Pure.

use crate::units::Nanos;

/// First delay before a refused write is tried again.
const FIRST_DELAY: Nanos = Nanos(1_000_000_000);

/// Longest delay.
const MAX_DELAY: Nanos = Nanos(60_000_000_000);

/// A refused write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Text that was refused.
    pub wished: String,
    /// The kernel's answer.
    pub answer: String,
    /// When it was refused last.
    pub at: Nanos,
    /// How often in a row.
    pub attempts: u32,
    /// When to try again.
    pub retry_at: Nanos,
}

impl Refusal {
    /// The refusal that follows `previous` (of the same wish) at `now`.
    pub fn after(previous: Option<&Self>, wished: &str, answer: String, now: Nanos) -> Self {
        let attempts = previous.filter(|p| p.wished == wished).map_or(0, |p| p.attempts).saturating_add(1);
        let delay = FIRST_DELAY.0.saturating_mul(1 << (attempts - 1).min(6)).min(MAX_DELAY.0);
        Self { wished: wished.to_owned(), answer, at: now, attempts, retry_at: now + Nanos(delay) }
    }

    /// Whether it is the first of its kind, which is worth a line.
    pub fn is_new(&self) -> bool {
        self.attempts == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_minute_and_a_new_wish_starts_again() {
        let mut refusal: Option<Refusal> = None;
        let delays: Vec<u64> = (0..9)
            .map(|_| {
                let next = Refusal::after(refusal.as_ref(), "5", "EBUSY".into(), Nanos(0));
                let delay = next.retry_at.0 / 1_000_000_000;
                refusal = Some(next);
                delay
            })
            .collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(Refusal::after(refusal.as_ref(), "6", "EBUSY".into(), Nanos(0)).attempts, 1);
    }
}
