//! Computes the smallest size of a struct on the wire. Decoders check array counts against it.

use std::collections::BTreeMap;

use crate::model::{Field, Message, Struct, Type, Versions};

/// Returns the smallest size of a struct over all versions of `range`.
pub(crate) fn struct_min(
    message: &Message,
    structs: &[Struct],
    name: &str,
    range: Versions,
) -> usize {
    let fields = &find(structs, name).fields;
    (range.min..=range.max)
        .map(|version| fields_min(message, structs, fields, version))
        .min()
        .unwrap_or(0)
}

pub(crate) fn find<'a>(structs: &'a [Struct], name: &str) -> &'a Struct {
    structs
        .iter()
        .find(|s| s.name == name)
        .unwrap_or_else(|| panic!("no struct {name}"))
}

fn is_in(range: Versions, version: i16) -> bool {
    range.min <= version && version <= range.max
}

fn fields_min(message: &Message, structs: &[Struct], fields: &[Field], version: i16) -> usize {
    let flexible = is_in(message.flexible, version);
    let present = fields
        .iter()
        .filter(|f| f.tag.is_none() && is_in(f.versions, version));
    let sum: usize = present
        .map(|f| field_min(message, structs, f, version, flexible))
        .sum();
    sum + usize::from(flexible)
}

fn field_min(
    message: &Message,
    structs: &[Struct],
    field: &Field,
    version: i16,
    flexible: bool,
) -> usize {
    match &field.ty {
        Type::Primitive(name) => primitive_min(name, flexible),
        Type::Array(_) => primitive_min("bytes", flexible),
        Type::Struct(_) if is_in(field.nullable, version) => 1,
        Type::Struct(name) => fields_min(message, structs, &find(structs, name).fields, version),
    }
}

fn primitive_min(name: &str, flexible: bool) -> usize {
    match name {
        "int16" | "uint16" => 2,
        "int32" | "uint32" => 4,
        "int64" | "float64" => 8,
        "uuid" => 16,
        "string" if !flexible => 2,
        "bytes" | "records" if !flexible => 4,
        _ => 1,
    }
}

/// Returns the versions in which each struct can occur.
pub(crate) fn reachable(message: &Message, structs: &[Struct]) -> BTreeMap<String, Versions> {
    fn walk(
        fields: &[Field],
        range: Versions,
        structs: &[Struct],
        out: &mut BTreeMap<String, Versions>,
    ) {
        for field in fields {
            let mut ty = &field.ty;
            while let Type::Array(element) = ty {
                ty = element;
            }
            let Type::Struct(name) = ty else { continue };
            let inner = field.versions.intersect(range);
            if inner.is_empty() {
                continue;
            }
            let known = out.entry(name.clone()).or_insert(inner);
            known.min = known.min.min(inner.min);
            known.max = known.max.max(inner.max);
            walk(&find(structs, name).fields, inner, structs, out);
        }
    }
    let mut out = BTreeMap::new();
    walk(&message.fields, message.versions, structs, &mut out);
    out
}
