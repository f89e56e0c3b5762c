//! Which objects a URL means that ends with `/` or has a pattern.

use anyhow::{Result, bail};
use etw_app::UsageError;
use object_store::path::Path;

use super::Remote;
use super::address::Address;
use super::object::{in_time, reason};

impl Remote {
    /// Returns the URLs of the objects of a bucket whose names pass, from the directory that a URL names or that its last part
    /// is in. Directories in it are left out.
    ///
    /// # Errors
    ///
    /// Fails if the URL is not one of `s3://`, or if the bucket cannot be listed.
    pub(crate) fn list(&self, url: &str, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let address = Address::parse(url)?;
        let Address::S3 { bucket, key } = &address else {
            let text =
                format!("{}: only files and buckets (s3://) have directories and patterns", address.shown());
            return Err(UsageError(text).into());
        };
        let store = self.stores.of(&address)?;
        let prefix = key.rsplit_once('/').map_or("", |(directory, _)| directory);
        let Ok(prefix) = Path::parse(prefix) else { bail!("{url}: '{prefix}' is no directory") };
        let found = self.wait(async move { in_time(store.list_with_delimiter(Some(&prefix))).await })?;
        let found = match found {
            Ok(found) => found,
            Err(error) => bail!("{url}: {}", reason(&error)),
        };
        let names = found.objects.iter().map(|object| &object.location);
        let names = names.filter(|place| place.filename().is_some_and(&is_wanted));
        Ok(names.map(|place| format!("s3://{bucket}/{place}")).collect())
    }
}
