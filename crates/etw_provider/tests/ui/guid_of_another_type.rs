//! A provider whose GUID is text.

use etw_provider::provider;

provider!(static APP: "MyCompany.MyApp", guid: "5b2c2bd2-4f4e-4d3c-9d9c-0a1b2c3d4e5f");

fn main() {
    assert_eq!(APP.name(), "MyCompany.MyApp");
}
