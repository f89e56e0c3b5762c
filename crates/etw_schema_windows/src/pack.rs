//! The pack's file: an index, and groups of providers, each compressed by itself.
//!
//! All integers are little-endian.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | `ETWSCHEM` |
//! | 8 | 4 | version of the format, 1 |
//! | 12 | 4 | length of the index |
//! | 16 | 4 | CRC-32 of the index |
//! | 20 | | the index, deflated; then the groups, each deflated |
//!
//! The index is a sequence of LEB128 numbers and strings with their lengths: the releases (build, name), the groups
//! (packed length, unpacked length, CRC-32 of the packed bytes), and the providers sorted by GUID (GUID, class or not,
//! name, group, length of its block). The blocks of a group follow each other in the order of the index.

use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use etw_event::Guid;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use crate::block::{Block, EventLayout};
use crate::release::{self, Release};
use crate::varint::{Reader, put, put_bytes};
use crate::words::Words;

const MAGIC: [u8; 8] = *b"ETWSCHEM";
const VERSION: u32 = 1;
const HEADER: usize = 20;

/// Bytes of blocks from which on a group is closed.
const GROUP_BYTES: usize = 48 << 10;
/// Limit of the size of a group or of the index.
const MAX_UNPACKED: usize = 64 << 20;

/// Why a pack cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The bytes do not start as a pack does, or are of another version of the format.
    #[error("not a schema pack of format version {VERSION}")]
    NotAPack,
    /// A part is cut off, or its checksum or content is wrong.
    #[error("the schema pack is damaged at offset {offset}")]
    Damaged {
        /// Where the damaged part starts.
        offset: usize,
    },
}

/// One provider in the index of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// GUID of the provider or class.
    pub guid: Guid,
    /// Its name.
    pub name: String,
    /// Whether it is a class of classic events rather than a provider.
    pub is_class: bool,
    group: usize,
    /// Offset and length in the unpacked group.
    start: usize,
    len: usize,
}

/// An opened pack. Groups are unpacked when they are first needed and kept.
#[derive(Debug)]
pub struct Pack<'a> {
    file: &'a [u8],
    releases: Vec<Release>,
    groups: Vec<Group>,
    providers: Vec<Listed>,
    blocks: Vec<OnceLock<Result<Arc<Block>, PackError>>>,
}

#[derive(Debug)]
struct Group {
    offset: usize,
    packed: usize,
    unpacked: usize,
    crc: u32,
    bytes: OnceLock<Result<Arc<[u8]>, PackError>>,
}

impl<'a> Pack<'a> {
    /// Reads the index of a pack.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a pack, or its index is damaged.
    pub fn open(file: &'a [u8]) -> Result<Pack<'a>, PackError> {
        let damaged = PackError::Damaged { offset: HEADER };
        let word = |at: usize| {
            let bytes =
                file.get(at..at + 4).and_then(|bytes| bytes.first_chunk()).ok_or(PackError::NotAPack)?;
            Ok(u32::from_le_bytes(*bytes))
        };
        if file.get(..8) != Some(&MAGIC[..]) || word(8)? != VERSION {
            return Err(PackError::NotAPack);
        }
        let (len, crc) = (word(12)? as usize, word(16)?);
        let end = HEADER.checked_add(len).ok_or(damaged.clone())?;
        let packed = file.get(HEADER..end).filter(|packed| crc32fast::hash(packed) == crc);
        let index = inflate(packed.ok_or(damaged.clone())?, MAX_UNPACKED).ok_or(damaged.clone())?;
        let mut reader = Reader { rest: &index };
        Pack::read(file, end, &mut reader).ok_or(damaged)
    }

    fn read(file: &'a [u8], mut offset: usize, reader: &mut Reader<'_>) -> Option<Pack<'a>> {
        let releases: Vec<Release> = (0..reader.count()?)
            .map(|_| Some(Release { build: reader.number()?, name: reader.text()?.to_owned() }))
            .collect::<Option<_>>()?;
        let mut groups = Vec::new();
        for _ in 0..reader.count()? {
            let (packed, unpacked, crc) = (reader.number()?, reader.number()?, reader.number()?);
            groups.push(Group { offset, packed, unpacked, crc, bytes: OnceLock::new() });
            offset = offset.checked_add(packed)?;
        }
        let mut ends = vec![0; groups.len()];
        let mut providers = Vec::new();
        for _ in 0..reader.count()? {
            let guid = Guid::from_bytes(*reader.take(16)?.first_chunk()?);
            let is_class = reader.number::<u8>()? != 0;
            let name = reader.text()?.to_owned();
            let (group, len) = (reader.number()?, reader.number()?);
            let end: &mut usize = ends.get_mut(group)?;
            providers.push(Listed { guid, name, is_class, group, start: *end, len });
            *end = end.checked_add(len)?;
        }
        let blocks = providers.iter().map(|_| OnceLock::new()).collect();
        Some(Pack { file, releases, groups, providers, blocks })
    }

    /// Returns the releases of Windows, by build.
    pub fn releases(&self) -> &[Release] {
        &self.releases
    }

    /// Returns the build number of a release: a number, or a name such as `11 24H2`, `10-22h2`, `8.1` or `Server 2022`.
    pub fn build_of(&self, release: &str) -> Option<u32> {
        release::build_of(&self.releases, release)
    }

    /// Returns the number in [`Pack::releases`] of the release with this build, or of the last one before it, else 0.
    pub fn nearest_release(&self, build: u32) -> usize {
        release::nearest(self.releases.iter().map(|release| release.build), build)
    }

