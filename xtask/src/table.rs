//! Generates `generated/table.rs`: the static table of the by-name codec.

use std::fmt::Write as _;

use crate::model::{Api, Field, Message, Type, Versions};
use crate::names::upper;
use crate::{secrets, sizes};

pub(crate) fn generate(apis: &[Api], data: &[Message]) -> String {
    let mut out = String::from(crate::generate::NOTICE);
    out.push_str(
        "\nuse crate::ApiKey;\nuse crate::dynamic::DefaultValue as D;\n\
         use crate::dynamic::FieldSchema as F;\nuse crate::dynamic::Kind::{self, *};\n\
         use crate::dynamic::{ApiSchema, MessageSchema, StructSchema, Versions};\n\n",
    );
    let mut lists = String::from("pub(crate) static APIS: &[ApiSchema] = &[\n");
    for api in apis {
        let _ = writeln!(
            lists,
            "    ApiSchema {{ key: ApiKey({}), name: \"{}\", request: {}, response: {} }},",
            api.key,
            api.name,
            message(&api.request, &mut out),
            message(&api.response, &mut out),
        );
    }
    lists.push_str("];\n\npub(crate) static DATA: &[MessageSchema] = &[\n");
    for one in data {
        let _ = writeln!(lists, "    {},", message(one, &mut out));
    }
    lists.push_str("];\n\n");
    let _ = writeln!(
        lists,
        "pub(crate) static HIDDEN: &[&str] = &{:?};",
        secrets::hidden_names()
    );
    out + &lists
}

/// Writes the message's structs to `out`, and returns the expression of the message itself.
fn message(message: &Message, out: &mut String) -> String {
    let prefix = upper(&message.name);
    let structs = message.all_structs();
    let ranges = sizes::reachable(message, &structs);
    for one in &structs {
        let Some(range) = ranges.get(&one.name) else {
            continue;
        };
        let size_min = sizes::struct_min(message, &structs, &one.name, *range);
        let ident = format!("{prefix}__{}", upper(&one.name));
        print_struct(message, &ident, &one.name, &one.fields, size_min, out);
    }
    print_struct(message, &prefix, &message.name, &message.fields, 0, out);
    format!(
        "MessageSchema {{ name: \"{}\", versions: {}, flexible: {}, root: &{prefix} }}",
        message.name,
        range(message.versions),
        range(message.flexible.intersect(message.versions)),
    )
}

fn range(versions: Versions) -> String {
    if versions.is_empty() {
        "Versions::NONE".to_owned()
    } else {
        format!(
            "Versions {{ min: {}, max: {} }}",
            versions.min, versions.max
        )
    }
}

fn print_struct(
    message: &Message,
    ident: &str,
    name: &str,
    fields: &[Field],
    size_min: usize,
    out: &mut String,
) {
    let _ = writeln!(
        out,
        "static {ident}: StructSchema = StructSchema {{ name: \"{name}\", size_min: {size_min}, \
         fields: &["
    );
    for field in fields {
        if !field.versions.intersect(message.versions).is_empty() {
            let _ = writeln!(out, "    {},", print_field(message, field));
        }
    }
    out.push_str("] };\n");
}

fn print_field(message: &Message, field: &Field) -> String {
    let versions = field.versions.intersect(message.versions);
    let mut text = format!(
        "F::new(\"{}\", {}, {}, {})",
        field.name,
        kind(message, &field.ty),
        versions.min,
        versions.max
    );
    let nullable = field.nullable.intersect(message.versions);
    if !nullable.is_empty() {
        let _ = write!(text, ".null({}, {})", nullable.min, nullable.max);
    }
    if let Some(tag) = field.tag {
        let _ = write!(text, ".tag({tag})");
    }
    match field.default.as_deref() {
        // Records have no empty form in Kafka: null is their default.
        None if field.ty == Type::Primitive("records") && !nullable.is_empty() => {
            text.push_str(".or(D::Null)");
        }
        None => {}
        Some("null") => text.push_str(".or(D::Null)"),
        Some("true") => text.push_str(".or(D::True)"),
        Some(number) => {
            let _ = write!(text, ".or(D::Int({number}))");
        }
    }
    if field.ignorable {
        text.push_str(".ignorable()");
    }
    if field.rigid {
        text.push_str(".rigid()");
    }
    if secrets::is_hidden(&message.name, &field.name) {
        text.push_str(".hidden()");
    }
    text
}

fn kind(message: &Message, ty: &Type) -> String {
    match ty {
        Type::Primitive(name) => {
            let (first, rest) = name.split_at(1);
            format!("Kind::{}{rest}", first.to_uppercase())
        }
        Type::Struct(name) => format!("Struct(&{}__{})", upper(&message.name), upper(name)),
        Type::Array(element) => format!("Array(&{})", kind(message, element)),
    }
}
