//! The kinds that every cluster has. They are found without a discovery request.

use std::any::TypeId;

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        admissionregistration::v1 as admission, apps::v1 as apps, autoscaling::v2 as autoscaling, batch::v1 as batch,
        certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, events::v1 as events, networking::v1 as networking, node::v1 as node,
        policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};
use kube::{Resource, core::ApiResource, discovery::Scope};

use super::Kind;

fn kind<K: Resource<DynamicType = (), Scope: 'static>>(short_names: &[&str]) -> Kind {
    let resource = ApiResource::erase::<K>(&());
    let is_namespaced = TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>();
    Kind {
        singular: resource.kind.to_lowercase(),
        resource,
        scope: if is_namespaced { Scope::Namespaced } else { Scope::Cluster },
        short_names: short_names.iter().map(|name| (*name).to_owned()).collect(),
        can_be_watched: true,
        is_built_in: true,
    }
}

/// All built-in kinds. Of two kinds with the same name, the preferred one comes first.
pub(super) fn kinds() -> Vec<Kind> {
    vec![
        kind::<core::Pod>(&["po"]),
        kind::<core::Node>(&["no"]),
        kind::<core::Namespace>(&["ns"]),
        kind::<core::Service>(&["svc"]),
        kind::<core::ConfigMap>(&["cm"]),
        kind::<core::Secret>(&[]),
        kind::<core::ServiceAccount>(&["sa"]),
        kind::<core::Endpoints>(&["ep"]),
        kind::<core::Event>(&["ev"]),
        kind::<core::LimitRange>(&["limits"]),
        kind::<core::PersistentVolume>(&["pv"]),
        kind::<core::PersistentVolumeClaim>(&["pvc"]),
        kind::<core::PodTemplate>(&[]),
        kind::<core::ReplicationController>(&["rc"]),
        kind::<core::ResourceQuota>(&["quota"]),
        kind::<apps::ControllerRevision>(&[]),
        kind::<apps::DaemonSet>(&["ds"]),
        kind::<apps::Deployment>(&["deploy"]),
        kind::<apps::ReplicaSet>(&["rs"]),
        kind::<apps::StatefulSet>(&["sts"]),
        kind::<autoscaling::HorizontalPodAutoscaler>(&["hpa"]),
        kind::<batch::CronJob>(&["cj"]),
        kind::<batch::Job>(&[]),
        kind::<certificates::CertificateSigningRequest>(&["csr"]),
        kind::<coordination::Lease>(&[]),
        kind::<discovery::EndpointSlice>(&[]),
        kind::<events::Event>(&["ev"]),
        kind::<networking::Ingress>(&["ing"]),
        kind::<networking::IngressClass>(&[]),
        kind::<networking::NetworkPolicy>(&["netpol"]),
        kind::<node::RuntimeClass>(&[]),
        kind::<policy::PodDisruptionBudget>(&["pdb"]),
        kind::<rbac::ClusterRole>(&[]),
        kind::<rbac::ClusterRoleBinding>(&[]),
        kind::<rbac::Role>(&[]),
        kind::<rbac::RoleBinding>(&[]),
        kind::<scheduling::PriorityClass>(&["pc"]),
        kind::<storage::CSIDriver>(&[]),
        kind::<storage::CSINode>(&[]),
        kind::<storage::CSIStorageCapacity>(&[]),
        kind::<storage::StorageClass>(&["sc"]),
        kind::<storage::VolumeAttachment>(&[]),
        kind::<admission::MutatingWebhookConfiguration>(&[]),
        kind::<admission::ValidatingWebhookConfiguration>(&[]),
        kind::<apiextensions::CustomResourceDefinition>(&["crd", "crds"]),
        kind::<apiregistration::APIService>(&[]),
    ]
}
