//! Schemas of custom kinds: what is dropped, filled in and refused.

use super::{
    definitions::{DEFINITIONS, Widgets, until},
    *,
};

mod definitions;
#[cfg(feature = "cel")]
mod rules;
mod values;
mod versions;

/// Widgets whose `spec` has these properties.
async fn with_properties(api: &Api, properties: Value) -> Widgets {
    with_schema(api, json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}))
        .await
}

async fn with_schema(api: &Api, schema: Value) -> Widgets {
    let widgets = of_schema(api, schema);
    widgets.define(api).await;
    widgets
}

fn of_schema(api: &Api, schema: Value) -> Widgets {
    let mut widgets = Widgets::new(api);
    widgets.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    widgets
}

impl Widgets {
    fn with_spec(&self, name: &str, spec: Value) -> Value {
        let mut widget = self.widget(name);
        widget["spec"] = spec;
        widget
    }

    async fn create(&self, api: &Api, name: &str, spec: Value) -> Answer {
        api.post(&self.path, &self.with_spec(name, spec)).await
    }

    /// Creates a widget, and returns its spec as it was stored.
    async fn stored(&self, api: &Api, name: &str, spec: Value) -> Value {
        let created = self.create(api, name, spec).await;
        assert_eq!(created.code, 201, "{created:?}");
        created.body["spec"].clone()
    }

    /// The causes of the refusal of a widget with this spec, each as `reason field: message`, sorted.
    async fn refused(&self, api: &Api, spec: Value) -> Vec<String> {
        causes(&self.create(api, "refused", spec).await)
    }

    async fn forget(&self, api: &Api) {
        api.delete(&self.place()).await;
    }
}

/// The causes of a refusal, each as `reason field: message`, sorted.
fn causes(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.failure(), (422, "Invalid"), "{answer:?}");
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    let all = answer.body["details"]["causes"].as_array().unwrap_or_else(|| panic!("{answer:?} has no causes"));
    let shown = |cause: &Value| {
        let reason = text(cause, "reason").trim_start_matches("FieldValue").to_owned();
        format!("{reason} {}: {}", text(cause, "field"), text(cause, "message"))
    };
    let mut causes: Vec<_> = all.iter().map(shown).collect();
    causes.sort();
    causes
}

/// The messages of the `Warning` headers.
fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
}
