// What the page shows, in the URL after `#`: a link shows another person the same.

import { batch, computed, signal } from "@preact/signals";
import type { Catalog, Condition, GridRequest, LaneGroup, Sort, Status, TableInfo } from "./api";

export type Range = [number, number];

export interface StackState {
  weight: string;
  view: "top-down" | "bottom-up" | "by-name" | "callers" | "callees" | "sandwich" | "tags";
  function: string;
  graph: boolean;
  include: string[];
  exclude: string[];
  fold: string[];
  group: string[];
  percent: number;
  /** Whether functions of the system are grouped by their modules: "just my code". */
  mine: boolean;
  /** Whether functions with a stack tag have its name. */
  tagged: boolean;
  /** A time to compare with. */
  base: Range | null;
}

/** A filter of the live view. */
export interface Rule {
  column: string;
  relation: string;
  value: string;
  action: "include" | "exclude" | "highlight";
}

/** What the provider explorer shows. */
export interface ExplorerState {
  text: string;
  kinds: string[];
  /** GUID of the provider. */
  name: string;
  release: string;
  events: number[];
  keywords: string[];
  level: number;
  stacks: boolean;
}

export interface State {
  /** What is shown: the traces, the live session or the providers. */
  page: "" | "live" | "providers";
  rules: Rule[];
  /** What the page of live sessions shows: a table of the machine, or the events. */
  live: string;
  explorer: ExplorerState;
  table: string;
  tab: "table" | "stacks" | "sql";
  /** The statement that a person wrote; empty for that of the table. */
  sql: string;
  /** Whether single rows are shown instead of groups. */
  flat: boolean;
  keys: string[];
  values: string[];
  columns: string[];
  sort: Sort | null;
  open: string[][];
  filters: Condition[];
  /** The visible time, in units of 100 ns. */
  view: Range | null;
  /** The selected time, which filters tables. */
  select: Range | null;
  marks: number[];
  stack: StackState;
  event: number | null;
  /** Groups of lanes that are closed. */
  closed: string[];
  /** How two traces are compared, if there are two. */
  compare: "side" | "difference" | "off";
  theme: "" | "dark" | "light";
}

const STACK: StackState = {
  weight: "",
  view: "top-down",
  function: "",
  graph: false,
  include: [],
  exclude: [],
  fold: [],
  group: [],
  percent: 0,
  mine: false,
  tagged: false,
  base: null,
};

const EXPLORER: ExplorerState = { text: "", kinds: [], name: "", release: "", events: [], keywords: [], level: 0, stacks: false };

const EMPTY: State = {
  page: "",
  rules: [],
  live: "",
  explorer: EXPLORER,
  table: "",
  tab: "table",
  sql: "",
  flat: false,
  keys: [],
  values: [],
  columns: [],
  sort: null,
  open: [],
  filters: [],
  view: null,
  select: null,
  marks: [],
  stack: STACK,
  event: null,
  closed: [],
  compare: "side",
  theme: "",
};

export const status = signal<Status | null>(null);
export const catalog = signal<Catalog | null>(null);
export const lanes = signal<LaneGroup[]>([]);
/** What went wrong and concerns the whole page. */
export const failure = signal<string>("");
export const state = signal<State>(read());
/** The keys of the selected group with their columns, or the time of the selected row. */
export const selected = signal<{ path: string[]; time: number | null; keys?: string[] }>({ path: [], time: null });
/** Length of the trace before, and its lanes with those of this one; null without a comparison. */
export const before = signal<{ length: number; groups: LaneGroup[] } | null>(null);
/** Where the pointer is in the timeline. */
export const pointer = signal<number | null>(null);

const zooms: (Range | null)[] = [];

export const table = computed<TableInfo | null>(
  () => catalog.value?.tables.find((table) => table.name === state.value.table) ?? null,
);

/** Whether two traces are compared. */
export const isComparing = computed(() => before.value !== null && state.value.compare !== "off");
/** Length of the time that is shown, and of this trace. */
export const ownLength = computed(() => Math.max(1, catalog.value?.length ?? 1));
export const length = computed(() => Math.max(ownLength.value, isComparing.value ? (before.value?.length ?? 0) : 0));
/** What the groups are compared with: the trace before, or a time of this one. */
export const comparison = computed<{ base: Range | null; is_same_trace: boolean } | null>(() => {
  const { flat, keys, stack } = state.value;
  if (flat || keys.length === 0) return null;
  if (isComparing.value) return { base: stack.base, is_same_trace: false };
  return stack.base ? { base: stack.base, is_same_trace: true } : null;
});
export const view = computed<Range>(() => state.value.view ?? [0, length.value]);

