//! A value that is not of the type of its field.

use etw_provider::{event, provider};

provider!(static APP: "MyCompany.MyApp");

fn main() {
    let _ = event!(APP, "Read", u32("size", "many"));
}
