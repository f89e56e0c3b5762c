// The timeline: lanes drawn from tiles, the selection, markers, and losses.

import { computed, signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { binary, json, type Lane, type LaneGroup, type Slice } from "./api";
import { bytes, duration, time } from "./format";
import { openMenu } from "./menu";
import {
  before,
  catalog,
  isComparing,
  lanes,
  openTable,
  ownLength,
  pointer,
  type Range,
  request,
  select,
  selected,
  selectedFilters,
  show,
  state,
  update,
  view,
  zoom,
} from "./state";

const BUCKETS = 512;
const LANE = 22;
/** Height of a lane that shows two traces. */
const PAIR = 34;
const HEAD = 22;
const FEW = 6;
const RULER = 26;
const STRIP = 40;

interface Tile {
  weights: Float32Array;
  counts: Uint32Array;
}

const tiles = new Map<string, Tile>();
const pending = new Map<string, AbortController>();
const MAX_TILES = 600;
const arrived = signal(0);
/** Groups of which all lanes are shown. */
const whole = signal<ReadonlySet<string>>(new Set());
/** Milliseconds of script for the last frame; read by tests. */
export const frame = { ms: 0, lanes: 0, arrows: 0, parts: 0 };
(window as unknown as { etwFrame: typeof frame }).etwFrame = frame;

// Okabe and Ito: told apart with every kind of colour vision.
const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7a00"];

/** The colours of the parts of lanes, from the bottom: what is done, what is held up, and nothing. */
const PARTS = ["#0072b2", "#e69f00", "--rest"];

/** The names of the tiles of a group: those of its parts, of which only the first one is compared. */
function tilesOf(group: LaneGroup): string[] {
  const parts = isComparing.value ? [] : (group.parts ?? []);
  return parts.length > 0 ? parts.map((part) => part.name) : [group.name];
}

interface Line {
  y: number;
  height: number;
  group: LaneGroup;
  /** Number of the lane; -1 for the heading of the group, -2 for the line that shows more lanes. */
  lane: number;
}

/** A trace whose tiles are drawn: this one, or the one before. */
interface Source {
  path: string;
  length: number;
  count: (group: LaneGroup) => number;
  place: (lane: Lane, number: number) => number | null;
}

const OWN: Source = {
  path: "/api/tile",
  get length() {
    return ownLength.value;
  },
  count: (group) => group.own_count ?? group.lanes.length,
  place: (lane, number) => (lane.own === undefined ? number : lane.own),
};
const BEFORE: Source = {
  path: "/api/base/tile",
  get length() {
    return Math.max(1, before.value?.length ?? 1);
  },
  count: (group) => group.base_count ?? 0,
  place: (lane) => lane.base ?? null,
};

/** The lanes that are shown: those of both traces if they are compared. */
const shownLanes = computed<LaneGroup[]>(() => (isComparing.value ? (before.value?.groups ?? []) : lanes.value));

/** The lines of the timeline from top to bottom. */
function layout(groups: LaneGroup[], closed: string[], all: ReadonlySet<string>, tall: number): { lines: Line[]; height: number } {
  const lines: Line[] = [];
  let y = 0;
  const add = (height: number, group: LaneGroup, lane: number) => {
    lines.push({ y, height, group, lane });
    y += height;
  };
  for (const group of groups) {
    add(HEAD, group, -1);
    if (closed.includes(group.name)) continue;
    const shown = all.has(group.name) ? group.lanes.length : Math.min(group.lanes.length, FEW);
    for (let lane = 0; lane < shown; lane += 1) add(tall, group, lane);
    if (group.lanes.length > FEW) add(18, group, -2);
  }
  return { lines, height: y };
}

/** The level whose buckets are about a pixel wide. */
function levelOf([from, to]: Range, width: number, source: Source = OWN): number {
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

interface Part {
  tile: Tile;
  level: number;
  index: number;
}

interface Bucket {
  from: number;
  to: number;
  weights: Float32Array;
  counts: Uint32Array;
  place: number;
  width: number;
}

/** The buckets of a group that are visible, from the tiles that are there. */
function visible(run: string, group: LaneGroup, name: string, range: Range, level: number, source: Source = OWN): Part[] {
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

/** Calls `each` for every visible bucket of a lane. */
function buckets(parts: Part[], lane: number | null, range: Range, each: (bucket: Bucket) => void, source: Source = OWN): void {
  if (lane === null) return;
  for (const { tile, level, index } of parts) {
    const width = source.length / (2 ** level * BUCKETS);
    const start = index * width * BUCKETS;
    const first = Math.max(0, Math.floor((range[0] - start) / width));
    const last = Math.min(BUCKETS - 1, Math.ceil((range[1] - start) / width));
    for (let at = first; at <= last; at += 1) {
      each({ from: start + at * width, to: start + (at + 1) * width, ...tile, place: lane * BUCKETS + at, width });
    }
  }
}

/** Steps of the ruler: 1, 2 or 5 times a power of ten. */
function step(range: number, width: number): number {
  const wanted = (range / width) * 110;
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1e-9)));
  for (const factor of [1, 2, 5, 10]) {
    if (power * factor >= wanted) return power * factor;
  }
  return power * 10;
}

