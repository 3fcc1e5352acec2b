//! The page at `/` and its files, as they stand in the binary: no build step, nothing from elsewhere.
//!
//! Whoever serves it says where its data comes from: a running node (`Source::Live`), or a timeline that was recorded
//! (`Source::Timeline`, for simulations and replays).
//!
//! Not here: what the page asks for (`http/feed.rs`), who else serves it (`atoll sim --serve`).

/// Where the page finds what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `GET /v1/events`
    Live,
    /// `GET /v1/timeline`
    Timeline,
}

/// Nothing but what this node serves is loaded or asked; nobody may put the page into a frame of theirs.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const INDEX: &str = include_str!("http/page/index.html");
const LIVE: &str = "data-source=\"live\"";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const FILES: &[(&str, &str, &str)] = &[
    ("app.js", SCRIPT, include_str!("http/page/app.js")),
    ("buckets.js", SCRIPT, include_str!("http/page/buckets.js")),
    ("charts.js", SCRIPT, include_str!("http/page/charts.js")),
    ("choice.js", SCRIPT, include_str!("http/page/choice.js")),
    ("colours.js", SCRIPT, include_str!("http/page/colours.js")),
    ("data.js", SCRIPT, include_str!("http/page/data.js")),
    ("dom.js", SCRIPT, include_str!("http/page/dom.js")),
    ("health.js", SCRIPT, include_str!("http/page/health.js")),
    ("live.js", SCRIPT, include_str!("http/page/live.js")),
    ("model.js", SCRIPT, include_str!("http/page/model.js")),
    ("operate.js", SCRIPT, include_str!("http/page/operate.js")),
    ("ring.js", SCRIPT, include_str!("http/page/ring.js")),
    ("stories.js", SCRIPT, include_str!("http/page/stories.js")),
    ("timeline.js", SCRIPT, include_str!("http/page/timeline.js")),
    ("style.css", "text/css; charset=utf-8", include_str!("http/page/style.css")),
    ("icon.svg", "image/svg+xml", include_str!("http/page/icon.svg")),
];

pub fn index(source: Source) -> String {
    match source {
        Source::Live => INDEX.to_owned(),
        Source::Timeline => INDEX.replacen(LIVE, "data-source=\"timeline\"", 1),
    }
}

/// Its kind, and what is in it.
pub fn file(name: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|(known, ..)| *known == name).map(|(_, kind, text)| (*kind, *text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_that_is_named_is_served_and_nothing_is_from_elsewhere() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/page");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .expect("the files of the page")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .filter(|name| name != "index.html")
            .collect();
        there.sort();
        let mut served: Vec<&str> = FILES.iter().map(|(name, ..)| *name).collect();
        served.sort_unstable();
        assert_eq!(there, served);
        let texts = || FILES.iter().map(|(name, _, text)| (*name, *text)).chain([("index.html", INDEX)]);
        for (name, text) in texts() {
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "{name} asks elsewhere");
            assert!(!text.contains("innerHTML") && !text.contains("insertAdjacentHTML"), "{name} writes markup");
            for part in text.split("'./").skip(1).chain(text.split("/assets/").skip(1)) {
                let asked = part.split(['\'', '"']).next().expect("a name");
                assert!(file(asked).is_some(), "{name} asks for {asked}");
            }
        }
    }

    #[test]
    fn the_page_knows_its_source() {
        assert!(index(Source::Live).contains(LIVE));
        assert!(!index(Source::Timeline).contains(LIVE));
        assert!(index(Source::Timeline).contains("data-source=\"timeline\""));
    }
}
