//! Tables, which `kubectl get` requests.

use super::{
    definitions::{DEFINITIONS, Widgets},
    *,
};

both_ways! {
    kinds_have_the_columns_of_kubernetes
    pods_are_shown_as_kubectl_shows_them
    what_makes_pods_is_shown_as_kubectl_shows_it
    other_objects_are_shown_as_kubectl_shows_them
    a_table_has_a_row_for_each_object_of_a_list_or_page
    a_watch_tells_the_columns_once
    a_row_has_what_was_asked_for_of_its_object
    a_custom_resource_is_shown_in_the_columns_of_its_definition
    a_custom_resource_without_columns_is_shown_by_name_and_age
    a_column_with_an_unknown_type_or_a_bad_path_is_refused
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn table(api: &Api, path: &str) -> Answer {
    let answer = api.send_text(Method::GET, path, String::new(), &[("accept", TABLE)]).await;
    assert_eq!((answer.code, answer.text("/kind")), (200, "Table"), "{path}: {answer:?}");
    assert_eq!(answer.text("/apiVersion"), "meta.k8s.io/v1");
    answer
}

/// Creates an object, writes its status if it has one, and returns the cells of its row without the age.
async fn row(api: &Api, collection: &str, mut object: Value) -> Vec<Value> {
    object["metadata"]["name"] = json!("web");
    row_of(api, &api.path(collection), &object).await
}

async fn row_of(api: &Api, collection: &str, object: &Value) -> Vec<Value> {
    let created = api.post(collection, object).await;
    assert_eq!(created.code, 201, "{created:?}");
    let path = format!("{collection}/{}", created.text("/metadata/name"));
    if object.get("status").is_some() {
        let written = api
            .patch(&format!("{path}/status"), "application/merge-patch+json", &json!({"status": object["status"]}))
            .await;
        assert_eq!(written.code, 200, "{written:?}");
    }
    let table = table(api, &path).await;
    let columns = table.body["columnDefinitions"].as_array().unwrap().iter();
    let cells = table.body["rows"][0]["cells"].as_array().unwrap().iter();
    let aged = columns.zip(cells).filter(|(column, _)| column["name"] != "Age").map(|(_, cell)| cell.clone());
    aged.collect()
}

fn of_pod(containers: &Value) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers, "restartPolicy": "Never"}})
}

/// Columns in brackets are shown with `-o wide`.
async fn kinds_have_the_columns_of_kubernetes(api: Api) {
    for (collection, columns) in [
        ("/api/v1/pods", "Name, Ready, Status, Restarts, Age, [IP], [Node], [Nominated Node], [Readiness Gates]"),
        (
            "/api/v1/nodes",
            "Name, Status, Roles, Age, Version, [Internal-IP], [External-IP], [OS-Image], [Kernel-Version], [Container-Runtime]",
        ),
        ("/api/v1/services", "Name, Type, Cluster-IP, External-IP, Port(s), Age, [Selector]"),
        ("/api/v1/configmaps", "Name, Data, Age"),
        ("/api/v1/secrets", "Name, Type, Data, Age"),
        ("/api/v1/namespaces", "Name, Status, Age"),
        ("/api/v1/serviceaccounts", "Name, Age"),
        (
            "/api/v1/persistentvolumeclaims",
            "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, [VolumeMode]",
        ),
        (
            "/api/v1/events",
            "Last Seen, Type, Reason, Object, [Subobject], [Source], Message, [First Seen], [Count], [Name]",
        ),
        (
            "/apis/events.k8s.io/v1/events",
            "Last Seen, Type, Reason, Object, [Subobject], [Source], Message, [First Seen], [Count], [Name]",
        ),
        ("/api/v1/replicationcontrollers", "Name, Desired, Current, Ready, Age, [Containers], [Images], [Selector]"),
        ("/apis/apps/v1/deployments", "Name, Ready, Up-to-date, Available, Age, [Containers], [Images], [Selector]"),
        ("/apis/apps/v1/replicasets", "Name, Desired, Current, Ready, Age, [Containers], [Images], [Selector]"),
        ("/apis/apps/v1/statefulsets", "Name, Ready, Age, [Containers], [Images]"),
        (
            "/apis/apps/v1/daemonsets",
            "Name, Desired, Current, Ready, Up-to-date, Available, Node Selector, Age, [Containers], [Images], [Selector]",
        ),
        ("/apis/batch/v1/jobs", "Name, Status, Completions, Duration, Age, [Containers], [Images], [Selector]"),
        (
            "/apis/batch/v1/cronjobs",
            "Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age, [Containers], [Images], [Selector]",
        ),
        ("/apis/coordination.k8s.io/v1/leases", "Name, Holder, Age"),
        ("/apis/networking.k8s.io/v1/ingresses", "Name, Class, Hosts, Address, Ports, Age"),
        ("/apis/policy/v1/poddisruptionbudgets", "Name, Min Available, Max Unavailable, Allowed Disruptions, Age"),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", "Name, Value, Global-Default, Age, PreemptionPolicy"),
    ] {
        let table = table(&api, &format!("{collection}?limit=1")).await;

        let shown = |column: &Value| match (column["name"].as_str().unwrap(), &column["priority"]) {
            (name, priority) if *priority == 0 => name.to_owned(),
            (name, _) => format!("[{name}]"),
        };
        let definitions = table.body["columnDefinitions"].as_array().unwrap();
        assert_eq!(definitions.iter().map(shown).collect::<Vec<_>>().join(", "), columns, "{collection}");
        for column in definitions {
            let is_name = column["name"] == "Name";
            assert_eq!(column["format"], if is_name { "name" } else { "" }, "{collection} {column}");
            let numbers = ["Desired", "Current", "Active", "Value", "Allowed Disruptions"];
            let of_sets = ["Ready", "Up-to-date", "Available"].contains(&column["name"].as_str().unwrap());
            let is_number =
                numbers.contains(&column["name"].as_str().unwrap()) || (of_sets && columns.contains("Desired"));
            let is_truth = ["Suspend", "Global-Default"].contains(&column["name"].as_str().unwrap());
            let content = if is_number {
                "integer"
            } else if is_truth {
                "boolean"
            } else {
                "string"
            };
            assert_eq!(column["type"], content, "{collection} {column}");
        }
    }
}

