//! [`Exchange`]: the messages of one authentication.
//!
//! ```text
//!   Start ─▶ Initiating ─▶ Established ─▶ Answered ─▶ done
//!              │    ▲
//!              └────┘ while the library needs more tokens
//! ```

use std::sync::Arc;

use thalweg_cluster::SetupStep;
use tokio::sync::Semaphore;

use super::explain::{Failure, Stage, explain};
use super::{Context, Initiated, Kerberos, Progress, Service};
use crate::sasl::password::locked;
use crate::sasl::{SaslError, Session, TokenError, shown};

/// The limit on a token of the broker. Kerberos tokens of brokers have about 200 bytes.
const TOKEN_BYTES_MAX: usize = 1 << 16;

/// The security layer "none", in the bit mask that the broker sends and in the client's response.
const NO_LAYER: u8 = 1;

/// The bytes of the bit mask, and of the limit on wrapped messages that follows it.
const LAYERS_BYTES: usize = 4;

const UNTRUSTED: &str = "Check that the address belongs to a broker that you trust";

enum State {
    Start,
    /// The client has sent a token, and the broker must send one.
    Initiating(Box<dyn Context>),
    /// Both sides have proved who they are. The broker must send its security layers.
    Established(Box<dyn Context>),
    /// The client has chosen the security layer.
    Answered,
    Ended,
}

/// One exchange.
pub(in crate::sasl) struct Exchange {
    kerberos: Arc<Kerberos>,
    service: Service,
    state: State,
}

impl Exchange {
    pub(super) fn new(kerberos: Arc<Kerberos>, service: Service) -> Self {
        Self {
            kerberos,
            service,
            state: State::Start,
        }
    }

    fn first(&mut self) -> Result<Vec<u8>, SaslError> {
        let mut context = self
            .kerberos
            .provider
            .begin(&self.service)
            .map_err(|failure| self.no_ticket(&failure, Stage::Credentials))?;
        let initiated = context.initiate(&[]);
        // Errors name it, also if the broker refuses the client.
        if let Some(principal) = context.principal() {
            *locked(&self.kerberos.principal) = Some(principal);
        }
        let initiated = initiated.map_err(|failure| self.no_ticket(&failure, Stage::Ticket))?;
        self.initiated(context, initiated)
    }

    fn next_token(
        &mut self,
        mut context: Box<dyn Context>,
        received: &[u8],
    ) -> Result<Vec<u8>, SaslError> {
        if received.is_empty() {
            return Err(self.untrusted("it sent no Kerberos token"));
        }
        let initiated = context
            .initiate(received)
            .map_err(|failure| self.unproved(&failure))?;
        self.initiated(context, initiated)
    }

    fn initiated(
        &mut self,
        context: Box<dyn Context>,
        initiated: Initiated,
    ) -> Result<Vec<u8>, SaslError> {
        let Initiated { token, progress } = initiated;
        self.state = match progress {
            Progress::Established { mutual: true } => State::Established(context),
            Progress::Established { mutual: false } => {
                return Err(self.untrusted("there was no mutual authentication"));
            }
            Progress::Continues if token.is_empty() => {
                return Err(self.untrusted(
                    "the Kerberos library returned no token in response to the broker's token",
                ));
            }
            Progress::Continues => State::Initiating(context),
        };
        Ok(token)
    }

    /// Chooses the security layer. Kafka encrypts with TLS only, so there must be the layer "none".
    fn layers(&self, context: &mut dyn Context, received: &[u8]) -> Result<Vec<u8>, SaslError> {
        let layers = context
            .unwrap(received)
            .map_err(|failure| self.unproved(&failure))?;
        if layers.len() != LAYERS_BYTES {
            let length = layers.len();
            return Err(self.untrusted(&format!(
                "it sent {length} bytes in place of the {LAYERS_BYTES} with its security layers"
            )));
        }
        if layers[0] & NO_LAYER == 0 {
            return Err(SaslError::ByClient(format!(
                "the broker demands a security layer of GSSAPI (it offers {:#04x}), but Kafka's \
                 protocol has none. Set javax.security.sasl.qop to auth on the broker, and \
                 security_protocol to SASL_SSL for encryption",
                layers[0]
            )));
        }
        // The layer, the limit on wrapped messages (there are none), and no authorization ID: the
        // broker derives the user from the ticket.
        context
            .wrap(&[NO_LAYER, 0, 0, 0])
            .map_err(|failure| self.unproved(&failure))
    }

    fn no_ticket(&self, failure: &Failure, stage: Stage) -> SaslError {
        let words = explain(failure, stage, &self.service, &self.kerberos.config);
        SaslError::NoToken(TokenError::new(&words, None))
    }

    fn unproved(&self, failure: &Failure) -> SaslError {
        let config = &self.kerberos.config;
        SaslError::ByClient(explain(failure, Stage::Broker, &self.service, config))
    }

    fn untrusted(&self, reason: &str) -> SaslError {
        let service = shown(self.service.as_str());
        SaslError::ByClient(format!(
            "the broker does not prove that it is the service {service}: {reason}. {UNTRUSTED}"
        ))
    }
}

impl Session for Exchange {
    fn step(&mut self, received: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        if received.len() > TOKEN_BYTES_MAX {
            let length = received.len();
            return Err(self.untrusted(&format!(
                "its token of {length} bytes is longer than {TOKEN_BYTES_MAX}"
            )));
        }
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Start => self.first().map(Some),
            State::Initiating(context) => self.next_token(context, received).map(Some),
            State::Established(mut context) => {
                let answer = self.layers(&mut *context, received)?;
                self.state = State::Answered;
                Ok(Some(answer))
            }
            State::Answered if received.is_empty() => Ok(None),
            State::Answered | State::Ended => Err(SaslError::ByClient(
                "the broker sent a message after the end of the SASL exchange".to_owned(),
            )),
        }
    }

    fn is_slow(&self) -> bool {
        !matches!(self.state, State::Answered | State::Ended)
    }

    fn turns(&self) -> Option<Arc<Semaphore>> {
        Some(Arc::clone(&self.kerberos.calls))
    }

    fn awaits(&self) -> Option<SetupStep> {
        self.is_slow().then_some(SetupStep::Kerberos)
    }
}
