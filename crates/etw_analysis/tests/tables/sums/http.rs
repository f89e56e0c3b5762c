//! HTTP requests.

use std::collections::HashMap;

use etw_event::Guid;

use super::said::{Expected, HTTP_SERVICE, Part, Said, WEBIO, WININET, nanos};

/// Requests by process and activity, or else object.
#[derive(Default)]
pub(super) struct Requests {
    /// Times of the starts that have no stop.
    started: HashMap<(i128, Guid, i128), i64>,
}

impl Part for Requests {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let provider = said.0.names().provider().unwrap_or_default();
        let activity = said.0.record.activity_id().unwrap_or(Guid::ZERO);
        let object = said.number(&["Request"]).unwrap_or(-1);
        let (guid, id) = said.kind();
        let (key, is_start) = match (provider, guid, id) {
            ("System.Net.Http", _, 1 | 2) => ((said.process(), activity, -1), id == 1),
            ("Microsoft.AspNetCore.Hosting" | "Microsoft-AspNetCore-Hosting", _, 3 | 4)
            | ("Microsoft-AspNetCore-Server-Kestrel", _, 3 | 4) => ((said.process(), activity, -1), id == 3),
            (_, WININET, 1007 | 1008) => ((said.process(), Guid::ZERO, object), id == 1007),
            (_, WEBIO, 17 | 134) => ((said.process(), Guid::ZERO, object), id == 17),
            // The kernel's, of which only those have rows that are delivered to a process.
            (_, HTTP_SERVICE, 3) => return expected.row("http"),
            _ => return,
        };
        let is_alone = key.1 == Guid::ZERO && key.2 < 0;
        if is_start {
            expected.row("http");
        }
        if is_start && !is_alone {
            self.started.insert(key, said.time());
        } else if let Some(start) = self.started.remove(&key).filter(|_| !is_alone) {
            expected.add("http", "duration", nanos(said.time() - start));
        }
    }
}
