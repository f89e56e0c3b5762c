// Questions to the server.

import { tableFromIPC } from "@uwdata/flechette";
import type { Kind } from "./format";

export interface FileSummary {
  name: string;
  logger: string;
  processors: number;
  system: string;
  events_lost: number;
  buffers_lost: number;
  is_closed: boolean;
}

export interface Status {
  files: FileSummary[];
  start: string;
  phase: string;
  done: number;
  is_ready: boolean;
  /** Number of the tables, which are built again for new symbols. */
  generation: number;
  /** Whether the page may start sessions. */
  is_live: boolean;
  error: string | null;
  /** What happened to a trace after it was opened. */
  changed: string | null;
  /** The traces to compare with, which are the state before. */
  base: { files: FileSummary[]; done: number; is_ready: boolean; error: string | null } | null;
}

export interface ColumnInfo {
  name: string;
  title: string;
  kind: Kind;
  summary: string;
  is_number: boolean;
  is_reference: boolean;
}

export interface TableInfo {
  name: string;
  title: string;
  summary: string;
  rows: number;
  keys: string[];
  values: string[];
  columns: string[];
  weights: { name: string; title: string; summary: string }[];
  all: ColumnInfo[];
}

export interface Loss {
  from: number;
  to: number;
  processor: number;
  of_buffers: boolean;
}

export interface Catalog {
  tables: TableInfo[];
  start: string;
  /** Length of the trace in units of 100 ns. */
  length: number;
  losses: Loss[];
  /** Whether there are stack tags. */
  has_tags: boolean;
  run: string;
}

export interface LaneGroup {
  name: string;
  title: string;
  summary: string;
  table: string;
  key: string;
  measure: "busy" | "bytes" | "count" | "level";
  unit: string;
  /** The parts of the height of each lane, from the bottom, each with tiles of its own; none if it has no parts. */
  parts?: { name: string; title: string }[];
  lanes: Lane[];
  more: number;
  /** Numbers of lanes in the tiles of this trace and of the one that is compared with; those of `lanes` if there is none. */
  own_count?: number;
  base_count?: number;
}

export interface Lane {
  label: string;
  key: string;
  rows: number;
  base_rows?: number;
  /** Places in the tiles; null if the trace has no such lane. Without a comparison, lanes are in their order. */
  own?: number | null;
  base?: number | null;
}

/** What a thread did at a time; `state` is null if no switch tells. */
export interface Slice {
  state: "running" | "ready" | "waiting" | null;
  from: number;
  to: number;
  processor?: number | null;
  reason?: string | null;
  by?: string | null;
}

export interface ComparedLanes {
  /** Length of the trace before, in units of 100 ns. */
  length: number;
  groups: LaneGroup[];
}

export interface Condition {
  column: string;
  op: "is" | "not" | "contains" | "lacks" | "less" | "more" | "where" | "rows";
  value: string;
  /** What the value is called. */
  label?: string;
}

export interface Sort {
  by: string;
  descending: boolean;
}

export interface Scope {
  table: string;
  from?: number | null;
  to?: number | null;
  filters: Condition[];
}

export interface GridRequest extends Scope {
  keys: string[];
  values: string[];
  columns: string[];
  sort: Sort | null;
  expanded: string[][];
}

export interface Heading {
  name: string;
  title: string;
  kind: Kind;
  summary: string;
}

export interface Info {
  count: number;
  keys: Heading[];
  values: Heading[];
  rows: number;
  totals: (number | string | null)[];
  offset: number;
}

export interface StackRequest extends Scope {
  weight: string;
  view: string;
  function: string;
  include: string[];
  exclude: string[];
  fold: string[];
  group: string[];
  fold_percent: number;
  min_percent: number;
  just_my_code: boolean;
  tagged: boolean;
  periods: number;
  base: [number, number] | null;
  with_trace: boolean;
}

export interface StackInfo {
  kind: Kind;
  total: { weight: number; events: number };
  /** Of the time that is compared with. */
  before?: { weight: number; events: number };
  unselected: { weight: number; events: number };
  left_out_nodes: number;
  min_percent: number;
  symbols: {
    named_percent: number;
    modules: number;
    missing: { module: string; weight: number; events: number; percent: number }[];
  };
}

