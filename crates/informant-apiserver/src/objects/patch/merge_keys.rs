//! The rules of strategic merge patches for the lists and maps of built-in kinds: the `patchStrategy` and `patchMergeKey` of
//! Kubernetes 1.36.
//!
//! A list without a rule is replaced as a whole, so the fields of its items need no rules.

use self::Rule::{ByKey, Map, Replaced, Set};

/// The fields of a type that have a rule. Other maps are merged field by field, other values replaced.
pub(super) type Rules = &'static [(&'static str, Rule)];

/// How a field is merged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// A map whose fields have rules.
    Map(Rules),
    /// A map that is replaced as a whole.
    Replaced,
    /// A list of maps, identified by the value of a field.
    ByKey(&'static str, Rules),
    /// A list of distinct values.
    Set,
}

/// The fields of a built-in kind.
pub(super) fn of_kind(kind: &str) -> Rules {
    match kind {
        "Pod" => &[METADATA, ("spec", Map(POD_SPEC)), ("status", Map(POD_STATUS))],
        "PodTemplate" => &[METADATA, TEMPLATE],
        "DaemonSet" | "Deployment" | "Job" | "ReplicaSet" | "ReplicationController" | "StatefulSet" => {
            &[METADATA, ("spec", Map(&[TEMPLATE])), STATUS]
        }
        "CronJob" => {
            const JOB: Rules = &[METADATA, ("spec", Map(&[TEMPLATE]))];
            &[METADATA, ("spec", Map(&[("jobTemplate", Map(JOB))]))]
        }
        "Node" => {
            const NODE_STATUS: Rules = &[CONDITIONS, ("addresses", ByKey("type", &[]))];
            &[METADATA, ("spec", Map(&[("podCIDRs", Set)])), ("status", Map(NODE_STATUS))]
        }
        "Service" => &[METADATA, ("spec", Map(&[("ports", ByKey("port", &[]))])), STATUS],
        "ServiceAccount" => &[METADATA, ("secrets", ByKey("name", &[]))],
        "PodDisruptionBudget" => &[METADATA, ("spec", Map(&[("selector", Replaced)])), STATUS],
        "CSINode" => &[METADATA, ("spec", Map(&[("drivers", ByKey("name", &[]))]))],
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            const WEBHOOK: Rules = &[("matchConditions", ByKey("name", &[]))];
            &[METADATA, ("webhooks", ByKey("name", WEBHOOK))]
        }
        "FlowSchema"
        | "HorizontalPodAutoscaler"
        | "Namespace"
        | "PersistentVolumeClaim"
        | "PriorityLevelConfiguration" => &[METADATA, STATUS],
        _ => &[METADATA],
    }
}

const METADATA: (&str, Rule) = ("metadata", Map(&[("finalizers", Set), ("ownerReferences", ByKey("uid", &[]))]));
const CONDITIONS: (&str, Rule) = ("conditions", ByKey("type", &[]));
const STATUS: (&str, Rule) = ("status", Map(&[CONDITIONS]));
const TEMPLATE: (&str, Rule) = ("template", Map(&[METADATA, ("spec", Map(POD_SPEC))]));

const POD_SPEC: Rules = &[
    ("containers", ByKey("name", CONTAINER)),
    ("ephemeralContainers", ByKey("name", CONTAINER)),
    ("hostAliases", ByKey("ip", &[])),
    ("imagePullSecrets", ByKey("name", &[])),
    ("initContainers", ByKey("name", CONTAINER)),
    ("resourceClaims", ByKey("name", &[])),
    ("schedulingGates", ByKey("name", &[])),
    ("topologySpreadConstraints", ByKey("topologyKey", &[])),
    ("volumes", ByKey("name", VOLUME)),
];

const CONTAINER: Rules = &[
    ("env", ByKey("name", &[])),
    ("ports", ByKey("containerPort", &[])),
    ("volumeDevices", ByKey("devicePath", &[])),
    ("volumeMounts", ByKey("mountPath", &[])),
];

const VOLUME: Rules = &[("ephemeral", Map(&[("volumeClaimTemplate", Map(&[METADATA]))]))];

const POD_STATUS: Rules = &[
    CONDITIONS,
    ("hostIPs", ByKey("ip", &[])),
    ("podIPs", ByKey("ip", &[])),
    ("resourceClaimStatuses", ByKey("name", &[])),
];
