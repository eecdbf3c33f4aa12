//! The same checks with clients of kube 1 and kube 4: in process, and over HTTP.

#[path = "."]
mod kube_1 {
    use k8s_openapi_1 as k8s_openapi;
    use kube_1 as kube;

    #[path = "checks.rs"]
    mod checks;
}

#[path = "."]
mod kube_4 {
    use k8s_openapi_4 as k8s_openapi;
    use kube_4 as kube;

    #[path = "checks.rs"]
    mod checks;
}
