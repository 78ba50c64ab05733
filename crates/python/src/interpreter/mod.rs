//! The rules of the interpreter: the GIL, signals, application code, the garbage collector, exit.
//!
//! ```text
//! gil.rs        the only module that releases the GIL to wait
//! callbacks.rs  the thread that runs the application's callbacks
//! failures.rs  panics and exceptions of work that has no caller
//! foreign.rs    application code that runs within our calls, which the exit waits for
//! untracked.rs  objects that the garbage collector does not see
//! runtime.rs    threads, exit and log of the process, for Python
//! ```

pub(crate) mod callbacks;
pub(crate) mod failures;
pub(crate) mod foreign;
pub(crate) mod gil;
pub(crate) mod runtime;
pub(crate) mod untracked;
