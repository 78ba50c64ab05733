//! Texts for the failures of the Kerberos library, with what to do about them.

use super::{GssapiConfig, Service};
use crate::sasl::shown;

/// The calling, routine and supplementary parts of a major status (RFC 2744, section 3.9.1). Only
/// the routine error says what happened.
const ROUTINE_ERROR: u32 = 0x00ff_0000;
const BAD_NAME: u32 = 2 << 16;
const NO_CRED: u32 = 7 << 16;
const CREDENTIALS_EXPIRED: u32 = 11 << 16;

/// The first error of Kerberos. MIT and Heimdal number the following in the same way.
const KRB5_BASE: i32 = -1_765_328_384;

/// Why a call of the library failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The status of GSSAPI.
    pub(super) major: u32,
    /// The status of Kerberos, as the library numbers it.
    pub(super) minor: u32,
    /// The library's text. It may contain names from the network.
    pub(super) text: String,
}

impl Failure {
    /// Returns the number of an error of Kerberos, as in RFC 4120 and krb5.h.
    fn number(&self) -> Option<i32> {
        let number = self.minor.cast_signed().wrapping_sub(KRB5_BASE);
        (0..256).contains(&number).then_some(number)
    }
}

/// What the client was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It wanted its own credentials.
    Credentials,
    /// It wanted a ticket for the broker.
    Ticket,
    /// It checked what the broker sent.
    Broker,
}

/// Returns a text without a secret.
pub(super) fn explain(
    failure: &Failure,
    stage: Stage,
    service: &Service,
    config: &GssapiConfig,
) -> String {
    let service = shown(service.as_str());
    let what = match (stage, &config.keytab) {
        (Stage::Credentials, Some(keytab)) => {
            format!(
                "cannot get Kerberos credentials from the keytab {} (sasl_kerberos_keytab)",
                shown(keytab)
            )
        }
        (Stage::Credentials, None) => "there are no Kerberos credentials".to_owned(),
        (Stage::Ticket, _) => format!("there is no Kerberos ticket for the service {service}"),
        (Stage::Broker, _) => {
            format!("the broker does not prove that it is the service {service}")
        }
    };
    let text = shown(failure.text.trim_end_matches('.'));
    let hint = hint(failure, stage, config.keytab.is_some());
    format!("{what}: {text}. {hint}")
}

fn hint(failure: &Failure, stage: Stage, has_keytab: bool) -> &'static str {
    if stage == Stage::Broker {
        return "Check that the address belongs to a broker that you trust";
    }
    by_number(failure, has_keytab).unwrap_or_else(|| match failure.major & ROUTINE_ERROR {
        NO_CRED => missing(has_keytab),
        CREDENTIALS_EXPIRED => expired(has_keytab),
        BAD_NAME => {
            "Check sasl_kerberos_principal, sasl_kerberos_service_name and \
             sasl_kerberos_domain_name"
        }
        _ if stage == Stage::Credentials => missing(has_keytab),
        _ => {
            "Check the realms in krb5.conf. To see what the Kerberos library does, set the \
             environment variable KRB5_TRACE=/dev/stderr"
        }
    })
}

/// Returns the hint for an error of Kerberos.
fn by_number(failure: &Failure, has_keytab: bool) -> Option<&'static str> {
    Some(match failure.number()? {
        // KDC_ERR_C_PRINCIPAL_UNKNOWN
        6 => "The KDC does not know the client's principal. Check sasl_kerberos_principal",
        // KDC_ERR_S_PRINCIPAL_UNKNOWN
        7 if failure.text.contains("krbtgt/") => {
            "The realm of the client does not know the realm of the service. Check domain_realm in \
             krb5.conf, sasl_kerberos_name and sasl_kerberos_domain_name"
        }
        7 => {
            "The KDC does not know this service. Check sasl_kerberos_service_name, and that the \
             principal of the broker has the host that the client connects to (rdns and \
             dns_canonicalize_hostname in krb5.conf change this host). To use another host, set \
             sasl_kerberos_domain_name"
        }
        // KDC_ERR_PREAUTH_FAILED, KRB_AP_ERR_BAD_INTEGRITY, and the library's KRB5_KT_NOTFOUND,
        // KRB5_PREAUTH_FAILED: the keytab has no key, or an old one
        24 | 31 | 181 | 210 if has_keytab => {
            "Check that the keytab has the current key of sasl_kerberos_principal (`klist -kte` \
             lists its keys)"
        }
        // KRB_AP_ERR_TKT_EXPIRED
        32 => expired(has_keytab),
        // KRB_AP_ERR_TKT_NYV, KRB_AP_ERR_SKEW, KRB5_KDCREP_SKEW
        33 | 37 | 148 => {
            "Correct this machine's clock. By default, Kerberos accepts a difference of 5 minutes"
        }
        // KRB5_CC_NOTFOUND, KRB5_FCC_PERM, KRB5_FCC_NOFILE, KRB5_CC_FORMAT
        141 | 194 | 195 | 199 => missing(has_keytab),
        // KRB5_CONFIG_CANTOPEN, KRB5_CONFIG_BADFORMAT, KRB5_REALM_UNKNOWN, KRB5_KDC_UNREACH,
        // KRB5_NO_TKT_IN_RLM, KRB5_ERR_HOST_REALM_UNKNOWN, KRB5_REALM_CANT_RESOLVE,
        // KRB5_CONFIG_NODEFREALM
        135 | 136 | 154 | 156 | 185 | 217 | 220 | 224 => {
            "Check that krb5.conf has the realm and its KDCs, and that this machine reaches them. \
             The environment variable KRB5_CONFIG names the file"
        }
        _ => return None,
    })
}

fn missing(has_keytab: bool) -> &'static str {
    if has_keytab {
        "Check sasl_kerberos_keytab and sasl_kerberos_principal (`klist -kte` lists the keys of a \
         keytab)"
    } else {
        "Run kinit, or set sasl_kerberos_keytab and sasl_kerberos_principal. The environment \
         variable KRB5CCNAME says where the tickets are"
    }
}

fn expired(has_keytab: bool) -> &'static str {
    if has_keytab {
        "Check this machine's clock, and the lifetime of tickets at the KDC"
    } else {
        "Run kinit again, or set sasl_kerberos_keytab: then the client itself gets new tickets"
    }
}
