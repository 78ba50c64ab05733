//! Exchanges with a fake library, and the texts of its failures.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_cluster::SetupStep;

use super::explain::{Failure, Stage, explain};
use super::{
    Context, GssapiConfig, Initiated, Kerberos, Progress, Provider, Service, check_keytab,
};
use crate::sasl::{SaslError, Session as _};

const ESTABLISHED: Progress = Progress::Established { mutual: true };

/// What the fake library returns, in this order.
#[derive(Clone, Default)]
struct Script {
    begin: Option<Failure>,
    tokens: VecDeque<Result<Initiated, Failure>>,
    unwrapped: Option<Result<Vec<u8>, Failure>>,
    principal: Option<String>,
}

#[derive(Clone, Default)]
struct Fake {
    script: Script,
    /// Each call, with its argument.
    calls: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn called(&self, call: String) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(call);
    }
}

impl Provider for Fake {
    fn begin(&self, service: &Service) -> Result<Box<dyn Context>, Failure> {
        self.called(format!("begin {}", service.as_str()));
        match self.script.begin.clone() {
            Some(failure) => Err(failure),
            None => Ok(Box::new(self.clone())),
        }
    }
}

impl Context for Fake {
    fn initiate(&mut self, received: &[u8]) -> Result<Initiated, Failure> {
        self.called(format!("initiate {received:?}"));
        self.script.tokens.pop_front().expect("another token")
    }

    fn unwrap(&mut self, received: &[u8]) -> Result<Vec<u8>, Failure> {
        self.called(format!("unwrap {received:?}"));
        self.script.unwrapped.clone().expect("a wrapped message")
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        self.called(format!("wrap {message:?}"));
        Ok([b"wrapped ", message].concat())
    }

    fn principal(&mut self) -> Option<String> {
        self.script.principal.clone()
    }
}

#[allow(clippy::unnecessary_wraps)] // as the script has it
fn token(token: &[u8], progress: Progress) -> Result<Initiated, Failure> {
    Ok(Initiated {
        token: token.to_vec(),
        progress,
    })
}

/// A script whose exchange succeeds.
fn good() -> Script {
    Script {
        begin: None,
        tokens: [
            token(b"ticket", Progress::Continues),
            token(b"", ESTABLISHED),
        ]
        .into(),
        unwrapped: Some(Ok(vec![1, 0, 0, 0])),
        principal: Some("alice@EXAMPLE.COM".to_owned()),
    }
}

fn kerberos(script: Script, config: GssapiConfig) -> (Arc<Kerberos>, Fake) {
    let fake = Fake {
        script,
        ..Fake::default()
    };
    let kerberos = Kerberos::with(config, Box::new(fake.clone()));
    (Arc::new(kerberos), fake)
}

/// Runs an exchange with these messages of the broker. Returns the client's messages, or the error.
fn run(script: Script, received: &[&[u8]]) -> Result<Vec<Vec<u8>>, SaslError> {
    let (kerberos, _) = kerberos(script, GssapiConfig::default());
    let mut exchange = kerberos.start("broker");
    let mut sent = Vec::new();
    for message in [&[b"".as_slice()], received].concat() {
        sent.extend(exchange.step(message)?);
    }
    Ok(sent)
}

fn refused(script: Script, received: &[&[u8]]) -> String {
    match run(script, received) {
        Err(SaslError::ByClient(reason)) => reason,
        other => panic!("the client did not refuse the broker: {other:?}"),
    }
}

fn failure(number: i32) -> Failure {
    Failure {
        major: 13 << 16,
        minor: (number - 1_765_328_384).cast_unsigned(),
        text: "the text of the library.".to_owned(),
    }
}

