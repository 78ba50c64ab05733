//! Writes and reads the notation of the schema files in `crates/protocol/schema`.
//!
//! ```text
//! request FetchRequest api 1 versions 4-18 flexible 12+
//!   ClusterId: string 12+ null 12+ tag 0 = null ignorable
//!   Topics: []FetchTopic 0+
//!     Topic: string 0-12 ignorable
//! ```
//!
//! Each line is a field: its name, type and versions, then everything unusual. That is `null`
//! (versions in which it may be null), `tag`, `= default`, `ignorable`, `rigid` (never compact).
//! The fields of a struct are indented below the field that uses it, or below a `struct` line if
//! several fields share it. `unstable N` names a version that Kafka has not released. It is not in
//! `versions`.

use std::fmt::Write as _;

use crate::model::{Field, Message, MessageKind, Struct, Type, Versions};

pub(crate) fn print(message: &Message) -> String {
    let mut out = String::new();
    let kind = match message.kind {
        MessageKind::Request => "request",
        MessageKind::Response => "response",
        MessageKind::Data => "data",
    };
    let _ = write!(out, "{kind} {}", message.name);
    if let Some(key) = message.api_key {
        let _ = write!(out, " api {key}");
    }
    let _ = write!(out, " versions {}", message.versions);
    if let Some(version) = message.unstable {
        let _ = write!(out, " unstable {version}");
    }
    let _ = writeln!(out, " flexible {}", message.flexible);
    print_fields(&message.fields, 1, &mut out);
    for shared in &message.structs {
        let _ = writeln!(out, "  struct {}", shared.name);
        print_fields(&shared.fields, 2, &mut out);
    }
    out
}

fn print_fields(fields: &[Field], depth: usize, out: &mut String) {
    for field in fields {
        let indent = "  ".repeat(depth);
        let _ = write!(
            out,
            "{indent}{}: {} {}",
            field.name, field.ty, field.versions
        );
        if !field.nullable.is_empty() {
            let _ = write!(out, " null {}", field.nullable);
        }
        if let Some(tag) = field.tag {
            let _ = write!(out, " tag {tag}");
        }
        if let Some(default) = &field.default {
            let _ = write!(out, " = {default}");
        }
        for (set, word) in [(field.ignorable, " ignorable"), (field.rigid, " rigid")] {
            if set {
                out.push_str(word);
            }
        }
        out.push('\n');
        print_fields(field.fields.as_deref().unwrap_or(&[]), depth + 1, out);
    }
}

/// Reads one schema file: a sequence of messages, with `#` comments and blank lines between them.
pub(crate) fn parse(text: &str) -> Result<Vec<Message>, String> {
    let lines: Vec<Line<'_>> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(number, line)| Line::new(number + 1, line))
        .collect();
    let mut cursor = Cursor {
        lines: &lines,
        next: 0,
    };
    let mut messages = Vec::new();
    while cursor.next < lines.len() {
        messages.push(cursor.message()?);
    }
    Ok(messages)
}

struct Line<'a> {
    number: usize,
    depth: usize,
    words: Vec<&'a str>,
}

impl<'a> Line<'a> {
    fn new(number: usize, line: &'a str) -> Self {
        let indent = line.len() - line.trim_start().len();
        Self {
            number,
            depth: indent / 2,
            words: line.split_whitespace().collect(),
        }
    }

    fn error(&self, what: &str) -> String {
        format!("line {}: {what}", self.number)
    }
}

struct Cursor<'a> {
    lines: &'a [Line<'a>],
    next: usize,
}

