//! A walk over the bytes of JSON that checks the syntax and records the parts to keep, without white space.
//!
//! - **In:** bytes that begin with a value, in any field order and with any white space.
//! - **Out:** the ranges of bytes that make up the same JSON without white space and without the members that the caller cuts.
//! - **Knows nothing of:** the meaning of the JSON.
//!
//! The walk builds no values: it reads strings eight bytes at a time, and records ranges that end only where something is left out. It
//! accepts the JSON that serde_json accepts, except that it does not check the range of numbers and the encoding of strings.

use std::{borrow::Cow, ops::Range};

use super::{
    SyntaxProblem,
    cuts::{Cut, Cuts},
};

/// The maximum nesting depth of objects and arrays: that of serde_json.
pub(super) const MAX_DEPTH: usize = 127;

/// A position in the bytes, and the parts that are kept so far.
pub(super) struct Walk<'a, 'out> {
    json: &'a [u8],
    /// The next byte to read.
    at: usize,
    kept: &'out mut Runs,
    /// Start of the current run: the bytes from here to `at` are kept, but not recorded in `kept` yet.
    run: usize,
}

/// The ranges of the bytes that are kept, in order.
#[derive(Default)]
pub(super) struct Runs {
    runs: Vec<Range<usize>>,
    /// The number of bytes of all ranges.
    length: usize,
}

/// The position of a string, quotes included; its text is resolved only where it is needed.
pub(super) struct Span {
    start: usize,
    end: usize,
    has_escapes: bool,
}

/// Whether a member of an object is kept.
pub(super) enum Member {
    Keep,
    Cut,
}

type Walked<T> = Result<T, SyntaxProblem>;

/// Reading.
impl<'a, 'out> Walk<'a, 'out> {
    /// Begins at the start and clears `kept`.
    pub(super) fn new(json: &'a [u8], kept: &'out mut Runs) -> Self {
        kept.clear();
        Self { json, at: 0, kept, run: 0 }
    }

    /// Returns the position of the walk.
    pub(super) fn offset(&self) -> usize {
        self.at.min(self.json.len())
    }

    /// Records the current run, and returns the position.
    pub(super) fn end(&mut self) -> usize {
        self.keep_run(self.at);
        self.at
    }

