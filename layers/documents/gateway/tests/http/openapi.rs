//! The description of the resources.

use anyhow::{Context as _, Result};
use document_gateway::problem;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::place::{Place, header, json, refused};

/// All resources with their methods. The description has these paths and no others.
const RESOURCES: [(&str, &[&str]); 13] = [
    (
        "/hyper-storage/content/{path}",
        &["get", "head", "put", "patch", "delete", "post"],
    ),
    (
        "/hyper-storage/content/{collection}~",
        &["get", "head", "put", "delete", "post"],
    ),
    (
        "/hyper-storage/content/{collection}~/{id}",
        &["get", "head", "put", "patch", "delete"],
    ),
    ("/hyper-storage/batch", &["post"]),
    ("/hyper-storage/feed", &["get", "head"]),
    ("/hyper-storage/_changes", &["get", "head"]),
    ("/hyper-storage/transactions/{id}", &["get", "head"]),
    ("/hyper-storage/_export", &["get", "head"]),
    ("/hyper-storage/_import", &["post"]),
    ("/hyper-storage/tickets", &["post"]),
    ("/hyper-storage/_metrics", &["get", "head"]),
    ("/hyper-storage/openapi.json", &["get", "head"]),
    ("/ready", &["get", "head"]),
];

/// The methods that are tried.
const METHODS: [&str; 8] = [
    "get", "put", "patch", "delete", "post", "options", "trace", "query",
];
/// The members of a path that are no methods.
const NO_METHODS: [&str; 1] = ["parameters"];

pub(crate) async fn the_description_names_every_resource_and_problem(place: Place) -> Result<()> {
    let answer = place.client.get(place.url("openapi.json")).send().await?;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(header(&answer, "content-type"), "application/json");
    let description = json(answer).await?;
    names_the_resources(&description)?;
    names_the_problems(&description)?;
    references_resolve(&description, &description)?;
    for (path, methods) in RESOURCES {
        has_these_methods(&place, path, methods).await?;
    }
    place.close().await
}

fn names_the_resources(description: &Value) -> Result<()> {
    let paths = description.get("paths").and_then(Value::as_object);
    let paths = paths.context("paths")?;
    let mut described: Vec<(&str, Vec<&str>)> = Vec::new();
    for (path, item) in paths {
        let members = item.as_object().context("a path")?.keys();
        let methods = members.map(String::as_str);
        let methods = methods.filter(|name| !NO_METHODS.contains(name));
        described.push((path.as_str(), sorted(methods.collect())));
    }
    described.sort_unstable();
    let mut expected: Vec<(&str, Vec<&str>)> = RESOURCES
        .map(|(path, methods)| (path, sorted(methods.to_vec())))
        .to_vec();
    expected.sort_unstable();
    assert_eq!(described, expected);
    Ok(())
}

/// The gateway itself has the methods that are described. It refuses the others, and names these.
async fn has_these_methods(place: &Place, path: &str, methods: &[&str]) -> Result<()> {
    let example = path
        .replace("{collection}", "a")
        .replace("{path}", "a")
        .replace("{id}", "0.1.1");
    let url = format!("http://{}{example}", place.gateway.address());
    let others = METHODS.iter().filter(|method| !methods.contains(method));
    for method in others {
        let of = Method::from_bytes(method.to_uppercase().as_bytes())?;
        let request = place.client.request(of, &url);
        let answer = request.bearer_auth(place.gateway.token()).send().await?;
        let allow = header(&answer, "allow").to_lowercase();
        let allowed: Vec<&str> = allow.split(',').map(str::trim).collect();
        assert_eq!(sorted(allowed), sorted(methods.to_vec()), "{method} {path}");
        let expected = (405, "method".to_owned());
        assert_eq!(refused(answer).await?, expected, "{method} {path}");
    }
    Ok(())
}

fn names_the_problems(description: &Value) -> Result<()> {
    let types = description.pointer("/components/schemas/ProblemType/enum");
    let types = types.and_then(Value::as_array).context("types")?;
    let described: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
    let expected: Vec<String> = problem::ALL.iter().map(|of| of.urn()).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(sorted(described), sorted(expected));
    Ok(())
}

/// Each `$ref` and each link's `operationId` names something.
fn references_resolve(description: &Value, part: &Value) -> Result<()> {
    match part {
        Value::Object(members) => {
            if let Some(Value::String(to)) = members.get("$ref") {
                let pointer = to.strip_prefix('#').context("another document")?;
                assert!(description.pointer(pointer).is_some(), "{to}");
            }
            if let Some(Value::String(id)) = members.get("operationId") {
                assert!(is_operation(description, id), "{id}");
            }
            members
                .values()
                .try_for_each(|part| references_resolve(description, part))
        }
        Value::Array(parts) => parts
            .iter()
            .try_for_each(|part| references_resolve(description, part)),
        _ => Ok(()),
    }
}

fn is_operation(description: &Value, id: &str) -> bool {
    let paths = description.get("paths").and_then(Value::as_object);
    let mut items = paths.into_iter().flat_map(|paths| paths.values());
    items.any(|item| {
        let methods = item.as_object().into_iter().flat_map(|item| item.values());
        let mut ids = methods.filter_map(|method| method.get("operationId")?.as_str());
        ids.any(|known| known == id)
    })
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}
