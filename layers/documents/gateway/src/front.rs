//! What surrounds the resources: each request gets an id and is counted, and its answer is packed and
//! marked for caches.
//!
//! It is one function around the router and no layers of it, since a router boxes and copies each layer
//! for each request.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use hyper::body::Body as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use crate::encoding::{Packing, packing, vary, weaken};
use crate::shared::Shared;
use crate::{body, proxies, requests};

/// The resources with all that surrounds them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Front {
    shared: Shared,
    resources: TowerToHyperService<Router>,
    packing: TowerToHyperService<Packing<Router>>,
}

impl Front {
    pub(crate) fn new(shared: Shared, resources: Router) -> Self {
        Self {
            shared,
            packing: TowerToHyperService::new(packing(resources.clone())),
            resources: TowerToHyperService::new(resources),
        }
    }

    /// Answers a request. One that fails is a line of the log.
    pub(crate) async fn answer(&self, mut request: Request) -> Response {
        let is_head = request.method() == Method::HEAD;
        let named = requests::NamedRequest::of(&mut request, self.shared.ids.as_ref());
        let counted = self.shared.figures.begin(&request);
        let (request, rest) = body::with_rest(request);
        let mut response = self.packed(request).await;
        if let Some(rest) = rest {
            rest.end(&mut response).await;
        }
        counted.answered(response.status());
        proxies::mark(response.headers_mut());
        named.explain(&mut response);
        if is_head {
            leave_body_out(&mut response);
        }
        response
    }

    /// The answer, packed if the caller takes that.
    async fn packed(&self, request: Request) -> Response {
        if !request.headers().contains_key(header::ACCEPT_ENCODING) {
            let Ok(mut response) = self.resources.call(request).await;
            vary(&mut response);
            return response;
        }
        let Ok(response) = self.packing.call(request).await;
        let mut response = response.map(Body::new);
        weaken(response.headers_mut());
        response
    }
}

/// An answer to a HEAD has the length of that to a GET, and no body. HTTP/2 would send one.
fn leave_body_out(response: &mut Response) {
    let body = std::mem::take(response.body_mut());
    let headers = response.headers_mut();
    let is_told =
        [header::CONTENT_LENGTH, header::CONTENT_ENCODING].map(|name| headers.contains_key(name));
    let length = body.size_hint().exact().filter(|length| *length > 0);
    if let Some(length) = length.filter(|_| is_told == [false, false]) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}