function label(ticks: number, unit: number): string {
  const seconds = ticks / 1e7;
  if (unit >= 1e7) return `${seconds.toFixed(0)} s`;
  const digits = Math.min(7, Math.max(0, 7 - Math.floor(Math.log10(unit))));
  return `${seconds.toFixed(digits)} s`;
}

function value(group: LaneGroup, weight: number, width: number): string {
  if (group.measure === "bytes") return `${bytes(weight)} (${bytes(weight / (width / 1e7))}/s)`;
  if (group.measure === "count") return `${Math.round(weight).toLocaleString("en-US")} ${group.unit}`;
  if (group.measure === "level") return group.unit === "bytes" ? bytes(weight) : `${weight.toFixed(1)} ${group.unit}`;
  if (group.unit.startsWith("of ")) return `${(weight * 100).toFixed(1)} % ${group.unit}`;
  return `${weight.toFixed(2)} ${group.unit}`;
}

const strip = signal<{ range: Range; counts: number[] } | null>(null);

/** Asks for the histogram of what the grid shows. */
function useStrip(width: number): void {
  const { table, filters } = request.value;
  const all = [...filters, ...selectedFilters.value];
  const [from, to] = view.value;
  const key = JSON.stringify([table, all, from, to, width]);
  useEffect(() => {
    const hasTime = catalog.value?.tables.find((one) => one.name === table)?.all.some((one) => one.name === "time");
    if (!hasTime || width < 10) {
      strip.value = null;
      return;
    }
    const stop = new AbortController();
    const timer = window.setTimeout(() => {
      const question = { table, filters: all, from, to, buckets: Math.min(1024, Math.max(64, Math.floor(width / 2))) };
      json<{ counts: number[] }>("/api/strip", question, stop.signal).then(
        ({ counts }) => (strip.value = { range: [from, to], counts }),
        () => {
          if (!stop.signal.aborted) strip.value = null;
        },
      );
    }, 80);
    return () => {
      window.clearTimeout(timer);
      stop.abort();
    };
  }, [key]);
}

/** A thread that made another one ready. */
interface Arrow {
  from: number;
  to: number;
  ready: number;
  run: number;
}
const arrows = signal<Arrow[]>([]);
/** Longest visible time, in units of 100 ns, for which arrows are asked for: a second. */
const SHORT = 1e7;

/** Asks for the arrows between threads of a short time. */
function useArrows(): void {
  const [from, to] = view.value;
  const hasThreads = lanes.value.some((group) => group.name === "cpu_thread") && !state.value.closed.includes("cpu_thread");
  const isWanted = hasThreads && to - from <= SHORT && !isComparing.value;
  useEffect(() => {
    arrows.value = [];
    if (!isWanted) return;
    const stop = new AbortController();
    const timer = window.setTimeout(() => {
      json<{ arrows: Arrow[] }>("/api/arrows", { from: Math.floor(from), to: Math.ceil(to) }, stop.signal).then(
        (found) => (arrows.value = found.arrows),
        // Without arrows the lanes are as true.
        () => undefined,
      );
    }, 120);
    return () => {
      window.clearTimeout(timer);
      stop.abort();
    };
  }, [from, to, isWanted]);
}

