//! The schema as the generator sees it: messages, fields, types and version ranges.

/// An inclusive range of versions. A `max` of `i16::MAX` means "and later".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) min: i16,
    pub(crate) max: i16,
}

impl Versions {
    pub(crate) const NONE: Self = Self { min: 0, max: -1 };

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("bad version range `{text}`");
        if text == "none" {
            return Ok(Self::NONE);
        }
        let number = |s: &str| s.parse::<i16>().map_err(|_| bad());
        if let Some(min) = text.strip_suffix('+') {
            return Ok(Self {
                min: number(min)?,
                max: i16::MAX,
            });
        }
        match text.split_once('-') {
            Some((min, max)) => Ok(Self {
                min: number(min)?,
                max: number(max)?,
            }),
            None => Ok(Self {
                min: number(text)?,
                max: number(text)?,
            }),
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.min > self.max
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        other.is_empty() || (self.min <= other.min && other.max <= self.max)
    }

    pub(crate) fn intersect(self, other: Self) -> Self {
        let both = Self {
            min: self.min.max(other.min),
            max: self.max.min(other.max),
        };
        if both.is_empty() { Self::NONE } else { both }
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            v if v.is_empty() => f.write_str("none"),
            Self { min, max: i16::MAX } => write!(f, "{min}+"),
            Self { min, max } if min == max => write!(f, "{min}"),
            Self { min, max } => write!(f, "{min}-{max}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// Kafka's own word: `bool`, `int8`, ... `string`, `bytes`, `records`, `uuid`.
    Primitive(&'static str),
    Struct(String),
    Array(Box<Self>),
}

pub(crate) const PRIMITIVES: [&str; 13] = [
    "bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "string", "bytes",
    "records", "uuid", "uint8",
];

impl Type {
    pub(crate) fn parse(text: &str) -> Self {
        if let Some(element) = text.strip_prefix("[]") {
            return Self::Array(Box::new(Self::parse(element)));
        }
        match PRIMITIVES.iter().find(|p| **p == text) {
            Some(primitive) => Self::Primitive(primitive),
            None => Self::Struct(text.to_owned()),
        }
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Primitive(name) => f.write_str(name),
            Self::Struct(name) => f.write_str(name),
            Self::Array(element) => write!(f, "[]{element}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) versions: Versions,
    pub(crate) nullable: Versions,
    pub(crate) tag: Option<u32>,
    /// In canonical form: a decimal number, `true` or `null`. `None` if it is the type's own
    /// default.
    pub(crate) default: Option<String>,
    pub(crate) ignorable: bool,
    /// Never compact, even in flexible versions (`RequestHeader.ClientId`).
    pub(crate) rigid: bool,
    /// The fields of a struct that is declared in the field that uses it.
    pub(crate) fields: Option<Vec<Self>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MessageKind {
    Request,
    Response,
    Data,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: MessageKind,
    pub(crate) api_key: Option<i16>,
    pub(crate) name: String,
    /// Stable versions only.
    pub(crate) versions: Versions,
    /// The version that Kafka marks as unstable. It is not in `versions`.
    pub(crate) unstable: Option<i16>,
    pub(crate) flexible: Versions,
    pub(crate) fields: Vec<Field>,
    /// Structs that several fields share.
    pub(crate) structs: Vec<Struct>,
}

impl Message {
    /// Returns all structs, including those declared in fields, inner ones first.
    pub(crate) fn all_structs(&self) -> Vec<Struct> {
        fn walk(fields: &[Field], out: &mut Vec<Struct>) {
            for field in fields {
                if let Some(inner) = &field.fields {
                    walk(inner, out);
                    let mut ty = &field.ty;
                    while let Type::Array(element) = ty {
                        ty = element;
                    }
                    out.push(Struct {
                        name: ty.to_string(),
                        fields: inner.clone(),
                    });
                }
            }
        }
        let mut out = Vec::new();
        for shared in &self.structs {
            walk(&shared.fields, &mut out);
            out.push(shared.clone());
        }
        walk(&self.fields, &mut out);
        out
    }
}

/// An API: its request and its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Api {
    pub(crate) key: i16,
    pub(crate) name: String,
    pub(crate) request: Message,
    pub(crate) response: Message,
}
