//! The outline of a JSON object that is too large to be kept: only the members that identify it.
//!
//! - **In:** the bytes of the object, in chunks.
//! - **Out:** a small JSON object with the members that were asked for; it is incomplete if the bytes are not a JSON object.
//! - **Knows nothing of:** the meaning of the members. It does not check the syntax of values that it leaves out.

use super::{special_bytes::SpecialBytes, value_end::EndSearch};

/// A member that an outline keeps.
#[derive(Debug)]
pub(crate) struct KeptMember {
    pub(crate) name: &'static str,
    /// The members that are kept of its value, if that is an object. If this is empty, the whole value is kept.
    pub(crate) members: &'static [Self],
}

/// The members that identify an object and its type.
pub(crate) const IDENTITY: &[KeptMember] = &[
    KeptMember::whole("apiVersion"),
    KeptMember::whole("kind"),
    KeptMember {
        name: "metadata",
        members: &[
            KeptMember::whole("name"),
            KeptMember::whole("namespace"),
            KeptMember::whole("uid"),
            KeptMember::whole("resourceVersion"),
        ],
    },
];

/// Reads an object in chunks, and keeps its outline.
#[derive(Debug)]
pub(crate) struct Outline {
    /// The members that are kept of each object around the current position, the outermost first.
    open: Vec<&'static [KeptMember]>,
    expects: Expects,
    /// Within a name or a value: the search for its end.
    within: Option<(Token, EndSearch)>,
    /// The last name, quotes included, up to [`LONGEST_NAME`].
    name: Vec<u8>,
    /// The member whose value is read, if it is kept.
    member: Option<&'static KeptMember>,
    json: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Token {
    Name,
    KeptValue,
    /// A value that is left out.
    OtherValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Object,
    /// A name, or the end of an empty object.
    FirstName,
    Name,
    Colon,
    Value,
    /// A comma, or the end of an object.
    AfterValue,
    End,
    /// Nothing: the bytes are not a JSON object, or the outline is too large.
    Broken,
}

/// The longest name that can be one of a [`KeptMember`], with every character escaped.
const LONGEST_NAME: usize = 100;

/// The largest outline. The longest name of a Kubernetes object has 253 bytes.
const LARGEST: usize = 16 << 10;

impl KeptMember {
    pub(crate) const fn whole(name: &'static str) -> Self {
        Self { name, members: &[] }
    }
}

impl Outline {
    /// Begins an outline with these members.
    pub(crate) fn new(members: &'static [KeptMember]) -> Self {
        Self {
            open: vec![members],
            expects: Expects::Object,
            within: None,
            name: Vec::new(),
            member: None,
            json: Vec::new(),
        }
    }

    /// Returns the outline of a complete object.
    pub(crate) fn of(json: &[u8], members: &'static [KeptMember]) -> Vec<u8> {
        let mut outline = Self::new(members);
        outline.push(json);
        outline.into_json()
    }

    /// Reads more bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (mut at, mut special_bytes) = (0, SpecialBytes::new());
        while let Some(byte) = bytes.get(at).copied().filter(|_| !self.is_broken()) {
            if self.within.is_none() {
                self.within = self.token(byte).zip(EndSearch::begin(byte));
            }
            at = match &mut self.within {
                Some((token, value_end)) => {
                    let (token, end) = (*token, value_end.find_from(bytes, at, &mut special_bytes));
                    let part_end = end.unwrap_or(bytes.len());
                    self.read_token(token, &bytes[at..part_end], end.is_some());
                    part_end
                }
                None => {
                    self.read_mark(byte);
                    at + 1
                }
            };
        }
    }

    /// Returns true if the bytes so far are not the beginning of a JSON object, or the outline is too large.
    pub(crate) fn is_broken(&self) -> bool {
        self.expects == Expects::Broken
    }

    pub(crate) fn into_json(self) -> Vec<u8> {
        self.json
    }

    /// Returns the name or value that begins with this byte; `None` if an object begins of which some members are kept, or no name or value.
    fn token(&self, first: u8) -> Option<Token> {
        match (self.expects, self.member) {
            (Expects::FirstName | Expects::Name, _) => (first == b'"').then_some(Token::Name),
            (Expects::Value, Some(member)) => (first != b'{' || member.members.is_empty()).then_some(Token::KeptValue),
            (Expects::Value, None) => Some(Token::OtherValue),
            (Expects::Object | Expects::Colon | Expects::AfterValue | Expects::End | Expects::Broken, _) => None,
        }
    }

    /// Reads a part of a name or value.
    fn read_token(&mut self, token: Token, part: &[u8], is_last: bool) {
        match token {
            Token::Name => self.name.extend(part.iter().take(LONGEST_NAME - self.name.len())),
            Token::KeptValue if self.json.len() + part.len() > LARGEST => self.expects = Expects::Broken,
            Token::KeptValue => self.json.extend_from_slice(part),
            Token::OtherValue => {}
        }
        if is_last && !self.is_broken() {
            self.within = None;
            self.expects = match token {
                Token::Name => Expects::Colon,
                Token::KeptValue | Token::OtherValue => Expects::AfterValue,
            };
        }
    }

