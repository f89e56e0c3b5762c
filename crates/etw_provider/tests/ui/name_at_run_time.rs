//! The name of an event that is known only at run time.

use etw_provider::{event, provider};

provider!(static APP: "MyCompany.MyApp");

fn main() {
    let _ = event!(APP, std::env::args().next().unwrap().as_str());
}
