//! The name of an event that is known only at run time.

use etw_provider::{event, provider};

provider!(static APP: "MyCompany.MyApp");

fn name() -> &'static str {
    "Started"
}

fn main() {
    let _ = event!(APP, name());
}
