// The timeline: what is seen of the lanes, hovering, selecting, zooming.

import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { json, type Slice } from "./api";
import { type Arrow, arrows, drawLanes, drawTop, frame, inks, RULER, size, STRIP, strip, value } from "./draw";
import { duration, time } from "./format";
import { FEW, LANE, layout, type Line, PAIR, whole } from "./lines";
import { openMenu } from "./menu";
import {
  catalog,
  isComparing,
  lanes,
  openTable,
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
import { arrived, BEFORE, type Bucket, buckets, levelOf, OWN, shownLanes, tilesOf, visible } from "./tiles";

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
