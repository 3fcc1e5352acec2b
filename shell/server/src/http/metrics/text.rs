//! The text that Prometheus reads.

use crate::latency::{BOUNDS, Sum};
use std::fmt::{Display, Write};

#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn counter(&mut self, name: &str, help: &str) -> Series<'_> {
        self.begin(name, "counter", help)
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str) -> Series<'_> {
        self.begin(name, "gauge", help)
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str) -> Series<'_> {
        self.begin(name, "histogram", help)
    }

    fn begin(&mut self, name: &str, kind: &str, help: &str) -> Series<'_> {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Series { text: &mut self.0, name: name.to_owned() }
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// The lines of one metric.
#[derive(Debug)]
pub(super) struct Series<'a> {
    text: &'a mut String,
    name: String,
}

impl Series<'_> {
    pub(super) fn is(&mut self, value: impl Display) {
        let _ = writeln!(self.text, "{} {value}", self.name);
    }

    /// `labels`: names and values, which are words of ours and need no escaping.
    pub(super) fn with(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let _ = writeln!(self.text, "{}{{{}}} {value}", self.name, list(labels));
    }

    pub(super) fn spread(&mut self, labels: &[(&str, &str)], sum: &Sum) {
        let (name, labels) = (&self.name, list(labels));
        let bounds = BOUNDS.iter().map(|&micros| seconds(micros)).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(sum.up_to) {
            let _ = writeln!(self.text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(self.text, "{name}_sum{{{labels}}} {}", seconds(sum.micros));
        let _ = writeln!(self.text, "{name}_count{{{labels}}} {}", sum.up_to[BOUNDS.len()]);
    }
}

fn list(labels: &[(&str, &str)]) -> String {
    labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect::<Vec<_>>().join(",")
}

fn seconds(micros: u64) -> String {
    (micros as f64 / 1e6).to_string()
}
