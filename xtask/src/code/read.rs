//! Generates the reader of a struct, from bytes to fields.

use std::fmt::Write as _;

use super::{Context, is_option, number};
use crate::model::{Field, Type};
use crate::names::snake;
use crate::sizes;

impl Context<'_> {
    pub(super) fn reader(&self, fields: &[&Field]) -> String {
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
