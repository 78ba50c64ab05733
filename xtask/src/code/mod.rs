//! Generates the Rust code of one typed struct: fields and defaults here, writer and reader in the
//! submodules.

mod read;
mod write;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::model::{Field, Message, Struct, Type, Versions};
use crate::names::snake;
use crate::secrets;

pub(crate) struct Context<'a> {
    pub(crate) message: &'a Message,
    pub(crate) structs: &'a [Struct],
    /// The versions in which each struct can occur.
    pub(crate) ranges: &'a BTreeMap<String, Versions>,
    /// New names of structs whose Kafka name is already used in the module.
    pub(crate) renames: &'a BTreeMap<String, String>,
    /// The versions in which the struct can occur.
    pub(crate) range: Versions,
    pub(crate) name: String,
}

pub(crate) fn print_struct(context: &Context<'_>, one: &Struct) -> String {
    let fields: Vec<&Field> = one
        .fields
        .iter()
        .filter(|field| {
            !field
                .versions
                .intersect(context.message.versions)
                .is_empty()
        })
        .collect();
    let mut out = String::new();
    let plain = fields.iter().all(|field| is_plain(field));
    let default = if plain { ", Default" } else { "" };
    let hides = fields.iter().any(|field| context.hides(field));
    let debug = if hides { "" } else { "Debug, " };
    let _ = writeln!(out, "#[derive({debug}Clone, PartialEq{default})]");
    let _ = writeln!(out, "pub struct {} {{", context.name);
    for field in &fields {
        let _ = writeln!(out, "    /// {}", context.doc(field));
        let _ = writeln!(
            out,
            "    pub {}: {},",
            snake(&field.name),
            context.rust_type(field)
        );
    }
    out.push_str("}\n\n");
    if !plain {
        let _ = writeln!(out, "impl Default for {} {{", context.name);
        out.push_str("    fn default() -> Self {\n        Self {\n");
        for field in &fields {
            let _ = writeln!(
                out,
                "            {}: {},",
                snake(&field.name),
                default_of(field)
            );
        }
        out.push_str("        }\n    }\n}\n\n");
    }
    if hides {
        out += &context.debug(&fields);
    }
    let _ = writeln!(out, "impl {} {{", context.name);
    out += &context.writer(&fields);
    out += &context.reader(&fields);
    out + "}\n\n"
}

fn is_option(field: &Field) -> bool {
    !field.nullable.is_empty()
}

fn default_is_none(field: &Field) -> bool {
    let records = field.ty == Type::Primitive("records");
    is_option(field) && (field.default.as_deref() == Some("null") || records)
}

/// Returns whether Rust's default is the schema's default.
fn is_plain(field: &Field) -> bool {
    default_is_none(field) || (!is_option(field) && field.default.is_none())
}

fn default_of(field: &Field) -> String {
    match field.default.as_deref() {
        _ if default_is_none(field) => "None".to_owned(),
        None if is_option(field) => "Some(Default::default())".to_owned(),
        None => "Default::default()".to_owned(),
        Some(value) => value.to_owned(),
    }
}

impl Context<'_> {
    fn doc(&self, field: &Field) -> String {
        let mut text = format!(
            "Versions {}",
            field.versions.intersect(self.message.versions)
        );
        let nullable = field.nullable.intersect(self.message.versions);
        if !nullable.is_empty() {
            let _ = write!(text, ", null in {nullable}");
        }
        if let Some(tag) = field.tag {
            let _ = write!(text, ", tag {tag}");
        }
        if let Some(default) = &field.default {
            let _ = write!(text, ", default {default}");
        }
        if field.ignorable {
            text.push_str(", ignorable");
        }
        text + "."
    }

    fn hides(&self, field: &Field) -> bool {
        secrets::is_hidden(&self.message.name, &field.name)
    }

    /// Returns an implementation of `Debug` that does not show hidden fields.
    fn debug(&self, fields: &[&Field]) -> String {
        let mut out = format!("impl fmt::Debug for {} {{\n", self.name);
        out.push_str("    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {\n");
        let _ = writeln!(out, "        f.debug_struct(\"{}\")", self.name);
        for field in fields {
            let name = snake(&field.name);
            let shown = if self.hides(field) {
                "Hidden".to_owned()
            } else {
                format!("self.{name}")
            };
            let _ = writeln!(out, "            .field(\"{name}\", &{shown})");
        }
        out + "            .finish()\n    }\n}\n\n"
    }

    fn rust_type(&self, field: &Field) -> String {
        let ty = self.rust_type_of(&field.ty);
        if is_option(field) {
            format!("Option<{ty}>")
        } else {
            ty
        }
    }

    fn rust_type_of(&self, ty: &Type) -> String {
        match ty {
            Type::Array(element) => format!("Vec<{}>", self.rust_type_of(element)),
            Type::Struct(name) => self.renames.get(name).unwrap_or(name).clone(),
            Type::Primitive("string") => "Str".to_owned(),
            Type::Primitive("bytes" | "records") => "Bytes".to_owned(),
            Type::Primitive("uuid") => "Uuid".to_owned(),
            Type::Primitive(name) => number(name),
        }
    }

    /// Returns the condition for a version in `versions`, or `None` if it is always true.
    fn condition(&self, versions: Versions) -> Option<String> {
        let Versions { min, max } = versions.intersect(self.range);
        match (min <= self.range.min, max >= self.range.max) {
            _ if min > max => Some("false".to_owned()),
            (true, true) => None,
            (true, false) => Some(format!("v <= {max}")),
            (false, true) => Some(format!("v >= {min}")),
            (false, false) => Some(format!("({min}..={max}).contains(&v)")),
        }
    }

    /// Returns the condition under which a present field may be null, or `None` if it always may.
    fn null_condition(&self, field: &Field) -> Option<String> {
        let present = field.versions.intersect(self.range);
        if field.nullable.contains(present) {
            None
        } else {
            self.condition(field.nullable)
        }
    }

    /// Returns `let f = ...;`, which tells whether the version is flexible.
    fn flexible(&self) -> String {
        let condition = self.condition(self.message.flexible);
        format!(
            "        let f = {};\n",
            condition.unwrap_or_else(|| "true".to_owned())
        )
    }

    fn can_be_flexible(&self) -> bool {
        !self.message.flexible.intersect(self.range).is_empty()
    }
}

/// `int32` -> `i32`, `bool` -> `bool`.
fn number(name: &str) -> String {
    name.replace("uint", "u")
        .replace("int", "i")
        .replace("float", "f")
}
