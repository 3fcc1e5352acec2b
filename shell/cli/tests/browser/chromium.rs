//! Chromium without a window, with a profile of its own, and one page in it.

use crate::cluster::wait;
use crate::devtools::DevTools;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Page {
    process: Child,
    profile: PathBuf,
    devtools: DevTools,
    session: String,
}

/// The browser there is, if there is one.
fn browser() -> Option<String> {
    let named = std::env::var("ATOLL_BROWSER").ok();
    let names = named.into_iter().chain(["chromium", "chromium-browser", "google-chrome"].map(str::to_owned));
    names.into_iter().find(|name| {
        let asked = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    })
}

impl Page {
    /// None, and a word about it, where there is no browser.
    pub(crate) fn open(url: &str, wide: u32, high: u32) -> Option<Page> {
        let Some(browser) = browser() else {
            eprintln!("SKIPPED: no Chromium is installed here (Debian: apt-get install chromium)");
            return None;
        };
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("atoll-browser-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let profile = std::env::temp_dir().join(name);
        let mut command = Command::new(browser);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args(["--disable-dev-shm-usage", "--remote-debugging-port=0", "about:blank"]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let told = profile.join("DevToolsActivePort");
        let mut found = None;
        wait("a browser that listens", || {
            found = fs::read_to_string(&told).ok().and_then(|text| {
                let (port, path) = text.split_once('\n')?;
                Some((port.parse().ok()?, path.trim().to_owned()))
            });
            found.is_some()
        });
        let (port, path): (u16, String) = found.unwrap();
        let mut devtools = DevTools::connect(port, &path);
        let target = devtools.ask(None, "Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = devtools.ask(None, "Target.attachToTarget", attach);
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        let mut page = Page { process, profile, devtools, session };
        for domain in ["Runtime", "Log", "Page"] {
            page.ask(&format!("{domain}.enable"), json!({}));
        }
        page.resize(wide, high);
        page.go(url);
        Some(page)
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.devtools.ask(Some(&self.session), method, parameters)
    }

    pub(crate) fn go(&mut self, url: &str) {
        self.ask("Page.navigate", json!({"url": url}));
    }

    pub(crate) fn resize(&mut self, wide: u32, high: u32) {
        let phone = wide < 500;
        let size =
            json!({"width": wide, "height": high, "deviceScaleFactor": if phone { 2 } else { 1 }, "mobile": phone});
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// `light` or `dark`, as if the system preferred it.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// What the expression comes to.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.ask("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    pub(crate) fn wait_for(&mut self, expression: &str) {
        let holds = format!("!!({expression})");
        let begun = std::time::Instant::now();
        // While a page is loading there is nothing to ask.
        while self.value(&format!("(() => {{ try {{ return {holds} }} catch {{ return false }} }})()")) != true {
            if begun.elapsed() > crate::cluster::LONG {
                let text = self.value("document.body.innerText");
                self.picture_to(&screenshots().join("failed.png"));
                panic!("never {expression}; the page says: {text}; errors: {:?}", self.errors());
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    pub(crate) fn click(&mut self, selector: &str) {
        self.wait_for(&format!(
            "document.querySelector({selector:?}) && !document.querySelector({selector:?}).disabled"
        ));
        self.value(&format!("document.querySelector({selector:?}).click()"));
    }

    pub(crate) fn fill(&mut self, selector: &str, text: &str) {
        self.value(&format!("document.querySelector({selector:?}).value = {text:?}"));
    }

    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({selector:?})?.textContent ?? ''"));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// What went wrong in the page so far: errors on the console, exceptions, files that did not come.
    pub(crate) fn errors(&mut self) -> Vec<String> {
        self.value("1"); // Whatever was said before has come with the answer.
        let mut errors = Vec::new();
        for event in std::mem::take(&mut self.devtools.events) {
            let parameters = &event["params"];
            match event["method"].as_str() {
                Some("Runtime.exceptionThrown") => errors.push(parameters["exceptionDetails"].to_string()),
                Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => {
                    errors.push(parameters.to_string())
                }
                Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                    errors.push(parameters["entry"].to_string());
                }
                Some(_) | None => {}
            }
        }
        errors
    }

    fn picture_to(&mut self, path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let picture = self.ask("Page.captureScreenshot", json!({"format": "png"}));
        let bytes = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// For people to look at, and where `ATOLL_IMAGES` says so for the documentation.
    pub(crate) fn picture(&mut self, name: &str) {
        // Two frames: what changed is drawn.
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
        self.picture_to(&screenshots().join(format!("{name}.png")));
        if let Some(images) = std::env::var_os("ATOLL_IMAGES") {
            self.picture_to(&PathBuf::from(images).join(format!("{name}.png")));
        }
    }
}

fn screenshots() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("screenshots")
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}