#[test]
fn an_exchange_proves_both_sides_and_chooses_no_security_layer() {
    let (kerberos, fake) = kerberos(good(), GssapiConfig::default());
    let mut exchange = kerberos.start("b1.example.com");
    assert_eq!(exchange.step(b""), Ok(Some(b"ticket".to_vec())));
    // The broker expects an empty message before it sends its security layers.
    assert_eq!(exchange.step(b"proof"), Ok(Some(Vec::new())));
    let answer = exchange.step(b"layers");
    assert_eq!(answer, Ok(Some(b"wrapped \x01\0\0\0".to_vec())));
    assert_eq!(exchange.step(b""), Ok(None));
    let calls = fake.calls.lock().expect("no panic").join(", ");
    assert_eq!(
        calls,
        format!(
            "begin kafka@b1.example.com, initiate [], initiate {:?}, unwrap {:?}, \
             wrap [1, 0, 0, 0]",
            b"proof", b"layers"
        )
    );
    assert_eq!(kerberos.principal().as_deref(), Some("alice@EXAMPLE.COM"));
}

#[test]
fn every_step_that_calls_the_library_is_slow_and_takes_turns() {
    let (kerberos, _) = kerberos(good(), GssapiConfig::default());
    let mut exchange = kerberos.start("broker");
    for received in [b"".as_slice(), b"proof", b"layers"] {
        assert!(exchange.is_slow());
        assert_eq!(exchange.awaits(), Some(SetupStep::Kerberos));
        assert!(exchange.turns().is_some());
        exchange.step(received).expect("a message");
    }
    assert!(!exchange.is_slow());
    assert_eq!(exchange.awaits(), None);
}

#[test]
fn a_start_calls_nothing() {
    // The I/O thread starts exchanges.
    let (kerberos, fake) = kerberos(good(), GssapiConfig::default());
    drop(kerberos.start("broker"));
    assert!(fake.calls.lock().expect("no panic").is_empty());
}

#[test]
fn a_library_may_need_more_tokens() {
    let script = Script {
        tokens: [
            token(b"one", Progress::Continues),
            token(b"two", Progress::Continues),
            token(b"three", ESTABLISHED),
        ]
        .into(),
        ..good()
    };
    let sent = run(script, &[b"a", b"b", b"layers", b""]).expect("success");
    assert_eq!(
        sent[..3],
        [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]
    );
}

#[test]
fn a_broker_that_proves_nothing_is_refused() {
    let not_mutual = Progress::Established { mutual: false };
    let with = |tokens: [Result<Initiated, Failure>; 2]| Script {
        tokens: tokens.into(),
        ..good()
    };
    let continues = || token(b"ticket", Progress::Continues);
    let cases = [
        (good(), vec![b"".as_slice()], "it sent no Kerberos token"),
        (
            good(),
            vec![&[0; (1 << 16) + 1]],
            "its token of 65537 bytes is longer than 65536",
        ),
        (
            with([continues(), token(b"", not_mutual)]),
            vec![b"proof"],
            "there was no mutual authentication",
        ),
        (
            with([token(b"ticket", not_mutual), continues()]),
            vec![],
            "there was no mutual authentication",
        ),
        (
            with([continues(), token(b"", Progress::Continues)]),
            vec![b"proof"],
            "the Kerberos library returned no token in response to the broker's token",
        ),
        (
            with([continues(), Err(failure(31))]),
            vec![b"proof"],
            "the text of the library. Check",
        ),
    ];
    for (script, received, words) in cases {
        let reason = refused(script, &received);
        let start = "the broker does not prove that it is the service kafka@broker: ";
        assert!(
            reason.starts_with(start) && reason.contains(words),
            "{reason}"
        );
    }
}

