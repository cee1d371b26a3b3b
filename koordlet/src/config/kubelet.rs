//! Flags of the kubelet as a source of pods, and what they resolve to (collection.md 7.5, 14).

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::mistakes::Mistakes;
use crate::api::duration::{DurationError, parse_duration};

/// Least time between two regular lists.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Whole request where 0 was given, which the reference takes as no limit.
const NO_LIMIT: Duration = Duration::from_mins(1);

/// As typed.
#[derive(Args, Clone, Debug)]
pub struct KubeletFlags {
    /// Which of the Node's addresses the kubelet is asked at: InternalIP, ExternalIP, Hostname, InternalDNS or
    /// ExternalDNS
    #[arg(long, value_name = "TYPE", default_value = "InternalIP")]
    pub kubelet_preferred_address_type: String,
    /// Time between two lists of pods; 0 or less: never
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    pub kubelet_sync_interval: String,
    /// How long a request to the kubelet may take
    #[arg(long, value_name = "DURATION", default_value = "3s")]
    pub kubelet_sync_timeout: String,
    /// Ask the kubelet's read-only port, by plain HTTP and without credentials
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub kubelet_insecure_tls: String,
    /// The kubelet's read-only port
    #[arg(long, value_name = "PORT", default_value = "10255")]
    pub kubelet_read_only_port: String,
    /// Do not ask the kubelet for its configuration
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub disable_query_kubelet_config: String,
    /// PEM file of the CA that the kubelet's certificate is verified with [default: it is not verified]
    #[arg(long, value_name = "FILE")]
    pub kubelet_ca_file: Option<String>,
}

/// Type of a node's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressType {
    /// `InternalIP`
    InternalIp,
    /// `ExternalIP`
    ExternalIp,
    /// `Hostname`
    Hostname,
    /// `InternalDNS`
    InternalDns,
    /// `ExternalDNS`
    ExternalDns,
}

impl AddressType {
    const ALL: [Self; 5] =
        [Self::InternalIp, Self::ExternalIp, Self::Hostname, Self::InternalDns, Self::ExternalDns];

    /// As the Node spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::InternalIp => "InternalIP",
            Self::ExternalIp => "ExternalIP",
            Self::Hostname => "Hostname",
            Self::InternalDns => "InternalDNS",
            Self::ExternalDns => "ExternalDNS",
        }
    }
}

impl fmt::Display for AddressType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the kubelet is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletSettings {
    /// Type of the address.
    pub address_type: AddressType,
    /// Time between two regular lists; `None`: no list at all.
    pub interval: Option<Duration>,
    /// Longest time for a whole request, from connecting to the last byte.
    pub timeout: Duration,
    /// Port of plain HTTP without credentials; `None`: HTTPS at the port that the Node names.
    pub read_only_port: Option<u16>,
    /// Whether `/configz` is asked for.
    pub query_config: bool,
    /// CA that the kubelet's certificate is verified with; `None`: it is not (collection.md 15 row 12).
    pub ca_file: Option<PathBuf>,
}

/// Resolves the kubelet's flags. As with the reference, an unknown type of address is `InternalIP`.
pub(super) fn resolve(
    flags: &KubeletFlags,
    mistakes: &mut Mistakes,
    notices: &mut Vec<String>,
) -> Option<KubeletSettings> {
    // Each is parsed before any is required, so that every mistake is reported.
    let insecure = mistakes.boolean("kubelet-insecure-tls", &flags.kubelet_insecure_tls);
    let port = mistakes.take("kubelet-read-only-port", parse_port(&flags.kubelet_read_only_port));
    let no_config = mistakes.boolean("disable-query-kubelet-config", &flags.disable_query_kubelet_config);
    let interval = mistakes.take("kubelet-sync-interval", parse_interval(&flags.kubelet_sync_interval));
    let timeout = mistakes.take("kubelet-sync-timeout", parse_duration(&flags.kubelet_sync_timeout));
    let (insecure, no_config, interval, timeout) = (insecure?, no_config?, interval?, timeout?);
    if insecure && !no_config {
        notices.push(
            "--kubelet-insecure-tls: the read-only port does not tell the kubelet's configuration, so it is not asked \
             for"
            .to_owned(),
        );
    }
    if timeout.is_zero() {
        notices.push("--kubelet-sync-timeout=0: a request is given up after 60s".to_owned());
    }
    Some(KubeletSettings {
        address_type: address_type(&flags.kubelet_preferred_address_type, notices),
        interval: kept_interval(interval, notices),
        timeout: if timeout.is_zero() { NO_LIMIT } else { timeout },
        read_only_port: Some(port?).filter(|_| insecure),
        query_config: !no_config && !insecure,
        ca_file: flags.kubelet_ca_file.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from),
    })
}

