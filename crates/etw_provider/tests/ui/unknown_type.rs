//! A field of a type that does not exist.

use etw_provider::{event, provider};

provider!(static APP: "MyCompany.MyApp");

fn main() {
    let _ = event!(APP, "Read", u33("size", 1));
}