    /// Reads a byte outside of names and values.
    fn read_mark(&mut self, byte: u8) {
        self.expects = match (self.expects, byte) {
            (expects, b' ' | b'\t' | b'\r' | b'\n') => expects,
            (Expects::Object, b'{') => {
                self.json.push(b'{');
                Expects::FirstName
            }
            (Expects::Value, b'{') => {
                self.open.extend(self.member.map(|member| member.members));
                self.json.push(b'{');
                Expects::FirstName
            }
            (Expects::Colon, b':') => {
                self.begin_member();
                if self.json.len() > LARGEST { Expects::Broken } else { Expects::Value }
            }
            (Expects::AfterValue, b',') => Expects::Name,
            (Expects::FirstName | Expects::AfterValue, b'}') => {
                self.json.push(b'}');
                self.open.pop();
                if self.open.is_empty() { Expects::End } else { Expects::AfterValue }
            }
            (
                Expects::Object
                | Expects::FirstName
                | Expects::Name
                | Expects::Colon
                | Expects::Value
                | Expects::AfterValue
                | Expects::End
                | Expects::Broken,
                _,
            ) => Expects::Broken,
        };
    }

    /// Writes the name that was read, if its member is kept.
    fn begin_member(&mut self) {
        // A name that is too long for a kept member is not complete, and therefore not JSON.
        let name = serde_json::from_slice::<String>(&self.name).ok();
        let kept = self.open.last().copied().unwrap_or_default();
        self.member = name.and_then(|name| kept.iter().find(|member| member.name == name));
        if self.member.is_some() {
            if self.json.last() != Some(&b'{') {
                self.json.push(b',');
            }
            self.json.extend_from_slice(&self.name);
            self.json.push(b':');
        }
        self.name.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an object in chunks of every size, which must not make a difference.
    fn outline(json: &str) -> String {
        let whole = Outline::of(json.as_bytes(), IDENTITY);
        for size in 1..json.len() {
            let mut outline = Outline::new(IDENTITY);
            json.as_bytes().chunks(size).for_each(|chunk| outline.push(chunk));
            assert_eq!(outline.into_json(), whole, "{json} in chunks of {size}");
        }
        String::from_utf8(whole).unwrap()
    }

    #[test]
    fn an_outline_has_the_members_that_identify_an_object_wherever_they_are() {
        let expected =
            r#"{"kind":"Pod","metadata":{"name":"a","uid":"u","namespace":"n\u0041","resourceVersion":"7"}}"#;
        let object = r#"
            {"spec": {"metadata": {"name": "b"}, "text": "}]\"{"}, "kind" :"Pod",
             "metadata": {"annotations": {"name": "c"}, "name":"a", "managedFields": [{"uid": [1, {}]}], "uid": "u",
                "namespace":"n\u0041", "generation": 5,"resourceVersion":"7", "labels": null}, "data": [[], {}, -1.5e7, true]}"#;

        assert_eq!(outline(object), expected);
        assert_eq!(outline(r#"{"spec":5}"#), "{}");
        assert_eq!(outline(r#"{"metadata":{},"\u006bind":"Pod"}"#), r#"{"metadata":{},"\u006bind":"Pod"}"#);
    }

    #[test]
    fn an_outline_keeps_what_makes_an_identity_invalid() {
        for json in [r#"{"metadata":5}"#, r#"{"metadata":{"name":["a"]}}"#, r#"{"kind":"A","kind":"B"}"#] {
            assert_eq!(outline(json), json);
        }
    }

    #[test]
    fn an_outline_of_a_malformed_or_incomplete_object_is_incomplete() {
        let object = r#"{"kind":"Pod","x":[1],"metadata":{"name":"a","uid":"u"}}"#;
        for length in 0..object.len() {
            assert!(serde_json::from_str::<serde_json::Value>(&outline(&object[..length])).is_err(), "{length}");
        }
        for json in ["[]", "7", "{]", r#"{"kind" 5}"#, r#"{"kind":}"#, r#"{"kind":"Pod",}"#, r#"{"kind":"Pod"]"#] {
            assert!(serde_json::from_str::<serde_json::Value>(&outline(json)).is_err(), "{json}");
        }
    }

    #[test]
    fn an_outline_of_an_identity_without_bound_is_broken_and_bounded() {
        for object in [
            format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "x".repeat(100_000)),
            format!(r#"{{"metadata":{{{}"name":"a"}}}}"#, r#""name":"a","#.repeat(10_000)),
            format!(r#"{{{}"kind":"a"}}"#, r#""metadata":{},"#.repeat(10_000)),
        ] {
            let mut outline = Outline::new(IDENTITY);
            outline.push(object.as_bytes());
            assert!(outline.is_broken() && outline.json.len() <= LARGEST + LONGEST_NAME, "{}", outline.json.len());
        }
    }
}