async fn pods_are_shown_as_kubectl_shows_them(api: Api) {
    let mut pod = of_pod(&json!([{"name": "a", "image": "one"}, {"name": "b", "image": "two"}]));
    pod["spec"]["nodeName"] = json!("node-1");
    let running = json!({"name": "a", "image": "one", "imageID": "", "ready": true, "restartCount": 3, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}});
    let mut stuck = running.clone();
    stuck["name"] = json!("b");
    stuck["ready"] = json!(false);
    stuck["state"] = json!({"waiting": {"reason": "ImagePullBackOff"}});
    pod["status"] = json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "containerStatuses": [running, stuck]});

    let cells = row(&api, "pods", pod).await;

    let shown = ["web", "1/2", "ImagePullBackOff", "6", "10.0.0.1", "node-1", "<none>", "<none>"];
    assert_eq!(cells, shown);
}

async fn what_makes_pods_is_shown_as_kubectl_shows_it(api: Api) {
    let spec = json!({"containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "two"}]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]});
    let set = |replicas: Value, status: Value| json!({"spec": {"replicas": replicas, "selector": selector, "template": template}, "status": status});

    let status = json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1});
    let cells = row(&api, "apps/deployments", set(json!(3), status)).await;
    assert_eq!(
        cells,
        [json!("web"), json!("2/3"), json!(3), json!(1), json!("a,b"), json!("one,two"), json!("app=web,app")]
    );
    let cells = row(&api, "apps/replicasets", set(json!(3), json!({"replicas": 2, "readyReplicas": 1}))).await;
    assert_eq!(
        cells,
        [json!("web"), json!(3), json!(2), json!(1), json!("a,b"), json!("one,two"), json!("app=web,app")]
    );
    let mut stateful = set(json!(2), json!({"replicas": 2, "readyReplicas": 1}));
    stateful["spec"]["serviceName"] = json!("web");
    assert_eq!(row(&api, "apps/statefulsets", stateful).await, ["web", "1/2", "a,b", "one,two"]);
    let mut daemons = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}});
    daemons["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    daemons["status"] = json!({"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1, "numberMisscheduled": 0});
    let cells = row(&api, "apps/daemonsets", daemons).await;
    let texts = [json!("disk=ssd"), json!("a,b"), json!("one,two"), json!("app=web")];
    assert_eq!(cells, [&[json!("web"), json!(5), json!(4), json!(3), json!(2), json!(1)][..], &texts].concat());

    let mut template = template.clone();
    template["spec"]["restartPolicy"] = json!("Never");
    let job = json!({"spec": {"completions": 4, "parallelism": 1, "template": template}});
    let cells = row(&api, "batch/jobs", job).await;
    assert_eq!(cells[..6], ["web", "Running", "0/4", "", "a,b", "one,two"]);
    let cron_job = json!({"spec": {"schedule": "@daily", "timeZone": "Etc/UTC", "suspend": true, "concurrencyPolicy": "Allow", "jobTemplate": {"spec": {"template": template}}}});
    let cells = row(&api, "batch/cronjobs", cron_job).await;
    let texts = [json!("<none>"), json!("a,b"), json!("one,two"), json!("<none>")];
    assert_eq!(
        cells,
        [&[json!("web"), json!("@daily"), json!("Etc/UTC"), json!("True"), json!(0)][..], &texts].concat()
    );
}