/** What is known of the symbols that the traces need. */
export interface SymbolState {
  phase: string;
  is_busy: boolean;
  servers: string[];
  /** Number of samples; null before they were counted. */
  samples: number | null;
  missing: number;
  would_name: number;
  modules: {
    name: string;
    path: string;
    samples: number;
    stacks: number;
    percent: number;
    is_managed: boolean;
    is_missing: boolean;
    found: string | null;
    named_from: string | null;
    problem: string | null;
  }[];
  received_bytes: number;
  done: number;
  error: string | null;
}

export interface LiveState {
  session: {
    title: string;
    events: number;
    rate: number;
    lost: number;
    not_kept: number;
    shown: number;
    next: number;
    ended: string | null;
    trouble: string | null;
    /** Parts of the recording profile that this system cannot record. */
    left_out: string[];
  } | null;
  /** The flags of a session without options. */
  kernel: string;
  problem?: string;
}

export interface LiveLine {
  number: number;
  cells: string[];
  level: number;
  is_lit: boolean;
}

export interface LiveLines {
  count: number;
  from: number;
  lines: LiveLine[];
}

/** A table of what live events tell of the machine. */
export interface LiveTable {
  columns: { name: string; summary: string }[];
  is_number: boolean[];
  rows: { cells: string[]; depth: number }[];
  /** The column that rows are sorted by, and whether the largest come first; null for trees. */
  sorted: [number, boolean] | null;
  count: number;
  forgotten: number;
}

export interface LiveTables {
  tables: LiveTable[];
  /** What to record if the view lacks events. */
  note: string | null;
}

/** Something that a search through the schemas found, as `etw provider search` has it. */
export interface FoundThing {
  Kind: string;
  Provider: string;
  Guid: string;
  EventID?: number;
  Opcode?: number;
  Event?: string;
  Field?: string;
  Type?: string;
  Keyword?: string;
  Mask?: string;
  Map?: string;
  Text?: string;
  Value?: string;
}

/** A provider, as `etw provider show` has it. */
export interface ProviderInfo {
  Name: string;
  Guid: string;
  Origin: string;
  Keywords?: { Value: string; Name: string }[];
  Events?: {
    EventID: number;
    Version: number;
    Opcode: number;
    Name?: string;
    TaskName?: string;
    OpcodeName?: string;
    Message?: string;
    Fields?: { Name: string; Type: string; Map?: string }[];
    Releases?: string[];
  }[];
}

export interface ProviderShown {
  releases: string[];
  providers: ProviderInfo[];
}

/** What records and shows chosen events. */
export interface Choice {
  provider: string;
  record: string;
  watch: string;
  dump: string;
  logman: string;
  wprp: string;
  code: string;
}

export type Column = ArrayLike<unknown>;

export interface Batch<I> {
  info: I;
  rows: number;
  columns: Map<string, Column>;
}

export interface EventDetails {
  event: Record<string, unknown>;
  hex: string;
  /** Offset of the payload in the record. */
  payload: number;
  size: number;
  stack: { function: string | null; address: string }[];
}

/** The server is gone, or has another cookie. */
export class Gone extends Error {}

async function ask(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: body === undefined ? {} : { "Content-Type": "application/json", "X-OpenETW": "1" },
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Gone("etw view has ended. Start it again to go on.");
  }
  if (response.status === 401) throw new Gone(await response.text());
  if (!response.ok) throw new Error(await response.text());
  return response;
}

export async function json<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return (await (await ask(path, body, signal)).json()) as T;
}

export async function text(path: string, body?: unknown): Promise<string> {
  return (await ask(path, body)).text();
}

export async function binary(path: string, signal?: AbortSignal): Promise<ArrayBuffer> {
  return (await ask(path, undefined, signal)).arrayBuffer();
}

/** A batch of rows in Apache Arrow. */
export async function arrow<I>(path: string, body: unknown, signal?: AbortSignal): Promise<Batch<I>> {
  const data = await (await ask(path, body, signal)).arrayBuffer();
  const table = tableFromIPC(data);
  const columns = new Map<string, Column>();
  for (const name of table.names) columns.set(String(name), table.getChild(name).toArray());
  const info = JSON.parse(table.schema.metadata?.get("info") ?? "{}") as I;
  return { info, rows: table.numRows, columns };
}
