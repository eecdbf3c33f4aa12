//! Responses: a document, or a stream of chunks.
//!
//! - **In:** objects, pages and lines of watches.
//! - **Out:** HTTP responses.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream, stream::BoxStream};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::{Frame, SizeHint};
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    faults::{CannedResponse, wire::Shape},
    list::Page,
    objects::encoded::{Encoded, Form, METADATA_HEAD},
    registry::kind::{Kind, Origin},
};

/// The body of a response of the [`ApiService`](crate::ApiService).
pub struct ResponseBody(Content);

enum Content {
    Whole(Option<Bytes>),
    Stream(BoxStream<'static, io::Result<Bytes>>),
}

/// A response before it is converted to HTTP.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: AnswerBody,
}

pub(crate) enum AnswerBody {
    Document(Bytes),
    /// A document in chunks, because it may be too large to be held in memory.
    List(BoxStream<'static, io::Result<Bytes>>),
    Watch(BoxStream<'static, io::Result<Bytes>>),
}

/// The approximate size of the chunks of a list.
const PIECE: usize = 64 * 1024;

impl Answer {
    fn new(code: u16, body: AnswerBody) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        Self { code, headers, body }
    }

    /// Adds warnings, which kubectl shows to its user.
    pub(crate) fn with_warnings(mut self, warnings: &[String]) -> Self {
        for warning in warnings {
            let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
            // Text that cannot be in a header is left out.
            if let Ok(text) = HeaderValue::try_from(format!("299 - \"{text}\"")) {
                self.headers.append(header::WARNING, text);
            }
        }
        self
    }

    pub(crate) fn document(code: u16, document: Bytes) -> Self {
        Self::new(code, AnswerBody::Document(document))
    }

    /// A document with this content type, and code 200.
    pub(crate) fn of_type(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let mut answer = Self::document(200, bytes.into());
        answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        answer
    }

    pub(crate) fn json(code: u16, value: &Value) -> Self {
        Self::document(code, value.to_string().into())
    }

    /// One object.
    pub(crate) fn object(code: u16, object: &Encoded, form: Form) -> Self {
        match form {
            Form::Full => Self::document(code, object.object()),
            Form::Metadata => Self::document(code, [METADATA_HEAD.as_bytes(), object.metadata(), b"}"].concat().into()),
        }
    }

    pub(crate) fn list(kind: &Kind, page: Page, form: Form) -> Self {
        let pieces = stream::iter(ListPieces::new(kind, page, form).map(Ok));
        Self::new(200, AnswerBody::List(pieces.boxed()))
    }

    pub(crate) fn watch(lines: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self::new(200, AnswerBody::Watch(lines.boxed()))
    }

    pub(crate) fn shape(&self) -> Shape {
        match self.body {
            AnswerBody::Watch(_) => Shape::Lines,
            AnswerBody::Document(_) | AnswerBody::List(_) => Shape::Document,
        }
    }

    /// Passes the body through a function, as a stream.
    pub(crate) fn map_stream(
        self,
        change: impl FnOnce(BoxStream<'static, io::Result<Bytes>>) -> BoxStream<'static, io::Result<Bytes>>,
    ) -> Self {
        let body = match self.body {
            AnswerBody::Document(document) => AnswerBody::List(change(stream::iter([Ok(document)]).boxed())),
            AnswerBody::List(pieces) => AnswerBody::List(change(pieces)),
            AnswerBody::Watch(lines) => AnswerBody::Watch(change(lines)),
        };
        Self { body, ..self }
    }

    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let body = match self.body {
            AnswerBody::Document(document) => ResponseBody(Content::Whole(Some(document))),
            AnswerBody::List(stream) | AnswerBody::Watch(stream) => ResponseBody(Content::Stream(stream)),
        };
        let mut response = Response::new(body);
        // Only an injected fault can have an invalid status code.
        *response.status_mut() =
            http::StatusCode::from_u16(self.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = self.headers;
        response
    }
}

impl From<ApiError> for Answer {
    fn from(error: ApiError) -> Self {
        let mut answer = Self::json(error.code(), &error.status());
        if let Some(seconds) = error.retry_after() {
            answer.headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

impl From<CannedResponse> for Answer {
    fn from(canned: CannedResponse) -> Self {
        let mut answer = Self::document(canned.code, canned.body.into());
        answer.headers.extend(canned.headers);
        answer
    }
}

/// The metadata of a list.
pub(super) fn list_metadata(page: &Page) -> Value {
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] = json!(next.encode());
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

/// The JSON of a list, in chunks.
struct ListPieces {
    head: Option<String>,
    objects: std::vec::IntoIter<Arc<Encoded>>,
    form: Form,
    origin: Origin,
    is_first: bool,
    is_closed: bool,
}

impl ListPieces {
    fn new(kind: &Kind, page: Page, form: Form) -> Self {
        let (list_kind, api_version) = match form {
            Form::Full => (&*kind.list_kind, kind.api_version()),
            Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1".into()),
        };
        let metadata = list_metadata(&page);
        let head = format!(
            r#"{{"kind":{},"apiVersion":{},"metadata":{metadata},"items":["#,
            Value::from(list_kind),
            Value::from(api_version)
        );
        let objects = page.objects.into_iter();
        Self { head: Some(head), objects, form, origin: kind.origin, is_first: true, is_closed: false }
    }

    fn write(&mut self, object: &Encoded, piece: &mut Vec<u8>) {
        if !std::mem::take(&mut self.is_first) {
            piece.push(b',');
        }
        match (self.form, self.origin) {
            (Form::Full, Origin::Custom) => piece.extend_from_slice(&object.object()),
            (Form::Full, Origin::BuiltIn) => {
                piece.push(b'{');
                piece.extend_from_slice(object.untyped());
            }
            (Form::Metadata, _) => {
                piece.extend_from_slice(METADATA_HEAD.as_bytes());
                piece.extend_from_slice(object.metadata());
                piece.push(b'}');
            }
        }
    }
}

impl Iterator for ListPieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_closed {
            return None;
        }
        let mut piece = self.head.take().unwrap_or_default().into_bytes();
        while piece.len() < PIECE {
            let Some(object) = self.objects.next() else {
                piece.extend_from_slice(b"]}");
                self.is_closed = true;
                break;
            };
            self.write(&object, &mut piece);
        }
        Some(piece.into())
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.0 {
            Content::Whole(document) => Poll::Ready(document.take().map(|document| Ok(Frame::data(document)))),
            Content::Stream(stream) => stream.poll_next_unpin(context).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(document) => SizeHint::with_exact(document.as_ref().map_or(0, |whole| whole.len() as u64)),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Content::Whole(document) => f.debug_tuple("Whole").field(document).finish(),
            Content::Stream(_) => f.write_str("Stream"),
        }
    }
}
