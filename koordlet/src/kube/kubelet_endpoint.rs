//! Where the kubelet listens, from what the Node says of itself (collection.md 7.5).

use std::net::Ipv6Addr;

use crate::api::node::{Node, NodeAddress};
use crate::config::kubelet::{AddressType, KubeletSettings};

/// What a Node says of its kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEndpoint {
    /// The Node's name.
    pub node: String,
    /// Its addresses.
    pub addresses: Vec<NodeAddress>,
    /// The kubelet's port; 0: not known.
    pub port: i32,
}

/// Why the kubelet has no address yet. The Node may still get one: kubelet and cloud controller fill its status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No address of the type wanted.
    #[error("the Node {node} has no address of type {wanted}; it has {found}")]
    Address {
        /// The Node.
        node: String,
        /// The type wanted.
        wanted: AddressType,
        /// The types that there are.
        found: String,
    },
    /// No port, or none that is one.
    #[error("the Node {node} tells {port} as its kubelet's port")]
    Port {
        /// The Node.
        node: String,
        /// What it tells.
        port: i32,
    },
}

impl NodeEndpoint {
    /// What `node` says.
    pub fn of(node: &Node) -> Self {
        Self {
            node: node.metadata.name.clone(),
            addresses: node.status.addresses.clone(),
            port: node.status.daemon_endpoints.kubelet_endpoint.port,
        }
    }

    /// Scheme, host and port to ask at, without a slash at the end.
    pub fn base_url(&self, settings: &KubeletSettings) -> Result<String, EndpointError> {
        let wanted = settings.address_type;
        let found = self.addresses.iter().find(|each| each.kind == wanted.name() && !each.address.is_empty());
        let address = found.map(|each| each.address.as_str()).ok_or_else(|| EndpointError::Address {
            node: self.node.clone(),
            wanted,
            found: self.types(),
        })?;
        let host =
            if address.parse::<Ipv6Addr>().is_ok() { format!("[{address}]") } else { address.to_owned() };
        if let Some(port) = settings.read_only_port {
            return Ok(format!("http://{host}:{port}"));
        }
        let port = u16::try_from(self.port).ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| EndpointError::Port { node: self.node.clone(), port: self.port })?;
        Ok(format!("https://{host}:{port}"))
    }

    fn types(&self) -> String {
        let types: Vec<&str> = self.addresses.iter().take(8).map(|each| each.kind.as_str()).collect();
        if types.is_empty() { "none".to_owned() } else { types.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn settings(address_type: AddressType, read_only_port: Option<u16>) -> KubeletSettings {
        KubeletSettings {
            address_type,
            interval: None,
            timeout: Duration::from_secs(3),
            read_only_port,
            query_config: false,
            ca_file: None,
        }
    }

    fn endpoint(port: i32) -> NodeEndpoint {
        let node = serde_json::from_value(json!({
            "metadata": {"name": "n1"},
            "status": {
                "addresses": [
                    {"type": "Hostname", "address": "n1.example"},
                    {"type": "InternalIP", "address": "10.0.0.7"},
                    {"type": "InternalIP", "address": "fd00::7"},
                    {"type": "ExternalIP", "address": "fd00::8"},
                ],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            },
        }));
        NodeEndpoint::of(&node.unwrap())
    }

    #[test]
    fn the_preferred_address_and_the_nodes_port_are_taken() {
        let url = |kind, read_only| endpoint(10_250).base_url(&settings(kind, read_only)).unwrap();
        assert_eq!(url(AddressType::InternalIp, None), "https://10.0.0.7:10250");
        assert_eq!(url(AddressType::Hostname, None), "https://n1.example:10250");
        assert_eq!(url(AddressType::ExternalIp, None), "https://[fd00::8]:10250");
        assert_eq!(url(AddressType::InternalIp, Some(10_255)), "http://10.0.0.7:10255");
    }

    #[test]
    fn what_the_node_lacks_is_named() {
        let missing = endpoint(10_250).base_url(&settings(AddressType::ExternalDns, None)).unwrap_err();
        assert!(missing.to_string().contains("ExternalDNS") && missing.to_string().contains("Hostname"));
        for port in [0, -1, 70_000] {
            let error = endpoint(port).base_url(&settings(AddressType::InternalIp, None)).unwrap_err();
            assert!(matches!(error, EndpointError::Port { port: told, .. } if told == port));
        }
        let empty = NodeEndpoint::of(&serde_json::from_value(json!({"status": null})).unwrap());
        assert!(empty.base_url(&settings(AddressType::InternalIp, None)).is_err());
    }
}
