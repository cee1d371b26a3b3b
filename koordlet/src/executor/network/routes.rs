//! The device of the default route, and devices by name, through rtnetlink.

use super::attributes::{Attributes, Read, u32_at};
use super::socket::{Message, Netlink, NetlinkError};

const RTM_GETLINK: u16 = 18;
const RTM_GETROUTE: u16 = 26;
/// `struct ifinfomsg`
const IFINFOMSG: usize = 16;
const IFLA_IFNAME: u16 = 3;
/// `struct rtmsg`
const RTMSG: usize = 12;
const RTA_OIF: u16 = 4;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const AF_INET: u8 = 2;
const MAIN_TABLE: u8 = 254;
const UNICAST: u8 = 1;

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) index: u32,
    pub(super) name: String,
}

/// All devices.
pub(super) fn devices(netlink: &mut Netlink) -> Result<Vec<Device>, NetlinkError> {
    let body = Attributes::after(&[0; IFINFOMSG]).bytes().to_vec();
    let bodies = netlink.dump(&Message { kind: RTM_GETLINK, flags: 0, body })?;
    let device = |body: &Vec<u8>| {
        let name = Read::after(body, IFINFOMSG).text(IFLA_IFNAME)?.to_owned();
        Some(Device { index: u32_at(body, 4)?, name })
    };
    Ok(bodies.iter().filter_map(device).collect())
}

/// The index of the device of the first IPv4 default route: the one of the least metric.
pub(super) fn default_device(netlink: &mut Netlink) -> Result<Option<u32>, NetlinkError> {
    let mut body = [0; RTMSG];
    body[0] = AF_INET;
    let bodies = netlink.dump(&Message { kind: RTM_GETROUTE, flags: 0, body: body.to_vec() })?;
    // Of equal metrics the first one stays.
    Ok(bodies.iter().filter_map(|body| default_route(body)).min_by_key(|route| route.0).map(|route| route.1))
}

/// Metric and device of a route; `None` unless it is a default route.
fn default_route(body: &[u8]) -> Option<(u32, u32)> {
    let &[family, prefix, _, _, table, _, _, kind] = body.get(..8)? else { return None };
    if (family, prefix, table, kind) != (AF_INET, 0, MAIN_TABLE, UNICAST) {
        return None;
    }
    let attributes = Read::after(body, RTMSG);
    // The first next hop of several: `struct rtnexthop` has its device after four bytes.
    let first_hop = || u32_at(attributes.get(RTA_MULTIPATH)?, 4);
    let device = attributes.number(RTA_OIF).or_else(first_hop)?;
    Some((attributes.number(RTA_PRIORITY).unwrap_or(0), device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_told_from_others() {
        let route = |prefix, table, kind, device: Option<u32>| {
            let mut made = Attributes::after(&[AF_INET, prefix, 0, 0, table, 0, 0, kind, 0, 0, 0, 0]);
            made.number(RTA_PRIORITY, 100);
            if let Some(device) = device {
                made.number(RTA_OIF, device);
            } else {
                made.put(RTA_MULTIPATH, &[8, 0, 0, 0, 9, 0, 0, 0].map(|byte: u8| byte));
            }
            default_route(made.bytes())
        };
        assert_eq!(route(0, MAIN_TABLE, UNICAST, Some(7)), Some((100, 7)));
        assert_eq!(route(0, MAIN_TABLE, UNICAST, None).map(|route| route.0), Some(100));
        assert_eq!(route(24, MAIN_TABLE, UNICAST, Some(7)), None);
        assert_eq!(route(0, 255, UNICAST, Some(7)), None);
        assert_eq!(route(0, MAIN_TABLE, 6, Some(7)), None, "a blackhole");
        assert_eq!(default_route(&[]), None);
    }
}