/** Draws the arrows between the lanes of threads that are visible. */
function drawArrows(context: CanvasRenderingContext2D, lines: Line[], top: number, x: (time: number) => number): void {
  if (arrows.value.length === 0) return;
  const places = new Map<number, number>();
  for (const line of lines) {
    if (line.group.name === "cpu_thread" && line.lane >= 0) places.set(line.lane, line.y - top + line.height - 2);
  }
  context.strokeStyle = ink("--mark");
  context.fillStyle = ink("--mark");
  context.lineWidth = 1;
  for (const { from, to, ready, run } of arrows.value) {
    const end = places.get(to);
    if (end === undefined) continue;
    // The time for which it was ready.
    context.globalAlpha = 0.5;
    context.fillRect(x(ready), end - 3, Math.max(1, x(run) - x(ready)), 3);
    context.globalAlpha = 1;
    const start = places.get(from);
    if (start === undefined || start === end) continue;
    const tip = end > start ? end - LANE + 4 : end;
    const at = x(ready);
    context.beginPath();
    context.moveTo(at, start - LANE / 2);
    context.lineTo(at, tip);
    context.stroke();
    const back = end > start ? -5 : 5;
    context.beginPath();
    context.moveTo(at, tip);
    context.lineTo(at - 3, tip + back);
    context.lineTo(at + 3, tip + back);
    context.fill();
  }
}

interface Hover {
  x: number;
  y: number;
  lines: string[];
  /** The thread whose lane is under the pointer, and the time there. */
  thread?: { key: string; at: number };
}
const hover = signal<Hover | null>(null);
/** What the thread under the pointer did then. */
const slice = signal<string[]>([]);

/** Asks for what the thread under the pointer did. */
function useSlice(): void {
  const thread = isComparing.value ? undefined : hover.value?.thread;
  const key = thread ? `${thread.key} ${Math.floor(thread.at)}` : "";
  useEffect(() => {
    slice.value = [];
    if (!thread) return;
    const stop = new AbortController();
    const timer = window.setTimeout(() => {
      json<Slice>("/api/slice", { thread: thread.key, at: Math.floor(thread.at) }, stop.signal).then(
        (found) => (slice.value = told(found)),
        // Without it the lane is as true.
        () => undefined,
      );
    }, 90);
    return () => {
      window.clearTimeout(timer);
      stop.abort();
    };
  }, [key]);
}

/** A state of a thread in words. */
function told({ state: now, from, to, processor, reason, by }: Slice): string[] {
  if (now === null) return [];
  const where = now === "running" ? ` on CPU ${processor ?? "?"}` : now === "waiting" && reason ? ` (${reason})` : "";
  const lines = [`${now}${where} for ${duration((to - from) * 100)}, from ${time(from)} to ${time(to)} s`];
  if (now === "ready") lines.push(`then on CPU ${processor ?? "?"}`);
  if (by) lines.push(`made ready by ${by}`);
  return lines;
}
const size = signal({ width: 0, height: 0, top: 0 });

