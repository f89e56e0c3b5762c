// Tiles of lanes: asked for when they are seen, and kept.

import { computed, signal } from "@preact/signals";
import { binary, type Lane, type LaneGroup } from "./api";
import { before, isComparing, lanes, ownLength, type Range } from "./state";

export const BUCKETS = 512;

interface Tile {
  weights: Float32Array;
  counts: Uint32Array;
}

const tiles = new Map<string, Tile>();
const pending = new Map<string, AbortController>();
const MAX_TILES = 600;
export const arrived = signal(0);

/** The names of the tiles of a group: those of its parts, of which only the first one is compared. */
export function tilesOf(group: LaneGroup): string[] {
  const parts = isComparing.value ? [] : (group.parts ?? []);
  return parts.length > 0 ? parts.map((part) => part.name) : [group.name];
}

/** A trace whose tiles are drawn: this one, or the one before. */
export interface Source {
  path: string;
  length: number;
  count: (group: LaneGroup) => number;
  place: (lane: Lane, number: number) => number | null;
}

export const OWN: Source = {
  path: "/api/tile",
  get length() {
    return ownLength.value;
  },
  count: (group) => group.own_count ?? group.lanes.length,
  place: (lane, number) => (lane.own === undefined ? number : lane.own),
};
export const BEFORE: Source = {
  path: "/api/base/tile",
  get length() {
    return Math.max(1, before.value?.length ?? 1);
  },
  count: (group) => group.base_count ?? 0,
  place: (lane) => lane.base ?? null,
};

/** The lanes that are shown: those of both traces if they are compared. */
export const shownLanes = computed<LaneGroup[]>(() => (isComparing.value ? (before.value?.groups ?? []) : lanes.value));

/** The level whose buckets are about a pixel wide. */
export function levelOf([from, to]: Range, width: number, source: Source = OWN): number {
  const deepest = Math.max(0, Math.floor(Math.log2(source.length / BUCKETS)));
  const wanted = Math.ceil(Math.log2((source.length / (to - from)) * (width / BUCKETS)) - 0.3);
  return Math.max(0, Math.min(deepest, wanted));
}

function load(source: Source, run: string, group: string, level: number, index: number, lanesCount: number): Tile | null {
  const name = `${source.path}/${run}/${group}/${level}/${index}`;
  const known = tiles.get(name);
  if (known) return known;
  if (!pending.has(name)) {
    const stop = new AbortController();
    pending.set(name, stop);
    binary(name, stop.signal)
      .then((data) => {
        const size = lanesCount * BUCKETS;
        tiles.set(name, { weights: new Float32Array(data, 0, size), counts: new Uint32Array(data, size * 4, size) });
        if (tiles.size > MAX_TILES) {
          const oldest = tiles.keys().next().value;
          if (oldest !== undefined) tiles.delete(oldest);
        }
        arrived.value += 1;
      })
      .catch(() => undefined)
      .finally(() => pending.delete(name));
  }
  return null;
}

export interface Part {
  tile: Tile;
  level: number;
  index: number;
}

export interface Bucket {
  from: number;
  to: number;
  weights: Float32Array;
  counts: Uint32Array;
  place: number;
  width: number;
}

/** The buckets of a group that are visible, from the tiles that are there. */
export function visible(run: string, group: LaneGroup, name: string, range: Range, level: number, source: Source = OWN): Part[] {
  const found: Part[] = [];
  const lanesCount = source.count(group);
  if (lanesCount === 0) return found;
  const count = 2 ** level;
  const size = source.length / count;
  const first = Math.max(0, Math.floor(range[0] / size));
  const last = Math.min(count - 1, Math.floor((range[1] - 1) / size));
  for (let index = first; index <= last; index += 1) {
    const tile = load(source, run, name, level, index, lanesCount);
    if (tile) {
      found.push({ tile, level, index });
      continue;
    }
    // A coarser tile serves until the right one is there.
    for (let up = 1; up <= level; up += 1) {
      const coarse = tiles.get(`${source.path}/${run}/${name}/${level - up}/${Math.floor(index / 2 ** up)}`);
      if (coarse) {
        found.push({ tile: coarse, level: level - up, index: Math.floor(index / 2 ** up) });
        break;
      }
    }
  }
  return found.filter((one, at) => found.findIndex((other) => other.level === one.level && other.index === one.index) === at);
}

/** Calls `each` for every visible bucket of a lane. All calls get the same object, which the next one changes. */
export function buckets(parts: Part[], lane: number | null, range: Range, each: (bucket: Bucket) => void, source: Source = OWN): void {
  if (lane === null) return;
  for (const { tile, level, index } of parts) {
    const width = source.length / (2 ** level * BUCKETS);
    const start = index * width * BUCKETS;
    const first = Math.max(0, Math.floor((range[0] - start) / width));
    const last = Math.min(BUCKETS - 1, Math.ceil((range[1] - start) / width));
    const bucket: Bucket = { from: 0, to: 0, weights: tile.weights, counts: tile.counts, place: 0, width };
    for (let at = first; at <= last; at += 1) {
      bucket.from = start + at * width;
      bucket.to = start + (at + 1) * width;
      bucket.place = lane * BUCKETS + at;
      each(bucket);
    }
  }
}
