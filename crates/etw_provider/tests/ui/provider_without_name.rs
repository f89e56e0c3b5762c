//! A provider without a name.

use etw_provider::provider;

provider!(static APP);

fn main() {}
