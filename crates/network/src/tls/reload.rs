//! Reads the files of TLS again when they change (`ssl_reload_interval_ms`).
//!
//! ```text
//! a connection opens ─▶ interval over? ─▶ blocking thread: changed? ─▶ read all ─▶ use them
//! ```
//! It looks at the files instead of asking the system for changes, because that does not work for
//! the mounted secrets of Kubernetes. If the new files cannot be used, for example because only one
//! of a pair was replaced, the client continues with those that it has, and looks again later.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::{Loaded, Pem, TlsConfig};
use crate::clock;
use crate::error::ClientError;
use crate::log::{self, Level, Logger};
use crate::sasl::{PasswordSource, Secret};

/// How long a connection waits for new files. After that it uses the old ones.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How long the client waits for an application to supply a password for new files.
const PASSWORD_MAX: Duration = Duration::from_secs(30);

/// The TLS of one client.
pub(crate) struct Tls {
    loaded: Mutex<Arc<Loaded>>,
    /// `None`: there is nothing to read again.
    files: Option<Files>,
}

struct Files {
    config: TlsConfig,
    interval: Duration,
    state: Mutex<State>,
}

struct State {
    look_at: Instant,
    is_looking: bool,
    stamps: Vec<Stamp>,
    /// The last warning, which is not repeated.
    warned: Option<String>,
}

/// What shows that a file has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    path: PathBuf,
    /// `None`: it cannot be read.
    seen: Option<Seen>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
    /// Whether it is something like a pipe, which can be read only once, and may block.
    is_special: bool,
}

impl Stamp {
    fn of(path: PathBuf) -> Self {
        let seen = std::fs::metadata(&path).ok().map(|file| Seen {
            modified: file.modified().ok(),
            size: file.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&file),
            #[cfg(not(unix))]
            inode: 0,
            is_special: !file.is_file() && !file.is_dir(),
        });
        Self { path, seen }
    }

    fn is_special(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.is_special)
    }
}

impl TlsConfig {
    /// Returns the stamps of all files.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        let mut stamps = Vec::new();
        for pem in [&self.ca, &self.cert, &self.key, &self.crl] {
            let Some(Pem::File(path)) = pem else {
                continue;
            };
            if path.is_dir() {
                stamps.extend(files_in(path).into_iter().map(Stamp::of));
            }
            stamps.push(Stamp::of(path.clone()));
        }
        stamps
    }
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

impl Tls {
    /// Takes what was read from files with these stamps. If one of them is a pipe, the client never
    /// reads them again.
    pub(super) fn new(config: &TlsConfig, loaded: Loaded, stamps: Vec<Stamp>) -> Self {
        let is_possible = !stamps.is_empty() && !stamps.iter().any(Stamp::is_special);
        let interval = config.reload_interval.filter(|_| is_possible);
        Self {
            loaded: Mutex::new(Arc::new(loaded)),
            files: interval.map(|interval| Files {
                config: config.clone(),
                interval,
                state: Mutex::new(State {
                    look_at: clock::now() + interval,
                    is_looking: false,
                    stamps,
                    warned: None,
                }),
            }),
        }
    }

    /// Returns what a new connection uses. If files have changed, these are the new ones.
    pub(crate) async fn current(self: &Arc<Self>) -> Arc<Loaded> {
        if self.is_due() {
            let tls = Arc::clone(self);
            let looking = tokio::task::spawn_blocking(move || tls.look());
            // The blocking thread continues even if this connection stops waiting for it.
            let _ = tokio::time::timeout(WAIT_MAX, looking).await;
        }
        Arc::clone(&locked(&self.loaded))
    }

    /// Whether it is time to look at the files, and no other thread does.
    fn is_due(&self) -> bool {
        let Some(files) = &self.files else {
            return false;
        };
        let mut state = locked(&files.state);
        let now = clock::now();
        if state.is_looking || now < state.look_at {
            return false;
        }
        (state.look_at, state.is_looking) = (now + files.interval, true);
        true
    }

    /// Looks at the files, and reads all of them if one has changed. It may take seconds.
    fn look(&self) {
        let Some(files) = &self.files else {
            return;
        };
        let _looking = Looking(&files.state);
        // Before the files are read. If they change meanwhile, the client reads them once more.
        let stamps = files.config.stamps();
        let changed = locked(&files.state).stamps != stamps;
        let outcome = changed.then(|| match stamps.iter().find(|each| each.is_special()) {
            // Reading it could block this thread for ever.
            Some(pipe) => Err(ClientError::Configuration(format!(
                "{} is not a regular file, so the client does not read it again. Replace it with a \
                 regular file",
                pipe.path.display()
            ))),
            None => files.config.load(&mut supplied),
        });
        let mut state = locked(&files.state);
        match outcome {
            None => {}
            Some(Ok(loaded)) => {
                *locked(&self.loaded) = Arc::new(loaded);
                (state.stamps, state.warned) = (stamps, None);
                log::emit(Logger::Network, Level::Info, || {
                    "certificate or key files have changed, and the client has read them again. \
                     New connections use them"
                        .to_owned()
                });
            }
            Some(Err(error)) => state.warn(&error),
        }
    }
}

/// Marks that a thread checks the files. Dropping it, even in a panic, lets another thread check.
struct Looking<'a>(&'a Mutex<State>);

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        locked(self.0).is_looking = false;
    }
}

impl State {
    fn warn(&mut self, error: &ClientError) {
        let text = error.to_string();
        if self.warned.as_ref() != Some(&text) {
            log::emit(Logger::Network, Level::Warning, || {
                format!(
                    "the changed certificates or keys cannot be used: {text}. The client \
                     continues with the old ones"
                )
            });
            self.warned = Some(text);
        }
    }
}

/// Gets a password that the application supplies.
fn supplied(source: &PasswordSource) -> Result<Secret, String> {
    let deadline = Instant::now() + PASSWORD_MAX;
    match source.wait(deadline, &mut || false) {
        Ok(supplied) => supplied.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "the function returned no password within {} s",
            PASSWORD_MAX.as_secs()
        )),
    }
}

/// Locks a value. Nothing panics while it holds the lock.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A copy may keep the time of its original.
    #[test]
    fn a_file_of_the_same_size_and_time_is_found_by_its_inode() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("thalweg-stamp-{}", std::process::id()));
        let other = path.with_extension("other");
        let config = TlsConfig {
            cert: Some(Pem::File(path.clone())),
            ca: Some(Pem::Inline("not a file".to_owned())),
            ..TlsConfig::default()
        };
        std::fs::write(&path, "first").expect("a temporary file");
        std::fs::write(&other, "other").expect("a temporary file");
        let before = config.stamps();
        assert_eq!(config.stamps(), before);
        let time = std::fs::metadata(&path).and_then(|file| file.modified());
        let file = std::fs::File::options().append(true).open(&other);
        let file = file.expect("it was written");
        file.set_modified(time.expect("a time"))
            .expect("our own file");
        std::fs::rename(&other, &path).expect("the same folder");
        assert_ne!(config.stamps(), before);
        std::fs::remove_file(&path).expect("it was written");
        assert_eq!(config.stamps()[0].seen, None);
    }
}
