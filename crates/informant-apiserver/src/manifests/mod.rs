//! Objects as YAML: [`ApiServer::load`] creates those of a file, [`ApiServer::dump`] writes those of the server.
//!
//! - **In:** a file; the objects of the server.
//! - **Out:** created objects, or an error that names the file, the document and the object; a text for people.
//! - **Knows nothing of:** HTTP, faults.

mod text;

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    ApiServer,
    error::ApiError,
    manifests::text::{Manifest, NoManifest},
    objects::Object,
    registry::{definition, kind::Scope},
    storage::Collection,
    world::Run,
};

/// An error of [`ApiServer::load`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The file cannot be read.
    #[error("{} cannot be read", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },

    /// A document is not the YAML of an object or a list of objects.
    #[error("document {document} of {} is not an object: {why}", file.display())]
    Document {
        /// The file.
        file: PathBuf,
        /// The number of the document in the file, from 1, without empty ones.
        document: usize,
        /// What is wrong with the document.
        why: String,
    },

    /// The server rejects an object.
    #[error("{object} in document {document} of {} is rejected", file.display())]
    Object {
        /// The file.
        file: PathBuf,
        /// The number of the document in the file, from 1, without empty ones.
        document: usize,
        /// The kind and the name of the object.
        object: String,
        /// The error that a client would receive.
        source: Box<ApiError>,
    },
}

impl ApiServer {
    /// Creates the objects of a YAML file, as `kubectl create -f` does: definitions of custom kinds first, then namespaces, then the
    /// others in the order of the file.
    ///
    /// The file can have several documents and lists. An object of a namespaced kind without a namespace is created in `default`. Each
    /// object is checked as if a client sent it. So its namespace must be there, unless the server
    /// [allows missing ones](crate::ApiServerBuilder::allow_missing_namespaces), and an object that exists is an error.
    ///
    /// ```
    /// # fn main() -> Result<(), informant_apiserver::ManifestError> {
    /// let server = informant_apiserver::ApiServer::new();
    /// server.load("examples/shop.yaml")?; // a definition, a namespace, and an object of the defined kind
    ///
    /// assert_eq!(server.count("fleets.example.com"), Ok(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the file cannot be read or a document is not an object; then no object is created. If the server rejects an object; then those
    /// before it exist.
    pub fn load(&self, file: impl AsRef<Path>) -> Result<(), ManifestError> {
        let file = file.as_ref();
        let text = fs::read_to_string(file).map_err(|source| ManifestError::File { file: file.into(), source })?;
        let manifests = text::read(&text).map_err(|NoManifest { document, why }| ManifestError::Document {
            file: file.into(),
            document,
            why,
        })?;
        for manifest in manifests {
            let (document, object) = (manifest.document, manifest.title());
            let rejected =
                |error| ManifestError::Object { file: file.into(), document, object, source: Box::new(error) };
            self.create_manifest(&manifest).map_err(rejected)?;
        }
        Ok(())
    }

    fn create_manifest(&self, manifest: &Manifest) -> Result<(), ApiError> {
        let (kind, api_version) = (manifest.field("kind"), manifest.field("apiVersion"));
        let served = self.served_as(api_version, kind).ok_or_else(|| {
            ApiError::BadRequest(format!("the server has no kind {kind:?} in version {api_version:?}"))
        })?;
        let object = Object::read(&served.kind, manifest.object.to_string().as_bytes())?;
        let namespace = match (served.kind.scope, object.text("namespace")) {
            (Scope::Cluster, _) => String::new(),
            (Scope::Namespaced, "") => "default".to_owned(),
            (Scope::Namespaced, namespace) => namespace.to_owned(),
        };
        self.change(|world, now| world.create(&served, &namespace, object, now, Run::Real)).map(drop)
    }

    /// Writes all objects as YAML, for the message of a failing assertion.
    ///
    /// The objects are ordered by kind, namespace and name. Definitions of custom kinds are left out, and of each object what differs
    /// between runs or says little: `uid`, `resourceVersion`, `creationTimestamp` and `managedFields`.
    ///
    /// ```
    /// # fn main() -> Result<(), informant_apiserver::ApiError> {
    /// let server = informant_apiserver::ApiServer::new();
    /// server.put("configmaps", serde_json::json!({"metadata": {"namespace": "shop", "name": "prices"}, "data": {"apple": "3"}}))?;
    ///
    /// let expected = "\
    /// apiVersion: v1
    /// data:
    ///   apple: \"3\"
    /// kind: ConfigMap
    /// metadata:
    ///   name: prices
    ///   namespace: shop
    /// ";
    /// assert_eq!(server.dump(), expected, "{}", server.dump());
    /// # Ok(())
    /// # }
    /// ```
    pub fn dump(&self) -> String {
        let mut seen = HashSet::new();
        let objects = self.read(|world| {
            let kinds = world.registry.served().filter(|served| !definition::defines(&served.kind));
            let collections = kinds.filter_map(|served| world.storage.collection(served.collection));
            let all = collections.flat_map(Collection::objects).map(|(_, object)| object.object());
            all.map(|json| serde_json::from_slice(&json).unwrap_or(Value::Null)).collect::<Vec<Value>>()
        });
        // Two kinds can show the same object; the first one is written.
        let objects = objects.into_iter().filter(|object| seen.insert(object["metadata"]["uid"].to_string()));
        text::write(objects)
    }
}
