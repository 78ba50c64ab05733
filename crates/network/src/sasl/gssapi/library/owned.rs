//! What the library makes and gets back: buffers, names, credentials, and caches in memory.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{process, ptr, slice};

use super::c_text;
use super::interface::{Buffer, Cache, Credential, Functions, Krb5, Name};
use crate::sasl::gssapi::explain::Failure;

/// A buffer that the library fills.
pub(super) struct Filled(pub(super) Buffer, pub(super) &'static Functions);

impl Filled {
    pub(super) fn new(functions: &'static Functions) -> Self {
        let (length, value) = (0, ptr::null_mut());
        Self(Buffer { length, value }, functions)
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        if self.0.value.is_null() {
            return Vec::new();
        }
        // SAFETY: the library has set both fields, and the memory lives until `drop`.
        unsafe { slice::from_raw_parts(self.0.value.cast::<u8>(), self.0.length) }.to_vec()
    }

    pub(super) fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.to_vec()).into_owned()
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the library filled the buffer, or it is empty, which is allowed.
        unsafe { (self.1.gss_release_buffer)(&raw mut minor, &raw mut self.0) };
    }
}

pub(super) struct OwnedName(pub(super) Name, pub(super) &'static Functions);

impl Drop for OwnedName {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the library made the name, and nothing else has it.
        unsafe { (self.1.gss_release_name)(&raw mut minor, &raw mut self.0) };
    }
}

pub(super) struct OwnedCredential(pub(super) Credential, pub(super) &'static Functions);

impl Drop for OwnedCredential {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the library made the credential, and nothing else has it.
        unsafe { (self.1.gss_release_cred)(&raw mut minor, &raw mut self.0) };
    }
}

/// A ticket cache in memory, for the tickets of a keytab. Other programs cannot read it.
pub(super) struct MemoryCache {
    pub(super) name: CString,
    krb5: Krb5,
    cache: Cache,
    functions: &'static Functions,
}

// SAFETY: one thread at a time uses it: it is behind a mutex, or dropped.
unsafe impl Send for MemoryCache {}

impl MemoryCache {
    pub(super) fn new(functions: &'static Functions) -> Result<Self, Failure> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = c_text(&format!("MEMORY:thalweg-{}-{number}", process::id()))?;
        let mut made = Self {
            name,
            krb5: ptr::null_mut(),
            cache: ptr::null_mut(),
            functions,
        };
        // SAFETY: it writes the pointer, which `drop` gives back.
        let code = unsafe { (functions.krb5_init_context)(&raw mut made.krb5) };
        Self::check(code)?;
        let Self { name, krb5, .. } = &made;
        // SAFETY: the context was just made, and the name ends with a NUL.
        let code =
            unsafe { (functions.krb5_cc_resolve)(*krb5, name.as_ptr(), &raw mut made.cache) };
        Self::check(code)?;
        Ok(made)
    }

    fn check(code: i32) -> Result<(), Failure> {
        if code == 0 {
            return Ok(());
        }
        Err(Failure {
            major: 0,
            minor: code.cast_unsigned(),
            text: format!("cannot initialize the Kerberos library (error {code}). Check krb5.conf"),
        })
    }
}

impl Drop for MemoryCache {
    fn drop(&mut self) {
        if !self.cache.is_null() {
            // SAFETY: the cache belongs to this context, and nothing else has the pointer. It
            // overwrites the keys of the tickets.
            unsafe { (self.functions.krb5_cc_destroy)(self.krb5, self.cache) };
        }
        if !self.krb5.is_null() {
            // SAFETY: nothing else has the context.
            unsafe { (self.functions.krb5_free_context)(self.krb5) };
        }
    }
}
