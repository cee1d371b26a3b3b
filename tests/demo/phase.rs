//! The script: what the load is, and whether the agent and its policy are there, for how long.

/// How the best-effort side is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// No agent.
    Absent,
    /// The agent with CPU suppression on.
    On,
    /// The agent with the policy switched off: what it had set must go.
    SwitchedOff,
}

/// The service's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// A tenth of the machine.
    Low,
    /// Not quite half of the machine.
    High,
}

/// A part of the demo.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    /// Length in seconds.
    pub(crate) seconds: u32,
    /// Load of the service.
    pub(crate) demand: Demand,
    /// The agent's part.
    pub(crate) enforcement: Enforcement,
}

/// All of it, 41 s.
pub(crate) const SCRIPT: &[Phase] = &[
    Phase { seconds: 3, demand: Demand::Low, enforcement: Enforcement::Absent },
    Phase { seconds: 9, demand: Demand::High, enforcement: Enforcement::Absent },
    Phase { seconds: 6, demand: Demand::Low, enforcement: Enforcement::On },
    Phase { seconds: 9, demand: Demand::High, enforcement: Enforcement::On },
    Phase { seconds: 6, demand: Demand::Low, enforcement: Enforcement::On },
    Phase { seconds: 5, demand: Demand::High, enforcement: Enforcement::On },
    Phase { seconds: 3, demand: Demand::Low, enforcement: Enforcement::SwitchedOff },
];

impl Phase {
    /// What to call it.
    pub(crate) fn title(self) -> String {
        format!("{}, LS load {}", self.enforcement.text(), self.demand.text())
    }
}

impl Enforcement {
    /// In two words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Absent => "no agent",
            Self::On => "enforced",
            Self::SwitchedOff => "policy off",
        }
    }
}

impl Demand {
    /// `low` or `high`.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High => "high",
        }
    }

    /// The share of the machine's CPU time that the requests cost.
    pub(crate) fn share(self) -> f64 {
        match self {
            Self::Low => 0.1,
            Self::High => 0.45,
        }
    }
}