export function Timeline() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const top = useRef<HTMLCanvasElement>(null);
  const scroll = useRef<HTMLDivElement>(null);
  const drag = useRef<{ kind: "select" | "pan"; at: number; view: Range; x: number } | null>(null);
  const { lines, height } = useMemo(
    () => layout(shownLanes.value, state.value.closed, whole.value, isComparing.value ? PAIR : LANE),
    [shownLanes.value, state.value.closed, whole.value],
  );
  useStrip(size.value.width);
  useArrows();
  useSlice();

  useEffect(() => {
    const host = scroll.current;
    const front = canvas.current;
    if (!host || !front) return;
    const measure = () => {
      size.value = { width: front.clientWidth, height: host.clientHeight, top: host.scrollTop };
    };
    const observer = new ResizeObserver(measure);
    observer.observe(host);
    host.addEventListener("scroll", measure, { passive: true });
    measure();
    return () => {
      observer.disconnect();
      host.removeEventListener("scroll", measure);
    };
  }, []);

  const scheduled = useRef(0);
  const drawn = [lines, view.value, state.value.select, state.value.marks, arrived.value, size.value, strip.value, selected.value, state.value.theme, state.value.compare, arrows.value, pointer.value];
  useEffect(() => {
    cancelAnimationFrame(scheduled.current);
    scheduled.current = requestAnimationFrame(() => {
      const started = performance.now();
      inks.clear();
      if (canvas.current) frame.lanes = drawLanes(canvas.current, lines);
      frame.arrows = arrows.value.length;
      if (top.current) drawTop(top.current);
      frame.ms = performance.now() - started;
    });
  }, drawn);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const again = () => (arrived.value += 1);
    scheme.addEventListener("change", again);
    return () => scheme.removeEventListener("change", again);
  }, []);

  const timeAt = (event: MouseEvent): number => {
    const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    const [from, to] = view.value;
    return from + ((event.clientX - box.left) / box.width) * (to - from);
  };
  const down = (event: PointerEvent) => {
    if (event.button === 2) return;
    const kind = event.shiftKey || event.button === 1 ? "pan" : "select";
    drag.current = { kind, at: timeAt(event), view: view.value, x: event.clientX };
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    event.preventDefault();
    scroll.current?.focus();
  };
  const moved = (event: PointerEvent) => {
    const now = drag.current;
    pointer.value = timeAt(event);
    if (!now) {
      hover.value = explain(event, lines, canvas.current, scroll.current);
      return;
    }
    hover.value = null;
    if (Math.abs(event.clientX - now.x) < 3) return;
    if (now.kind === "select") select([now.at, timeAt(event)]);
    else {
      const width = (canvas.current as HTMLCanvasElement).clientWidth;
      const shift = ((now.x - event.clientX) / width) * (now.view[1] - now.view[0]);
      show([now.view[0] + shift, now.view[1] + shift]);
    }
  };
  const up = (event: PointerEvent) => {
    const now = drag.current;
    drag.current = null;
    if (now?.kind === "select" && Math.abs(event.clientX - now.x) < 3) select(null);
  };
  const wheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !event.altKey) {
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const [from, to] = view.value;
        const shift = (event.deltaX / size.value.width) * (to - from);
        show([from + shift, to + shift]);
        event.preventDefault();
      }
      return;
    }
    event.preventDefault();
    zoomAt(timeAt(event), Math.exp(event.deltaY * 0.0025));
  };
  useEffect(() => {
    const host = scroll.current;
    host?.addEventListener("wheel", wheel, { passive: false });
    return () => host?.removeEventListener("wheel", wheel);
  }, []);
  const menu = (event: MouseEvent) => {
    event.preventDefault();
    const at = timeAt(event);
    const now = state.value.select;
    openMenu(event.clientX, event.clientY, [
      ...(now ? [{ label: "Zoom to the selection", run: () => zoom(now) }, { label: "Clear the selection", run: () => select(null) }] : []),
      { label: "Set a marker here", run: () => update({ marks: [...state.value.marks, Math.round(at)].sort((a, b) => a - b) }) },
      ...(state.value.marks.length > 0 ? [{ label: "Remove all markers", run: () => update({ marks: [] }) }] : []),
      { label: "Show all", run: () => zoom(null) },
    ]);
  };
  const pointing = {
    onPointerDown: down,
    onPointerMove: moved,
    onPointerUp: up,
    onPointerLeave: () => {
      hover.value = null;
      pointer.value = null;
    },
    onContextMenu: menu,
  };
  return (
    <section class="timeline" aria-label="Timeline">
      <div class="ruler">
        <div class="gutter" title="Rows of the table below over time; of the selected group, if one is selected.">
          {catalog.value?.tables.find((table) => table.name === state.value.table)?.title}
        </div>
        <canvas ref={top} style={{ height: `${RULER + STRIP}px` }} {...pointing} aria-hidden="true" />
      </div>
      <div class="lanes" ref={scroll} tabIndex={0} role="group" aria-label="Lanes; W and S zoom, A and D move">
        <div class="gutter" style={{ height: `${height}px` }}>
          {lines.map((line) => (
            <Gutter key={`${line.group.name} ${line.lane}`} line={line} />
          ))}
        </div>
        <canvas ref={canvas} {...pointing} aria-hidden="true" />
      </div>
      {hover.value && (
        <div
          class="tip"
          role="tooltip"
          style={{ left: `${Math.min(hover.value.x + 14, window.innerWidth - 330)}px`, top: `${Math.min(hover.value.y + 16, window.innerHeight - 190)}px` }}
        >
          {[...hover.value.lines.slice(0, 1), ...slice.value, ...hover.value.lines.slice(1)].map((line, at) => (
            <div key={at}>{line}</div>
          ))}
        </div>
      )}
    </section>
  );
}

/** Zooms around a time. */
export function zoomAt(at: number, factor: number): void {
  const [from, to] = view.value;
  const width = Math.max(10, (to - from) * factor);
  const part = (at - from) / (to - from);
  zoom([at - width * part, at + width * (1 - part)]);
}

