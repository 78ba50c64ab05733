//! [`Tokens`]: delegation tokens (KIP-48, KIP-373).
//!
//! ```text
//! create ─▶ Token ─ login of SCRAM with tokenauth ─▶ a session that ends with the token
//!             └─ renew, expire, or no client renews it ─▶ gone
//! ```
//! The password of a token is the HMAC of its ID with the key of all brokers. So the broker does
//! not store it. The rules are those of Kafka's `DelegationTokenControlManager`. Unlike in Kafka, a
//! client cannot log in with an expired token that the broker has not removed yet.

use std::collections::BTreeMap;

use thalweg_protocol::ErrorCode;
use thalweg_security::scram::{Credential, ScramHash};
use thalweg_security::{Salts, TokenHmac, TokenKey};

use super::Principal;
use super::config::SaslMechanism;
use crate::options::TokenOptions;

/// Creating more than this is refused, because each user may create tokens.
const TOKENS_BYTES_MAX: usize = 16 << 20;
/// About what a token takes besides its names.
const TOKEN_BYTES: usize = 1024;

/// All tokens of a broker.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// `None`: the broker has no tokens.
    key: Option<TokenKey>,
    lifetime_max_ms: i64,
    renewal_ms: i64,
    by_id: BTreeMap<String, Token>,
    /// The IDs, by the digests of the HMACs.
    by_digest: BTreeMap<Vec<u8>, String>,
}

#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) owner: Principal,
    pub(crate) requester: Principal,
    pub(crate) renewers: Vec<Principal>,
    pub(crate) issued_ms: i64,
    pub(crate) expires_ms: i64,
    /// No renewal moves the expiry beyond this time.
    pub(crate) expires_max_ms: i64,
    credentials: Vec<(ScramHash, Credential)>,
}

/// What a client wants.
#[derive(Debug)]
pub(crate) struct NewToken {
    pub(crate) id: String,
    pub(crate) owner: Principal,
    pub(crate) requester: Principal,
    pub(crate) renewers: Vec<Principal>,
    /// 0 or less: the maximum.
    pub(crate) lifetime_ms: i64,
}

impl Token {
    /// Whether the principal owns the token or may renew it.
    pub(crate) fn belongs_to(&self, principal: &Principal) -> bool {
        self.owner == *principal || self.renewers.contains(principal)
    }

    pub(super) fn credential(&self, hash: ScramHash) -> Option<&Credential> {
        let mut credentials = self.credentials.iter();
        credentials
            .find(|(each, _)| *each == hash)
            .map(|(_, credential)| credential)
    }

    fn is_over(&self, now_ms: i64) -> bool {
        self.expires_max_ms < now_ms || self.expires_ms < now_ms
    }
}

impl Tokens {
    pub(super) fn new(options: &TokenOptions) -> Self {
        Self {
            key: options.key.as_ref().map(TokenKey::new),
            lifetime_max_ms: options.lifetime_max_ms,
            renewal_ms: options.renewal_ms,
            by_id: BTreeMap::new(),
            by_digest: BTreeMap::new(),
        }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.key.is_some()
    }

