//! The types and functions of the library, as RFC 2744 and MIT declare them for systems with ELF.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::sync::OnceLock;

const FILE: &CStr = c"libgssapi_krb5.so.2";

pub(super) type Name = *mut c_void;
pub(super) type Credential = *mut c_void;
pub(super) type ContextId = *mut c_void;
pub(super) type Krb5 = *mut c_void;
pub(super) type Cache = *mut c_void;

#[repr(C)]
pub(super) struct Buffer {
    pub(super) length: usize,
    pub(super) value: *mut c_void,
}

#[repr(C)]
pub(super) struct Oid {
    pub(super) length: u32,
    pub(super) elements: *const c_void,
}

#[repr(C)]
pub(super) struct OidSet {
    pub(super) count: usize,
    pub(super) elements: *const Oid,
}

#[repr(C)]
pub(super) struct Entry {
    pub(super) key: *const c_char,
    pub(super) value: *const c_char,
}

#[repr(C)]
pub(super) struct Store {
    pub(super) count: u32,
    pub(super) elements: *const Entry,
}

// SAFETY: an Oid points to a constant of this program, and nothing changes either.
unsafe impl Sync for Oid {}

pub(super) const fn oid(bytes: &'static [u8]) -> Oid {
    Oid {
        length: bytes.len() as u32,
        elements: bytes.as_ptr().cast(),
    }
}

/// The mechanism Kerberos 5, and the two kinds of names (RFC 1964, RFC 2744).
pub(super) static KRB5: Oid = oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02");
pub(super) static HOST_BASED: Oid = oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04");
pub(super) static PRINCIPAL: Oid = oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01");

pub(super) const INITIATE: c_int = 1;
pub(super) const INDEFINITE: u32 = u32::MAX;
pub(super) const MUTUAL_FLAG: u32 = 2;
pub(super) const REPLAY_FLAG: u32 = 4;
pub(super) const SEQUENCE_FLAG: u32 = 8;
pub(super) const INTEGRITY_FLAG: u32 = 32;
/// Never delegation: a broker must not act as the client.
pub(super) const FLAGS: u32 = MUTUAL_FLAG | REPLAY_FLAG | SEQUENCE_FLAG | INTEGRITY_FLAG;

pub(super) const CONTINUE_NEEDED: u32 = 1;
/// The calling errors and routine errors of a major status.
pub(super) const ERRORS: u32 = 0xffff_0000;
pub(super) const OF_GSSAPI: c_int = 1;
pub(super) const OF_MECHANISM: c_int = 2;
/// The limit on the messages of one status.
pub(super) const MESSAGES_MAX: usize = 8;

macro_rules! functions {
    ($($name:ident: ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of the library.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// Finds the functions, or returns the name of one that is missing.
            fn of(library: *mut c_void) -> Result<Self, &'static str> {
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0").as_ptr().cast();
                        // SAFETY: `library` comes from dlopen and is never closed. The name ends
                        // with a NUL.
                        let found = unsafe { libc::dlsym(library, name) };
                        if found.is_null() {
                            return Err(stringify!($name));
                        }
                        // SAFETY: the headers of the library declare the function with this type.
                        unsafe {
                            mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> $result,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    gss_import_name: (*mut u32, *const Buffer, *const Oid, *mut Name) -> u32;
    gss_display_name: (*mut u32, Name, *mut Buffer, *mut *const Oid) -> u32;
    gss_release_name: (*mut u32, *mut Name) -> u32;
    gss_acquire_cred_from: (*mut u32, Name, u32, *const OidSet, c_int, *const Store,
        *mut Credential, *mut *mut OidSet, *mut u32) -> u32;
    gss_inquire_cred: (*mut u32, Credential, *mut Name, *mut u32, *mut c_int,
        *mut *mut OidSet) -> u32;
    gss_release_cred: (*mut u32, *mut Credential) -> u32;
    gss_init_sec_context: (*mut u32, Credential, *mut ContextId, Name, *const Oid, u32, u32,
        *mut c_void, *const Buffer, *mut *const Oid, *mut Buffer, *mut u32, *mut u32) -> u32;
    gss_delete_sec_context: (*mut u32, *mut ContextId, *mut Buffer) -> u32;
    gss_wrap: (*mut u32, ContextId, c_int, u32, *const Buffer, *mut c_int, *mut Buffer) -> u32;
    gss_unwrap: (*mut u32, ContextId, *const Buffer, *mut Buffer, *mut c_int, *mut u32) -> u32;
    gss_display_status: (*mut u32, u32, c_int, *const Oid, *mut u32, *mut Buffer) -> u32;
    gss_release_buffer: (*mut u32, *mut Buffer) -> u32;
    krb5_init_context: (*mut Krb5) -> i32;
    krb5_free_context: (Krb5) -> ();
    krb5_cc_resolve: (Krb5, *const c_char, *mut Cache) -> i32;
    krb5_cc_destroy: (Krb5, Cache) -> i32;
}

/// Loads the library of the process, once. The error says how to install it.
pub(super) fn functions() -> Result<&'static Functions, String> {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    if let Some(functions) = FUNCTIONS.get() {
        return Ok(functions);
    }
    let functions = find(FILE)?;
    Ok(FUNCTIONS.get_or_init(|| functions))
}

pub(super) fn find(file: &CStr) -> Result<Functions, String> {
    let unusable = |reason: &str| {
        let file = file.to_string_lossy();
        format!(
            "sasl_mechanism GSSAPI needs the Kerberos library {file} of MIT (Debian and Ubuntu: \
             apt install libgssapi-krb5-2, Fedora: dnf install krb5-libs, Alpine: apk add \
             krb5-libs): {reason}"
        )
    };
    // SAFETY: the name ends with a NUL. The library's initializers run, as for any program that
    // links with it.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: the text belongs to this thread until its next call of these functions.
        let reason = unsafe { libc::dlerror().cast_const().as_ref() };
        let reason = reason.map_or("it cannot be loaded".into(), |reason| {
            // SAFETY: dlerror returns a text that ends with a NUL.
            unsafe { CStr::from_ptr(reason) }.to_string_lossy()
        });
        return Err(unusable(&reason));
    }
    Functions::of(library).map_err(|name| unusable(&format!("it has no function {name}")))
}
