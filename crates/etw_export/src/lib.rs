//! Decoded events as JSON, CSV, XML and text.