async fn other_objects_are_shown_as_kubectl_shows_them(api: Api) {
    let ports = json!([{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 53, "protocol": "UDP"}]);
    let service = json!({"spec": {"type": "ClusterIP", "clusterIP": "None", "ports": ports, "selector": {"app": "web", "tier": "front"}}});
    assert_eq!(
        row(&api, "services", service).await,
        ["web", "ClusterIP", "None", "<none>", "80/TCP,53/UDP", "app=web,tier=front"]
    );
    let service =
        json!({"metadata": {"name": "elsewhere"}, "spec": {"type": "ExternalName", "externalName": "example.com"}});
    let cells = row_of(&api, &api.path("services"), &service).await;
    assert_eq!(cells, ["elsewhere", "ExternalName", "<none>", "example.com", "<none>", "<none>"]);
    let config = json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "MQ=="}});
    assert_eq!(row(&api, "configmaps", config).await, [json!("web"), json!(3)]);
    let secret = json!({"type": "Opaque", "data": {"a": "MQ=="}});
    assert_eq!(row(&api, "secrets", secret).await, [json!("web"), json!("Opaque"), json!(1)]);
    assert_eq!(row(&api, "serviceaccounts", json!({})).await, ["web"]);
    let modes = json!(["ReadOnlyMany", "ReadWriteOnce"]);
    let spec = json!({"accessModes": modes, "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast", "volumeName": "pv-1", "volumeMode": "Filesystem"});
    let claim =
        json!({"spec": spec, "status": {"phase": "Bound", "accessModes": modes, "capacity": {"storage": "1Gi"}}});
    let cells = row(&api, "persistentvolumeclaims", claim).await;
    assert_eq!(cells, ["web", "Bound", "pv-1", "1Gi", "RWO,ROX", "fast", "<unset>", "Filesystem"]);
    let lease = json!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 10}});
    assert_eq!(row(&api, "coordination.k8s.io/leases", lease).await, ["web", "me"]);
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let rule = |host: &str| json!({"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}});
    let ingress = json!({"spec": {"ingressClassName": "nginx", "rules": [rule("a.example.com"), rule("b.example.com")], "tls": [{"hosts": ["a.example.com"]}]}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let mut many = ingress.clone();
    many["metadata"]["name"] = json!("many");
    many["spec"]["rules"] = ["a", "b", "c", "d", "e"].iter().map(|host| rule(&format!("{host}.example.com"))).collect();
    let cells = row_of(&api, &api.path("networking.k8s.io/ingresses"), &many).await;
    assert_eq!(cells[2], "a.example.com,b.example.com,c.example.com + 2 more...");
    let cells = row(&api, "networking.k8s.io/ingresses", ingress).await;
    assert_eq!(cells, ["web", "nginx", "a.example.com,b.example.com", "192.0.2.1", "80, 443"]);
    let budget = json!({"spec": {"minAvailable": "30%", "selector": {"matchLabels": {"app": "web"}}}});
    assert_eq!(
        row(&api, "policy/poddisruptionbudgets", budget).await,
        [json!("web"), json!("30%"), json!("N/A"), json!(0)]
    );
    let event = json!({
        "metadata": {"namespace": api.namespace},
        "involvedObject": {"kind": "Pod", "namespace": api.namespace, "name": "web", "fieldPath": "spec"},
        "type": "Warning",
        "reason": "BackOff",
        "message": "it waits \n",
        "source": {"component": "kubelet", "host": "node-1"},
        "count": 7,
    });
    let cells = row(&api, "events", event).await;
    let shown = ["<unknown>", "Warning", "BackOff", "pod/web", "spec", "kubelet, node-1", "it waits", "<unknown>"];
    assert_eq!(cells, [&shown.map(Value::from)[..], &[json!(7), json!("web")]].concat());

    // Cluster-scoped kinds.
    let class =
        json!({"metadata": {"name": api.namespace}, "value": 7, "globalDefault": false, "preemptionPolicy": "Never"});
    let cells = row_of(&api, "/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    assert_eq!(cells, [json!(api.namespace), json!(7), json!(false), json!("Never")]);
    let node = json!({
        "metadata": {"name": api.namespace, "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "edge"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Linux", "kernelVersion": "", "containerRuntimeVersion": "", "architecture": "", "bootID": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "systemUUID": ""},
        },
    });
    let cells = row_of(&api, "/api/v1/nodes", &node).await;
    let shown = [
        "NotReady,SchedulingDisabled",
        "control-plane,edge",
        "v1.36.0",
        "10.0.0.7",
        "<none>",
        "Linux",
        "<unknown>",
        "<unknown>",
    ];
    assert_eq!(cells[0], json!(api.namespace));
    assert_eq!(cells[1..], shown);
    for path in ["/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/nodes"] {
        api.delete(&format!("{path}/{}", api.namespace)).await;
    }
}

async fn a_table_has_a_row_for_each_object_of_a_list_or_page(api: Api) {
    for name in ["a", "b", "c"] {
        api.add(name).await;
    }
    let names = |table: &Answer| {
        let rows = table.body["rows"].as_array().unwrap().iter();
        rows.map(|row| row["cells"][0].as_str().unwrap().to_owned()).filter(|name| name.len() == 1).collect::<Vec<_>>()
    };

    let all = table(&api, &api.path("configmaps")).await;
    assert_eq!(names(&all), ["a", "b", "c"]);
    assert!(all.version() > 0);
    let page = table(&api, &format!("{}?limit=1", api.path("configmaps"))).await;
    assert_eq!(page.body["rows"].as_array().unwrap().len(), 1);
    let token = page.text("/metadata/continue");
    let rest = table(&api, &format!("{}?continue={token}", api.path("configmaps"))).await;
    assert_eq!([names(&page), names(&rest)].concat(), ["a", "b", "c"]);
    assert_eq!(page.version(), rest.version());
}

async fn a_watch_tells_the_columns_once(api: Api) {
    let created = api.add("a").await;
    let path = api.path("configmaps");
    let query = format!("resourceVersion={}", version(&created));
    let mut watch = api.watch_with(&path, &query, &[("accept", TABLE)]).await;
    api.add("b").await;
    api.delete(&api.config_map("b")).await;

    let (first, second) = (watch.next().await.unwrap(), watch.next().await.unwrap());

    assert_eq!((&first["type"], &second["type"]), (&json!("ADDED"), &json!("DELETED")), "{first}");
    assert_eq!(first["object"]["kind"], "Table");
    assert_eq!(first["object"]["columnDefinitions"][1]["name"], "Data", "{first}");
    assert_eq!(second["object"]["columnDefinitions"], Value::Null, "{second}");
    for event in [first, second] {
        let (row, metadata) = (&event["object"]["rows"][0], &event["object"]["metadata"]);
        assert_eq!(row["cells"][0], "b");
        assert_eq!(row["object"]["metadata"]["resourceVersion"], metadata["resourceVersion"]);
        assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    }
}

async fn a_row_has_what_was_asked_for_of_its_object(api: Api) {
    api.add("a").await;
    let path = api.config_map("a");

    let with = async |include: &str| table(&api, &format!("{path}{include}")).await.body["rows"][0]["object"].clone();
    for include in ["", "?includeObject=Metadata"] {
        let object = with(include).await;
        assert_eq!(
            (&object["kind"], &object["metadata"]["name"]),
            (&json!("PartialObjectMetadata"), &json!("a")),
            "{include}"
        );
    }
    let whole = with("?includeObject=Object").await;
    assert_eq!((&whole["kind"], &whole["metadata"]["name"]), (&json!("ConfigMap"), &json!("a")));
    assert_eq!(with("?includeObject=None").await, Value::Null);
    let answer =
        api.send_text(Method::GET, &format!("{path}?includeObject=Some"), String::new(), &[("accept", TABLE)]).await;
    assert_eq!(answer.failure().0, 400, "{answer:?}");
}

/// A column of a definition, with a type and a path.
fn column(name: &str, content: &str, path: &str) -> Value {
    json!({"name": name, "type": content, "jsonPath": path})
}

fn with_columns(api: &Api, columns: &Value) -> Widgets {
    let mut widgets = Widgets::new(api);
    widgets.definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns.clone();
    widgets
}

async fn a_custom_resource_is_shown_in_the_columns_of_its_definition(api: Api) {
    let mut wide = column("Colour", "string", ".spec.colour");
    wide["priority"] = json!(1);
    wide["description"] = json!("the colour of the paint");
    let mut size = column("Size", "integer", ".spec.size");
    size["format"] = json!("int32");
    let ready = r#".status.conditions[?(@.type=="Ready")].status"#;
    let columns = json!([
        size,
        column("Ready", "string", ready),
        column("Owner", "string", r".metadata.annotations['example\.com/owner']"),
        column("First", "string", ".spec.parts[0].name"),
        column("Parts", "string", ".spec.parts"),
        column("Heavy", "boolean", ".spec.heavy"),
        column("Weight", "number", ".spec.weight"),
        column("Since", "date", ".spec.since"),
        wide,
    ]);
    let widgets = with_columns(&api, &columns);
    widgets.define(&api).await;
    let mut widget = widgets.widget("full");
    widget["metadata"]["annotations"] = json!({"example.com/owner": "me"});
    let parts = json!([{"name": "wheel"}]);
    widget["spec"] =
        json!({"size": 3, "parts": parts, "heavy": true, "weight": 1.5, "since": "never", "colour": "red"});
    widget["status"] =
        json!({"conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}]});

    let cells = row_of(&api, &widgets.path, &widget).await;
    let mut empty = widgets.widget("empty");
    empty["spec"] = json!({});
    let nothing = row_of(&api, &widgets.path, &empty).await;

    let texts = [json!("True"), json!("me"), json!("wheel"), json!("[{\"name\":\"wheel\"}]"), json!(true)];
    let rest = [json!(1.5), json!("<invalid>"), json!("red")];
    assert_eq!(cells, [&[json!("full"), json!(3)][..], &texts, &rest].concat());
    assert_eq!(nothing, [vec![json!("empty")], vec![Value::Null; 9]].concat());
    let table = table(&api, &widgets.path).await;
    let definitions = table.body["columnDefinitions"].as_array().unwrap();
    assert_eq!((&definitions[0]["name"], &definitions[0]["format"]), (&json!("Name"), &json!("name")));
    let of_size = json!({
        "name": "Size", "type": "integer", "format": "int32", "priority": 0,
        "description": "Custom resource definition column (in JSONPath format): .spec.size",
    });
    let of_colour = json!({
        "name": "Colour", "type": "string", "format": "", "priority": 1, "description": "the colour of the paint",
    });
    assert_eq!((&definitions[1], &definitions[9]), (&of_size, &of_colour));
    api.delete(&widgets.place()).await;
}

async fn a_custom_resource_without_columns_is_shown_by_name_and_age(api: Api) {
    let widgets = Widgets::defined(&api).await;
    assert_eq!(row_of(&api, &widgets.path, &widgets.widget("a")).await, ["a"]);

    let table = table(&api, &widgets.path).await;

    let types: Vec<_> =
        table.body["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["type"]).collect();
    assert_eq!(types, ["string", "date"]);
    assert!(table.body["rows"][0]["cells"][1].as_str().unwrap().ends_with('s'), "{table:?}");
    api.delete(&widgets.place()).await;
}

async fn a_column_with_an_unknown_type_or_a_bad_path_is_refused(api: Api) {
    for (columns, field) in [
        (json!([column("A", "string", ".a"), column("B", "colour", ".b")]), "[1].type"),
        (json!([column("A", "string", "a")]), "[0].JSONPath"),
    ] {
        let refused = api.post(DEFINITIONS, &with_columns(&api, &columns).definition).await;

        assert_eq!(refused.failure(), (422, "Invalid"), "{refused:?}");
        // kube-apiserver leaves out `versions[0]` if there is one version.
        let found = refused.text("/details/causes/0/field");
        assert!(found.ends_with(&format!("additionalPrinterColumns{field}")), "{refused:?}");
    }
}
