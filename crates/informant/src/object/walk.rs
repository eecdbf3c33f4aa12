//! The JSON walker: walks over JSON and checks its syntax, without building values.
//!
//! - **In:** bytes that begin with a value, in any field order and with any white space.
//! - **Out:** the names, strings and values that the caller asks for; if the caller wants it, the same JSON without white space and
//!   without the members that the caller cuts.
//! - **Knows nothing of:** the meaning of the JSON.
//!
//! The walker accepts the JSON that serde_json accepts, with two exceptions: it does not check the range of numbers, and it checks the
//! encoding (UTF-8) only of resolved strings and of cut members.

use std::{borrow::Cow, ops::Range};

use smallvec::SmallVec;

use super::{SyntaxProblem, field_path::FieldTree, special_bytes::SpecialBytes, value_end::EndSearch};

/// The maximum nesting depth of objects and arrays: that of serde_json.
pub(super) const MAX_DEPTH: usize = 127;

/// A position in the bytes, and the JSON that is written so far.
pub(crate) struct Walk<'a> {
    json: &'a [u8],
    /// The next byte to read.
    at: usize,
    special_bytes: SpecialBytes,
    /// The bytes from here to `at` are kept, but not written yet. They are written together at the next byte that is left out.
    run: usize,
    /// The kept bytes before `run`; `None` if the caller only reads.
    output: Option<Vec<u8>>,
    notes: Notes,
}

/// The position of a string, quotes included; its text is resolved only where it is needed.
pub(super) struct Span {
    pub(super) start: usize,
    end: usize,
    has_escapes: bool,
}

/// Whether a member of an object is kept.
pub(super) enum MemberAction {
    Keep,
    Cut,
}

pub(super) type Walked<T> = Result<T, SyntaxProblem>;

/// The ranges of noted values in the output, with the numbers of their fields, in the order of the JSON.
pub(super) type Notes = SmallVec<[(u8, Range<usize>); 2]>;

/// Reading.
impl<'a> Walk<'a> {
    /// Begins a walk that only reads.
    pub(crate) fn new(json: &'a [u8]) -> Self {
        Self { json, at: 0, special_bytes: SpecialBytes::new(), run: 0, output: None, notes: SmallVec::new() }
    }

