//! The object types in which scenarios hold pods, and the fields that they read.

use std::collections::BTreeMap;

use informant::{Lazy, OfKind, projection};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, ResourceExt};
use serde::Deserialize;

/// The fields of a pod that scenarios read.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    pub(super) node: Option<String>,
    pub(super) app: Option<String>,
}

/// An object type for pods.
pub(super) trait PodType: OfKind<Kind = Self::Pods> {
    /// Pods, or a type that inherits their kind.
    type Pods: Resource<DynamicType = ()>;

    fn seen(&self) -> Seen;
}

/// A projection with only these fields.
#[derive(Deserialize)]
pub(super) struct Projected {
    metadata: Labels,
    spec: Spec,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

projection!(Projected of Pod);

/// A projection with all metadata and the fields that scenarios read.
#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = Pod)]
pub(super) struct Inherited {
    metadata: ObjectMeta,
    spec: Spec,
}

impl PodType for Pod {
    type Pods = Pod;

    fn seen(&self) -> Seen {
        let node = self.spec.as_ref().and_then(|spec| spec.node_name.clone());
        Seen { node, app: self.labels().get("app").cloned() }
    }
}

impl PodType for Lazy<Pod> {
    type Pods = Pod;

    fn seen(&self) -> Seen {
        self.get().unwrap().seen()
    }
}

impl PodType for Projected {
    type Pods = Pod;

    fn seen(&self) -> Seen {
        Seen { node: self.spec.node_name.clone(), app: self.metadata.labels.get("app").cloned() }
    }
}

impl PodType for Inherited {
    type Pods = Inherited;

    fn seen(&self) -> Seen {
        Seen { node: self.spec.node_name.clone(), app: self.labels().get("app").cloned() }
    }
}