#[test]
fn security_layers_that_kafka_does_not_have_are_refused() {
    let layers = |unwrapped| {
        let script = Script {
            unwrapped: Some(unwrapped),
            ..good()
        };
        run(script, &[b"proof", b"layers", b""])
    };
    // Other layers, and limits of their size, mean nothing next to the layer "none".
    for accepted in [[1, 0, 0, 0], [7, 0, 1, 0], [255, 255, 255, 255]] {
        let sent = layers(Ok(accepted.to_vec())).expect("accepted");
        assert_eq!(sent[2], b"wrapped \x01\0\0\0");
    }
    for (unwrapped, words) in [
        (
            Ok(vec![6, 0, 1, 0]),
            "demands a security layer of GSSAPI (it offers 0x06)",
        ),
        (Ok(vec![0, 0, 0, 0]), "demands a security layer"),
        (Ok(vec![1, 0, 0]), "it sent 3 bytes in place of the 4"),
        (Ok(vec![1; 60_000]), "it sent 60000 bytes"),
        (Ok(Vec::new()), "it sent 0 bytes"),
        (Err(failure(31)), "the text of the library"),
    ] {
        match layers(unwrapped) {
            Err(SaslError::ByClient(reason)) => assert!(reason.contains(words), "{reason}"),
            other => panic!("{words}: {other:?}"),
        }
    }
}

#[test]
fn a_message_after_the_end_is_refused() {
    let reason = refused(good(), &[b"proof", b"layers", b"more"]);
    assert!(reason.contains("after the end"), "{reason}");
    let (kerberos, _) = kerberos(good(), GssapiConfig::default());
    let mut exchange = kerberos.start("broker");
    for received in [b"".as_slice(), b"proof", b"layers", b""] {
        exchange.step(received).expect("success");
    }
    assert!(matches!(exchange.step(b""), Err(SaslError::ByClient(_))));
}

