//! Who has logged in, and what this user may do.

mod acl_rules;
mod authorization;
mod logins;
mod scram_users;
mod tokens;

use super::*;
