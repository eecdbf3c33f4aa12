//! The table columns of a kind: built-in ones, or those in the definition (CRD) of a custom kind.
//!
//! - **In:** a kind; the cluster's definition of it, read with the user's permissions.
//! - **Out:** columns. If the definition cannot be read, the columns are name and age; this is not an error.

use hyper::Request;
use informant_apiserver::{
    columns,
    columns::{Column, PrinterColumn},
};
use kube::Client;
use serde_json::Value;

use super::Kind;
use crate::requests;

/// The columns in which a table shows the objects of a kind.
pub async fn columns(client: &Client, kind: &Kind) -> Vec<Column> {
    if kind.is_built_in {
        return columns::of(&kind.resource.group, &kind.resource.kind);
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let path = format!("{definitions}/{}.{}", kind.resource.plural, kind.resource.group);
    let definition = match Request::get(path).body(Vec::new()) {
        Ok(request) => requests::optional(client, &request).await,
        Err(_) => None,
    };
    columns::of_definition(&definition.and_then(|definition| printer_columns(definition, kind)).unwrap_or_default())
}

/// The columns that a definition names for the version of a kind.
fn printer_columns(mut definition: Value, kind: &Kind) -> Option<Vec<PrinterColumn>> {
    let versions = definition.pointer_mut("/spec/versions")?.as_array_mut()?;
    let version = versions.iter_mut().find(|version| version["name"] == *kind.resource.version)?;
    serde_json::from_value(version["additionalPrinterColumns"].take()).ok()
}
