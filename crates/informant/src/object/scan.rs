//! One pass over an object's JSON: reads who it is, checks the syntax, leaves out what is not wanted.
//!
//! - **In:** the text of one object, in any field order and with any white space.
//! - **Out:** its identity, and the same object without white space and without `metadata.managedFields`.
//! - **Knows nothing of:** kinds, decoding.
//!
//! Nothing is built on the way: strings are walked eight bytes at a time, and the output is copied in runs that end
//! only where something is left out.

use std::borrow::Cow;
use std::ops::Range;

use super::DecodeError;
use super::Identity;
use super::SyntaxProblem;
use super::Uid;
use crate::Key;
use crate::ResourceVersion;

/// Objects and arrays within each other: as deep as serde_json reads.
pub(super) const MAX_DEPTH: usize = 127;

/// What the pass has found.
pub(super) struct Found<'a> {
    pub(super) identity: Identity,
    pub(super) api_version: Option<Cow<'a, str>>,
    pub(super) kind: Option<Cow<'a, str>>,
    /// Where in the output the value of `metadata.labels` stands; empty if there is none.
    pub(super) labels: Range<usize>,
}

/// Scans `json` and writes its compact form to `compact`, in place of what was there.
pub(super) fn scan<'a>(
    json: &'a str,
    keep_managed_fields: bool,
    compact: &mut String,
) -> Result<Found<'a>, DecodeError> {
    compact.clear();
    compact.reserve(json.len());
    let mut scan = Scan { json, at: 0, compact, run: 0, keep_managed_fields, fields: Fields::default() };
    match scan.object() {
        Ok(()) => scan.fields.finish(),
        Err(Trouble::Syntax(problem)) => {
            Err(DecodeError::Syntax { key: scan.fields.key(), offset: scan.at.min(json.len()), problem })
        }
        Err(Trouble::Duplicate(field)) => {
            Err(DecodeError::DuplicateField { key: scan.fields.key(), field, offset: scan.at })
        }
        Err(Trouble::Expected(field, expected)) => {
            Err(DecodeError::BadMetadata { key: scan.fields.key(), field, expected, offset: scan.at })
        }
    }
}

struct Scan<'a, 'out> {
    json: &'a str,
    /// The next byte to look at.
    at: usize,
    compact: &'out mut String,
    /// Start of the run: what stands between here and `at` goes to the output, and was not copied yet.
    run: usize,
    keep_managed_fields: bool,
    fields: Fields<'a>,
}

/// The fields that say who the object is, as far as they were seen. A `null` counts as seen and empty.
#[derive(Default)]
struct Fields<'a> {
    api_version: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    metadata: Progress,
    name: Option<Cow<'a, str>>,
    namespace: Option<Cow<'a, str>>,
    uid: Option<Cow<'a, str>>,
    version: Option<Cow<'a, str>>,
    labels: Option<Range<usize>>,
}

#[derive(Default, PartialEq, Eq)]
enum Progress {
    #[default]
    NotSeen,
    Begun,
    Complete,
}

/// Picks one of the fields.
type Slot<'a> = for<'f> fn(&'f mut Fields<'a>) -> &'f mut Option<Cow<'a, str>>;

/// Where a string stands, quotes included; its text is only looked at where it matters.
struct Span {
    start: usize,
    end: usize,
    has_escapes: bool,
}

/// What becomes of an object's member.
enum Member {
    Keep,
    Cut,
}

