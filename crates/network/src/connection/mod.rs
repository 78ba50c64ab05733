//! One connection: opened by [`open`], which authenticates it ([`authentication`]), then driven by
//! [`io`] until it breaks or is closed.

mod authentication;
mod hint;
mod io;
mod open;
mod outbox;
mod reader;
mod tls;
mod writer;

pub(crate) use io::{EventSink, run};
pub(crate) use open::{Opener, resolve};
pub(crate) use outbox::Outbox;
