// Drawing the timeline: the ruler, lanes, arrows, the selection, markers, and losses.

import { signal } from "@preact/signals";
import type { Lane, LaneGroup } from "./api";
import { bytes, duration } from "./format";
import { FEW, LANE, type Line, whole } from "./lines";
import { catalog, isComparing, ownLength, pointer, type Range, selected, state, view } from "./state";
import { BEFORE, type Bucket, BUCKETS, buckets, levelOf, OWN, type Part, shownLanes, tilesOf, visible } from "./tiles";

export const RULER = 26;
export const STRIP = 40;

/** Milliseconds of script for the last frame; read by tests. */
export const frame = { ms: 0, lanes: 0, arrows: 0, parts: 0 };
(window as unknown as { etwFrame: typeof frame }).etwFrame = frame;

// Okabe and Ito: told apart with every kind of colour vision.
const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7a00"];
/** The same, lighter where they are too near to a dark ground. */
const ON_DARK = ["#3b9ade", "#e69f00", "#22b58a", "#d58fb6", "#7cc6ee", "#ea7a2c", "#b3a12f"];

/** The colour of a group of lanes. */
function groupColor(number: number): string {
  const colors = ink("--is-dark") === "1" ? ON_DARK : COLORS;
  return colors[number % colors.length] ?? "";
}

/** The colour of a part of lanes, from the bottom: what is done, what is held up, and nothing. */
function partColor(number: number): string {
  return number < 2 ? groupColor(number) : ink("--rest");
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

export function value(group: LaneGroup, weight: number, width: number): string {
  if (group.measure === "bytes") return `${bytes(weight)} (${bytes(weight / (width / 1e7))}/s)`;
  if (group.measure === "count") return `${Math.round(weight).toLocaleString("en-US")} ${group.unit}`;
  if (group.measure === "level") return group.unit === "bytes" ? bytes(weight) : `${weight.toFixed(1)} ${group.unit}`;
  if (group.unit.startsWith("of ")) return `${(weight * 100).toFixed(1)} % ${group.unit}`;
  return `${weight.toFixed(2)} ${group.unit}`;
}

export const strip = signal<{ range: Range; counts: number[] } | null>(null);

/** A thread that made another one ready. */
export interface Arrow {
  from: number;
  to: number;
  ready: number;
  run: number;
}
export const arrows = signal<Arrow[]>([]);

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

export const size = signal({ width: 0, height: 0, top: 0 });

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
export const inks = new Map<string, string>();

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

export function drawTop(canvas: HTMLCanvasElement): void {
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
export function drawLanes(canvas: HTMLCanvasElement, lines: Line[]): number {
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
    const color = groupColor(groups.indexOf(line.group));
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
