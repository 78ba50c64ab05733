//! [`Pattern`]: the regular expressions of `ListTransactions` (KIP-1152), as far as ids need them.
//!
//! ```text
//! x  .  \.  \d \w \s  [a-z_]  [^0-9]   each optionally followed by * + or ?
//! ```
//! The complete id must match. Kafka supports all of RE2. Groups, alternatives, counts and anchors
//! are refused here as if they were wrong. The time is limited by pattern length times text length.

use thalweg_protocol::ErrorCode;

/// The limit on a pattern's length, which is enough for practical ids.
const PATTERN_BYTES_MAX: usize = 1000;

/// The limit on the pattern's bytes times the bytes of all ids that it is compared with.
const WORK_MAX: usize = 500_000_000;

#[derive(Debug)]
pub(crate) struct Pattern {
    items: Vec<Item>,
    bytes: usize,
}

#[derive(Debug)]
struct Item {
    one: One,
    at_least_once: bool,
    repeats: bool,
}

#[derive(Debug, Clone)]
enum One {
    Any,
    /// Character ranges, including both ends.
    Of(Vec<(char, char)>),
    NoneOf(Vec<(char, char)>),
}

struct Refused;

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, ErrorCode> {
        let refused = ErrorCode::INVALID_REGULAR_EXPRESSION;
        if text.len() > PATTERN_BYTES_MAX {
            return Err(refused);
        }
        let mut items = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(first) = rest.next() {
            let one = One::parse(first, &mut rest).map_err(|Refused| refused)?;
            let (at_least_once, repeats) = match rest.next_if(|c| "*+?".contains(*c)) {
                Some('*') => (false, true),
                Some('+') => (true, true),
                Some(_) => (false, false),
                None => (true, false),
            };
            items.push(Item {
                one,
                at_least_once,
                repeats,
            });
        }
        Ok(Self {
            items,
            bytes: text.len(),
        })
    }

    /// Refuses to compare a long pattern with very many ids.
    pub(crate) fn check_work(&self, id_bytes: usize) -> Result<(), ErrorCode> {
        if self.bytes.saturating_mul(id_bytes) > WORK_MAX {
            return Err(ErrorCode::INVALID_REGULAR_EXPRESSION);
        }
        Ok(())
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        // The items that the text so far may have reached.
        let mut places = vec![false; self.items.len() + 1];
        let mut next = places.clone();
        places[0] = true;
        self.skip(&mut places);
        for character in text.chars() {
            next.fill(false);
            for (index, item) in self.items.iter().enumerate() {
                if places[index] && item.one.is(character) {
                    next[index + 1] = true;
                    next[index] |= item.repeats;
                }
            }
            self.skip(&mut next);
            std::mem::swap(&mut places, &mut next);
        }
        places[self.items.len()]
    }

    /// Skips items that may match nothing.
    fn skip(&self, places: &mut [bool]) {
        for (index, item) in self.items.iter().enumerate() {
            places[index + 1] |= places[index] && !item.at_least_once;
        }
    }
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

impl One {
    fn parse(first: char, rest: &mut Rest<'_>) -> Result<Self, Refused> {
        match first {
            '.' => Ok(Self::Any),
            '\\' => Ok(Self::Of(escaped(rest)?)),
            '[' => Self::parse_class(rest),
            '*' | '+' | '?' | '(' | ')' | '|' | '{' | '}' | ']' | '^' | '$' => Err(Refused),
            literal => Ok(Self::Of(vec![(literal, literal)])),
        }
    }

    fn parse_class(rest: &mut Rest<'_>) -> Result<Self, Refused> {
        let is_negated = rest.next_if_eq(&'^').is_some();
        let mut ranges = Vec::new();
        loop {
            match rest.next().ok_or(Refused)? {
                ']' if !ranges.is_empty() => break,
                '[' | ']' => return Err(Refused),
                '\\' => ranges.extend(escaped(rest)?),
                low => ranges.push((low, range_end(low, rest)?)),
            }
        }
        Ok(if is_negated {
            Self::NoneOf(ranges)
        } else {
            Self::Of(ranges)
        })
    }

    fn is(&self, character: char) -> bool {
        let is_in = |ranges: &[(char, char)]| {
            ranges
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&character))
        };
        match self {
            Self::Any => character != '\n',
            Self::Of(ranges) => is_in(ranges),
            Self::NoneOf(ranges) => !is_in(ranges),
        }
    }
}

fn range_end(low: char, rest: &mut Rest<'_>) -> Result<char, Refused> {
    let mut ahead = rest.clone();
    if ahead.next() != Some('-') || matches!(ahead.peek(), None | Some(']')) {
        return Ok(low);
    }
    rest.next();
    rest.next()
        .filter(|high| *high >= low && *high != '\\')
        .ok_or(Refused)
}

fn escaped(rest: &mut Rest<'_>) -> Result<Vec<(char, char)>, Refused> {
    match rest.next().ok_or(Refused)? {
        'd' => Ok(vec![('0', '9')]),
        'w' => Ok(vec![('0', '9'), ('a', 'z'), ('A', 'Z'), ('_', '_')]),
        's' => Ok(vec![(' ', ' '), ('\t', '\r')]),
        other if other.is_ascii_alphanumeric() => Err(Refused),
        literal => Ok(vec![(literal, literal)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(text)
    }

    #[test]
    fn the_whole_text_must_match() {
        assert!(matches("abc", "abc") && !matches("abc", "abcd") && !matches("abc", "xabc"));
        assert!(matches("", "") && !matches("", "a"));
        assert!(matches("a.c", "abc") && !matches("a.c", "ac"));
        assert!(matches(r"a\.c", "a.c") && !matches(r"a\.c", "abc"));
    }

    #[test]
    fn what_repeats_matches_as_often_as_it_may() {
        for (pattern, good, bad) in [
            ("ab*", vec!["a", "ab", "abbb"], vec!["b", "abc"]),
            ("ab+", vec!["ab", "abb"], vec!["a"]),
            ("ab?", vec!["a", "ab"], vec!["abb"]),
            (".*", vec!["", "anything"], vec![]),
            ("id-.*-x", vec!["id--x", "id-1-x-x"], vec!["id-1-y"]),
            ("a+a+", vec!["aa", "aaa"], vec!["a"]),
            ("a*b*a", vec!["a", "aba", "aa"], vec!["ab"]),
            (r"[a-c_]+\d", vec!["ab_1"], vec!["abd1", "1"]),
            ("[^0-9]*", vec!["", "ab"], vec!["a1"]),
            ("[a-]+", vec!["a-a"], vec!["b"]),
        ] {
            for text in good {
                assert!(matches(pattern, text), "{pattern} {text}");
            }
            for text in bad {
                assert!(!matches(pattern, text), "{pattern} {text}");
            }
        }
    }

    #[test]
    fn what_is_wrong_or_not_offered_is_refused() {
        for bad in [
            "(", "a|b", "(a)", "a{2}", "*", "[", "[]", "[b-a]", "\\", r"\b", "^a", "a$",
        ] {
            let refused = Pattern::parse(bad).map(|_| ());
            assert_eq!(refused, Err(ErrorCode::INVALID_REGULAR_EXPRESSION), "{bad}");
        }
        assert!(Pattern::parse(&"a".repeat(1001)).is_err());
        assert!(!matches(
            &"a*".repeat(500),
            &format!("{}b", "a".repeat(1000))
        ));
    }
}
