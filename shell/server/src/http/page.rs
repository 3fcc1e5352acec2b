//! `/`: a page that shows how the cluster is, and keeps itself up to date.

use axum::response::Html;

pub(super) async fn show() -> Html<&'static str> {
    Html(include_str!("page.html"))
}