/// What stopped the pass; it happened at `Scan::at`.
enum Trouble {
    Syntax(SyntaxProblem),
    Duplicate(&'static str),
    Expected(&'static str, &'static str),
}

type Scanned<T> = Result<T, Trouble>;

/// The parts of an object that matter.
impl<'a> Scan<'a, '_> {
    /// The whole text: one object and nothing else.
    fn object(&mut self) -> Scanned<()> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => {}
            Some(_) => return Err(SyntaxProblem::NotAnObject.into()),
            None => return Err(SyntaxProblem::Truncated.into()),
        }
        self.members(|scan, name| {
            match &*scan.resolve(&name)? {
                "apiVersion" => scan.text("apiVersion", |fields| &mut fields.api_version)?,
                "kind" => scan.text("kind", |fields| &mut fields.kind)?,
                "metadata" => scan.metadata()?,
                _ => scan.value(2)?,
            }
            Ok(Member::Keep)
        })?;
        self.skip_space();
        self.copy_run(self.at);
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(SyntaxProblem::TrailingData.into()),
        }
    }

    fn metadata(&mut self) -> Scanned<()> {
        if self.fields.metadata != Progress::NotSeen {
            return Err(Trouble::Duplicate("metadata"));
        }
        self.fields.metadata = Progress::Begun;
        match self.peek() {
            Some(b'{') => {}
            Some(_) => return Err(Trouble::Expected("metadata", "an object")),
            None => return Err(SyntaxProblem::Truncated.into()),
        }
        self.members(|scan, name| {
            match &*scan.resolve(&name)? {
                "name" => scan.text("metadata.name", |fields| &mut fields.name)?,
                "namespace" => scan.text("metadata.namespace", |fields| &mut fields.namespace)?,
                "uid" => scan.text("metadata.uid", |fields| &mut fields.uid)?,
                "resourceVersion" => scan.text("metadata.resourceVersion", |fields| &mut fields.version)?,
                "labels" => scan.labels()?,
                "annotations" => scan.texts("metadata.annotations")?,
                "managedFields" if !scan.keep_managed_fields => {
                    scan.value(3)?;
                    return Ok(Member::Cut);
                }
                _ => scan.value(3)?,
            }
            Ok(Member::Keep)
        })?;
        self.fields.metadata = Progress::Complete;
        Ok(())
    }

    fn labels(&mut self) -> Scanned<()> {
        if self.fields.labels.is_some() {
            return Err(Trouble::Duplicate("metadata.labels"));
        }
        let start = self.output_len();
        self.texts("metadata.labels")?;
        self.fields.labels = Some(start..self.output_len());
        Ok(())
    }

    /// An object whose values are texts, or `null`.
    fn texts(&mut self, field: &'static str) -> Scanned<()> {
        const EXPECTED: &str = "an object of strings";
        match self.peek() {
            Some(b'n') => self.literal("null"),
            Some(b'{') => self.members(|scan, _| match scan.peek() {
                Some(b'"') => scan.string().map(|_| Member::Keep),
                Some(_) => Err(Trouble::Expected(field, EXPECTED)),
                None => Err(SyntaxProblem::Truncated.into()),
            }),
            Some(_) => Err(Trouble::Expected(field, EXPECTED)),
            None => Err(SyntaxProblem::Truncated.into()),
        }
    }

    /// A text that says who the object is, or `null`.
    fn text(&mut self, field: &'static str, slot: Slot<'a>) -> Scanned<()> {
        if slot(&mut self.fields).is_some() {
            return Err(Trouble::Duplicate(field));
        }
        let text = match self.peek() {
            Some(b'"') => {
                let span = self.string()?;
                self.resolve(&span)?
            }
            Some(b'n') => self.literal("null").map(|()| Cow::Borrowed(""))?,
            Some(_) => return Err(Trouble::Expected(field, "a string")),
            None => return Err(SyntaxProblem::Truncated.into()),
        };
        *slot(&mut self.fields) = Some(text);
        Ok(())
    }
}

