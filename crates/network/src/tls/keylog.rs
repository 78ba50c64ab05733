//! `ssl_keylog_file`: writes the secrets of sessions for a tool like Wireshark.

// To ask the system who runs this process.
#![allow(unsafe_code)]

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;

use rustls::KeyLog;

use super::refuse;
use crate::error::ClientError;

/// The option.
const OPTION: &str = "ssl_keylog_file";

/// A file in the format of NSS, which only its owner may read.
#[derive(Debug)]
pub(super) struct KeyLogFile(Mutex<File>);

impl KeyLogFile {
    /// Opens the file, or creates it.
    pub(super) fn open(path: &Path) -> Result<Self, ClientError> {
        let refused = |problem: &dyn std::fmt::Display| {
            refuse(OPTION, &format_args!("{}: {problem}", path.display()))
        };
        // Opening a pipe would wait for its reader, and writing to it could block.
        if path.exists() && !path.is_file() {
            return Err(refused(&"is not a regular file"));
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| refused(&error))?;
        if let Some(problem) = exposure(&file).map_err(|error| refused(&error))? {
            return Err(refused(&problem));
        }
        Ok(Self(Mutex::new(file)))
    }
}

/// Returns why a person other than the owner of this process could read the file, if so.
#[cfg(unix)]
fn exposure(file: &File) -> io::Result<Option<&'static str>> {
    use std::os::unix::fs::MetadataExt as _;
    let found = file.metadata()?;
    // SAFETY: `geteuid` has no conditions, and cannot fail.
    let me = unsafe { libc::geteuid() };
    Ok(if found.uid() != me {
        Some(
            "belongs to another user, who could use it to decrypt everything that the client sends \
             and receives. Remove the file, or name another one",
        )
    } else if found.mode() & 0o077 != 0 {
        Some(
            "is readable for other users, who could use it to decrypt everything that the client \
             sends and receives. Run `chmod 600` on it",
        )
    } else {
        None
    })
}

#[cfg(not(unix))]
fn exposure(_: &File) -> io::Result<Option<&'static str>> {
    Ok(None)
}

impl KeyLog for KeyLogFile {
    /// Writes a line. It runs on the I/O thread, but a short line to a regular file does not wait.
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = format!("{label} ");
        for (bytes, end) in [(client_random, ' '), (secret, '\n')] {
            for byte in bytes {
                let _ = write!(line, "{byte:02x}");
            }
            line.push(end);
        }
        if let Ok(mut file) = self.0.lock() {
            // Without the line a tool cannot decrypt. Nothing else depends on it.
            let _ = file.write_all(line.as_bytes());
        }
    }
}
