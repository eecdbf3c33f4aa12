//! The table of the built-in kinds.

use std::borrow::Cow;

use crate::registry::{
    kind::{Kind, Names, Origin, Scope},
    subresource::Subresource,
};

/// All built-in kinds that the server knows.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    TABLE.lines().filter(|line| !line.trim().is_empty()).map(read)
}

/// Each line: group/version, kind, plural, short names, flags.
///
/// The flags: `n` namespaced, `s` has the status subresource, `g` has a generation, `o` the response to a delete is the object, `v` an
/// update needs a version, `c` an update creates a missing object, `a` part of `kubectl get all`, `r` has replicas and the scale
/// subresource, `j` a review, which is not stored.
const TABLE: &str = "
    v1                              Namespace                       namespaces                       ns          so
    v1                              Node                            nodes                            no          s
    v1                              Pod                             pods                             po          nsgoa
    v1                              Service                         services                         svc         nsoca
    v1                              ConfigMap                       configmaps                       cm          n
    v1                              Secret                          secrets                          -           n
    v1                              ServiceAccount                  serviceaccounts                  sa          no
    v1                              Endpoints                       endpoints                        ep          nc
    v1                              Event                           events                           ev          nc
    v1                              LimitRange                      limitranges                      limits      nc
    v1                              PersistentVolume                persistentvolumes                pv          so
    v1                              PersistentVolumeClaim           persistentvolumeclaims           pvc         nso
    v1                              PodTemplate                     podtemplates                     -           ngo
    v1                              ReplicationController           replicationcontrollers           rc          nsgoar
    v1                              ResourceQuota                   resourcequotas                   quota       nso
    apps/v1                         ControllerRevision              controllerrevisions              -           n
    apps/v1                         DaemonSet                       daemonsets                       ds          nsga
    apps/v1                         Deployment                      deployments                      deploy      nsgar
    apps/v1                         ReplicaSet                      replicasets                      rs          nsgar
    apps/v1                         StatefulSet                     statefulsets                     sts         nsgar
    autoscaling/v2                  HorizontalPodAutoscaler         horizontalpodautoscalers         hpa         nsa
    autoscaling/v1                  HorizontalPodAutoscaler         horizontalpodautoscalers         hpa         nsa
    batch/v1                        CronJob                         cronjobs                         cj          nsga
    batch/v1                        Job                             jobs                             -           nsga
    certificates.k8s.io/v1          CertificateSigningRequest       certificatesigningrequests       csr         s
    coordination.k8s.io/v1          Lease                           leases                           -           nvc
    discovery.k8s.io/v1             EndpointSlice                   endpointslices                   -           ng
    events.k8s.io/v1                Event                           events                           ev          nc
    flowcontrol.apiserver.k8s.io/v1 FlowSchema                      flowschemas                      -           sg
    flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration      prioritylevelconfigurations      -           sg
    networking.k8s.io/v1            Ingress                         ingresses                        ing         nsg
    networking.k8s.io/v1            IngressClass                    ingressclasses                   -           g
    networking.k8s.io/v1            NetworkPolicy                   networkpolicies                  netpol      ng
    node.k8s.io/v1                  RuntimeClass                    runtimeclasses                   -           vc
    policy/v1                       PodDisruptionBudget             poddisruptionbudgets             pdb         nsgv
    rbac.authorization.k8s.io/v1    ClusterRole                     clusterroles                     -           c
    rbac.authorization.k8s.io/v1    ClusterRoleBinding              clusterrolebindings              -           c
    rbac.authorization.k8s.io/v1    Role                            roles                            -           nc
    rbac.authorization.k8s.io/v1    RoleBinding                     rolebindings                     -           nc
    scheduling.k8s.io/v1            PriorityClass                   priorityclasses                  pc          g
    storage.k8s.io/v1               CSIDriver                       csidrivers                       -           ov
    storage.k8s.io/v1               CSINode                         csinodes                         -           ov
    storage.k8s.io/v1               CSIStorageCapacity              csistoragecapacities             -           nv
    storage.k8s.io/v1               StorageClass                    storageclasses                   sc          o
    storage.k8s.io/v1               VolumeAttachment                volumeattachments                -           sov
    admissionregistration.k8s.io/v1 MutatingWebhookConfiguration    mutatingwebhookconfigurations    -           gv
    admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration  validatingwebhookconfigurations  -           gv
    apiextensions.k8s.io/v1         CustomResourceDefinition        customresourcedefinitions        crd,crds    sg
    apiregistration.k8s.io/v1       APIService                      apiservices                      -           s
    authentication.k8s.io/v1        SelfSubjectReview               selfsubjectreviews               -           j
    authentication.k8s.io/v1        TokenReview                     tokenreviews                     -           j
    authorization.k8s.io/v1         LocalSubjectAccessReview        localsubjectaccessreviews        -           nj
    authorization.k8s.io/v1         SelfSubjectAccessReview         selfsubjectaccessreviews         -           j
    authorization.k8s.io/v1         SelfSubjectRulesReview          selfsubjectrulesreviews          -           j
    authorization.k8s.io/v1         SubjectAccessReview             subjectaccessreviews             -           j
";

fn read(line: &'static str) -> Kind {
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or("-");
    let (group, version) = word().rsplit_once('/').unwrap_or(("", "v1"));
    let (kind, plural, short, marks) = (word(), word(), word(), word());
    let status = marks.contains('s').then_some(Subresource::Status);
    let scale = marks.contains('r').then_some(Subresource::Scale);
    let others: &[_] = match plural {
        "namespaces" => &[Subresource::Finalize],
        "pods" => &[Subresource::Binding, Subresource::EphemeralContainers, Subresource::Eviction],
        "serviceaccounts" => &[Subresource::Token],
        "certificatesigningrequests" => &[Subresource::Approval],
        _ => &[],
    };
    let names = match (group, plural) {
        ("rbac.authorization.k8s.io", _) => Names::PathSegment,
        ("", "namespaces" | "services") => Names::Label,
        (_, _) => Names::Subdomain,
    };
    Kind {
        short_names: short.split(',').filter(|name| *name != "-").map(Cow::Borrowed).collect(),
        scope: if marks.contains('n') { Scope::Namespaced } else { Scope::Cluster },
        origin: Origin::BuiltIn,
        names,
        subresources: others.iter().copied().chain(scale).chain(status).collect(),
        has_generation: marks.contains('g'),
        shows_deleted: marks.contains('o'),
        updates_blindly: !marks.contains('v'),
        creates_on_update: marks.contains('c'),
        categories: if marks.contains('a') { vec![Cow::Borrowed("all")] } else { Vec::new() },
        is_review: marks.contains('j'),
        ..Kind::new(group, version, kind, plural)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_whole() {
        for line in TABLE.lines().filter(|line| !line.trim().is_empty()) {
            let words = line.split_whitespace().collect::<Vec<_>>();

            assert_eq!(words.len(), 5, "{line}");
            assert!(words[4].chars().all(|mark| "nsgovcarj-".contains(mark)), "{line}");
        }
    }
}