/// JSON in general.
impl<'a> Scan<'a, '_> {
    /// Any value. `depth` is how many objects and arrays are open if the value is one of them.
    fn value(&mut self, depth: usize) -> Scanned<()> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'{' | b'[') if depth > MAX_DEPTH => Err(SyntaxProblem::TooDeep.into()),
            Some(b'{') => self.members(|scan, _| scan.value(depth + 1).map(|()| Member::Keep)),
            Some(b'[') => self.elements(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(_) => Err(SyntaxProblem::UnexpectedByte.into()),
            None => Err(SyntaxProblem::Truncated.into()),
        }
    }

    /// An object, from brace to brace; each member's value is read by `member`.
    fn members(&mut self, mut member: impl FnMut(&mut Self, Span) -> Scanned<Member>) -> Scanned<()> {
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let (start, output_start) = (self.at, self.output_len());
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let name = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            let fate = member(self, name)?;
            if let Member::Cut = fate {
                self.copy_run(start);
                self.compact.truncate(output_start);
                self.run = self.at;
            }
            self.skip_space();
            match (self.peek(), fate) {
                (Some(b','), Member::Keep) => self.at += 1,
                (Some(b','), Member::Cut) => {
                    self.at += 1;
                    self.run = self.at;
                }
                (Some(b'}'), Member::Keep) => {
                    self.at += 1;
                    return Ok(());
                }
                (Some(b'}'), Member::Cut) => {
                    // The comma before a member goes with it if none is left to follow.
                    if self.compact.ends_with(',') {
                        self.compact.pop();
                    }
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.unexpected()),
            }
            self.skip_space();
        }
    }

    fn elements(&mut self, depth: usize) -> Scanned<()> {
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.unexpected()),
            }
            self.skip_space();
        }
    }

    /// What a string says, its escapes resolved.
    fn resolve(&self, span: &Span) -> Scanned<Cow<'a, str>> {
        let Span { start, end, has_escapes } = *span;
        if has_escapes {
            let text = serde_json::from_str(&self.json[start..end]);
            return text.map(Cow::Owned).map_err(|_| SyntaxProblem::BadEscape.into());
        }
        Ok(Cow::Borrowed(&self.json[start + 1..end - 1]))
    }

    fn string(&mut self) -> Scanned<Span> {
        let bytes = self.json.as_bytes();
        let start = self.at;
        let mut at = start + 1;
        let mut has_escapes = false;
        loop {
            while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
                match first_special(*eight) {
                    None => at += 8,
                    Some(offset) => {
                        at += offset;
                        break;
                    }
                }
            }
            let byte = bytes.get(at).copied();
            if byte == Some(b'"') {
                self.at = at + 1;
                return Ok(Span { start, end: self.at, has_escapes });
            }
            self.at = at;
            match byte {
                Some(b'\\') => {
                    has_escapes = true;
                    self.escape()?;
                }
                Some(0..=0x1f) => return Err(SyntaxProblem::ControlCharacter.into()),
                Some(_) => self.at += 1,
                None => return Err(SyntaxProblem::Truncated.into()),
            }
            at = self.at;
        }
    }

    fn escape(&mut self) -> Scanned<()> {
        match self.json.as_bytes().get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match self.unicode_escape()? {
                0xd800..=0xdbff => match self.json.as_bytes().get(self.at..self.at + 2) {
                    Some(br"\u") if matches!(self.unicode_escape()?, 0xdc00..=0xdfff) => {}
                    _ => return Err(SyntaxProblem::BadEscape.into()),
                },
                0xdc00..=0xdfff => return Err(SyntaxProblem::BadEscape.into()),
                _ => {}
            },
            Some(_) => return Err(SyntaxProblem::BadEscape.into()),
            None => return Err(SyntaxProblem::Truncated.into()),
        }
        Ok(())
    }

    /// A `\u` and its four digits.
    fn unicode_escape(&mut self) -> Scanned<u32> {
        let digits = self.json.as_bytes().get(self.at + 2..self.at + 6).ok_or(SyntaxProblem::Truncated)?;
        let mut code = 0;
        for digit in digits {
            let digit = char::from(*digit).to_digit(16).ok_or(SyntaxProblem::BadEscape)?;
            code = code * 16 + digit;
        }
        self.at += 6;
        Ok(code)
    }

    fn number(&mut self) -> Scanned<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        match self.peek() {
            Some(b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E') => Err(SyntaxProblem::BadNumber.into()),
            _ => Ok(()),
        }
    }

    /// One digit or more.
    fn digits(&mut self) -> Scanned<()> {
        match self.peek() {
            Some(b'0'..=b'9') => {}
            Some(_) => return Err(SyntaxProblem::BadNumber.into()),
            None => return Err(SyntaxProblem::Truncated.into()),
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Scanned<()> {
        for expected in word.bytes() {
            self.expect(expected)?;
        }
        Ok(())
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Scanned<()> {
        if self.peek() != Some(byte) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn unexpected(&self) -> Trouble {
        match self.peek() {
            Some(_) => SyntaxProblem::UnexpectedByte.into(),
            None => SyntaxProblem::Truncated.into(),
        }
    }
}

/// The output.
impl Scan<'_, '_> {
    /// Leaves out white space.
    #[inline]
    fn skip_space(&mut self) {
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.skip_some_space();
        }
    }

    #[cold]
    fn skip_some_space(&mut self) {
        let start = self.at;
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
        if self.at > start {
            self.copy_run(start);
            self.run = self.at;
        }
    }

    /// Copies the run as far as `end`, unless it begins after it.
    fn copy_run(&mut self, end: usize) {
        if self.run < end {
            self.compact.push_str(&self.json[self.run..end]);
            self.run = end;
        }
    }

    /// How long the output would be if the run was copied now.
    fn output_len(&self) -> usize {
        self.compact.len() + (self.at - self.run)
    }
}

impl<'a> Fields<'a> {
    fn finish(mut self) -> Result<Found<'a>, DecodeError> {
        let key = self.key().ok_or(DecodeError::NoName)?;
        let uid = Uid::new(self.uid.as_deref().unwrap_or_default());
        let version = ResourceVersion::new(self.version.as_deref().unwrap_or_default());
        Ok(Found {
            identity: Identity { key, uid, version },
            api_version: self.api_version.take(),
            kind: self.kind.take(),
            labels: self.labels.unwrap_or_default(),
        })
    }

    /// The key, once it is certain: a name alone could still get a namespace.
    fn key(&self) -> Option<Key> {
        let name = self.name.as_deref().filter(|name| !name.is_empty())?;
        match &self.namespace {
            Some(namespace) => Some(Key::namespaced(namespace, name)),
            None if self.metadata == Progress::Complete => Some(Key::cluster(name)),
            None => None,
        }
    }
}

impl From<SyntaxProblem> for Trouble {
    fn from(problem: SyntaxProblem) -> Self {
        Self::Syntax(problem)
    }
}

/// Finds the first byte of eight that means something in a string: a quote, a backslash or a control character.
///
/// Works on all eight at once: each test sets the high bit of a byte that fulfils it. A borrow can set the bit of a later
/// byte too, but never of an earlier one.
fn first_special(eight: [u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGHS: u64 = ONES * 0x80;
    let word = u64::from_le_bytes(eight);
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGHS;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let special = below(word, 0x20) | equal(b'"') | equal(b'\\');
    (special != 0).then(|| (special.trailing_zeros() / 8) as usize)
}
