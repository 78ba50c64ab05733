//! Generates the writer of a struct, from fields to bytes.

use std::fmt::Write as _;

use super::{Context, default_is_none, is_option, number};
use crate::model::{Field, Type};
use crate::names::snake;

impl Context<'_> {
    pub(super) fn writer(&self, fields: &[&Field]) -> String {
        let mut out = String::from(
            "    pub(crate) fn write(&self, w: &mut Vec<u8>, v: i16) -> Result<(), EncodeError> {\n",
        );
        out += &self.flexible();
        for field in fields.iter().filter(|field| field.tag.is_none()) {
            let write = format!("{};", self.write_field(field, "w"));
            out += &self.guarded(field, &write, "        ");
        }
        let mut tagged: Vec<&&Field> = fields.iter().filter(|field| field.tag.is_some()).collect();
        tagged.sort_by_key(|field| field.tag);
        if !tagged.is_empty() {
            out.push_str("        let mut t = put::TaggedFields::default();\n");
        }
        for field in &tagged {
            let write = format!(
                "if {} {{ t.put({}, |w| {{ {}; Ok(()) }})?; }}",
                not_default(field),
                field.tag.unwrap_or_default(),
                self.write_field(field, "w"),
            );
            out += &self.guarded(field, &write, "        ");
        }
        if self.can_be_flexible() {
            let finish = if tagged.is_empty() {
                "w.push(0);"
            } else {
                "t.finish(w);"
            };
            let _ = match self.condition(self.message.flexible) {
                None => writeln!(out, "        {finish}"),
                Some(_) => writeln!(out, "        if f {{ {finish} }}"),
            };
        }
        out + "        Ok(())\n    }\n\n"
    }

    /// Guards a statement by the field's versions. In other versions a value that is not the
    /// default is an error, unless the field is ignorable.
    fn guarded(&self, field: &Field, write: &str, indent: &str) -> String {
        let Some(condition) = self.condition(field.versions) else {
            return format!("{indent}{write}\n");
        };
        let mut out = format!("{indent}if {condition} {{ {write} }}");
        if !field.ignorable {
            let _ = write!(
                out,
                " else if {} {{ return unsupported({}, v); }}",
                not_default(field),
                self.label(field)
            );
        }
        out + "\n"
    }

    fn label(&self, field: &Field) -> String {
        format!("\"{}.{}\"", self.name, field.name)
    }

    fn write_field(&self, field: &Field, w: &str) -> String {
        let name = format!("self.{}", snake(&field.name));
        let f = if field.rigid { "false" } else { "f" };
        if !is_option(field) {
            let question = if fallible(&field.ty) { "?" } else { "" };
            return write_value(&field.ty, &name, w, f, false) + question;
        }
        let value = match &field.ty {
            Type::Array(_) | Type::Primitive("bytes" | "records") => format!("{name}.as_deref()"),
            _ => format!("{name}.as_ref()"),
        };
        let value = match self.null_condition(field) {
            None => value,
            Some(condition) => {
                format!("not_null({value}, {condition}, {}, v)?", self.label(field))
            }
        };
        match &field.ty {
            Type::Primitive("string") => format!("put::nullable_str({w}, {f}, {value})?"),
            Type::Primitive(_) => format!("put::nullable_bytes({w}, {f}, {value})?"),
            Type::Struct(_) => match self.null_condition(field) {
                None => format!("put::nullable_struct({w}, {value}, |w, e| e.write(w, v))?"),
                Some(_) => panic!("{}: a struct that only some versions may null", field.name),
            },
            Type::Array(element) => {
                let write = write_value(element, "e", "w", f, true);
                let write = if fallible(element) {
                    write
                } else {
                    format!("Ok({write})")
                };
                format!("put::nullable_array({w}, {f}, {value}, |w, e| {write})?")
            }
        }
    }
}

fn write_value(ty: &Type, name: &str, w: &str, f: &str, by_ref: bool) -> String {
    let reference = if by_ref {
        name.to_owned()
    } else {
        format!("&{name}")
    };
    let copy = if by_ref {
        format!("*{name}")
    } else {
        name.to_owned()
    };
    match ty {
        Type::Primitive("string") => format!("put::str_({w}, {f}, {reference})"),
        Type::Primitive("bytes" | "records") => format!("put::bytes({w}, {f}, {reference})"),
        Type::Primitive("uuid") => format!("put::uuid({w}, {copy})"),
        Type::Primitive(primitive) => format!("put::{}({w}, {copy})", number(primitive)),
        Type::Struct(_) => format!("{name}.write({w}, v)"),
        Type::Array(element) => {
            let write = write_value(element, "e", "w", f, true);
            let write = if fallible(element) {
                write
            } else {
                format!("Ok({write})")
            };
            format!("put::array({w}, {f}, {reference}, |w, e| {write})")
        }
    }
}

/// Returns whether writing the type can fail.
fn fallible(ty: &Type) -> bool {
    !matches!(ty, Type::Primitive(name) if !matches!(*name, "string" | "bytes" | "records"))
}

fn not_default(field: &Field) -> String {
    let name = format!("self.{}", snake(&field.name));
    match (&field.ty, field.default.as_deref()) {
        _ if default_is_none(field) => format!("{name}.is_some()"),
        (Type::Struct(_), _) => format!("{name} != Default::default()"),
        _ if is_option(field) => format!("{name}.as_ref().is_none_or(|x| !x.is_empty())"),
        (Type::Array(_) | Type::Primitive("string" | "bytes" | "records"), _) => {
            format!("!{name}.is_empty()")
        }
        (Type::Primitive("bool"), Some("true")) => format!("!{name}"),
        (Type::Primitive("bool"), _) => name,
        (Type::Primitive("uuid"), _) => format!("!{name}.is_zero()"),
        (Type::Primitive("float64"), _) => format!("{name} != 0.0"),
        (Type::Primitive(_), default) => format!("{name} != {}", default.unwrap_or("0")),
    }
}