impl Cursor<'_> {
    fn message(&mut self) -> Result<Message, String> {
        let line = &self.lines[self.next];
        self.next += 1;
        let kind = match line.words.first() {
            Some(&"request") if line.depth == 0 => MessageKind::Request,
            Some(&"response") if line.depth == 0 => MessageKind::Response,
            Some(&"data") if line.depth == 0 => MessageKind::Data,
            _ => return Err(line.error("expected request, response or data")),
        };
        let name = *line
            .words
            .get(1)
            .ok_or_else(|| line.error("a message needs a name"))?;
        let mut message = Message {
            kind,
            api_key: None,
            name: name.to_owned(),
            versions: Versions::NONE,
            unstable: None,
            flexible: Versions::NONE,
            fields: Vec::new(),
            structs: Vec::new(),
        };
        for pair in line.words[2..].chunks(2) {
            let [word, value] = pair else {
                return Err(line.error("a word without its value"));
            };
            let number = || {
                value
                    .parse::<i16>()
                    .map_err(|_| line.error("expected a number"))
            };
            match *word {
                "api" => message.api_key = Some(number()?),
                "versions" => message.versions = Versions::parse(value)?,
                "unstable" => message.unstable = Some(number()?),
                "flexible" => message.flexible = Versions::parse(value)?,
                other => return Err(line.error(&format!("unknown word `{other}`"))),
            }
        }
        message.fields = self.fields(1)?;
        while self.at(1).is_some_and(|line| line.words[0] == "struct") {
            let line = &self.lines[self.next];
            self.next += 1;
            let name = *line
                .words
                .get(1)
                .ok_or_else(|| line.error("a struct needs a name"))?;
            message.structs.push(Struct {
                name: name.to_owned(),
                fields: self.fields(2)?,
            });
        }
        Ok(message)
    }

    fn at(&self, depth: usize) -> Option<&Line<'_>> {
        self.lines.get(self.next).filter(|line| line.depth == depth)
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<Field>, String> {
        let mut fields = Vec::new();
        while let Some(line) = self.at(depth).filter(|line| line.words[0] != "struct") {
            let mut field = parse_field(line)?;
            self.next += 1;
            let inner = self.fields(depth + 1)?;
            field.fields = (!inner.is_empty()).then_some(inner);
            fields.push(field);
        }
        Ok(fields)
    }
}

fn parse_field(line: &Line<'_>) -> Result<Field, String> {
    let [name, ty, versions, rest @ ..] = line.words.as_slice() else {
        return Err(line.error("a field needs a name, a type and versions"));
    };
    let mut field = Field {
        name: name
            .strip_suffix(':')
            .ok_or_else(|| line.error("expected `Name:`"))?
            .to_owned(),
        ty: Type::parse(ty),
        versions: Versions::parse(versions)?,
        nullable: Versions::NONE,
        tag: None,
        default: None,
        ignorable: false,
        rigid: false,
        fields: None,
    };
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| line.error("a word without its value"))
        };
        match *word {
            "null" => field.nullable = Versions::parse(value()?)?,
            "tag" => {
                field.tag = Some(value()?.parse().map_err(|_| line.error("bad tag"))?);
            }
            "=" => field.default = Some((*value()?).to_owned()),
            "ignorable" => field.ignorable = true,
            "rigid" => field.rigid = true,
            other => return Err(line.error(&format!("unknown word `{other}`"))),
        }
    }
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
request FetchRequest api 1 versions 4-18 unstable 19 flexible 12+
  ClusterId: string 12+ null 12+ tag 0 = null ignorable
  Topics: []FetchTopic 0+ null 1-3
    Topic: string 0-12 rigid
    Ids: []int32 5
  Last: Shared 7+
  struct Shared
    Value: bool 7+ = true
";

    #[test]
    fn what_is_read_is_printed_again() {
        let messages = parse(TEXT).expect("valid");
        assert_eq!(messages.len(), 1);
        assert_eq!(print(&messages[0]), TEXT);
        let message = &messages[0];
        assert_eq!(message.versions, Versions { min: 4, max: 18 });
        assert_eq!((message.api_key, message.unstable), (Some(1), Some(19)));
        let names: Vec<String> = message.all_structs().into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["Shared", "FetchTopic"]);
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (text, message) in [
            ("fields X", "line 1: expected request, response or data"),
            ("data X version 1", "line 1: unknown word `version`"),
            ("data X versions 1\n  A int8 1", "line 2: expected `Name:`"),
            (
                "data X versions 1\n  A: int8 1 nul 2",
                "line 2: unknown word `nul`",
            ),
            ("data X versions 1\n  A: int8 x", "bad version range `x`"),
            (
                "data X versions 1\n  A: int8 1 tag",
                "line 2: a word without its value",
            ),
        ] {
            assert_eq!(parse(text), Err(message.to_owned()));
        }
    }
}
