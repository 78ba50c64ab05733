//! Rust code of one typed struct: its fields, defaults, writer and reader.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::model::{Field, Message, Struct, Type, Versions};
use crate::names::snake;
use crate::sizes;

pub(crate) struct Context<'a> {
    pub(crate) message: &'a Message,
    pub(crate) structs: &'a [Struct],
    /// In which versions each struct can occur.
    pub(crate) ranges: &'a BTreeMap<String, Versions>,
    /// Structs whose Kafka name is taken in the module.
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
    let _ = writeln!(out, "#[derive(Debug, Clone, PartialEq{default})]");
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

/// Whether Rust's own default is the schema's.
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

    /// The condition that `versions` holds, `None` if it always does.
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

    /// The condition that a field which is present may be null, `None` if it always may.
    fn null_condition(&self, field: &Field) -> Option<String> {
        let present = field.versions.intersect(self.range);
        if field.nullable.contains(present) {
            None
        } else {
            self.condition(field.nullable)
        }
    }

    /// `let f = ...;`: whether the version is flexible.
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

    fn writer(&self, fields: &[&Field]) -> String {
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

    /// The statement, if the version carries the field; else an error if that loses something.
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

    fn reader(&self, fields: &[&Field]) -> String {
        let mut out = String::from(
            "    pub(crate) fn read(r: &mut Reader, v: i16) -> Result<Self, DecodeError> {\n",
        );
        out += &self.flexible();
        out.push_str("        let mut m = Self::default();\n");
        for field in fields.iter().filter(|field| field.tag.is_none()) {
            let read = format!("m.{} = {};", snake(&field.name), self.read_field(field));
            let _ = match self.condition(field.versions) {
                None => writeln!(out, "        {read}"),
                Some(condition) => writeln!(out, "        if {condition} {{ {read} }}"),
            };
        }
        let tagged: Vec<&&Field> = fields.iter().filter(|field| field.tag.is_some()).collect();
        if self.can_be_flexible() {
            let body = if tagged.is_empty() {
                "r.skip_tagged_fields()?;".to_owned()
            } else {
                self.read_tagged(&tagged)
            };
            let _ = match self.condition(self.message.flexible) {
                None => writeln!(out, "        {body}"),
                Some(_) => writeln!(out, "        if f {{ {body} }}"),
            };
        }
        out + "        Ok(m)\n    }\n"
    }

    fn read_tagged(&self, tagged: &[&&Field]) -> String {
        let mut out = String::from("r.tagged_fields(|r, tag| {\n            match tag {\n");
        for field in tagged {
            let guard = self.condition(field.versions.intersect(self.message.flexible));
            let guard = match guard {
                Some(c) if self.condition(self.message.flexible).as_ref() != Some(&c) => {
                    format!(" if {c}")
                }
                _ => String::new(),
            };
            let _ = writeln!(
                out,
                "                {}{guard} => m.{} = {},",
                field.tag.unwrap_or_default(),
                snake(&field.name),
                self.read_field(field)
            );
        }
        out.push_str("                _ => return Ok(false),\n            }\n");
        out + "            Ok(true)\n        })?;"
    }

    fn read_field(&self, field: &Field) -> String {
        let f = if field.rigid { "false" } else { "f" };
        let plain = self.read_value(&field.ty, f);
        if !is_option(field) {
            return plain;
        }
        let nullable = match &field.ty {
            Type::Struct(_) => format!("r.nullable_struct(|r| {})?", plain.trim_end_matches('?')),
            _ => format!("r.nullable_{}", plain.trim_start_matches("r.")),
        };
        match self.null_condition(field) {
            None => nullable,
            Some(condition) => format!("if {condition} {{ {nullable} }} else {{ Some({plain}) }}"),
        }
    }

    fn read_value(&self, ty: &Type, f: &str) -> String {
        match ty {
            Type::Primitive("string") => format!("r.string({f})?"),
            Type::Primitive("bytes" | "records") => format!("r.bytes({f})?"),
            Type::Primitive("uuid") => "r.uuid()?".to_owned(),
            Type::Primitive(name) => format!("r.{}()?", number(name)),
            Type::Struct(_) => format!("{}::read(r, v)?", self.rust_type_of(ty)),
            Type::Array(element) => {
                let min = self.element_min(element);
                let read = self.read_value(element, f);
                format!("r.array({f}, {min}, |r| {})?", read.trim_end_matches('?'))
            }
        }
    }

    fn element_min(&self, element: &Type) -> usize {
        match element {
            Type::Struct(name) => {
                let min = sizes::struct_min(self.message, self.structs, name, self.ranges[name]);
                assert!(min > 0, "an element of {name} may take no bytes");
                min
            }
            Type::Primitive("int16" | "uint16") => 2,
            Type::Primitive("int32" | "uint32") => 4,
            Type::Primitive("int64" | "float64") => 8,
            Type::Primitive("uuid") => 16,
            _ => 1,
        }
    }
}

/// Writes a value that cannot be null. `by_ref`: the name is a reference already.
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

/// Whether writing the type can fail.
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

/// `int32` -> `i32`, `bool` -> `bool`.
fn number(name: &str) -> String {
    name.replace("uint", "u")
        .replace("int", "i")
        .replace("float", "f")
}
