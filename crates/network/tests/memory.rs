//! After a client is closed, no freed memory of it contains the password.
//!
//! The allocator looks at each block before it is freed. The broker is a thread with buffers on its
//! stack, so that only the client's blocks are on the heap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use thalweg_network::admin::AdminClient;
use thalweg_network::sasl::{
    OAuthBearerConfig, RefreshConfig, SaslConfig, ScramConfig, ScramHash, Secret, Token,
    TokenProvider, TokenReply,
};
use thalweg_network::{ClientConfig, SecurityProtocol};

const PASSWORD: &str = "Sentinel-4711-Sentinel-4711";
/// A part of the password, which is found even where the first bytes of a block are overwritten.
const NEEDLE: &[u8] = b"4711-Sentinel-4711";

struct Watching;

static FOUND: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator. A block is read before it is freed, while it
// still belongs to this call.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Zeroed, so that what a block had before is not found again in parts that nobody wrote.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let block = unsafe { std::slice::from_raw_parts(pointer, layout.size()) };
        if block.windows(NEEDLE.len()).any(|window| window == NEEDLE) {
            FOUND.fetch_add(1, Ordering::SeqCst);
        }
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

const API_VERSIONS: i16 = 18;
const SASL_HANDSHAKE: i16 = 17;
const SASL_AUTHENTICATE: i16 = 36;

/// Accepts every login. Returns whether it has seen the password.
fn serve(mut stream: TcpStream) -> bool {
    let mut seen = false;
    loop {
        let mut length = [0; 4];
        let mut frame = [0; 4096];
        if stream.read_exact(&mut length).is_err() {
            return seen;
        }
        let frame = &mut frame[..u32::from_be_bytes(length) as usize];
        stream.read_exact(frame).expect("a whole frame");
        seen |= frame.windows(NEEDLE.len()).any(|window| window == NEEDLE);
        let key = i16::from_be_bytes([frame[0], frame[1]]);
        let version = i16::from_be_bytes([frame[2], frame[3]]);
        let body: &[u8] = match (key, version) {
            (API_VERSIONS, 0) => {
                b"\0\0\0\0\0\x04\0\x11\0\0\0\x01\0\x24\0\0\0\x01\0\x12\0\0\0\0\0\x03\0\0\0\x01"
            }
            (API_VERSIONS, _) => b"\0\x23\0\0\0\0", // UNSUPPORTED_VERSION
            (SASL_HANDSHAKE, _) => b"\0\0\0\0\0\0",
            (SASL_AUTHENTICATE, _) => b"\0\0\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0",
            _ => return seen, // The client has logged in.
        };
        let length = 4 + body.len() as u32;
        stream.write_all(&length.to_be_bytes()).expect("written");
        stream.write_all(&frame[4..8]).expect("written");
        stream.write_all(body).expect("written");
    }
}

struct Provider;

impl TokenProvider for Provider {
    fn request(&self, reply: TokenReply) {
        reply.send(Ok(Token {
            value: Secret::new(PASSWORD),
            extensions: vec![("ticket".to_owned(), "t".repeat(200))],
            expires_at_ms: None,
            principal: None,
        }));
    }
}

/// Logs in once, and closes the client. Returns whether the broker has seen the password.
fn log_in(sasl: SaslConfig) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let broker = std::thread::spawn(move || serve(listener.accept().expect("the client").0));
    let mut config = ClientConfig::plaintext(&format!("127.0.0.1:{port}")).expect("an address");
    config.security_protocol = SecurityProtocol::SaslPlaintext;
    config.sasl = Some(sasl);
    let client = AdminClient::start(&config).expect("a good config");
    drop(config);
    let seen = broker.join().expect("the broker");
    drop(client);
    seen
}

#[test]
fn no_freed_memory_contains_a_password_or_token() {
    drop(PASSWORD.to_owned());
    assert_eq!(FOUND.swap(0, Ordering::SeqCst), 1, "the allocator looks");

    let plain = SaslConfig::Plain {
        username: "alice".to_owned(),
        password: Secret::new(PASSWORD),
    };
    assert!(log_in(plain));
    assert_eq!(FOUND.swap(0, Ordering::SeqCst), 0, "PLAIN");

    let scram = ScramConfig::new(ScramHash::Sha512, "alice", Secret::new(PASSWORD));
    assert!(!log_in(SaslConfig::Scram(scram)));
    assert_eq!(FOUND.swap(0, Ordering::SeqCst), 0, "SCRAM");

    let provider = Arc::new(Provider);
    let used = Arc::downgrade(&provider);
    let tokens = OAuthBearerConfig {
        provider,
        refresh: RefreshConfig::default(),
    };
    assert!(log_in(SaslConfig::OAuthBearer(tokens)));
    // The I/O thread drops what is left of the client a moment after it.
    let limit = Instant::now() + Duration::from_secs(20);
    while used.strong_count() > 0 {
        assert!(Instant::now() < limit, "the client still has its provider");
        std::thread::yield_now();
    }
    assert_eq!(FOUND.swap(0, Ordering::SeqCst), 0, "OAUTHBEARER");

    let secret = Secret::new(PASSWORD);
    drop(secret.clone());
    drop(secret);
    assert_eq!(FOUND.load(Ordering::SeqCst), 0);
}