export function pan(part: number): void {
  const [from, to] = view.value;
  show([from + (to - from) * part, to + (to - from) * part]);
}

function Gutter({ line }: { line: Line }) {
  const { group, lane } = line;
  const style = { top: `${line.y}px`, height: `${line.height}px` };
  if (lane === -1) {
    const closed = state.value.closed.includes(group.name);
    return (
      <button
        class="head"
        style={style}
        title={`${group.summary}\nClick to ${closed ? "open" : "close"}.`}
        aria-expanded={!closed}
        onClick={() =>
          update({
            closed: closed ? state.value.closed.filter((name) => name !== group.name) : [...state.value.closed, group.name],
          })
        }
      >
        {closed ? "▸" : "▾"} {group.title}
      </button>
    );
  }
  if (lane === -2) {
    const all = whole.value.has(group.name);
    const rest = group.lanes.length - FEW;
    return (
      <button
        class="more"
        style={style}
        title={group.more > 0 ? `${group.more} more have no lane, since they have less.` : undefined}
        onClick={() => {
          const next = new Set(whole.value);
          if (all) next.delete(group.name);
          else next.add(group.name);
          whole.value = next;
        }}
      >
        {all ? "fewer" : `${rest} more`}
      </button>
    );
  }
  const one = group.lanes[lane];
  if (!one) return null;
  const at = state.value.table === group.table ? state.value.keys.indexOf(group.key) : -1;
  const lit = at >= 0 && selected.value.path[at] === one.key;
  return (
    <button
      class={`lane ${lit ? "lit" : ""}`}
      style={style}
      title={`${one.label}: ${one.rows.toLocaleString("en-US")} rows${isComparing.value ? `, ${(one.base_rows ?? 0).toLocaleString("en-US")} before` : ""}. ${group.summary}\nClick to see its rows.`}
      onClick={() => openTable(group.table, one.key === "" ? [] : [{ column: group.key, op: "is", value: one.key, label: one.label }])}
    >
      {one.label}
      {one.own === null && <span class="quiet"> (before)</span>}
    </button>
  );
}

/** What is under the pointer. */
function explain(event: PointerEvent, lines: Line[], canvas: HTMLCanvasElement | null, host: HTMLDivElement | null): Hover | null {
  const data = catalog.value;
  if (!canvas || !host || !data) return null;
  const box = canvas.getBoundingClientRect();
  const [from, to] = view.value;
  const at = from + ((event.clientX - box.left) / box.width) * (to - from);
  const texts = [`${(at / 1e7).toFixed(7)} s`];
  for (const mark of state.value.marks.slice(0, 3)) {
    texts.push(`${duration(Math.abs(at - mark) * 100)} ${at >= mark ? "after" : "before"} the marker at ${(mark / 1e7).toFixed(6)} s`);
  }
  const loss = data.losses.find((loss) => loss.from <= at && at < loss.to);
  if (loss) texts.push(`Events of processor ${loss.processor} were lost between ${(loss.from / 1e7).toFixed(6)} and ${(loss.to / 1e7).toFixed(6)} s.`);
  const y = event.clientY - host.getBoundingClientRect().top + host.scrollTop;
  const line = event.target === canvas ? lines.find((line) => line.y <= y && y < line.y + line.height) : undefined;
  const lane = line && line.lane >= 0 ? line.group.lanes[line.lane] : undefined;
  if (line && lane) {
    const names = tilesOf(line.group);
    for (const source of isComparing.value ? [OWN, BEFORE] : [OWN]) {
      names.forEach((tile, number) => {
        const parts = visible(data.run, line.group, tile, view.value, levelOf(view.value, canvas.clientWidth, source), source);
        let isSaid = false;
        const say = (bucket: Bucket) => {
          if (at < bucket.from || at >= bucket.to || isSaid) return;
          isSaid = true;
          const part = names.length > 1 ? ` ${line.group.parts?.[number]?.title}` : "";
          const name = source === BEFORE ? "before" : number === 0 ? lane.label + part : part.trim();
          texts.push(`${name}: ${value(line.group, bucket.weights[bucket.place] ?? 0, bucket.width)}`);
          if (number + 1 === names.length) {
            const rows = (bucket.counts[bucket.place] ?? 0).toLocaleString("en-US");
            texts.push(names.length > 1 ? `in ${duration(bucket.width * 100)}` : `in ${duration(bucket.width * 100)}, with ${rows} rows`);
          }
        };
        buckets(parts, source.place(lane, line.lane), [at, at + 1], say, source);
      });
    }
    texts.push(line.group.summary);
    if (line.group.name === "cpu_thread") return { x: event.clientX, y: event.clientY, lines: texts, thread: { key: lane.key, at } };
  }
  return { x: event.clientX, y: event.clientY, lines: texts };
}

