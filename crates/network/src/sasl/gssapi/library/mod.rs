//! The system's Kerberos library, which is loaded at run time: the only unsafe code of GSSAPI.
//!
//! A wheel cannot link with the library: most systems have one, but not all. Only blocking threads
//! call it: see [`super`]. Many threads can use the library at a time, as long as each security
//! context is used by one.
#![allow(unsafe_code)]

mod interface;
mod owned;

use std::ffi::{CStr, CString, c_int};
use std::ptr;
use std::sync::Mutex;

use super::explain::Failure;
use super::{Context, GssapiConfig, Initiated, Progress, Provider, Service};
use crate::sasl::password::locked;
use interface::{
    Buffer, CONTINUE_NEEDED, ContextId, ERRORS, Entry, FLAGS, Functions, HOST_BASED, INDEFINITE,
    INITIATE, KRB5, MESSAGES_MAX, MUTUAL_FLAG, OF_GSSAPI, OF_MECHANISM, Oid, OidSet, PRINCIPAL,
    Store, functions,
};
use owned::{Filled, MemoryCache, OwnedCredential, OwnedName};

/// The library, with the credentials of one client.
struct Library {
    functions: &'static Functions,
    principal: Option<String>,
    keytab: Option<String>,
    /// Made with the first credentials of the keytab.
    cache: Mutex<Option<MemoryCache>>,
}

/// Loads the library of the process. The error says how to install it.
pub(super) fn load() -> Result<(), String> {
    functions().map(drop)
}

/// Returns the library with the credentials of a client.
pub(super) fn provider(config: &GssapiConfig) -> Result<Box<dyn Provider>, String> {
    Ok(Box::new(Library::new(config)?))
}

impl Provider for Library {
    fn begin(&self, service: &Service) -> Result<Box<dyn Context>, Failure> {
        let credential = self.credential()?;
        let target = match service {
            Service::HostBased(name) => self.functions.import(name, &HOST_BASED)?,
            Service::Principal(name) => self.functions.import(name, &PRINCIPAL)?,
        };
        Ok(Box::new(SecurityContext {
            functions: self.functions,
            context: ptr::null_mut(),
            credential,
            target,
        }))
    }
}

impl Library {
    fn new(config: &GssapiConfig) -> Result<Self, String> {
        Ok(Self {
            functions: functions()?,
            principal: config.principal.clone(),
            keytab: config.keytab.clone(),
            cache: Mutex::new(None),
        })
    }

    /// Returns the client's credentials. With a keytab, the library asks the KDC for the first
    /// ticket, and for another one after half of its life. It does so here, because the cache keeps
    /// the tickets for the next connection.
    fn credential(&self) -> Result<OwnedCredential, Failure> {
        let principal = self.principal.as_deref();
        let name = principal.map(|name| self.functions.import(name, &PRINCIPAL));
        let name = name.transpose()?;
        let Some(keytab) = &self.keytab else {
            return self.functions.acquire(name.as_ref(), &[]);
        };
        let keytab = c_text(keytab)?;
        // The lock lets one connection ask the KDC, and the others use its ticket.
        let mut cache = locked(&self.cache);
        if cache.is_none() {
            *cache = Some(MemoryCache::new(self.functions)?);
        }
        let entry = |key: &'static CStr, value: &CString| Entry {
            key: key.as_ptr(),
            value: value.as_ptr(),
        };
        let mut store = vec![entry(c"client_keytab", &keytab)];
        store.extend(cache.iter().map(|cache| entry(c"ccache", &cache.name)));
        self.functions.acquire(name.as_ref(), &store)
    }
}

impl Functions {
    fn import(&'static self, name: &str, kind: &'static Oid) -> Result<OwnedName, Failure> {
        let buffer = borrowed(name.as_bytes());
        let (mut minor, mut made) = (0, ptr::null_mut());
        // SAFETY: the library copies the name and the kind, and writes the result.
        let major = unsafe {
            (self.gss_import_name)(&raw mut minor, &raw const buffer, kind, &raw mut made)
        };
        let made = OwnedName(made, self);
        self.check(major, minor).map(|()| made)
    }

