//! A page of somebody else must not have a browser change something here.
//!
//! Browsers say where a request comes from: in `Sec-Fetch-Site`, which no page can set, or, those that know no such
//! header, in `Origin`. Programs that are no browsers send neither.

use super::error::Error;
use axum::http::{HeaderMap, Method, StatusCode};

/// May this request be carried out, for all that its headers say?
pub(super) fn check(method: &Method, headers: &HeaderMap) -> Result<(), Error> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) || is_ours(headers) {
        return Ok(());
    }
    let message = "a page of another origin must not change anything here";
    Err(Error::new(StatusCode::FORBIDDEN, "cross_origin", message))
}

fn is_ours(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(site) = text("sec-fetch-site") {
        return matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text("origin") else { return true };
    let origin = origin.split_once("://").map(|(_, host)| host);
    origin.is_some() && origin == text("host")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(method: Method, headers: &[(&'static str, &'static str)]) -> bool {
        let headers: HeaderMap =
            headers.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("text"))).collect();
        check(&method, &headers).is_ok()
    }

    #[test]
    fn only_pages_of_this_node_change_something() {
        let host = ("host", "127.0.0.1:8080");
        for method in [Method::PUT, Method::POST, Method::DELETE] {
            assert!(allowed(method.clone(), &[host]), "no browser");
            assert!(allowed(method.clone(), &[host, ("origin", "http://127.0.0.1:8080")]));
            assert!(allowed(method.clone(), &[("sec-fetch-site", "same-origin")]));
            assert!(allowed(method.clone(), &[("sec-fetch-site", "none")]), "typed by a person");
            for origin in ["http://elsewhere", "null", "http://127.0.0.1:8081", "", "127.0.0.1:8080"] {
                assert!(!allowed(method.clone(), &[host, ("origin", origin)]), "{origin}");
            }
            for site in ["cross-site", "same-site", ""] {
                let same = ("origin", "http://127.0.0.1:8080");
                assert!(!allowed(method.clone(), &[host, same, ("sec-fetch-site", site)]), "{site}");
            }
        }
        assert!(allowed(Method::GET, &[("sec-fetch-site", "cross-site")]));
    }
}
