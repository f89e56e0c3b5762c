//! The page on small and large screens, and enlarged.

use etw_testkit::browser::Browser;
use etw_viewer::{Options, Viewer};
use serde_json::{Value, json};

use crate::{PERFVIEW, Page, escape, real};

/// Sizes in pixels of the page, and how many pixels of the screen each is wide: 4K, 720 lines, and both at 200 %.
const SCREENS: [((u32, u32), f64); 4] =
    [((3840, 2160), 1.0), ((1280, 720), 1.0), ((1920, 1080), 2.0), ((640, 360), 2.0)];

/// What the page shows.
const STATES: [&str; 6] = [
    "table=\"cpu_sampled\"&select=[1000,99999999]",
    "table=\"disk\"&flat=true",
    "table=\"cpu_sampled\"&tab=\"stacks\"",
    "table=\"cpu_sampled\"&tab=\"stacks\"&stack={\"graph\":true}",
    "table=\"events\"&flat=true&event=1200",
    "page=\"providers\"",
];

/// Returns the controls and texts that a person cannot reach: outside of the window even after scrolling to them, or cut.
const UNREACHABLE: &str = "(() => {
  const bad = [];
  const all = document.querySelectorAll('.top > *, .titlebar > *, .titlebar button, .tools > *, .tools button, \
.goldbar .chip, .explorer button, .status, .virtual, .flame-frame, .lanes, .panel header > *');
  for (const one of all) {
    if (one.checkVisibility && !one.checkVisibility()) continue;
    one.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    const box = one.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) continue;
    const isLarge = one.matches('.virtual, .flame-frame, .lanes');
    const isOut = box.left < -1 || box.right > innerWidth + 1 || box.top < -1 || (!isLarge && box.bottom > innerHeight + 1);
    const middle = document.elementFromPoint(Math.min(innerWidth - 1, box.left + box.width / 2), Math.min(innerHeight - 1, box.top + Math.min(box.height / 2, 12)));
    const isHidden = !isLarge && !(middle && (one.contains(middle) || middle.contains(one)));
    if (isOut || isHidden) bad.push(`${one.className || one.tagName} ${one.textContent.slice(0, 30)} ${[box.left, box.top, box.right, box.bottom].map(Math.round)} ${isHidden ? middle?.outerHTML.slice(0, 80) : ''}`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) bad.push(`the page is ${document.documentElement.scrollWidth} wide`);
  return bad;
})()";

#[test]
fn everything_is_reachable_on_every_screen() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = Viewer::start(Options { files: vec![path], ..Options::default() }).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&viewer.url());
    let address = viewer.address();
    let mut page = Page { browser, address, _viewer: Some(viewer) };
    page.wait("document.querySelector('.virtual td')");
    for (size, scale) in SCREENS {
        page.browser.resize(size, scale);
        for state in STATES {
            page.browser.open("about:blank");
            page.browser.open(&format!("http://{address}/#{}", escape(state)));
            page.wait("document.querySelector('.virtual td, .flame div, .providers')");
            page.wait("!document.querySelector('.busy')");
            std::thread::sleep(std::time::Duration::from_millis(150));
            let bad = page.browser.value(UNREACHABLE);
            assert_eq!(bad, json!([]), "{size:?} at {scale}: {state}");
            if state.starts_with("page") {
                continue;
            }
            // There is room for some lanes and some rows.
            let seen = page.browser.value(
                "(() => { const part = document.querySelector('.virtual, .flame-frame'); part.scrollIntoView({ block: 'nearest' }); \
                 return [document.querySelector('.lanes').clientHeight, part.clientHeight, devicePixelRatio]; })()",
            );
            let seen: Vec<f64> =
                seen.as_array().unwrap().iter().map(|one| Value::as_f64(one).unwrap()).collect();
            assert!(seen[0] >= 88.0 && seen[1] >= 100.0 && seen[2] == scale, "{size:?} {state}: {seen:?}");
            // What is drawn has the pixels of the screen.
            let sharp = page.browser.value(
                "(() => { const canvas = document.querySelector('.lanes canvas'); \
                 return canvas.width === Math.round(canvas.clientWidth * devicePixelRatio); })()",
            );
            assert_eq!(sharp, true, "{size:?} {state}");
        }
        let ms = page.browser.value("window.etwFrame.ms");
        println!("{size:?} at {scale}: {ms} ms of script for a frame");
    }
    page.check();
}