function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}

/** Colours of the theme, read once a frame. */
const inks = new Map<string, string>();

function ink(name: string): string {
  let color = inks.get(name);
  if (color === undefined) {
    color = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    inks.set(name, color);
  }
  return color;
}

/** Draws what lies over everything: the selection, markers and losses. */
function overlay(context: CanvasRenderingContext2D, width: number, height: number, isTop: boolean): void {
  const [from, to] = view.value;
  const x = (time: number) => ((time - from) / (to - from)) * width;
  for (const loss of catalog.value?.losses ?? []) {
    if (loss.to < from || loss.from > to) continue;
    context.fillStyle = ink(isTop ? "--loss" : "--loss-thin");
    context.fillRect(x(loss.from), isTop ? RULER - 5 : 0, Math.max(1.5, x(loss.to) - x(loss.from)), isTop ? 5 : height);
  }
  const now = state.value.select;
  if (now) {
    const [a, b] = [Math.max(0, x(now[0])), Math.min(width, x(now[1]))];
    context.fillStyle = ink("--select");
    context.fillRect(a, 0, Math.max(1, b - a), height);
    context.fillStyle = ink("--accent");
    context.fillRect(a, 0, 1, height);
    context.fillRect(b - 1, 0, 1, height);
    if (isTop && b - a > 40) {
      context.font = "11px system-ui, sans-serif";
      context.textAlign = "center";
      const text = duration((now[1] - now[0]) * 100);
      const wide = context.measureText(text).width + 10;
      context.fillStyle = ink("--paper");
      context.fillRect((a + b - wide) / 2, RULER - 3, wide, 16);
      context.fillStyle = ink("--accent");
      context.fillText(text, (a + b) / 2, RULER + 5);
      context.textAlign = "left";
    }
  }
  const lines: [number, string][] = state.value.marks.map((mark) => [mark, ink("--mark")]);
  if (selected.value.time !== null) lines.push([selected.value.time, ink("--accent")]);
  if (pointer.value !== null) lines.push([pointer.value, ink("--faint")]);
  for (const [time, color] of lines) {
    if (time < from || time > to) continue;
    context.fillStyle = color;
    context.fillRect(Math.round(x(time)), 0, 1, height);
  }
}

function drawTop(canvas: HTMLCanvasElement): void {
  const width = canvas.clientWidth;
  const height = RULER + STRIP;
  const context = prepare(canvas, width, height);
  if (!context) return;
  const [from, to] = view.value;
  const x = (time: number) => ((time - from) / (to - from)) * width;
  const unit = step(to - from, width);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (let time = Math.ceil(from / unit) * unit; time <= to; time += unit) {
    context.fillStyle = ink("--line");
    context.fillRect(Math.round(x(time)), 0, 1, height);
    context.fillStyle = ink("--quiet");
    const text = label(time, unit);
    if (x(time) + context.measureText(text).width + 6 < width) context.fillText(text, x(time) + 4, 10);
  }
  const data = strip.value;
  if (data) {
    const most = Math.max(1, ...data.counts);
    const each = (data.range[1] - data.range[0]) / data.counts.length;
    context.fillStyle = ink(selected.value.path.length > 0 ? "--lit" : "--strip");
    context.beginPath();
    data.counts.forEach((count, at) => {
      if (count === 0) return;
      const left = x(data.range[0] + at * each);
      const tall = Math.max(1.5, (count / most) * (STRIP - 6));
      context.rect(left, height - 2 - tall, Math.max(1, x(data.range[0] + (at + 1) * each) - left), tall);
    });
    context.fill();
    context.fillStyle = ink("--quiet");
    context.textAlign = "right";
    context.fillText(`max ${most.toLocaleString("en-US")}`, width - 4, RULER + 7);
    context.textAlign = "left";
  }
  overlay(context, width, height, true);
}