    /// Checks that only white space is left.
    pub(super) fn finish(&mut self) -> Walked<()> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(SyntaxProblem::TrailingData),
        }
    }

    /// Walks over any value. `depth` is the nesting depth of the value if it is an object or array.
    pub(super) fn value(&mut self, depth: usize) -> Walked<()> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'{' | b'[') if depth > MAX_DEPTH => Err(SyntaxProblem::TooDeep),
            Some(b'{') => self.members(|walk, _| walk.value(depth + 1).map(|()| Member::Keep)),
            Some(b'[') => self.elements(|walk| walk.value(depth + 1)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(_) => Err(SyntaxProblem::UnexpectedByte),
            None => Err(SyntaxProblem::Truncated),
        }
    }

    /// As [`value`](Self::value), without the parts that are cut. If the whole value is cut, the caller cuts it.
    #[inline]
    pub(super) fn value_without(&mut self, depth: usize, cut: Cut<'_>) -> Walked<()> {
        match cut {
            Cut::Nothing | Cut::All => self.value(depth),
            Cut::Parts(cuts) => self.value_without_parts(depth, cuts),
        }
    }

    fn value_without_parts(&mut self, depth: usize, cuts: &Cuts) -> Walked<()> {
        match self.peek() {
            Some(b'{') if depth <= MAX_DEPTH => self.members(|walk, name| {
                let cut = cuts.of(&walk.resolve(&name)?);
                walk.value_without(depth + 1, cut)?;
                Ok(cut.into())
            }),
            Some(b'[') if depth <= MAX_DEPTH => self.elements(|walk| walk.value_without_parts(depth + 1, cuts)),
            _ => self.value(depth),
        }
    }

    /// Walks over an object, from brace to brace; `member` walks over each member's value.
    pub(super) fn members(&mut self, mut member: impl FnMut(&mut Self, Span) -> Walked<Member>) -> Walked<()> {
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
                self.keep_run(start);
                self.kept.truncate(output_start);
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
                    // The comma before the last member is cut with it.
                    if self.kept.last().is_some_and(|last| self.json[last] == b',') {
                        self.kept.truncate(self.kept.length - 1);
                    }
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.unexpected()),
            }
            self.skip_space();
        }
    }

    /// Walks over an array, from bracket to bracket; `element` walks over each element.
    pub(super) fn elements(&mut self, mut element: impl FnMut(&mut Self) -> Walked<()>) -> Walked<()> {
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            element(self)?;
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

    /// Returns the text of a string, with its escapes resolved.
    pub(super) fn resolve(&self, span: &Span) -> Walked<Cow<'a, str>> {
        let Span { start, end, has_escapes } = *span;
        if has_escapes {
            let text = serde_json::from_slice(&self.json[start..end]);
            return text.map(Cow::Owned).map_err(|_| SyntaxProblem::BadEscape);
        }
        let text = std::str::from_utf8(&self.json[start + 1..end - 1]);
        text.map(Cow::Borrowed).map_err(|_| SyntaxProblem::InvalidUtf8)
    }

    pub(super) fn string(&mut self) -> Walked<Span> {
        let bytes = self.json;
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
                Some(0..=0x1f) => return Err(SyntaxProblem::ControlCharacter),
                Some(_) => self.at += 1,
                None => return Err(SyntaxProblem::Truncated),
            }
            at = self.at;
        }
    }

    fn escape(&mut self) -> Walked<()> {
        match self.json.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match self.unicode_escape()? {
                0xd800..=0xdbff => match self.json.get(self.at..self.at + 2) {
                    Some(br"\u") if matches!(self.unicode_escape()?, 0xdc00..=0xdfff) => {}
                    _ => return Err(SyntaxProblem::BadEscape),
                },
                0xdc00..=0xdfff => return Err(SyntaxProblem::BadEscape),
                _ => {}
            },
            Some(_) => return Err(SyntaxProblem::BadEscape),
            None => return Err(SyntaxProblem::Truncated),
        }
        Ok(())
    }

    /// Reads a `\u` and its four digits.
    fn unicode_escape(&mut self) -> Walked<u32> {
        let digits = self.json.get(self.at + 2..self.at + 6).ok_or(SyntaxProblem::Truncated)?;
        let mut code = 0;
        for digit in digits {
            let digit = char::from(*digit).to_digit(16).ok_or(SyntaxProblem::BadEscape)?;
            code = code * 16 + digit;
        }
        self.at += 6;
        Ok(code)
    }

    fn number(&mut self) -> Walked<()> {
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
            Some(b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E') => Err(SyntaxProblem::BadNumber),
            _ => Ok(()),
        }
    }

    /// Reads one digit or more.
    fn digits(&mut self) -> Walked<()> {
        match self.peek() {
            Some(b'0'..=b'9') => {}
            Some(_) => return Err(SyntaxProblem::BadNumber),
            None => return Err(SyntaxProblem::Truncated),
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        Ok(())
    }

    pub(super) fn literal(&mut self, word: &str) -> Walked<()> {
        for expected in word.bytes() {
            self.expect(expected)?;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Walked<()> {
        if self.peek() != Some(byte) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn unexpected(&self) -> SyntaxProblem {
        match self.peek() {
            Some(_) => SyntaxProblem::UnexpectedByte,
            None => SyntaxProblem::Truncated,
        }
    }
}

/// Writing.
impl Walk<'_, '_> {
    /// Skips white space, which is not kept.
    #[inline]
    pub(super) fn skip_space(&mut self) {
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
            self.keep_run(start);
            self.run = self.at;
        }
    }

    /// Records the run up to `end`, unless it begins after it.
    fn keep_run(&mut self, end: usize) {
        if self.run < end {
            self.kept.push(self.run..end);
            self.run = end;
        }
    }

    /// Returns the number of bytes that are kept up to the current position.
    pub(super) fn output_len(&self) -> usize {
        self.kept.length + (self.at - self.run)
    }
}

impl From<Cut<'_>> for Member {
    fn from(cut: Cut<'_>) -> Self {
        match cut {
            Cut::All => Self::Cut,
            Cut::Nothing | Cut::Parts(_) => Self::Keep,
        }
    }
}

impl Span {
    /// Returns the position of the opening quote.
    pub(super) fn start(&self) -> usize {
        self.start
    }
}

impl Runs {
    /// Returns the kept parts of a text.
    pub(super) fn of<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> {
        self.runs.iter().map(|run| &text[run.clone()])
    }

    fn clear(&mut self) {
        self.runs.clear();
        self.length = 0;
    }

    fn push(&mut self, run: Range<usize>) {
        self.length += run.len();
        self.runs.push(run);
    }

    /// Returns the position of the last byte.
    fn last(&self) -> Option<usize> {
        self.runs.last().map(|run| run.end - 1)
    }

    /// Shortens the ranges to the first `length` bytes.
    fn truncate(&mut self, length: usize) {
        while self.length > length
            && let Some(last) = self.runs.last_mut()
        {
            let cut = (self.length - length).min(last.len());
            last.end -= cut;
            self.length -= cut;
            if last.start == last.end {
                self.runs.pop();
            }
        }
    }
}

/// Finds the first of eight bytes that is special in a string: a quote, a backslash or a control character.
///
/// It tests all eight at once: each test sets the high bit of the bytes that pass it. A borrow can set the bit of a later byte too, but
/// never of an earlier one.
pub(crate) fn first_special(eight: [u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGHS: u64 = ONES * 0x80;
    let word = u64::from_le_bytes(eight);
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGHS;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let special = below(word, 0x20) | equal(b'"') | equal(b'\\');
    (special != 0).then(|| (special.trailing_zeros() / 8) as usize)
}
