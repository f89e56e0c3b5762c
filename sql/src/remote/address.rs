//! URLs of traces, and the stores that have them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use etw_app::UsageError;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector, ReqwestConnector};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use url::Url;

/// Suffix of the index that lies beside a trace.
const INDEX: &str = ".etwindex";
/// Time in which a server must accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Variables with which requests to S3 are signed.
const CREDENTIALS: [&str; 6] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_METADATA_ENDPOINT",
    "AWS_SKIP_SIGNATURE",
];

/// The URL of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    S3 { bucket: String, key: String },
    Http(Url),
}

impl Address {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// Fails if it is no URL of an object, or has a password. The message has no passwords and signatures.
    pub(super) fn parse(word: &str) -> Result<Address> {
        if let Some(object) = word.strip_prefix("s3://") {
            let (bucket, key) = object.split_once('/').unwrap_or((object, ""));
            if bucket.is_empty() {
                return Err(UsageError(format!("'{word}' has no bucket: s3://BUCKET/KEY")).into());
            }
            return Ok(Address::S3 { bucket: bucket.to_owned(), key: key.to_owned() });
        }
        let mut url = Url::parse(word).map_err(|error| UsageError(format!("a URL is wrong: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            let host = url.host_str().unwrap_or_default();
            return Err(UsageError(format!("the URL on {host} has a user, which others could see")).into());
        }
        url.set_fragment(None);
        Ok(Address::Http(url))
    }

    /// Returns the URL without what only its owner should see: signatures are in what follows `?`.
    pub(super) fn shown(&self) -> String {
        match self {
            Address::S3 { bucket, key } => format!("s3://{bucket}/{key}"),
            Address::Http(url) => {
                let mut url = url.clone();
                url.set_query(None);
                url.into()
            }
        }
    }

    /// Returns the name of the file.
    pub(super) fn name(&self) -> Result<String> {
        let last = match self {
            Address::S3 { key, .. } => Path::parse(key.rsplit('/').next().unwrap_or_default()),
            Address::Http(url) => Path::from_url_path(url.path().rsplit('/').next().unwrap_or_default()),
        };
        match last {
            Ok(name) if !name.as_ref().is_empty() && !name.as_ref().contains(['/', '\\']) => {
                Ok(name.to_string())
            }
            _ => Err(UsageError(format!("'{}' names no object", self.shown())).into()),
        }
    }

    /// Returns the URL of the index beside the object.
    pub(super) fn of_index(&self) -> Address {
        match self {
            Address::S3 { bucket, key } => {
                Address::S3 { bucket: bucket.clone(), key: format!("{key}{INDEX}") }
            }
            Address::Http(url) => {
                let mut url = url.clone();
                url.set_path(&format!("{}{INDEX}", url.path()));
                Address::Http(url)
            }
        }
    }

    /// Returns the place of the object in its store.
    pub(super) fn location(&self) -> Result<Path> {
        match self {
            Address::S3 { key, .. } => Path::parse(key).with_context(|| self.shown()),
            // The store of an object is its whole URL, with what follows `?`.
            Address::Http(_) => Ok(Path::default()),
        }
    }
}

/// The stores that have been used.
#[derive(Debug, Default)]
pub(super) struct Stores {
    buckets: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    /// By scheme.
    clients: Mutex<HashMap<String, HttpClient>>,
}

impl Stores {
    #[cfg(test)]
    pub(super) fn add(&self, bucket: &str, store: Arc<dyn ObjectStore>) {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner).insert(bucket.to_owned(), store);
    }

    /// Returns the store of an object.
    ///
    /// # Errors
    ///
    /// Fails if the environment's settings are wrong.
    pub(super) fn of(&self, address: &Address) -> Result<Arc<dyn ObjectStore>> {
        match address {
            Address::S3 { bucket, .. } => {
                let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(known) = buckets.get(bucket) {
                    return Ok(known.clone());
                }
                let store = s3(bucket).with_context(|| format!("s3://{bucket}"))?;
                buckets.insert(bucket.clone(), store.clone());
                Ok(store)
            }
            Address::Http(url) => {
                let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
                let client = match clients.get(url.scheme()) {
                    Some(known) => known.clone(),
                    None => {
                        let agent = concat!("openetw/", env!("CARGO_PKG_VERSION"));
                        let options = ClientOptions::new()
                            .with_allow_http(url.scheme() == "http")
                            .with_connect_timeout(CONNECT)
                            // Requests that stall are ended by who waits for them.
                            .with_timeout_disabled()
                            .with_config(ClientConfigKey::UserAgent, agent);
                        let client = ReqwestConnector::default().connect(&options)?;
                        clients.insert(url.scheme().to_owned(), client.clone());
                        client
                    }
                };
                let store = HttpBuilder::new().with_url(url.as_str()).with_retry(retries());
                Ok(Arc::new(store.with_http_connector(Shared(client)).build()?))
            }
        }
    }
}

/// Gives all stores the same connections.
#[derive(Debug)]
struct Shared(HttpClient);

impl HttpConnector for Shared {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.0.clone())
    }
}

/// Returns a bucket, by the variables that other programs for S3 use.
fn s3(bucket: &str) -> Result<Arc<dyn ObjectStore>> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retries());
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let endpoint = endpoint.iter().find_map(|key| builder.get_config_value(key));
    builder = builder.with_allow_http(endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")));
    let client = AmazonS3ConfigKey::Client;
    builder = builder.with_config(client(ClientConfigKey::ConnectTimeout), format!("{}s", CONNECT.as_secs()));
    // Requests that stall are ended by who waits for them.
    builder = builder.with_config(client(ClientConfigKey::Timeout), "1h");
    // Without keys, objects must be public; the library would look for the keys of a machine of Amazon's.
    if !CREDENTIALS.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty())) {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

/// How often a request is sent again that fails for a reason that may go away.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: 3,
        retry_timeout: Duration::from_secs(30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_names_and_hide_what_is_secret() {
        let check = |word: &str, shown: &str, name: &str, index: &str| {
            let address = Address::parse(word).unwrap();
            assert_eq!((address.shown().as_str(), address.name().unwrap().as_str()), (shown, name), "{word}");
            assert_eq!(address.of_index().shown(), index, "{word}");
        };
        check("s3://b/a/t.etl", "s3://b/a/t.etl", "t.etl", "s3://b/a/t.etl.etwindex");
        check("s3://b/a b%20.etl", "s3://b/a b%20.etl", "a b%20.etl", "s3://b/a b%20.etl.etwindex");
        let shown = "https://host:8/a/my%20t.etl";
        let index = "https://host:8/a/my%20t.etl.etwindex";
        check("https://host:8/a/my%20t.etl?key=secret#x", shown, "my t.etl", index);
        for word in [
            "s3://b/a/..",
            "s3://b",
            "s3://b/",
            "http://host/a/",
            "http://host",
            "http://host/%2e%2e",
            "http://h/a%2Fb",
        ] {
            assert!(Address::parse(word).and_then(|address| address.name()).is_err(), "{word}");
        }
        let error = Address::parse("https://ann:secret@host/t.etl").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
