//! Faults of logins and of TLS handshakes. They are not about requests: a login has several, and a
//! handshake none.

use thalweg_protocol::ApiKey;

use super::{Fault, FaultAction, FaultRegistry};

/// The faults that a login on one node may have.
pub(crate) struct LoginFaults<'a> {
    faults: &'a mut FaultRegistry,
    node: i32,
}

impl<'a> LoginFaults<'a> {
    pub(crate) fn new(faults: &'a mut FaultRegistry, node: i32) -> Self {
        Self { faults, node }
    }

    /// Whether the broker's signature must be wrong.
    pub(crate) fn has_bad_signature(&mut self) -> bool {
        let is_it = |action| action == FaultAction::BadServerSignature;
        self.faults.take_for_login(self.node, is_it).is_some()
    }

    /// Returns the number of iterations that the broker must want.
    pub(crate) fn iterations(&mut self) -> Option<u32> {
        let is_it = |action| matches!(action, FaultAction::ScramIterations(_));
        match self.faults.take_for_login(self.node, is_it)? {
            FaultAction::ScramIterations(iterations) => Some(iterations),
            _ => None,
        }
    }
}

impl FaultAction {
    /// Whether it applies to logins or handshakes, and not to requests.
    pub(super) fn is_of_login(self) -> bool {
        matches!(self, Self::BadServerSignature | Self::ScramIterations(_)) || self.is_of_tls()
    }

    fn is_of_tls(self) -> bool {
        matches!(self, Self::CloseInTlsHandshake | Self::TlsVersion(_))
    }
}

impl FaultRegistry {
    /// Returns the fault for a new TLS connection, and uses it up once.
    pub(crate) fn take_for_tls(&mut self, node: i32) -> Option<FaultAction> {
        self.take_for_login(node, FaultAction::is_of_tls)
    }

    fn take_for_login(
        &mut self,
        node: i32,
        is_it: impl Fn(FaultAction) -> bool,
    ) -> Option<FaultAction> {
        let is_meant = |fault: &Fault| is_it(fault.action);
        let api = ApiKey::SASL_AUTHENTICATE;
        let fault = self.take_if(api, node, is_meant, Vec::new)?;
        Some(fault.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultMatch;

    #[test]
    fn faults_of_logins_do_not_apply_to_requests() {
        let mut faults = FaultRegistry::default();
        let on_two = FaultMatch {
            node: Some(2),
            ..FaultMatch::default()
        };
        faults.add(on_two, FaultAction::BadServerSignature, Some(1));
        faults.add(FaultMatch::default(), FaultAction::ScramIterations(7), None);
        faults.add(
            FaultMatch::default(),
            FaultAction::CloseInTlsHandshake,
            Some(1),
        );
        let api = ApiKey::SASL_AUTHENTICATE;
        assert_eq!(faults.take(api, 2, Vec::new), None);
        assert!(!LoginFaults::new(&mut faults, 1).has_bad_signature());
        assert!(LoginFaults::new(&mut faults, 2).has_bad_signature());
        assert!(!LoginFaults::new(&mut faults, 2).has_bad_signature());
        assert_eq!(LoginFaults::new(&mut faults, 1).iterations(), Some(7));
        let close = Some(FaultAction::CloseInTlsHandshake);
        assert_eq!(faults.take_for_tls(1), close);
        assert_eq!(faults.take_for_tls(1), None);
    }
}
