//! Bar charts as SVG, drawn with text and rectangles alone, that can be read on light and on dark pages.

use std::fmt::Write;

/// A group of bars under one heading: what was done, and a bar for each who did it.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) heading: String,
    pub(crate) bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// The value as it is written behind the bar.
    pub(crate) text: String,
}

const WIDTH: u32 = 760;
/// Where bars begin, and how long the longest is.
const LEFT: u32 = 250;
const LONGEST: f64 = 380.0;
const LINE: u32 = 22;
const TOP: u32 = 64;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}\
.title{font-size:16px;font-weight:600}.note{font-size:12px;fill:#59636e}.heading{font-weight:600}\
.end{text-anchor:end}.own{fill:#0969da}.other{fill:#afb8c1}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.own{fill:#4493f8}.other{fill:#57606a}}";

/// Each group has its own scale: what is compared stands within a group. Atoll's bars have a colour of their own.
pub(crate) fn draw(title: &str, note: &str, groups: &[Group]) -> String {
    let mut body = String::new();
    let mut at = TOP;
    for group in groups.iter().filter(|group| !group.bars.is_empty()) {
        let _ = writeln!(body, r#"<text class="heading" x="12" y="{}">{}</text>"#, at + 15, escaped(&group.heading));
        at += LINE;
        let most = group.bars.iter().map(|bar| bar.value).filter(|value| value.is_finite()).fold(0.0, f64::max);
        for bar in &group.bars {
            let share = if most > 0.0 && bar.value.is_finite() { bar.value / most } else { 0.0 };
            let length = (share * LONGEST).max(1.0);
            let class = if bar.label.starts_with("Atoll") { "own" } else { "other" };
            let (label, text) = (escaped(&bar.label), escaped(&bar.text));
            let _ = writeln!(body, r#"<text class="end" x="{}" y="{}">{label}</text>"#, LEFT - 8, at + 15);
            let _ = writeln!(
                body,
                r#"<rect class="{class}" x="{LEFT}" y="{}" width="{length:.1}" height="16" rx="2"/>"#,
                at + 2
            );
            let _ = writeln!(body, r#"<text x="{:.1}" y="{}">{text}</text>"#, f64::from(LEFT) + length + 6.0, at + 15);
            at += LINE;
        }
        at += LINE / 2;
    }
    let height = at + 8;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\" \
         aria-label=\"{}\">\n<style>{STYLE}</style>\n<text class=\"title\" x=\"12\" y=\"26\">{}</text>\n\
         <text class=\"note\" x=\"12\" y=\"46\">{}</text>\n{body}</svg>\n",
        escaped(title),
        escaped(title),
        escaped(note)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64) -> Bar {
        Bar { label: label.to_owned(), value, text: format!("{value}") }
    }

    #[test]
    fn the_longest_bar_of_each_group_is_as_long_as_any() {
        let group = |bars| Group { heading: "writes <64>".to_owned(), bars };
        let groups = [group(vec![bar("Atoll", 10.0), bar("other & co", 5.0)]), group(vec![bar("Atoll", 0.5)])];
        let svg = draw("Writes", "more is better", &groups);
        assert_eq!(svg.matches("width=\"380.0\"").count(), 2);
        assert_eq!(svg.matches("width=\"190.0\"").count(), 1);
        assert_eq!(svg.matches("class=\"own\"").count(), 2);
        assert!(svg.contains("writes &lt;64&gt;") && svg.contains("other &amp; co"));
    }

    #[test]
    fn nothing_and_no_number_are_drawn_as_well() {
        let empty = Group { heading: "not drawn".to_owned(), bars: Vec::new() };
        let lost = Group { heading: "lost".to_owned(), bars: vec![bar("a", f64::NAN), bar("b", 0.0)] };
        let svg = draw("t", "", &[empty, lost]);
        assert!(!svg.contains("not drawn"));
        assert_eq!(svg.matches("width=\"1.0\"").count(), 2);
        assert!(!svg.contains("width=\"NaN\""));
    }

    #[test]
    fn it_is_readable_on_a_dark_page() {
        assert!(draw("t", "", &[]).contains("prefers-color-scheme:dark"));
    }
}
