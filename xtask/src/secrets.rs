//! The fields that hold secrets. `Debug` of a message does not show them, typed or by name.

/// (message, field): the field of the message itself, or of any struct within it.
const HIDDEN: [(&str, &str); 13] = [
    ("AlterConfigsRequest", "Value"),
    ("AlterUserScramCredentialsRequest", "Salt"),
    ("AlterUserScramCredentialsRequest", "SaltedPassword"),
    ("CreateDelegationTokenResponse", "Hmac"),
    ("DescribeConfigsResponse", "Value"),
    ("DescribeDelegationTokenResponse", "Hmac"),
    // Another request, or its response, as a broker forwards it to the controller.
    ("EnvelopeRequest", "RequestData"),
    ("EnvelopeResponse", "ResponseData"),
    ("ExpireDelegationTokenRequest", "Hmac"),
    ("IncrementalAlterConfigsRequest", "Value"),
    ("RenewDelegationTokenRequest", "Hmac"),
    ("SaslAuthenticateRequest", "AuthBytes"),
    ("SaslAuthenticateResponse", "AuthBytes"),
];

pub(crate) fn is_hidden(message: &str, field: &str) -> bool {
    HIDDEN.contains(&(message, field))
}

/// Returns the names of all hidden fields, sorted. A value by name does not know its message.
pub(crate) fn hidden_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = HIDDEN.iter().map(|(_, field)| *field).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::{Field, Message, Type};
    use crate::schema;

    const WORDS: [&str; 7] = [
        "authbytes",
        "credential",
        "hmac",
        "password",
        "salt",
        "secret",
        "token",
    ];

    /// Fields with one of the words in their names, and why everybody may see them.
    const HARMLESS: [(&str, &str); 3] = [
        ("TokenId", "names a token: its secret is the HMAC"),
        ("TokenRequesterPrincipalName", "names a user"),
        ("TokenRequesterPrincipalType", "is the kind of a principal"),
    ];

    /// Calls `see` with each field that holds text or bytes.
    fn walk(message: &Message, see: &mut dyn FnMut(&Field)) {
        let structs = message.all_structs();
        let inner = structs.iter().flat_map(|one| &one.fields);
        for field in message.fields.iter().chain(inner) {
            let mut ty = &field.ty;
            while let Type::Array(element) = ty {
                ty = element;
            }
            if matches!(ty, Type::Primitive("string" | "bytes" | "records")) {
                see(field);
            }
        }
    }

    #[test]
    fn a_field_named_like_a_secret_is_hidden_or_listed_as_harmless() {
        let messages = schema::load().expect("the committed schema is valid");
        let mut unused: BTreeSet<&str> = HARMLESS.iter().map(|(name, _)| *name).collect();
        for message in &messages {
            walk(message, &mut |field| {
                let name = field.name.to_lowercase();
                if !WORDS.iter().any(|word| name.contains(word)) {
                    return;
                }
                let harmless = HARMLESS.iter().any(|(known, _)| *known == field.name);
                unused.remove(field.name.as_str());
                assert!(
                    harmless != is_hidden(&message.name, &field.name),
                    "{}.{}: add it to HIDDEN, or to HARMLESS with a reason",
                    message.name,
                    field.name
                );
            });
        }
        assert!(unused.is_empty(), "not in the schema: {unused:?}");
    }

    #[test]
    fn every_hidden_field_is_in_the_schema() {
        let messages = schema::load().expect("the committed schema is valid");
        let mut missing: BTreeSet<(&str, &str)> = HIDDEN.into_iter().collect();
        for message in &messages {
            walk(message, &mut |field| {
                missing.retain(|(owner, name)| *owner != message.name || *name != field.name);
            });
        }
        assert!(missing.is_empty(), "{missing:?}");
    }
}
