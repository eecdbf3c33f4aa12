//! The objects of a load.
//!
//! - **In:** a kind; the number and revision of an object.
//! - **Out:** the object as JSON, and its key.

use serde_json::{Value, json};

use crate::registry::kind::{Kind, Scope};

/// Builds the object with a given number and revision.
#[derive(Debug)]
pub(crate) struct Template {
    model: Model,
    scope: Scope,
    plural: String,
    namespaces: usize,
    nodes: usize,
    /// Each pod names an owner, which does not exist.
    has_owners: bool,
}

#[derive(Debug)]
enum Model {
    Pod(Value),
    Node(Value),
    ConfigMap,
    Deployment,
    Service,
    /// Only metadata, for every other kind.
    Plain,
}

impl Template {
    pub(crate) fn new(kind: &Kind, namespaces: usize, nodes: usize) -> Self {
        let read = |text| serde_json::from_str(text).unwrap_or(Value::Null);
        let model = match kind.resource().as_str() {
            "pods" => Model::Pod(read(include_str!("pod.json"))),
            "nodes" => Model::Node(read(include_str!("node.json"))),
            "configmaps" => Model::ConfigMap,
            "deployments.apps" => Model::Deployment,
            "services" => Model::Service,
            _ => Model::Plain,
        };
        Self { model, scope: kind.scope, plural: kind.plural.to_string(), namespaces, nodes, has_owners: true }
    }

    /// Leaves out the owners of pods.
    pub(crate) fn without_owners(self) -> Self {
        Self { has_owners: false, ..self }
    }

    /// The key of the object with this number.
    pub(crate) fn key(&self, number: usize) -> String {
        match self.scope {
            Scope::Namespaced => format!("{}/{}", self.namespace(number), self.name(number)),
            Scope::Cluster => self.name(number),
        }
    }

    pub(crate) fn object(&self, number: usize, revision: u64) -> Value {
        let mut object = match &self.model {
            Model::Pod(pod) => self.pod(pod.clone(), number, revision),
            Model::Node(node) => node.clone(),
            Model::ConfigMap => json!({"data": {"revision": revision.to_string()}}),
            Model::Deployment => deployment(&self.app(number), revision),
            Model::Service => service(&self.app(number), number),
            Model::Plain => json!({}),
        };
        object["metadata"]["name"] = json!(self.name(number));
        object["metadata"]["annotations"]["load.example.com/revision"] = json!(revision.to_string());
        if self.scope == Scope::Namespaced {
            object["metadata"]["namespace"] = json!(self.namespace(number));
        }
        match &self.model {
            Model::Node(_) => {
                object["metadata"]["labels"]["kubernetes.io/hostname"] = json!(self.name(number));
                object["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(format!("zone-{}", number % 3));
            }
            Model::ConfigMap | Model::Deployment | Model::Service | Model::Plain => {
                object["metadata"]["labels"]["app"] = json!(self.app(number));
            }
            Model::Pod(_) => {}
        }
        object
    }

    fn pod(&self, mut pod: Value, number: usize, revision: u64) -> Value {
        let app = self.app(number);
        pod["metadata"]["labels"]["app"] = json!(app);
        pod["metadata"]["labels"]["app.kubernetes.io/instance"] = json!(app);
        match self.has_owners {
            true => pod["metadata"]["ownerReferences"][0]["name"] = json!(format!("{app}-7c9f8d6b5d")),
            false => pod["metadata"]["ownerReferences"] = json!([]),
        }
        pod["spec"]["nodeName"] = json!(format!("node-{}", number % self.nodes));
        pod["status"]["containerStatuses"][0]["restartCount"] = json!(revision);
        pod["status"]["podIP"] = json!(format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255));
        pod
    }

    fn name(&self, number: usize) -> String {
        match &self.model {
            Model::Pod(_) => format!("{}-7c9f8d6b5d-{number:05}", self.app(number)),
            Model::Node(_) => format!("node-{number}"),
            Model::Deployment | Model::Service => self.app(number),
            Model::ConfigMap | Model::Plain => format!("{}-{number:05}", self.plural),
        }
    }

    fn app(&self, number: usize) -> String {
        format!("web-{}", self.group(number))
    }

    fn namespace(&self, number: usize) -> String {
        format!("team-{}", self.group(number) % self.namespaces)
    }

    /// Ten pods form a group, as the pods of a deployment do.
    fn group(&self, number: usize) -> usize {
        match &self.model {
            Model::Pod(_) => number / 10,
            Model::Node(_) | Model::ConfigMap | Model::Deployment | Model::Service | Model::Plain => number,
        }
    }
}

/// A deployment with another image in each revision, and one of its pods not ready.
fn deployment(app: &str, revision: u64) -> Value {
    let containers = json!([{"name": "web", "image": format!("registry.example.com/web:1.{revision}")}]);
    json!({
        "spec": {
            "replicas": 10,
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers}},
        },
        "status": {"replicas": 10, "updatedReplicas": 10, "readyReplicas": 9, "availableReplicas": 9},
    })
}

fn service(app: &str, number: usize) -> Value {
    json!({
        "spec": {
            "type": "ClusterIP",
            "clusterIP": format!("10.96.{}.{}", number >> 8 & 255, number & 255),
            "selector": {"app": app},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::registry::Registry;

    #[test]
    fn objects_are_what_their_key_says() {
        for kind in Registry::builtin_kinds() {
            let template = Template::new(&kind, 3, 10);
            for number in [0, 7, 12_345] {
                let object = template.object(number, 2);
                let name = object["metadata"]["name"].as_str().unwrap();
                let key = match object["metadata"]["namespace"].as_str() {
                    Some(namespace) if kind.scope == Scope::Namespaced => format!("{namespace}/{name}"),
                    _ => name.to_owned(),
                };
                assert_eq!(key, template.key(number), "{}", kind.resource());
            }
        }
    }

    #[test]
    fn objects_are_spread_over_all_namespaces() {
        for kind in Registry::builtin_kinds().filter(|kind| kind.scope == Scope::Namespaced) {
            let template = Template::new(&kind, 3, 10);
            let namespaces: BTreeSet<_> = (0..30).map(|number| template.namespace(number)).collect();
            assert_eq!(namespaces.len(), 3, "{}", kind.resource());
        }
    }

    #[test]
    fn a_pod_is_as_large_as_a_real_one() {
        let pods = Registry::builtin_kinds().find(|kind| kind.kind == "Pod").unwrap();
        let pod = Template::new(&pods, 5, 100).object(3, 1);

        assert!((5_000..7_000).contains(&pod.to_string().len()));
        assert_eq!(pod["spec"]["nodeName"], "node-3");
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
    }
}