    /// Returns the position of the walk.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Returns the bytes that were read since the position `start`.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        &self.json[start..self.at]
    }

    /// Skips white space, and returns true if nothing follows it.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.peek().is_none()
    }

    /// Skips white space, and reads the next byte if it is this one.
    #[inline]
    pub(crate) fn read_if(&mut self, byte: u8) -> bool {
        self.skip_space();
        if self.peek() != Some(byte) {
            return false;
        }
        self.at += 1;
        true
    }

    /// Skips white space, and returns the next value without a check of its content; `None` if it is not complete.
    pub(crate) fn unchecked_value(&mut self) -> Option<&'a [u8]> {
        self.skip_space();
        let (start, first) = (self.at, self.peek()?);
        self.at = EndSearch::begin(first)?.find_from(self.json, start, &mut self.special_bytes)?;
        Some(self.since(start))
    }

    /// Walks over any value. `depth` is the nesting depth of the value if it is an object or array.
    pub(super) fn value(&mut self, depth: usize) -> Walked<()> {
        // How many objects and arrays are open, and a bit for each, the innermost lowest, set for an object. At most `MAX_DEPTH + 1` are open.
        let (mut open, mut are_objects) = (0, 0_u128);
        // A local variable is faster than the field.
        let mut at = self.at;
        loop {
            if are_objects & 1 == 1 {
                at = match self.end_of_short_string(at) {
                    Some(end) if self.json.get(end) == Some(&b':') => end + 1,
                    Some(_) | None => self.continue_at(at, |walk| walk.name().map(drop))?,
                };
            }
            at = self.skip_space_at(at);
            at = match self.json.get(at) {
                Some(b'"') => match self.end_of_short_string(at) {
                    Some(end) => end,
                    None => self.continue_at(at, |walk| walk.skip_string().map(drop))?,
                },
                Some(b'{' | b'[') if depth + open > MAX_DEPTH => {
                    self.at = at;
                    return Err(SyntaxProblem::TooDeep);
                }
                Some(begin @ (b'{' | b'[')) => {
                    let (is_object, end) = if *begin == b'{' { (true, b'}') } else { (false, b']') };
                    at = self.skip_space_at(at + 1);
                    if self.json.get(at) != Some(&end) {
                        (open, are_objects) = (open + 1, (are_objects << 1) | u128::from(is_object));
                        continue;
                    }
                    at + 1
                }
                Some(_) | None => self.continue_at(at, Self::scalar)?,
            };
            loop {
                if open == 0 {
                    self.at = at;
                    return Ok(());
                }
                at = self.skip_space_at(at);
                match (self.json.get(at), are_objects & 1 == 1) {
                    (Some(b','), _) => break,
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        (open, are_objects) = (open - 1, are_objects >> 1);
                        at += 1;
                    }
                    (Some(_) | None, _) => {
                        self.at = at;
                        return Err(self.unexpected());
                    }
                }
            }
            at = self.skip_space_at(at + 1);
        }
    }

    /// Walks over a number, `true`, `false` or `null`.
    fn scalar(&mut self) -> Walked<()> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(_) | None => Err(self.unexpected()),
        }
    }

    /// Continues at this position, and returns the position behind the part that was walked over.
    #[inline]
    fn continue_at(&mut self, at: usize, part: impl FnOnce(&mut Self) -> Walked<()>) -> Walked<usize> {
        self.at = at;
        part(self)?;
        Ok(self.at)
    }

    /// Returns the end of the string that begins at a position, if it is short, has no escapes, and its bytes were tested.
    #[inline]
    fn end_of_short_string(&self, start: usize) -> Option<usize> {
        let quote = self.special_bytes.next_within_block(start + 1)?;
        (self.json.get(start) == Some(&b'"') && self.json.get(quote) == Some(&b'"')).then_some(quote + 1)
    }

    /// Skips white space from a position on.
    #[inline]
    fn skip_space_at(&mut self, at: usize) -> usize {
        match self.json.get(at) {
            Some(0..=b' ') => {
                self.at = at;
                self.skip_some_space();
                self.at
            }
            Some(_) | None => at,
        }
    }

    /// As [`value`](Self::value), but cuts and notes what the tree says. If the whole value is cut, the caller cuts it.
    #[inline]
    pub(super) fn value_by_tree(&mut self, depth: usize, tree: Option<&FieldTree>) -> Walked<()> {
        let Some(tree) = tree.filter(|tree| !tree.is_cut) else { return self.value(depth) };
        let start = self.output_len();
        match self.peek() {
            Some(b'{' | b'[') if depth > MAX_DEPTH => return Err(SyntaxProblem::TooDeep),
            Some(b'{') => self.members(|walk, name| {
                let tree = tree.below(&walk.resolve_name(&name)?);
                walk.value_by_tree(depth + 1, tree)?;
                Ok(MemberAction::of(tree))
            })?,
            Some(b'[') => self.elements(|walk| walk.value_by_tree(depth + 1, Some(tree)))?,
            Some(_) | None => {
                self.value(depth)?;
                self.note(tree, start);
            }
        }
        Ok(())
    }

    /// Notes the value that was written since `start`, if the tree asks for it.
    pub(super) fn note(&mut self, tree: &FieldTree, start: usize) {
        if let (Some(number), false) = (tree.noted_as, tree.is_cut) {
            self.notes.push((number, start..self.output_len()));
        }
    }

    /// Reads the name of a member, and everything up to its value.
    #[inline]
    fn name(&mut self) -> Walked<Span> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected());
        }
        let name = self.string()?;
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(name)
    }

    /// Walks over an object, from brace to brace; `member` walks over each member's value.
    pub(super) fn members(&mut self, mut member: impl FnMut(&mut Self, Span) -> Walked<MemberAction>) -> Walked<()> {
        self.at += 1;
        if self.read_if(b'}') {
            return Ok(());
        }
        loop {
            let (start, output_start) = (self.at, self.output_len());
            let name = self.name()?;
            let is_cut = matches!(member(self, name)?, MemberAction::Cut);
            if is_cut {
                self.cut_since(start, output_start)?;
            }
            if !self.read_if(b',') {
                if is_cut {
                    self.cut_last_comma();
                }
                return self.expect(b'}');
            }
            if is_cut {
                self.run = self.at;
            }
            self.skip_space();
        }
    }

    /// Walks over an array, from bracket to bracket; `element` walks over each element.
    pub(super) fn elements(&mut self, mut element: impl FnMut(&mut Self) -> Walked<()>) -> Walked<()> {
        self.at += 1;
        if self.read_if(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if !self.read_if(b',') {
                return self.expect(b']');
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

    /// As [`resolve`](Self::resolve), as bytes. Without escapes, the encoding is not checked.
    pub(super) fn resolve_name(&self, span: &Span) -> Walked<Cow<'a, [u8]>> {
        match span.has_escapes {
            true => Ok(Cow::Owned(self.resolve(span)?.into_owned().into_bytes())),
            false => Ok(Cow::Borrowed(&self.json[span.start + 1..span.end - 1])),
        }
    }

    /// Walks over a string.
    #[inline]
    pub(super) fn string(&mut self) -> Walked<Span> {
        let start = self.at;
        let has_escapes = self.skip_string()?;
        Ok(Span { start, end: self.at, has_escapes })
    }

    /// Walks over a string, and returns true if it has escapes.
    #[inline]
    fn skip_string(&mut self) -> Walked<bool> {
        self.at = self.special_bytes.next(self.json, self.at + 1);
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                Ok(false)
            }
            Some(_) | None => self.skip_string_with_escapes().map(|()| true),
        }
    }

    /// Walks over the rest of a string, from its first escape on.
    #[inline(never)]
    fn skip_string_with_escapes(&mut self) -> Walked<()> {
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(SyntaxProblem::ControlCharacter),
                None => return Err(SyntaxProblem::Truncated),
            }
            self.at = self.special_bytes.next(self.json, self.at);
        }
    }

    /// Reads a backslash and the escape after it.
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
        self.read_any(b"-");
        if !self.read_any(b"0") {
            self.digits()?;
        }
        if self.read_any(b".") {
            self.digits()?;
        }
        if self.read_any(b"eE") {
            self.read_any(b"+-");
            self.digits()?;
        }
        match self.peek() {
            Some(b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E') => Err(SyntaxProblem::BadNumber),
            _ => Ok(()),
        }
    }

    /// Reads the next byte if it is one of these.
    fn read_any(&mut self, bytes: &[u8]) -> bool {
        let is_next = self.peek().is_some_and(|byte| bytes.contains(&byte));
        self.at += usize::from(is_next);
        is_next
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
impl Walk<'_> {
    /// Begins a walk that appends the JSON, without white space and cut members, to `output`.
    pub(super) fn writing(json: &[u8], output: Vec<u8>) -> Walk<'_> {
        Walk { output: Some(output), ..Walk::new(json) }
    }

    /// Writes these members, each with a comma behind it, at the start of the object that begins here.
    pub(super) fn insert_members(&mut self, members: &str) {
        self.write_run(self.at + 1);
        self.run = self.at + 1;
        if let Some(output) = &mut self.output {
            output.extend_from_slice(members.as_bytes());
        }
    }

    /// Returns the JSON that is written up to the current position, and the ranges of the noted values in it.
    pub(super) fn into_output(mut self) -> (Vec<u8>, Notes) {
        self.write_run(self.at);
        (self.output.unwrap_or_default(), self.notes)
    }

    /// Returns the length of the output at the current position.
    pub(super) fn output_len(&self) -> usize {
        self.output.as_ref().map_or(0, Vec::len) + (self.at - self.run)
    }

    /// Leaves out the member that begins at `start`, where the output had the length `output_start`. Checks its encoding, because the
    /// caller can check only the encoding of the output.
    fn cut_since(&mut self, start: usize, output_start: usize) -> Walked<()> {
        if let Err(error) = std::str::from_utf8(self.since(start)) {
            self.at = start + error.valid_up_to();
            return Err(SyntaxProblem::InvalidUtf8);
        }
        self.write_run(start);
        if let Some(output) = &mut self.output {
            output.truncate(output_start);
        }
        self.run = self.at;
        Ok(())
    }

    /// Removes the comma before a member that is cut, if it was the last one.
    fn cut_last_comma(&mut self) {
        if let Some(output) = &mut self.output
            && output.last() == Some(&b',')
        {
            output.pop();
        }
    }

    /// Skips white space, which is not kept.
    #[inline]
    pub(super) fn skip_space(&mut self) {
        self.at = self.skip_space_at(self.at);
    }

    #[cold]
    fn skip_some_space(&mut self) {
        let start = self.at;
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
        if self.at > start {
            self.write_run(start);
            self.run = self.at;
        }
    }

    /// Writes the bytes from `run` to `end`, unless `run` is after `end`.
    fn write_run(&mut self, end: usize) {
        if let (Some(output), Some(run)) = (&mut self.output, self.json.get(self.run..end)) {
            output.extend_from_slice(run);
        }
    }
}

impl MemberAction {
    pub(super) fn of(tree: Option<&FieldTree>) -> Self {
        match tree {
            Some(tree) if tree.is_cut => Self::Cut,
            Some(_) | None => Self::Keep,
        }
    }
}
