//! The dashboard in a real browser: Chromium without a window, driven over its DevTools protocol.
//!
//! Where there is no Chromium, the tests say so and pass; `ATOLL_BROWSER` names one, if it has another name. Pictures
//! of what was seen are written to `target/screenshots`; with `ATOLL_IMAGES=DIR` those of the documentation go there.
//!
//! | File | What |
//! |---|---|
//! | `chromium.rs` | the process, and a page in it |
//! | `devtools.rs` | the protocol: JSON over a WebSocket |
//! | `live.rs` | a running cluster |
//! | `timeline.rs` | a simulation, and a recording |

// The functions around the tests are tests as well; clippy knows only those that are marked.
#![allow(clippy::unwrap_used)]
#![allow(dead_code)] // What is shared with the end-to-end tests is used in part.

mod chromium;
#[path = "../e2e/cluster.rs"]
mod cluster;
mod devtools;
#[path = "../e2e/http.rs"]
mod http;
mod live;
#[path = "../../../server/tests/common/ports.rs"]
mod ports;
mod timeline;
