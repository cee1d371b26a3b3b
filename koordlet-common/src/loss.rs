//! What a program can lose; each reason has a counter on every CPU.

/// Why something was lost.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The event ring was full: a birth or death was not sent.
    RingFull = 0,
    /// No free slot: run time of a cgroup was not counted.
    SlotsFull = 1,
    /// A slot could not be entered in the hash or taken off the stack (lock contention): run time of one
    /// charge was not counted; the next charge tries again.
    SlotBusy = 2,
    /// The path of a cgroup could not be read.
    PathUnreadable = 3,
}

impl Loss {
    /// Number of reasons.
    pub const COUNT: u32 = 4;

    /// All reasons.
    pub const ALL: [Self; Self::COUNT as usize] =
        [Self::RingFull, Self::SlotsFull, Self::SlotBusy, Self::PathUnreadable];

    /// Name for metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RingFull => "ring_full",
            Self::SlotsFull => "slots_full",
            Self::SlotBusy => "slot_busy",
            Self::PathUnreadable => "path_unreadable",
        }
    }
}