    fn acquire(
        &'static self,
        name: Option<&OwnedName>,
        entries: &[Entry],
    ) -> Result<OwnedCredential, Failure> {
        let mechanisms = OidSet {
            count: 1,
            elements: &raw const KRB5,
        };
        let store = Store {
            count: entries.len() as u32,
            elements: entries.as_ptr(),
        };
        let name = name.map_or(ptr::null_mut(), |name| name.0);
        let (mut minor, mut made) = (0, ptr::null_mut());
        // SAFETY: all arguments live until the call returns, and the library copies what it keeps.
        // Null is allowed for the name, the store and the two results that nothing reads.
        let major = unsafe {
            (self.gss_acquire_cred_from)(
                &raw mut minor,
                name,
                INDEFINITE,
                &raw const mechanisms,
                INITIATE,
                if entries.is_empty() {
                    ptr::null()
                } else {
                    &raw const store
                },
                &raw mut made,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        let made = OwnedCredential(made, self);
        self.check(major, minor).map(|()| made)
    }

    /// Must run on the thread of the failed call, before another one: the library keeps the details
    /// of a thread's last error.
    fn check(&'static self, major: u32, minor: u32) -> Result<(), Failure> {
        if major & ERRORS == 0 {
            return Ok(());
        }
        let text = match minor {
            0 => self.status(major, OF_GSSAPI),
            _ => self.status(minor, OF_MECHANISM),
        };
        Err(Failure { major, minor, text })
    }

    fn status(&'static self, status: u32, kind: c_int) -> String {
        let mut texts = Vec::new();
        let mut next = 0;
        for _ in 0..MESSAGES_MAX {
            let (mut minor, mut text) = (0, Filled::new(self));
            // SAFETY: all pointers are to variables of this function, or to a constant.
            let major = unsafe {
                let (next, text) = (&raw mut next, &raw mut text.0);
                (self.gss_display_status)(&raw mut minor, status, kind, &raw const KRB5, next, text)
            };
            texts.push(text.to_text());
            if next == 0 || major & ERRORS != 0 {
                break;
            }
        }
        texts.join(", ")
    }
}

/// A security context, with all that its next calls need.
struct SecurityContext {
    functions: &'static Functions,
    context: ContextId,
    credential: OwnedCredential,
    target: OwnedName,
}

// SAFETY: the library allows each call on another thread, if no two run at a time. The methods take
// `&mut self`.
unsafe impl Send for SecurityContext {}

impl Context for SecurityContext {
    fn initiate(&mut self, received: &[u8]) -> Result<Initiated, Failure> {
        let input = borrowed(received);
        let mut output = Filled::new(self.functions);
        let (mut minor, mut flags) = (0, 0);
        // SAFETY: all pointers are to variables of this function, to a constant, or to what `self`
        // owns. The library keeps none of them, and only reads the input. Null is allowed for the
        // first input, the channel bindings, and the results that nothing reads.
        let major = unsafe {
            (self.functions.gss_init_sec_context)(
                &raw mut minor,
                self.credential.0,
                &raw mut self.context,
                self.target.0,
                &raw const KRB5,
                FLAGS,
                0,
                ptr::null_mut(),
                if received.is_empty() {
                    ptr::null()
                } else {
                    &raw const input
                },
                ptr::null_mut(),
                &raw mut output.0,
                &raw mut flags,
                ptr::null_mut(),
            )
        };
        self.functions.check(major, minor)?;
        let progress = if major & CONTINUE_NEEDED == 0 {
            Progress::Established {
                mutual: flags & MUTUAL_FLAG != 0,
            }
        } else {
            Progress::Continues
        };
        let token = output.to_vec();
        Ok(Initiated { token, progress })
    }

    fn unwrap(&mut self, received: &[u8]) -> Result<Vec<u8>, Failure> {
        let input = borrowed(received);
        let mut output = Filled::new(self.functions);
        let mut minor = 0;
        // SAFETY: as in `initiate`.
        let major = unsafe {
            let (input, output) = (&raw const input, &raw mut output.0);
            let (encrypted, quality) = (ptr::null_mut(), ptr::null_mut());
            let minor = &raw mut minor;
            (self.functions.gss_unwrap)(minor, self.context, input, output, encrypted, quality)
        };
        self.functions.check(major, minor)?;
        Ok(output.to_vec())
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let input = borrowed(message);
        let mut output = Filled::new(self.functions);
        let mut minor = 0;
        // SAFETY: as in `initiate`.
        let major = unsafe {
            let (input, output) = (&raw const input, &raw mut output.0);
            let (minor, encrypted) = (&raw mut minor, ptr::null_mut());
            (self.functions.gss_wrap)(minor, self.context, 0, 0, input, encrypted, output)
        };
        self.functions.check(major, minor)?;
        Ok(output.to_vec())
    }

    /// An exchange that is not complete has no principal yet, but the credential has one.
    fn principal(&mut self) -> Option<String> {
        let (mut minor, mut name) = (0, OwnedName(ptr::null_mut(), self.functions));
        let none = ptr::null_mut();
        // SAFETY: the credential is ours. The library writes the name, and null is allowed for the
        // results that nothing reads.
        let major = unsafe {
            let (minor, name) = (&raw mut minor, &raw mut name.0);
            let (lifetime, usage) = (ptr::null_mut(), ptr::null_mut());
            (self.functions.gss_inquire_cred)(minor, self.credential.0, name, lifetime, usage, none)
        };
        if major & ERRORS != 0 || name.0.is_null() {
            return None;
        }
        let mut text = Filled::new(self.functions);
        // SAFETY: the library has made the name, and writes the text.
        let major = unsafe {
            let text = &raw mut text.0;
            (self.functions.gss_display_name)(&raw mut minor, name.0, text, ptr::null_mut())
        };
        (major & ERRORS == 0).then(|| text.to_text())
    }
}

impl Drop for SecurityContext {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the library made the context, or it is null, which is allowed. The peer gets no
        // token at the end.
        unsafe {
            let context = &raw mut self.context;
            (self.functions.gss_delete_sec_context)(&raw mut minor, context, ptr::null_mut())
        };
    }
}

/// Returns bytes as the library wants them. It only reads them.
fn borrowed(bytes: &[u8]) -> Buffer {
    Buffer {
        length: bytes.len(),
        value: bytes.as_ptr().cast_mut().cast(),
    }
}

fn c_text(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure {
        major: 0,
        minor: 0,
        text: "the name contains a NUL character".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::interface::find;
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_its_packages() {
        let error = find(c"libgssapi-that-is-not-there.so.2")
            .err()
            .expect("none");
        for words in [
            "libgssapi-that-is-not-there.so.2",
            "libgssapi-krb5-2",
            "krb5-libs",
        ] {
            assert!(error.contains(words), "{error}");
        }
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn another_library_is_refused_by_the_function_that_it_lacks() {
        let error = find(c"libc.so.6").err().expect("not a Kerberos library");
        assert!(
            error.ends_with("it has no function gss_import_name"),
            "{error}"
        );
    }

    #[test]
    fn a_keytab_that_is_not_there_is_an_error_of_the_library() {
        let config = GssapiConfig {
            principal: Some("alice@EXAMPLE.COM".to_owned()),
            keytab: Some("/not/there.keytab".to_owned()),
            ..GssapiConfig::default()
        };
        let library = Library::new(&config).expect("the tests need the Kerberos library");
        let service = Service::HostBased("kafka@localhost".to_owned());
        for _ in 0..100 {
            let failure = library.begin(&service).err().expect("no key");
            assert_eq!(failure.major, 7 << 16, "{failure:?}");
            assert!(!failure.text.is_empty());
        }
    }

    #[test]
    fn names_that_are_not_names_are_errors() {
        let library = Library::new(&GssapiConfig::default()).expect("the Kerberos library");
        let long = "a".repeat(1 << 20);
        for name in [
            "",
            "a@b@c@d",
            "\0",
            "kafka@",
            "@",
            "/@",
            "\u{fffd}\\",
            &long,
        ] {
            for kind in [&HOST_BASED, &PRINCIPAL] {
                // The library checks a name when it uses it.
                let Ok(name) = library.functions.import(name, kind) else {
                    continue;
                };
                let failure = library.functions.acquire(Some(&name), &[]).err();
                assert!(failure.is_some_and(|failure| !failure.text.is_empty()));
            }
        }
    }
}