#[test]
fn a_missing_ticket_is_not_the_brokers_fault() {
    let no_credentials = Script {
        begin: Some(failure(195)),
        ..good()
    };
    let no_ticket = Script {
        tokens: [Err(failure(7))].into(),
        ..good()
    };
    for (script, words) in [
        (
            no_credentials,
            "there are no Kerberos credentials: the text of the library. Run kinit",
        ),
        (
            no_ticket,
            "there is no Kerberos ticket for the service kafka@broker: the text",
        ),
    ] {
        match run(script, &[]) {
            Err(SaslError::NoToken(error)) => {
                assert!(error.to_string().starts_with(words), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_principal_is_known_although_there_is_no_ticket() {
    let script = Script {
        tokens: [Err(failure(7))].into(),
        ..good()
    };
    let (kerberos, _) = kerberos(script, GssapiConfig::default());
    assert_eq!(kerberos.principal(), None);
    kerberos.start("broker").step(b"").expect_err("no ticket");
    assert_eq!(kerberos.principal().as_deref(), Some("alice@EXAMPLE.COM"));
}

#[test]
fn options_name_the_service() {
    let named = |config: GssapiConfig| config.service("b1").as_str().to_owned();
    let host = Some("kafka.example.com".to_owned());
    let service_name = "brokers".to_owned();
    assert_eq!(named(GssapiConfig::default()), "kafka@b1");
    let config = GssapiConfig {
        service_name,
        host,
        ..GssapiConfig::default()
    };
    assert_eq!(named(config.clone()), "brokers@kafka.example.com");
    let with = |name: &str| GssapiConfig {
        name: Some(name.to_owned()),
        ..config.clone()
    };
    assert_eq!(
        with("x@y").service("b1"),
        Service::HostBased("x@y".to_owned())
    );
    let principal = "kafka/b2@EXAMPLE.COM";
    assert_eq!(
        with(principal).service("b1"),
        Service::Principal(principal.to_owned())
    );
}

#[test]
fn brokers_take_the_first_part_of_the_principal_for_the_user() {
    for (principal, user) in [
        ("alice", "alice"),
        ("alice@EXAMPLE.COM", "alice"),
        ("etl/host@EXAMPLE.COM", "etl"),
    ] {
        let config = GssapiConfig {
            principal: Some(principal.to_owned()),
            ..GssapiConfig::default()
        };
        assert_eq!(config.user(), Some(user));
    }
    assert_eq!(GssapiConfig::default().user(), None);
}

/// Checks that the text of each failure has these words, and names what the client wanted.
fn check_texts(cases: &[(Failure, Option<&str>, Stage, &str)]) {
    let service = Service::HostBased("kafka@b1".to_owned());
    for (failure, keytab, stage, words) in cases {
        let config = GssapiConfig {
            keytab: keytab.map(str::to_owned),
            ..GssapiConfig::default()
        };
        let text = explain(failure, *stage, &service, &config);
        assert!(text.contains(words), "{text}");
        let named = match stage {
            Stage::Credentials => keytab.unwrap_or("credentials"),
            Stage::Ticket | Stage::Broker => "kafka@b1",
        };
        assert!(text.contains(named), "{text}");
    }
}

const KEYTAB: Option<&str> = Some("/etc/alice.keytab");

#[test]
fn every_error_of_kerberos_says_what_to_do() {
    use Stage::{Credentials, Ticket};
    let foreign_realm = Failure {
        text: "Server krbtgt/B@A not found in Kerberos database".to_owned(),
        ..failure(7)
    };
    check_texts(&[
        (failure(6), KEYTAB, Credentials, "sasl_kerberos_principal"),
        (failure(7), None, Ticket, "sasl_kerberos_service_name"),
        (failure(7), None, Ticket, "dns_canonicalize_hostname"),
        (foreign_realm, None, Ticket, "domain_realm"),
        (failure(24), KEYTAB, Credentials, "klist -kte"),
        (failure(181), KEYTAB, Credentials, "klist -kte"),
        (failure(32), None, Ticket, "Run kinit again"),
        (failure(32), KEYTAB, Ticket, "clock"),
        (failure(37), None, Ticket, "this machine's clock"),
        (failure(148), KEYTAB, Credentials, "this machine's clock"),
        (failure(154), None, Ticket, "krb5.conf has the realm"),
        (failure(156), KEYTAB, Credentials, "reaches them"),
        (failure(224), None, Credentials, "KRB5_CONFIG"),
        (failure(195), None, Ticket, "Run kinit, or set"),
        (failure(99), None, Ticket, "KRB5_TRACE"),
    ]);
}

#[test]
fn every_error_of_gssapi_says_what_to_do() {
    use Stage::{Broker, Credentials, Ticket};
    let routine = |error: u32| Failure {
        major: error << 16,
        minor: 0,
        text: "no".to_owned(),
    };
    check_texts(&[
        (routine(7), None, Credentials, "KRB5CCNAME"),
        (
            routine(7),
            KEYTAB,
            Credentials,
            "Check sasl_kerberos_keytab",
        ),
        (routine(11), None, Ticket, "Run kinit again"),
        (
            routine(2),
            None,
            Credentials,
            "Check sasl_kerberos_principal",
        ),
        (routine(6), None, Broker, "a broker that you trust"),
        (routine(9), KEYTAB, Broker, "a broker that you trust"),
        // The broker sent a ticket that does not decrypt. The keytab of the client is good.
        (failure(31), KEYTAB, Broker, "a broker that you trust"),
    ]);
}

#[test]
fn a_text_of_the_library_cannot_forge_lines_of_a_log() {
    let mut failure = failure(99);
    failure.text = format!("Server not found\n2026 ERROR {}", "x".repeat(1 << 20));
    let service = Service::HostBased("kafka@b1\n".to_owned());
    let text = explain(&failure, Stage::Ticket, &service, &GssapiConfig::default());
    assert!(!text.contains('\n') && text.len() < 2_000, "{}", text.len());
}

#[test]
fn a_keytab_is_looked_for_at_once() {
    let error = check_keytab("/not/there.keytab").expect_err("not there");
    assert!(
        error.starts_with("sasl_kerberos_keytab: cannot read /not/there.keytab"),
        "{error}"
    );
    assert_eq!(check_keytab("FILE:/not/there.keytab"), Err(error));
    let folder = check_keytab(env!("CARGO_MANIFEST_DIR")).expect_err("a folder");
    assert!(folder.contains(": it is not a file. Name"), "{folder}");
    for readable in [
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        "MEMORY:alice",
    ] {
        assert_eq!(check_keytab(readable), Ok(()));
    }
}