fn address_type(text: &str, notices: &mut Vec<String>) -> AddressType {
    AddressType::ALL.into_iter().find(|each| each.name() == text).unwrap_or_else(|| {
        notices.push(format!(
            "--kubelet-preferred-address-type={text} is no type of a node's address: InternalIP is used"
        ));
        AddressType::InternalIp
    })
}

/// Zero for 0 and less, which the reference takes as never.
fn parse_interval(text: &str) -> Result<Duration, DurationError> {
    match text.strip_prefix('-') {
        Some(below) => parse_duration(below).map(|_| Duration::ZERO),
        None => parse_duration(text),
    }
}

fn kept_interval(interval: Duration, notices: &mut Vec<String>) -> Option<Duration> {
    if !interval.is_zero() && interval < MIN_INTERVAL {
        notices.push(format!("--kubelet-sync-interval={interval:?} is below the least value: 1s is used"));
    }
    (!interval.is_zero()).then(|| interval.max(MIN_INTERVAL))
}

fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("{text:?} is not a port"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::resolve::{Environment, Usage, resolve};

    fn call(args: &[&str]) -> Result<(KubeletSettings, Vec<String>), Vec<String>> {
        let environment = Environment { node_name: Some("n".to_owned()), ..Environment::default() };
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        match resolve(&args, &environment) {
            Ok(call) => Ok((call.config.kubelet, call.config.notices)),
            Err(Usage::Mistakes(mistakes)) => Err(mistakes),
            Err(Usage::Answer(answer)) => panic!("{answer}"),
        }
    }

    #[test]
    fn defaults_are_the_references() {
        let (settings, _) = call(&[]).unwrap();
        let expected = KubeletSettings {
            address_type: AddressType::InternalIp,
            interval: Some(Duration::from_secs(10)),
            timeout: Duration::from_secs(3),
            read_only_port: None,
            query_config: true,
            ca_file: None,
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn the_read_only_port_has_no_configuration_to_ask_for() {
        let (settings, notices) =
            call(&["--kubelet-insecure-tls", "--kubelet-read-only-port=10250"]).unwrap();
        assert_eq!((settings.read_only_port, settings.query_config), (Some(10_250), false));
        assert!(notices.iter().any(|line| line.contains("--kubelet-insecure-tls")));
        let (settings, _) = call(&["-kubelet-insecure-tls=false", "-disable-query-kubelet-config"]).unwrap();
        assert_eq!((settings.read_only_port, settings.query_config), (None, false));
    }

    #[test]
    fn odd_values_are_put_right_or_refused() {
        let interval =
            |text: &str| call(&["--kubelet-sync-interval", text]).map(|(settings, _)| settings.interval);
        assert_eq!(
            [interval("0"), interval("-1s"), interval("10ms")].map(Result::unwrap),
            [None, None, Some(Duration::from_secs(1))]
        );
        let (settings, notices) =
            call(&["--kubelet-sync-timeout=0", "--kubelet-preferred-address-type=PublicIP"]).unwrap();
        assert_eq!((settings.timeout, settings.address_type), (NO_LIMIT, AddressType::InternalIp));
        assert!(notices.iter().any(|line| line.contains("PublicIP")));
        for refused in [
            "--kubelet-sync-timeout=-1s",
            "--kubelet-sync-interval=soon",
            "--kubelet-sync-interval=-soon",
            "--kubelet-read-only-port=0",
            "--kubelet-read-only-port=70000",
            "--kubelet-insecure-tls=perhaps",
        ] {
            assert_eq!(call(&[refused]).unwrap_err().len(), 1, "{refused}");
        }
    }
}
