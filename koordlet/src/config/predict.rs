//! Flags of prediction, and what they resolve to (collection.md 11, 14).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::mistakes::Mistakes;
use crate::api::duration::parse_duration;
use crate::units::Percent;

/// Least time between two rounds, and least half-life.
const LEAST: Duration = Duration::from_secs(1);

/// As typed.
#[derive(Args, Clone, Debug)]
pub struct PredictFlags {
    /// Directory in which what was learnt of use outlives a restart
    #[arg(long, value_name = "DIR", default_value = "/prediction-checkpoints")]
    pub prediction_checkpoint_filepath: String,
    /// Age from which a pod's use is predicted; a younger one counts with its requests
    #[arg(long, value_name = "DURATION", default_value = "24h0m0s")]
    pub prediction_cold_start_duration: String,
    /// Percent added to each predicted peak
    #[arg(long, value_name = "PERCENT", default_value = "10")]
    pub prediction_safety_margin_percent: String,
    /// Time after which a sample of CPU use weighs half
    #[arg(long, value_name = "DURATION", default_value = "12h0m0s")]
    pub prediction_cpu_histogram_decay_halflife: String,
    /// Time after which a sample of memory use weighs half
    #[arg(long, value_name = "DURATION", default_value = "24h0m0s")]
    pub prediction_memory_histogram_decay_halflife: String,
    /// Time between two rounds of learning
    #[arg(long, value_name = "DURATION", default_value = "1m0s")]
    pub prediction_training_interval: String,
    /// Time after which what was learnt of a pod that is gone is dropped
    #[arg(long, value_name = "DURATION", default_value = "30m0s")]
    pub prediction_model_expiration_duration: String,
    /// Least time between two checkpoints of the same pod
    #[arg(long, value_name = "DURATION", default_value = "10m0s")]
    pub prediction_model_checkpoint_interval: String,
    /// Checkpoints that are written at most each minute
    #[arg(long, value_name = "N", default_value = "12")]
    pub prediction_model_checkpoint_max_per_step: String,
}

/// How use is learnt, kept and predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictSettings {
    /// Directory of the checkpoints.
    pub dir: PathBuf,
    /// Age up to which a pod counts with its requests.
    pub cold_start: Duration,
    /// Percent added to each peak, 0 or more.
    pub margin: Percent,
    /// Half-life of CPU samples.
    pub cpu_half_life: Duration,
    /// Half-life of memory samples.
    pub memory_half_life: Duration,
    /// Time between two rounds of learning.
    pub training: Duration,
    /// Time without a sample after which a model is dropped.
    pub expiration: Duration,
    /// Least time between two checkpoints of a model.
    pub checkpoint_interval: Duration,
    /// Checkpoints a step at most; 0 writes none.
    pub checkpoints_per_step: usize,
}

/// Resolves the flags. A number or time that is too small is raised to the least one, and a notice says so.
pub(super) fn resolve(
    flags: &PredictFlags,
    mistakes: &mut Mistakes,
    notices: &mut Vec<String>,
) -> Option<PredictSettings> {
    // Each is parsed before any is required, so that every mistake is reported.
    let mut time = |flag: &str, text: &str, least: Duration| {
        let time = mistakes.take(flag, parse_duration(text))?;
        if time < least {
            notices.push(format!("--{flag}={text} is below the least value: {least:?} is used"));
        }
        Some(time.max(least))
    };
    let cold_start =
        time("prediction-cold-start-duration", &flags.prediction_cold_start_duration, Duration::ZERO);
    let cpu_half_life = time(
        "prediction-cpu-histogram-decay-halflife",
        &flags.prediction_cpu_histogram_decay_halflife,
        LEAST,
    );
    let memory_half_life = time(
        "prediction-memory-histogram-decay-halflife",
        &flags.prediction_memory_histogram_decay_halflife,
        LEAST,
    );
    let training = time("prediction-training-interval", &flags.prediction_training_interval, LEAST);
    let expiration =
        time("prediction-model-expiration-duration", &flags.prediction_model_expiration_duration, LEAST);
    let checkpoint_interval = time(
        "prediction-model-checkpoint-interval",
        &flags.prediction_model_checkpoint_interval,
        Duration::ZERO,
    );
    let mut number = |flag: &str, text: &str| {
        let value = mistakes.whole_number(flag, text)?;
        if value < 0 {
            notices.push(format!("--{flag}={value} is below the least value: 0 is used"));
        }
        Some(value.max(0))
    };
    let margin = number("prediction-safety-margin-percent", &flags.prediction_safety_margin_percent);
    let per_step =
        number("prediction-model-checkpoint-max-per-step", &flags.prediction_model_checkpoint_max_per_step);
    Some(PredictSettings {
        dir: PathBuf::from(&flags.prediction_checkpoint_filepath),
        cold_start: cold_start?,
        margin: Percent(margin?),
        cpu_half_life: cpu_half_life?,
        memory_half_life: memory_half_life?,
        training: training?,
        expiration: expiration?,
        checkpoint_interval: checkpoint_interval?,
        checkpoints_per_step: usize::try_from(per_step?).unwrap_or(usize::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::resolve::{Environment, Usage};

    fn resolved(args: &[&str]) -> Result<crate::config::Config, Usage> {
        let environment = Environment { node_name: Some("n1".into()), ..Environment::default() };
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        crate::config::resolve::resolve(&args, &environment).map(|invocation| invocation.config)
    }

    #[test]
    fn the_defaults_are_the_references() {
        let hours = Duration::from_hours;
        let expected = PredictSettings {
            dir: "/prediction-checkpoints".into(),
            cold_start: hours(24),
            margin: Percent(10),
            cpu_half_life: hours(12),
            memory_half_life: hours(24),
            training: Duration::from_mins(1),
            expiration: Duration::from_mins(30),
            checkpoint_interval: Duration::from_mins(10),
            checkpoints_per_step: 12,
        };
        assert_eq!(resolved(&[]).unwrap().predict, expected);
    }

    #[test]
    fn what_is_too_small_is_raised_and_told_and_nonsense_is_refused() {
        let config = resolved(&[
            "-prediction-safety-margin-percent=-5",
            "-prediction-cpu-histogram-decay-halflife=0s",
            "-prediction-checkpoint-filepath=/p",
        ])
        .unwrap();
        let PredictSettings { margin, cpu_half_life, ref dir, .. } = config.predict;
        assert_eq!((margin, cpu_half_life, dir.as_path()), (Percent(0), LEAST, "/p".as_ref()));
        assert_eq!(config.notices.iter().filter(|notice| notice.contains("least value")).count(), 2);
        let Err(Usage::Mistakes(mistakes)) =
            resolved(&["-prediction-training-interval=often", "-prediction-safety-margin-percent=x"])
        else {
            panic!("it must be refused")
        };
        assert_eq!(mistakes.len(), 2, "{mistakes:?}");
    }
}