/** The question whose answer the grid shows. */
export const request = computed<GridRequest>(() => {
  const { flat, keys, values, columns, sort, open, filters, select } = state.value;
  return {
    table: state.value.table,
    from: select?.[0] ?? null,
    to: select?.[1] ?? null,
    filters,
    keys: flat ? [] : keys,
    values: flat ? [] : values,
    columns: flat || keys.length === 0 ? columns : [],
    sort,
    expanded: flat ? [] : open,
  };
});

/** The conditions that the selected group means. */
export const selectedFilters = computed<Condition[]>(() =>
  selected.value.path.map((value, place) => ({ column: (selected.value.keys ?? state.value.keys)[place] ?? "", op: "is", value })),
);

function read(): State {
  const values: Record<string, unknown> = {};
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    if (!(name in EMPTY)) continue;
    try {
      values[name] = JSON.parse(text);
    } catch {
      // Texts may have no quotes. Of a damaged link the page shows what can be read.
      if (typeof EMPTY[name as keyof State] === "string" && /^\w+$/.test(text)) values[name] = text;
    }
  }
  const found = { ...EMPTY, ...values } as State;
  found.stack = { ...STACK, ...found.stack };
  found.explorer = { ...EXPLORER, ...found.explorer };
  return found;
}

function write(now: State): void {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(now)) {
    const text = JSON.stringify(value);
    if (text !== JSON.stringify(EMPTY[name as keyof State])) parts.set(name, text);
  }
  const hash = parts.toString();
  if (hash !== location.hash.slice(1)) history.replaceState(null, "", `#${hash}`);
}

/** Changes what the page shows. */
export function update(change: Partial<State>): void {
  state.value = { ...state.value, ...change };
  write(state.value);
}

window.addEventListener("hashchange", () => {
  state.value = read();
});

/** Shows a table with its own columns, and with these filters. */
export function openTable(name: string, filters: Condition[] = [], flat?: boolean): void {
  const info = catalog.value?.tables.find((table) => table.name === name);
  if (!info) return;
  const isSame = name === state.value.table;
  batch(() => {
    selected.value = { path: [], time: null };
    update({
      table: name,
      filters,
      open: [],
      event: null,
      flat: flat ?? (isSame ? state.value.flat : info.keys.length === 0),
      tab: info.weights.length === 0 && state.value.tab === "stacks" ? "table" : state.value.tab,
      ...(isSame
        ? {}
        : {
            keys: info.keys,
            values: info.values,
            columns: info.columns,
            sort: null,
            stack: { ...state.value.stack, weight: info.weights[0]?.name ?? "" },
          }),
    });
  });
}

/** Shows a part of the time. */
export function zoom(range: Range | null): void {
  zooms.push(state.value.view);
  if (zooms.length > 100) zooms.shift();
  show(range);
}

/** Shows a part of the time, without a step to undo. */
export function show(range: Range | null): void {
  if (range === null) return update({ view: null });
  const all = length.value;
  const width = Math.min(all, Math.max(10, range[1] - range[0]));
  const start = Math.min(Math.max(0, range[0]), all - width);
  update({ view: width >= all ? null : [Math.round(start), Math.round(start + width)] });
}

export function undoZoom(): void {
  const before = zooms.pop();
  if (before !== undefined) update({ view: before });
}

/** Selects a time, which filters tables. */
export function select(range: Range | null): void {
  if (range !== null) {
    const [from, to] = range[0] < range[1] ? range : [range[1], range[0]];
    update({ select: [Math.round(Math.max(0, from)), Math.round(Math.min(to, length.value))], open: state.value.open });
  } else {
    update({ select: null });
  }
}

export function addFilter(filter: Condition): void {
  const rest = state.value.filters.filter(
    (other) => other.column !== filter.column || other.op !== filter.op || other.value !== filter.value,
  );
  selected.value = { path: [], time: null };
  update({ filters: [...rest, filter] });
}
