//! The fields that field selectors support, for each kind.
//!
//! - **In:** a kind, and a field in a selector, such as `spec.nodeName`.
//! - **Out:** the paths at which an object has that field, or kube-apiserver's error message.
//! - **Knows nothing of:** objects, and the values in selectors.

use crate::registry::kind::{Kind, Origin, Scope};

/// A field that field selectors support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SelectableField {
    Name,
    Namespace,
    /// A scalar in the object.
    Scalar {
        /// Its possible paths, with dots between the names. The first one with a value is used.
        paths: Vec<String>,
        /// Its value if no path has one.
        absent: &'static str,
    },
}

impl SelectableField {
    /// The field of a kind with this label; the error is the message of kube-apiserver.
    pub(crate) fn find(kind: &Kind, label: &str) -> Result<Self, String> {
        let built_in = match kind.origin {
            Origin::BuiltIn => labels_of_built_in(&kind.resource()),
            Origin::Custom => &[],
        };
        let has_metadata_alone = kind.origin == Origin::BuiltIn && built_in.is_empty();
        match label {
            "metadata.name" => Ok(Self::Name),
            "metadata.namespace" if kind.scope == Scope::Namespaced || has_metadata_alone => Ok(Self::Namespace),
            _ if built_in.contains(&label) => Ok(Self::of_built_in(label)),
            _ if kind.selectable_fields.iter().any(|field| field == label) => Ok(Self::at(&[label], "")),
            _ if has_metadata_alone => {
                Err(format!(r#""{label}" is not a known field selector: only "metadata.name", "metadata.namespace""#))
            }
            _ if kind.is_at("batch", "jobs") => Err(format!("field label \"{label}\" not supported for Job")),
            _ => Err(format!("field label not supported: {label}")),
        }
    }

    /// The paths of this label in built-in kinds. Events have the paths of both of their API groups.
    fn of_built_in(label: &str) -> Self {
        match label {
            "spec.host" => Self::at(&["spec.nodeName"], ""),
            "spec.hostNetwork" | "spec.unschedulable" => Self::at(&[label], "false"),
            "status.replicas" => Self::at(&[label], "0"),
            "status.successful" => Self::at(&["status.succeeded"], "0"),
            // kube-apiserver accepts the label, but no object has a value for it.
            "status.podIPs" => Self::at(&[], ""),
            "source" => {
                let paths =
                    ["source.component", "deprecatedSource.component", "reportingComponent", "reportingController"];
                Self::at(&paths, "")
            }
            "reportingComponent" | "reportingController" => {
                Self::at(&["reportingComponent", "reportingController"], "")
            }
            _ => match label.strip_prefix("involvedObject.").or_else(|| label.strip_prefix("regarding.")) {
                Some(field) => Self::at(&[&format!("involvedObject.{field}"), &format!("regarding.{field}")], ""),
                None => Self::at(&[label], ""),
            },
        }
    }

    fn at(paths: &[&str], absent: &'static str) -> Self {
        Self::Scalar { paths: paths.iter().map(ToString::to_string).collect(), absent }
    }
}

/// The labels of a built-in kind besides name and namespace, as of Kubernetes 1.37.
fn labels_of_built_in(resource: &str) -> &'static [&'static str] {
    match resource {
        "pods" => &[
            "spec.nodeName",
            "spec.host",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "secrets" => &["type"],
        "services" => &["spec.clusterIP", "spec.type"],
        "replicationcontrollers" => &["status.replicas"],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "events.events.k8s.io" => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        "jobs.batch" => &["status.successful"],
        "certificatesigningrequests.certificates.k8s.io" => &["spec.signerName"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn each_kind_in_the_table_of_labels_is_built_in() {
        let with_fields = Registry::builtin_kinds().filter(|kind| !labels_of_built_in(&kind.resource()).is_empty());

        assert_eq!(with_fields.count(), 10);
    }
}
