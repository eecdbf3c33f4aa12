//! The server's own table of the cached objects, with the columns that `kubectl get` prints.
//!
//! - **In:** the selection, and the version of the cache, so that table and cache contain the same objects.
//! - **Out:** headers, and the cells of each object. `None` if the server does not send such a table, for example because that version
//!   has expired; this is not an error.

use std::collections::HashMap;

use hyper::header::{ACCEPT, HeaderValue};
use informant::Key;
use kube::{
    Resource,
    api::{ListParams, Request, VersionMatch},
    core::DynamicObject,
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    objects::columns::{Width, shown},
    requests,
    selection::Selected,
};

const TABLE: HeaderValue = HeaderValue::from_static("application/json;as=Table;g=meta.k8s.io;v=v1");

/// The number of objects in one answer; the same as in kubectl.
const PAGE: u32 = 500;

/// The table of all selected objects.
pub struct ServerTable {
    pub headers: Vec<String>,
    rows: HashMap<Key, Vec<String>>,
}

/// A page of a table, as the server sends it. An answer of another type lacks these fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    metadata: PageMetadata,
    column_definitions: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    /// Above 0 for columns of wide tables.
    priority: i32,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
    object: Named,
}

#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    namespace: Option<String>,
    name: String,
}

impl ServerTable {
    /// Requests the table of the selected objects at a version.
    pub async fn of(selected: &Selected, version: &str, width: Width, has_namespaces: bool) -> Option<Self> {
        let objects = Request::new(DynamicObject::url_path(&selected.kind.resource, selected.namespace.as_deref()));
        let all = ListParams::default().labels(&selected.selector).fields(&selected.fields()).limit(PAGE);
        let mut params = all.clone().at(version).matching(VersionMatch::Exact);
        let mut table = Self { headers: Vec::new(), rows: HashMap::new() };
        loop {
            let mut request = objects.list(&params).ok()?;
            request.headers_mut().insert(ACCEPT, TABLE);
            let page: Page = requests::optional(&selected.client, &request).await?;
            let is_shown = |column: &Column| width == Width::Wide || column.priority == 0;
            let headers = page.column_definitions.iter().filter(|column| is_shown(column));
            let namespace = has_namespaces.then(|| "NAMESPACE".to_owned());
            table.headers = namespace.into_iter().chain(headers.map(|column| column.name.to_uppercase())).collect();
            for Row { cells, object: Named { metadata: Name { namespace, name } } } in page.rows {
                let columns = page.column_definitions.iter();
                let cells = columns.zip(cells).filter(|(column, _)| is_shown(column)).map(|(_, cell)| shown(cell));
                let first = has_namespaces.then(|| namespace.clone().unwrap_or_default());
                let key = match namespace {
                    Some(namespace) => Key::namespaced(&namespace, &name),
                    None => Key::cluster_scoped(&name),
                };
                table.rows.insert(key, first.into_iter().chain(cells).collect());
            }
            match page.metadata.token.filter(|token| !token.is_empty()) {
                Some(token) => params = all.clone().continue_token(&token),
                None => return Some(table),
            }
        }
    }

    /// Returns the cells of an object.
    pub fn cells(&self, key: &Key) -> Option<&[String]> {
        self.rows.get(key).map(Vec::as_slice)
    }
}
