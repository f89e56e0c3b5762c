//! An event without a name.

use etw_provider::{event, provider};

provider!(static APP: "MyCompany.MyApp");

fn main() {
    let _ = event!(APP);
}
