//! An option that does not exist.

use etw_provider::{event, provider};

provider!(static APP: "MyCompany.MyApp");

fn main() {
    let _ = event!(APP, "Read", severity: 3);
}