    /// Returns every provider and class, sorted by GUID.
    pub fn providers(&self) -> &[Listed] {
        &self.providers
    }

    /// Returns whether `providers()[at]` may have all these words in its names. If not, no name of the provider, its
    /// events, fields, keywords and maps has them.
    ///
    /// Reads the strings only, which is much faster than making the schemas.
    ///
    /// # Errors
    ///
    /// Fails if there is no such provider, or its group is damaged.
    pub fn may_contain(&self, at: usize, words: &Words) -> Result<bool, PackError> {
        let outside = PackError::Damaged { offset: self.file.len() };
        let listed = self.providers.get(at).ok_or(outside.clone())?;
        let bytes = self.groups.get(listed.group).ok_or(outside)?.bytes(self.file)?;
        let block = bytes.get(listed.start..listed.start + listed.len).unwrap_or_default();
        Ok(words.all_in(block))
    }

    /// Returns the provider or class with a GUID, or `None` if the pack does not have it.
    ///
    /// # Errors
    ///
    /// Fails if the group of the provider is damaged.
    pub fn block(&self, guid: &Guid) -> Result<Option<&Block>, PackError> {
        match self.providers.binary_search_by(|listed| listed.guid.cmp(guid)) {
            Ok(at) => self.block_at(at).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Returns the block of `providers()[at]`.
    ///
    /// # Errors
    ///
    /// Fails if there is no such provider, or its group is damaged.
    pub fn block_at(&self, at: usize) -> Result<&Block, PackError> {
        let outside = PackError::Damaged { offset: self.file.len() };
        let (Some(listed), Some(place)) = (self.providers.get(at), self.blocks.get(at)) else {
            return Err(outside);
        };
        let read = || {
            let group = self.groups.get(listed.group).ok_or(outside)?;
            let bytes = group.bytes(self.file)?;
            Block::read(bytes, listed.start..listed.start + listed.len, &self.releases)
                .map(Arc::new)
                .ok_or(PackError::Damaged { offset: group.offset })
        };
        match place.get_or_init(read) {
            Ok(block) => Ok(block),
            Err(error) => Err(error.clone()),
        }
    }
}

impl Group {
    fn bytes(&self, file: &[u8]) -> Result<Arc<[u8]>, PackError> {
        let unpack = || {
            let end = self.offset.checked_add(self.packed)?;
            let packed = file.get(self.offset..end)?;
            (crc32fast::hash(packed) == self.crc).then_some(())?;
            let bytes = inflate(packed, self.unpacked)?;
            (bytes.len() == self.unpacked).then(|| bytes.into())
        };
        let bytes = || unpack().ok_or(PackError::Damaged { offset: self.offset });
        self.bytes.get_or_init(bytes).clone()
    }
}

/// Writes a pack. The layouts' releases are numbers in `releases`, which are sorted by build. Equal input makes equal
/// bytes.
///
/// Providers and classes are given with their layouts. Each GUID occurs once.
pub fn write(
    releases: &[Release],
    mut providers: Vec<(Arc<etw_schema::ProviderInfo>, Vec<EventLayout>)>,
) -> Vec<u8> {
    providers.sort_by_key(|(info, _)| info.guid);
    // Providers with similar names have similar strings.
    let mut order: Vec<usize> = (0..providers.len()).collect();
    order.sort_by_key(|at| providers.get(*at).map(|(info, _)| (info.name.to_lowercase(), info.guid)));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let blocks: Vec<Vec<u8>> = providers.iter().map(|(info, layouts)| Block::write(info, layouts)).collect();
    let mut size = GROUP_BYTES;
    for at in order {
        let len = blocks.get(at).map_or(0, Vec::len);
        if size + len > GROUP_BYTES {
            groups.push(Vec::new());
            size = 0;
        }
        size += len;
        if let Some(group) = groups.last_mut() {
            group.push(at);
        }
    }
    let mut index = Vec::new();
    put(&mut index, releases.len() as u64);
    for release in releases {
        put(&mut index, release.build.into());
        put_bytes(&mut index, release.name.as_bytes());
    }
    let mut of_provider = vec![0; providers.len()];
    let mut packed = Vec::new();
    put(&mut index, groups.len() as u64);
    for (number, group) in groups.iter_mut().enumerate() {
        group.sort_unstable();
        let mut bytes = Vec::new();
        for at in group {
            of_provider[*at] = number;
            bytes.extend(&blocks[*at]);
        }
        let deflated = deflate(&bytes);
        put(&mut index, deflated.len() as u64);
        put(&mut index, bytes.len() as u64);
        put(&mut index, crc32fast::hash(&deflated).into());
        packed.extend(deflated);
    }
    put(&mut index, providers.len() as u64);
    for (at, (info, _)) in providers.iter().enumerate() {
        index.extend(info.guid.to_bytes());
        index.push(u8::from(info.class_of.is_some()));
        put_bytes(&mut index, info.name.as_bytes());
        put(&mut index, of_provider[at] as u64);
        put(&mut index, blocks[at].len() as u64);
    }
    let index = deflate(&index);
    let mut file = MAGIC.to_vec();
    file.extend(VERSION.to_le_bytes());
    file.extend((index.len() as u32).to_le_bytes());
    file.extend(crc32fast::hash(&index).to_le_bytes());
    file.extend(index);
    file.extend(packed);
    file
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// Unpacks at most `limit` bytes; `None` if the bytes are not deflated, or there are more.
fn inflate(packed: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = limit.min(MAX_UNPACKED);
    DeflateDecoder::new(packed).take(limit as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= limit).then_some(bytes)
}
