//! IP addresses in one form: ACLs and quotas compare them as text.

use core::net::IpAddr;

/// Returns an IP address in the form that is compared, because it has several: `0:0:0:0:0:0:0:1`, as
/// Java writes it, is `::1`.
pub fn canonical_address(text: &str) -> Option<String> {
    let address: IpAddr = text.parse().ok()?;
    Some(address.to_canonical().to_string())
}
