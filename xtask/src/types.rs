//! Generates `generated/messages/*.rs`: typed messages for the APIs that the Rust code uses.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::code::{self, Context};
use crate::files::Files;
use crate::generate::NOTICE;
use crate::model::{Api, Message, Struct};
use crate::names::snake;
use crate::sizes;

/// The APIs that have typed messages. All others use the by-name codec.
const TYPED: [&str; 54] = [
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "SaslHandshake",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeConfigs",
    "SaslAuthenticate",
    "CreatePartitions",
    "IncrementalAlterConfigs",
    "DescribeCluster",
    "DescribeTopicPartitions",
    "DescribeProducers",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "AlterConfigs",
    "ListGroups",
    "DescribeGroups",
    "DeleteGroups",
    "OffsetDelete",
    "DescribeLogDirs",
    "ElectLeaders",
    "ListPartitionReassignments",
    "ListConfigResources",
    "DescribeAcls",
    "DescribeTransactions",
    "ListTransactions",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "CreateAcls",
    "DeleteAcls",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
    "DescribeClientQuotas",
    "AlterClientQuotas",
];

const TYPED_DATA: [&str; 2] = ["RequestHeader", "ResponseHeader"];

pub(crate) fn generate(apis: &[Api], data: &[Message], files: &mut Files) {
    let typed: Vec<&Api> = apis
        .iter()
        .filter(|api| TYPED.contains(&api.name.as_str()))
        .collect();
    assert_eq!(typed.len(), TYPED.len(), "every typed API is in the schema");
    let mut index = NOTICE.to_owned();
    index.push_str("//! Typed messages: one module an API, named as Kafka names it.\n\n");
    index.push_str("mod registry;\npub(crate) use registry::visit;\n\n");
    for api in &typed {
        let module = snake(&api.name);
        let _ = writeln!(index, "pub mod {module};");
        files.insert(format!("messages/{module}.rs"), api_module(api));
    }
    index.push_str("pub mod header;\n");
    let mut header = module_head();
    for message in data
        .iter()
        .filter(|message| TYPED_DATA.contains(&message.name.as_str()))
    {
        header += &message_code(message, &BTreeMap::new(), &[]);
        let _ = writeln!(header, "{}", message_impl(message));
    }
    files.insert("messages/header.rs".to_owned(), header);
    files.insert("messages/registry.rs".to_owned(), registry(&typed));
    files.insert(
        "messages/mod.rs".to_owned(),
        index.replacen(
            &format!("{NOTICE}//! Typed messages: one module an API, named as Kafka names it.\n"),
            &format!("//! Typed messages: one module an API, named as Kafka names it.\n{NOTICE}"),
            1,
        ),
    );
}

fn module_head() -> String {
    format!("{NOTICE}\nuse crate::typed::*;\n\n")
}

fn api_module(api: &Api) -> String {
    let mut out = module_head();
    let request_structs = api.request.all_structs();
    let mut renames = BTreeMap::new();
    let mut shared = Vec::new();
    for one in api.response.all_structs() {
        match request_structs.iter().find(|other| other.name == one.name) {
            Some(other) if other.fields == one.fields => shared.push(one.name),
            Some(_) => {
                renames.insert(
                    one.name.clone(),
                    format!("{}{}", api.response.name, one.name),
                );
            }
            None => {}
        }
    }
    out += &message_code(&api.request, &BTreeMap::new(), &[]);
    out += &message_code(&api.response, &renames, &shared);
    let _ = writeln!(out, "{}", message_impl(&api.request));
    let _ = writeln!(out, "{}", message_impl(&api.response));
    let _ = writeln!(
        out,
        "request!({}, {}, {});",
        api.request.name, api.key, api.response.name
    );
    out
}

fn message_impl(message: &Message) -> String {
    format!(
        "message!({}, {}, {});",
        message.name, message.versions.min, message.versions.max
    )
}

/// Generates the structs of a message, except those that its request has already defined.
fn message_code(
    message: &Message,
    renames: &BTreeMap<String, String>,
    shared: &[String],
) -> String {
    let structs = message.all_structs();
    let ranges = sizes::reachable(message, &structs);
    let mut out = String::new();
    let root = Struct {
        name: message.name.clone(),
        fields: message.fields.clone(),
    };
    for one in std::iter::once(&root).chain(structs.iter().rev()) {
        if shared.contains(&one.name) {
            continue;
        }
        let context = Context {
            message,
            structs: &structs,
            ranges: &ranges,
            renames,
            // A struct shared by request and response must be valid for the versions of both.
            range: ranges.get(&one.name).copied().unwrap_or(message.versions),
            name: renames.get(&one.name).unwrap_or(&one.name).clone(),
        };
        out += &code::print_struct(&context, one);
    }
    out
}

/// Generates a function that selects a type by key, for tests and fuzzing.
fn registry(apis: &[&Api]) -> String {
    let mut out = format!("{NOTICE}\nuse crate::fuzzing::Visitor;\n\n");
    out.push_str(
        "/// Shows the visitor the type of a message; `None` if the API has no typed messages.\n\
         pub(crate) fn visit<V: Visitor>(key: i16, response: bool, visitor: V) \
         -> Option<V::Output> {\n    Some(match (key, response) {\n",
    );
    for api in apis {
        for (message, response) in [(&api.request, false), (&api.response, true)] {
            let _ = writeln!(
                out,
                "        ({}, {response}) => visitor.visit::<super::{}::{}>(),",
                api.key,
                snake(&api.name),
                message.name
            );
        }
    }
    out.push_str("        _ => return None,\n    })\n}\n");
    out
}