/** Draws the visible lanes; returns their number. */
function drawLanes(canvas: HTMLCanvasElement, lines: Line[]): number {
  const data = catalog.value;
  const { height, top } = size.value;
  const width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  const context = prepare(canvas, width, height);
  if (!context || !data || width < 10) return 0;
  const range = view.value;
  const [from, to] = range;
  const scale = width / (to - from);
  const unit = step(to - from, width);
  context.fillStyle = ink("--line");
  for (let time = Math.ceil(from / unit) * unit; time <= to; time += unit) {
    context.fillRect(Math.round((time - from) * scale), 0, 1, height);
  }
  const compare = isComparing.value ? state.value.compare : "off";
  const sources = compare === "off" ? [OWN] : [OWN, BEFORE];
  const levels = sources.map((source) => levelOf(range, width, source));
  const wanted = lines.filter((line) => line.y + line.height > top && line.y < top + height);
  const quiet = ink("--quiet");
  const head = ink("--head");
  let drawn = 0;
  let group: LaneGroup | null = null;
  let parts: Part[][] = [];
  /** The tiles of the further parts of the lanes. */
  let further: Part[][] = [];
  frame.parts = 0;
  let most = 1;
  // Of two traces with other lengths, the buckets have other widths.
  const unitWidth = ownLength.value / (2 ** (levels[0] ?? 0) * BUCKETS);
  const scaled = (of: LaneGroup, bucket: Bucket) => {
    const weight = bucket.weights[bucket.place] ?? 0;
    return of.measure === "busy" || of.measure === "level" || compare === "off" ? weight : (weight * unitWidth) / bucket.width;
  };
  const groups = shownLanes.value;
  for (const line of wanted) {
    const y = line.y - top;
    if (line.group !== group) {
      const own: LaneGroup = line.group;
      group = own;
      const isClosed = state.value.closed.includes(own.name);
      parts = sources.map((source, at) => (isClosed ? [] : visible(data.run, own, own.name, range, levels[at] ?? 0, source)));
      further = isClosed ? [] : tilesOf(own).slice(1).map((name) => visible(data.run, own, name, range, levels[0] ?? 0));
      // Lanes of one group have one scale, so that they can be compared.
      most = own.unit.startsWith("of ") ? 1 : 0;
      if (most === 0) {
        const shown = whole.value.has(own.name) ? own.lanes.length : Math.min(FEW, own.lanes.length);
        sources.forEach((source, at) => {
          for (let number = 0; number < shown; number += 1) {
            const lane = own.lanes[number];
            if (!lane) continue;
            const see = (bucket: Bucket) => {
              most = Math.max(most, scaled(own, bucket));
            };
            buckets(parts[at] ?? [], source.place(lane, number), range, see, source);
          }
        });
        most = most || 1;
      }
    }
    if (line.lane === -1) {
      context.fillStyle = head;
      context.fillRect(0, y, width, line.height);
      context.fillStyle = quiet;
      context.font = "11px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.textAlign = "right";
      const fixed = line.group.unit.startsWith("of ");
      if (!state.value.closed.includes(line.group.name)) {
        context.fillText(fixed ? "full height: 100 %" : `full height: ${value(line.group, most, unitWidth)}`, width - 4, y + line.height / 2);
      }
      context.textAlign = "left";
      if (further.length > 0) legend(context, line.group, y + line.height / 2);
      continue;
    }
    const lane = line.group.lanes[line.lane];
    if (!lane) continue;
    drawn += 1;
    const base = y + line.height - 2;
    context.fillStyle = ink("--line");
    context.fillRect(0, base + 1, width, 1);
    const color = COLORS[groups.indexOf(line.group) % COLORS.length] ?? "#0072b2";
    if (compare === "difference") {
      difference(context, line.group, lane, line.lane, parts, range, width, y, line.height, most, scaled);
      continue;
    }
    if (further.length > 0) {
      frame.parts += stacked(context, [parts[0] ?? [], ...further], line, lane, range, scale, base, most);
      continue;
    }
    sources.forEach((source, at) => {
      const room = (line.height - 4) / sources.length - (at > 0 ? 1 : 0);
      const bottom = sources.length > 1 && at === 0 ? y + line.height / 2 - 1 : base;
      context.fillStyle = source === BEFORE ? ink("--strip") : color;
      context.beginPath();
      const put = (bucket: Bucket) => {
        const weight = scaled(line.group, bucket);
        if (weight <= 0 && (bucket.counts[bucket.place] ?? 0) === 0) return;
        const left = (bucket.from - from) * scale;
        const right = (bucket.to - from) * scale;
        // Something that is there is seen, however small it is.
        const tall = Math.min(room, Math.max(1.2, (weight / most) * room));
        context.rect(left, bottom - tall, Math.max(0.8, right - left), tall);
      };
      buckets(parts[at] ?? [], source.place(lane, line.lane), range, put, source);
      context.fill();
    });
  }
  drawArrows(context, wanted, top, (time) => (time - from) * scale);
  overlay(context, width, height, false);
  return drawn;
}

