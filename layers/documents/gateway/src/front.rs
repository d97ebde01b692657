//! What surrounds the resources: each request gets an id and is counted, and its answer is packed and
//! marked for caches.
//!
//! It is one function around the router and no layers of it, since a router boxes and copies each layer
//! for each request.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use crate::encoding::{Packing, packing, weaken};
use crate::routes::Shared;
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
        let named = requests::Named::of(&mut request, self.shared.ids.as_ref());
        let counted = self.shared.figures.begin(&request);
        let (request, rest) = body::with_rest(request);
        let mut response = self.packed(request).await;
        if let Some(rest) = rest {
            rest.end(&mut response).await;
        }
        counted.answered(response.status());
        proxies::mark(response.headers_mut());
        named.explain(&mut response);
        response
    }

    /// The answer, packed if the caller takes that.
    async fn packed(&self, request: Request) -> Response {
        if !request.headers().contains_key(header::ACCEPT_ENCODING) {
            let Ok(response) = self.resources.call(request).await;
            return response;
        }
        let Ok(response) = self.packing.call(request).await;
        let mut response = response.map(Body::new);
        weaken(response.headers_mut());
        response
    }
}
