//! Lanes over time, from the tables: busy time, bytes or numbers of events by bucket.
//!
//! A tile is a power of two of a trace's time: tile `index` of level `level` is one of `2^level` equal parts, in 512
//! buckets. The first levels are sums of one finest base, which one pass over the table counts; deeper tiles read only the
//! chunks that they touch. A tile never changes, so a browser keeps it.

mod arrows;
mod kinds;
mod lanes;
mod pairs;
mod slice;
mod strip;
mod tiles;

pub(crate) use arrows::{ArrowRequest, arrows};
pub(crate) use lanes::Lanes;
pub(crate) use pairs::pairs;
pub(crate) use slice::{SliceRequest, slice};
pub(crate) use strip::{StripRequest, strip};
pub(crate) use tiles::{Tiles, tile};