function partColor(number: number): string {
  const color = PARTS[Math.min(number, PARTS.length - 1)] ?? "";
  return color.startsWith("--") ? ink(color) : color;
}

/** Says in the heading of a group which colour each part of its lanes has. */
function legend(context: CanvasRenderingContext2D, group: LaneGroup, middle: number): void {
  let x = 6;
  group.parts?.forEach((part, number) => {
    context.fillStyle = partColor(number);
    context.fillRect(x, middle - 4, 8, 8);
    context.fillStyle = ink("--quiet");
    context.fillText(part.title, x + 12, middle);
    x += 12 + context.measureText(part.title).width + 12;
  });
}

/** Draws the parts of a lane above each other; returns the number of parts that are there. */
function stacked(
  context: CanvasRenderingContext2D,
  parts: Part[][],
  line: Line,
  lane: Lane,
  range: Range,
  scale: number,
  base: number,
  most: number,
): number {
  const room = line.height - 4;
  /** How high the parts below are, by the start of a bucket. */
  const below = new Map<number, number>();
  let count = 0;
  parts.forEach((tiles, number) => {
    let isThere = false;
    context.fillStyle = partColor(number);
    context.beginPath();
    const put = (bucket: Bucket) => {
      const weight = bucket.weights[bucket.place] ?? 0;
      if (weight <= 0) return;
      isThere = true;
      const low = below.get(bucket.from) ?? 0;
      const tall = Math.min(room - low, (weight / most) * room);
      // What is done is seen, however small it is.
      const shown = number === 0 ? Math.max(1.2, tall) : tall;
      below.set(bucket.from, low + shown);
      if (shown <= 0) return;
      context.rect((bucket.from - range[0]) * scale, base - low - shown, Math.max(0.8, (bucket.to - bucket.from) * scale), shown);
    };
    buckets(tiles, OWN.place(lane, line.lane), range, put);
    context.fill();
    count += Number(isThere);
  });
  return count;
}

/** Draws what is more than before up from the middle of a lane, and what is less down. */
function difference(
  context: CanvasRenderingContext2D,
  group: LaneGroup,
  lane: Lane,
  number: number,
  parts: Part[][],
  range: Range,
  width: number,
  y: number,
  height: number,
  most: number,
  scaled: (group: LaneGroup, bucket: Bucket) => number,
): void {
  const columns = Math.max(1, Math.floor(width / 2));
  const each = (range[1] - range[0]) / columns;
  const changes = new Float32Array(columns);
  [OWN, BEFORE].forEach((source, at) => {
    const sign = at === 0 ? 1 : -1;
    const add = (bucket: Bucket) => {
      const weight = scaled(group, bucket);
      if (weight === 0) return;
      const first = Math.max(0, Math.floor((bucket.from - range[0]) / each));
      const last = Math.min(columns - 1, Math.floor((bucket.to - range[0]) / each));
      for (let column = first; column <= last; column += 1) {
        const start = range[0] + column * each;
        const part = Math.min(bucket.to, start + each) - Math.max(bucket.from, start);
        if (part > 0) changes[column] = (changes[column] ?? 0) + (sign * weight * part) / each;
      }
    };
    buckets(parts[at] ?? [], source.place(lane, number), range, add, source);
  });
  const middle = y + height / 2;
  const room = height / 2 - 2;
  context.fillStyle = ink("--line");
  context.fillRect(0, middle, width, 1);
  for (const [sign, color] of [[1, "#d55e00"], [-1, "#0072b2"]] as const) {
    context.fillStyle = color;
    context.beginPath();
    changes.forEach((change, column) => {
      const tall = Math.min(room, ((change * sign) / most) * room);
      if (tall > 0.3) context.rect(column * (width / columns), sign > 0 ? middle - tall : middle, width / columns, tall);
    });
    context.fill();
  }
}