    /// Creates a token. This derives keys, which takes some milliseconds for each mechanism.
    pub(crate) fn create(
        &mut self,
        wish: NewToken,
        mechanisms: &[SaslMechanism],
        salts: &Salts,
        now_ms: i64,
    ) -> Result<(&Token, TokenHmac), ErrorCode> {
        let hmac = self.hmac(&wish.id)?;
        let names = |renewers: &[Principal]| -> usize {
            let lengths = renewers.iter().map(|each| each.text().len());
            lengths.sum::<usize>() + TOKEN_BYTES
        };
        let others = self.by_id.values().map(|token| names(&token.renewers));
        if others.sum::<usize>() + names(&wish.renewers) > TOKENS_BYTES_MAX {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        let lifetime_ms = limited(wish.lifetime_ms, self.lifetime_max_ms);
        let expires_max_ms = now_ms.saturating_add(lifetime_ms);
        let password = hmac.password();
        let credentials = mechanisms.iter().filter_map(|mechanism| match mechanism {
            SaslMechanism::Scram(hash) => {
                let credential = Credential::derive(*hash, &wish.id, &password, salts);
                Some((*hash, credential))
            }
            SaslMechanism::Plain | SaslMechanism::OAuthBearer | SaslMechanism::AwsMskIam => None,
        });
        let token = Token {
            owner: wish.owner,
            requester: wish.requester,
            renewers: wish.renewers,
            issued_ms: now_ms,
            expires_ms: expires_max_ms.min(now_ms.saturating_add(self.renewal_ms)),
            expires_max_ms,
            credentials: credentials.collect(),
        };
        let digest = TokenHmac::digest(hmac.bytes());
        self.by_digest.insert(digest, wish.id.clone());
        Ok((self.by_id.entry(wish.id).or_insert(token), hmac))
    }

    /// Moves the expiry to `period_ms` from now, and returns it. 0 or less: as far as possible.
    pub(crate) fn renew(
        &mut self,
        hmac: &[u8],
        user: &Principal,
        period_ms: i64,
        now_ms: i64,
    ) -> Result<i64, ErrorCode> {
        let period_ms = limited(period_ms, self.renewal_ms);
        let (_, token) = self.changeable(hmac, user, now_ms)?;
        token.expires_ms = token.expires_max_ms.min(now_ms.saturating_add(period_ms));
        Ok(token.expires_ms)
    }

    /// Moves the expiry to `period_ms` from now, and returns it. Less than 0: removes the token.
    pub(crate) fn expire(
        &mut self,
        hmac: &[u8],
        user: &Principal,
        period_ms: i64,
        now_ms: i64,
    ) -> Result<i64, ErrorCode> {
        let (id, token) = self.changeable(hmac, user, now_ms)?;
        if period_ms >= 0 {
            token.expires_ms = token.expires_max_ms.min(now_ms.saturating_add(period_ms));
            return Ok(token.expires_ms);
        }
        self.by_id.remove(&id);
        self.by_digest.remove(&TokenHmac::digest(hmac));
        Ok(period_ms)
    }

    fn changeable(
        &mut self,
        hmac: &[u8],
        user: &Principal,
        now_ms: i64,
    ) -> Result<(String, &mut Token), ErrorCode> {
        if !self.is_enabled() {
            return Err(ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED);
        }
        let missing = ErrorCode::DELEGATION_TOKEN_NOT_FOUND;
        let id = self
            .by_digest
            .get(&TokenHmac::digest(hmac))
            .ok_or(missing)?;
        let token = self.by_id.get_mut(id).ok_or(missing)?;
        if token.is_over(now_ms) {
            return Err(ErrorCode::DELEGATION_TOKEN_EXPIRED);
        }
        if !token.belongs_to(user) {
            return Err(ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH);
        }
        Ok((id.clone(), token))
    }

    /// Returns all tokens with their IDs, also those that have expired but are not removed yet.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Token)> {
        self.by_id.iter().map(|(id, token)| (id.as_str(), token))
    }

    pub(crate) fn hmac(&self, id: &str) -> Result<TokenHmac, ErrorCode> {
        let key = self.key.as_ref();
        let key = key.ok_or(ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED)?;
        Ok(key.hmac(id))
    }

    /// Returns the token with which a client may log in.
    pub(super) fn for_login(&self, id: &str, now_ms: i64) -> Option<&Token> {
        let token = self.by_id.get(id)?;
        (!token.is_over(now_ms)).then_some(token)
    }

    /// Removes the tokens that have expired.
    pub(crate) fn forget(&mut self, now_ms: i64) {
        self.by_id.retain(|_, token| !token.is_over(now_ms));
        let by_id = &self.by_id;
        self.by_digest.retain(|_, id| by_id.contains_key(id));
    }
}

/// Returns the maximum if nothing is asked.
fn limited(asked_ms: i64, max_ms: i64) -> i64 {
    if asked_ms > 0 {
        asked_ms.min(max_ms)
    } else {
        max_ms
    }
}
