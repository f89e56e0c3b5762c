// The page.

import { batch, effect, signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import "./style.css";
import { type Catalog, type ComparedLanes, Gone, json, type LaneGroup, type Status, type TableInfo, text as fileText } from "./api";
import { editing, Editor, GoldenBar } from "./bar";
import { Details } from "./details";
import { duration, show as text } from "./format";
import { finding, Grid, summary } from "./grid";
import { Live } from "./live";
import { download, Menu, notice, say } from "./menu";
import { FirstPicture } from "./preview";
import { Presets, presetting, ProfileTab } from "./presets";
import { Providers } from "./providers";
import { Sql } from "./sql";
import { Stacks, stackSummary } from "./stacks";
import { before, catalog, failure, isComparing, lanes, length, openTable, pointer, select, state, status, table, undoZoom, update, view, zoom } from "./state";
import { naming, SymbolPanel } from "./symbols";
import { pan, Timeline, zoomAt } from "./timeline";

const helping = signal(false);
/** Part of the height that the timeline has. */
const split = signal(0.42);

async function start(): Promise<void> {
  try {
    for (;;) {
      status.value = await json<Status>("/api/status");
      if (status.value.error) throw new Error(status.value.error);
      if (status.value.is_ready) break;
      if (status.value.files.length === 0) return void watch();
      await new Promise((done) => setTimeout(done, 150));
    }
    const [found, groups] = await Promise.all([json<Catalog>("/api/catalog"), json<LaneGroup[]>("/api/lanes")]);
    batch(() => {
      catalog.value = found;
      lanes.value = groups;
      if (!found.tables.some((one) => one.name === state.value.table && one.rows > 0)) {
        const order = ["cpu_sampled", "cpu_precise", "disk", "file_io", "network", "syscalls", "events"];
        const first = order.find((name) => found.tables.some((one) => one.name === name && one.rows > 0));
        openTable(first ?? "events");
      } else {
        fill();
      }
    });
    void watch();
    void follow();
  } catch (error) {
    failure.value = error instanceof Error ? error.message : String(error);
  }
}

/** Compares with the traces before, when their tables are complete. */
async function follow(): Promise<void> {
  while (status.value?.base && !status.value.base.error && !before.value) {
    if (status.value.base.is_ready) {
      before.value = await json<ComparedLanes>("/api/compare/lanes");
      return;
    }
    await new Promise((done) => setTimeout(done, 300));
    status.value = await json<Status>("/api/status").catch(() => status.value);
  }
}

/** Gives a table from a link its own columns, if the link has none. */
function fill(): void {
  const info = table.value;
  const now = state.value;
  if (!info || now.keys.length + now.values.length + now.columns.length > 0) return;
  update({ keys: info.keys, values: info.values, columns: info.columns, flat: now.flat || info.keys.length === 0 });
}

/** Sees when the server ends. */
async function watch(): Promise<void> {
  for (;;) {
    await new Promise((done) => setTimeout(done, naming.value ? 500 : 5000));
    try {
      const now = await json<Status>("/api/status");
      // New symbols have given the tables other names; the URL has what is shown of them.
      if (now.is_ready && status.value && now.generation !== status.value.generation) location.reload();
      failure.value = now.changed ?? "";
    } catch (error) {
      if (error instanceof Gone) failure.value = error.message;
    }
  }
}

function Loading() {
  const now = status.value;
  const done = now?.done ?? 0;
  return (
    <main class="loading">
      <h1>OpenETW</h1>
      {now?.files.map((file) => (
        <p key={file.name}>
          <b>{file.name}</b>
          <br />
          <span class="quiet">
            {file.logger && `${file.logger}, `}
            {file.processors} processors, system {file.system}
            {file.events_lost > 0 && `, ${file.events_lost.toLocaleString("en-US")} events lost`}
          </span>
        </p>
      ))}
      <FirstPicture />
      <progress value={done} max={1} aria-label="Progress" />
      <p class="quiet" aria-live="polite">
        {now ? `${now.phase}: ${Math.round(done * 100)} %` : "connecting"}
      </p>
    </main>
  );
}

const PARTS: [string, string[]][] = [
  ["Computation", ["cpu_sampled", "cpu_precise", "dpc_isr", "syscalls", "cpu_idle_states", "cpu_frequency"]],
  ["Storage", ["disk", "disk_queue", "file_io", "mini_filters"]],
  ["Memory", ["hard_faults", "page_faults", "memory_utilization", "virtual_memory_snapshots", "virtual_alloc", "heap", "pool", "handles", "process_counters"]],
  ["Communications", ["network", "connections", "wininet_requests"]],
  [".NET", ["gc", "allocations", "jit", "exceptions", "contention", "threadpool", "dotnet_modules"]],
  ["Video and power", ["gpu_dma_packets", "gpu_queue_packets", "gpu_contexts", "window_in_focus", "ui_delays", "power"]],
  ["System activity", ["events", "event_kinds", "activities", "regions_of_interest", "marks", "registry", "services", "loader", "processes", "threads", "images", "files", "frames"]],
];

function Explorer() {
  const tables = catalog.value?.tables ?? [];
  const known = new Set(PARTS.flatMap(([, names]) => names));
  const others = tables.filter((one) => !known.has(one.name)).map((one) => one.name);
  const parts = others.length > 0 ? [...PARTS, ["Others", others] as [string, string[]]] : PARTS;
  return (
    <nav class="explorer" aria-label="Tables">
      {parts.map(([title, names]) => {
        const shown = names.map((name) => tables.find((one) => one.name === name)).filter((one): one is TableInfo => one !== undefined && one.rows > 0);
        if (shown.length === 0) return null;
        return (
          <section key={title}>
            <h2>{title}</h2>
            {shown.map((one) => (
              <button
                key={one.name}
                data-table={one.name}
                aria-current={one.name === state.value.table ? "page" : undefined}
                title={`${one.summary}\nFor programs: ${one.name}`}
                onClick={() => openTable(one.name)}
              >
                <span>{one.title}</span>
                <span class="count">{short(one.rows)}</span>
              </button>
            ))}
          </section>
        );
      })}
    </nav>
  );
}

function short(count: number): string {
  if (count < 10_000) return count.toLocaleString("en-US");
  if (count < 1e6) return `${(count / 1e3).toFixed(count < 1e5 ? 1 : 0)}k`;
  return `${(count / 1e6).toFixed(1)}M`;
}

function Filters() {
  const { filters, select: time } = state.value;
  const box = useRef<HTMLInputElement>(null);
  const info = table.value;
  const texts = info?.all.filter((column) => column.kind === "text" && !/keywords|stack$/.test(column.name)) ?? [];
  const words = { is: "=", not: "≠", contains: "contains", lacks: "lacks", less: "<", more: ">", where: "where", rows: "where" };
  const title = (name: string) => (name === "" ? "" : info?.all.find((column) => column.name === name)?.title ?? name);
  const drop = (at: number) => update({ filters: filters.filter((_, other) => other !== at) });
  return (
    <div class="filters" role="group" aria-label="Filters">
      {time && (
        <span class="filter time" title="Only rows in the selected time are counted.">
          {text(time[0], "time")} – {text(time[1], "time")} s
          <button class="close" aria-label="Remove the time" onClick={() => select(null)}>
            ×
          </button>
        </span>
      )}
      {filters.map((filter, at) => (
        <span class="filter" key={`${filter.column} ${filter.op} ${filter.value}`} title={`${title(filter.column)} ${words[filter.op]} ${filter.label ?? filter.value}`}>
          {title(filter.column)} {words[filter.op]} {(filter.label ?? filter.value).slice(0, 50)}
          <button class="close" aria-label={`Remove the filter on ${title(filter.column)}`} onClick={() => drop(at)}>
            ×
          </button>
        </span>
      ))}
      <form
        class="newfilter"
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          const value = String(form.get("text") ?? "").trim();
          const column = String(form.get("column") ?? "");
          const op = String(form.get("op")) as "contains" | "lacks" | "less" | "more";
          if (!value) return;
          if (column === "=") {
            update({ filters: [...filters, { column: "", op: "rows", value }] });
            if (box.current) box.current.value = "";
            return;
          }
          if (!column) {
            // Conditions on fields are for single rows.
            update({
              filters: [...filters, { column, op: "where", value }],
              flat: true,
              sort: null,
              ...(state.value.columns.length === 0 ? { columns: info?.columns ?? [] } : {}),
            });
            if (box.current) box.current.value = "";
            return;
          }
          const kind = info?.all.find((one) => one.name === column)?.kind;
          const isNumber = op === "less" || op === "more";
          const amount = isNumber ? number(value, kind) : value;
          update({ filters: [...filters, { column, op, value: amount, label: value }] });
          if (box.current) box.current.value = "";
        }}
      >
        <select name="column" aria-label="Column to filter by" title="Column, or fields of events by an expression (docs/filters.md)">
          {info?.name === "events" && <option value="">fields where …</option>}
          {texts.map((column) => (
            <option key={column.name} value={column.name}>
              {column.title}
            </option>
          ))}
          {info?.all
            .filter((column) => column.is_number && column.kind !== "text")
            .map((column) => (
              <option key={column.name} value={column.name}>
                {column.title}
              </option>
            ))}
          <option value="=">columns where …</option>
        </select>
        <select name="op" aria-label="Condition" title="Not used by expressions over fields">
          <option value="contains">contains</option>
          <option value="lacks">lacks</option>
          <option value="more">&gt;</option>
          <option value="less">&lt;</option>
        </select>
        <input ref={box} name="text" type="search" placeholder={info?.name === "events" ? 'id == 1 and ImageName icontains "x"' : "such as 5 ms"} aria-label="Text or number to filter by" />
      </form>
    </div>
  );
}

/** A number with a unit, such as `5 ms` or `4 KiB`, in the unit of the column. */
function number(value: string, kind: string | undefined): string {
  const found = /^([\d.]+)\s*([a-zµ]*)$/i.exec(value);
  if (!found) return value;
  const units: Record<string, number> =
    kind === "duration"
      ? { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 }
      : { b: 1, kb: 1000, kib: 1024, k: 1024, mb: 1e6, mib: 1 << 20, m: 1 << 20, gib: 1 << 30 };
  return String(Math.round(Number(found[1]) * (units[(found[2] ?? "").toLowerCase()] ?? 1)));
}

function Analysis() {
  const info = table.value;
  if (!info) return null;
  const { tab, flat } = state.value;
  const hasStacks = info.weights.length > 0;
  const isStacks = tab === "stacks" && hasStacks;
  const isTable = !isStacks && tab !== "sql";
  return (
    <section class="analysis" aria-label={info.title}>
      <div class="titlebar">
        <h1 title={info.summary}>{info.title}</h1>
        <span class="tabs" role="tablist">
          <button role="tab" aria-selected={isTable} onClick={() => update({ tab: "table" })}>
            Table
          </button>
          <button role="tab" aria-selected={isStacks} disabled={!hasStacks} title={hasStacks ? "Stacks of the rows that are shown" : "The rows have no stacks"} onClick={() => update({ tab: "stacks" })}>
            Stacks
          </button>
          <button role="tab" aria-selected={tab === "sql"} title="The SQL that gives what the table shows; change it and run it" onClick={() => update({ tab: "sql" })}>
            SQL
          </button>
        </span>
        {isTable && (
          <>
            <span class="tabs" role="group" aria-label="Rows">
              <button aria-pressed={!flat} disabled={info.keys.length === 0 && state.value.keys.length === 0} onClick={() => update({ flat: false, sort: null, ...(state.value.keys.length === 0 ? { keys: info.keys, values: info.values } : {}) })}>
                Groups
              </button>
              <button aria-pressed={flat} onClick={() => update({ flat: true, sort: null, ...(state.value.columns.length === 0 ? { columns: info.columns } : {}) })}>
                Rows
              </button>
            </span>
            <button title="Choose columns" aria-expanded={editing.value} onClick={() => (editing.value = !editing.value)}>
              Columns
            </button>
            {!flat && !isComparing.value && (
              <button
                aria-pressed={state.value.stack.base !== null}
                disabled={state.value.stack.base === null && state.value.select === null}
                title="Compare the selected time with another one: press it, then select the other time. Press it again to end."
                onClick={() => update({ stack: { ...state.value.stack, base: state.value.stack.base ? null : state.value.select }, open: [], sort: null })}
              >
                Compare
              </button>
            )}
            <button title="Presets: columns, order and filters, saved and shared; profiles of Windows Performance Analyzer" aria-expanded={presetting.value} onClick={() => (presetting.value = !presetting.value)}>
              Presets
            </button>
            <button title="Find (Ctrl+F)" onClick={() => (finding.value = !finding.value)}>
              Find
            </button>
          </>
        )}
        <Filters />
      </div>
      <ProfileTab />
      {isStacks ? (
        <Stacks />
      ) : tab === "sql" ? (
        <Sql />
      ) : (
        <>
          <GoldenBar />
          <div class="body">
            <Grid />
            <Details />
          </div>
        </>
      )}
      <Editor />
      <Presets />
    </section>
  );
}

function Splitter() {
  const resize = (event: PointerEvent) => {
    if (event.buttons !== 1) return;
    split.value = Math.max(0.1, Math.min(0.85, (event.clientY - 40) / (window.innerHeight - 66)));
  };
  const keys = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 0.04 : event.key === "ArrowUp" ? -0.04 : 0;
    if (step === 0) return;
    split.value = Math.max(0.1, Math.min(0.85, split.value + step));
    event.preventDefault();
  };
  return (
    <div
      class="splitter"
      role="separator"
      aria-orientation="horizontal"
      aria-label="Height of the timeline"
      aria-valuenow={Math.round(split.value * 100)}
      tabIndex={0}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={resize}
      onKeyDown={keys}
    />
  );
}

const KEYS: [string, string][] = [
  ["W, S", "zoom in and out at the pointer, or in the middle"],
  ["A, D, ←, →", "move along the time"],
  ["Drag in the timeline", "select a time, which filters the tables"],
  ["Shift+drag, Ctrl+wheel", "move, and zoom"],
  ["Z", "zoom to the selection"],
  ["Backspace, Ctrl+Z", "undo zoom"],
  ["0", "show the whole trace"],
  ["M", "set a marker at the pointer; hover shows the distance"],
  ["Escape", "clear the selection"],
  ["↑ ↓ ← → in a table", "move, open and close groups"],
  ["Enter", "open a group, its rows, or the details of an event"],
  ["Shift+F10", "the menu: filter to, filter out, copy, stacks"],
  ["Ctrl+F", "find in the table"],
  ["Ctrl+C", "copy the selected rows"],
  ["F6", "go to the next part of the page"],
  ["?", "this list"],
];

function Help() {
  const close = useRef<HTMLButtonElement>(null);
  useEffect(() => close.current?.focus(), []);
  return (
    <div class="panel help" role="dialog" aria-label="Keys" onKeyDown={(event) => event.key === "Escape" && (helping.value = false)}>
      <header>
        <h2>Keys</h2>
        <button ref={close} aria-label="Close" onClick={() => (helping.value = false)}>
          ×
        </button>
      </header>
      <div class="scroll">
        <table>
          <tbody>
            {KEYS.map(([key, meaning]) => (
              <tr key={key}>
                <th scope="row">{key}</th>
                <td>{meaning}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <p class="quiet">
          The page has parts of other projects: <a href="/licenses.txt">licences</a>.
        </p>
      </div>
    </div>
  );
}

function keys(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || !catalog.value) return;
  const [from, to] = view.value;
  const middle = pointer.value ?? (from + to) / 2;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const control = event.ctrlKey || event.metaKey;
  if (control && key === "f" && state.value.tab === "table") finding.value = true;
  else if (control && key === "z") undoZoom();
  else if (control || event.altKey) return;
  else if (key === "w") zoomAt(middle, 0.6);
  else if (key === "s") zoomAt(middle, 1 / 0.6);
  else if (key === "a" || (key === "ArrowLeft" && target.classList.contains("lanes"))) pan(-0.15);
  else if (key === "d" || (key === "ArrowRight" && target.classList.contains("lanes"))) pan(0.15);
  else if (key === "z") {
    if (state.value.select) zoom(state.value.select);
  } else if (key === "Backspace") undoZoom();
  else if (key === "0") zoom(null);
  else if (key === "m") update({ marks: [...state.value.marks, Math.round(middle)].sort((a, b) => a - b) });
  else if (key === "?") helping.value = !helping.value;
  else if (key === "F6") {
    const parts = [...document.querySelectorAll<HTMLElement>(".explorer button[aria-current], .lanes, .virtual, .flame")];
    const now = parts.findIndex((part) => part.contains(document.activeElement));
    parts[(now + 1) % parts.length]?.focus();
  } else if (key === "Escape") {
    if (helping.value) helping.value = false;
    else if (naming.value) naming.value = false;
    else if (editing.value) editing.value = false;
    else if (presetting.value) presetting.value = false;
    else if (state.value.event !== null) update({ event: null });
    else select(null);
  } else return;
  event.preventDefault();
}
window.addEventListener("keydown", keys);

effect(() => {
  document.documentElement.dataset["theme"] = state.value.theme;
});

function Theme() {
  const themes = { "": "dark", dark: "light", light: "" } as const;
  return (
    <button title="Colours: those of the system, dark or light" onClick={() => update({ theme: themes[state.value.theme] })}>
      {state.value.theme === "" ? "Auto" : state.value.theme === "dark" ? "Dark" : "Light"}
    </button>
  );
}

/** Downloads the session. */
async function saveSession(): Promise<void> {
  try {
    const name = status.value?.files[0]?.name.split(/[\\/]/).pop() ?? "trace";
    download(await fileText("/api/session", { state: location.hash.slice(1) }), `${name.replace(/\.etl$/i, "")}.etwsession`);
  } catch (error) {
    say(error instanceof Error ? error.message : String(error));
  }
}

/** How the two traces are compared. */
function Compare() {
  const base = status.value?.base;
  if (!base) return null;
  const name = base.files.map((file) => file.name.split(/[\\/]/).pop()).join(", ");
  if (base.error) return <span class="lost">{name}: {base.error}</span>;
  if (!before.value) return <span class="quiet">{name}: {Math.round(base.done * 100)} %</span>;
  const modes = [
    ["side", "Beside", `Lanes of ${name} below those of this trace; tables have both.`],
    ["difference", "Difference", `What is more (orange, up) and less (blue, down) than in ${name}.`],
    ["off", "Off", "This trace only."],
  ] as const;
  return (
    <span class="tabs compare" role="group" aria-label={`Compare with ${name}`}>
      <span class="quiet" title={`Before: ${name}`}>compared with {name}</span>
      {modes.map(([mode, title, about]) => (
        <button key={mode} aria-pressed={state.value.compare === mode} title={about} onClick={() => update({ compare: mode, open: [], sort: null })}>
          {title}
        </button>
      ))}
    </span>
  );
}

/** What the page can show: the traces, and live sessions. */
function Pages() {
  const now = status.value;
  const pages: [typeof state.value.page, string, string][] = [];
  if (now?.files.length) pages.push(["", "Trace", "The traces that were opened."]);
  if (now?.is_live) pages.push(["live", "Live", "Sessions of this machine."]);
  pages.push(["providers", "Providers", "Providers whose schemas are known: their events and fields, and what records them."]);
  const shown = now?.files.length === 0 && state.value.page === "" ? "live" : state.value.page;
  if (pages.length < 2) return null;
  return (
    <span class="tabs" role="group" aria-label="Pages">
      {pages.map(([page, title, about]) => (
        <button key={page} aria-pressed={page === shown} title={about} onClick={() => update({ page })}>
          {title}
        </button>
      ))}
    </span>
  );
}

function App() {
  if (failure.value && !catalog.value) {
    return (
      <div class="loading" role="alert">
        <h1>OpenETW</h1>
        <p>{failure.value}</p>
      </div>
    );
  }
  const page = status.value?.files.length === 0 && state.value.page === "" ? "live" : state.value.page;
  if (status.value && page !== "") {
    return (
      <>
        <header class="top">
          <img src="/icon.svg" alt="" width="20" height="20" />
          <b>OpenETW</b>
          <Pages />
          <span class="space" />
          <Theme />
        </header>
        {failure.value && (
          <div key="gone" class="gone" role="alert">
            {failure.value}
          </div>
        )}
        {page === "live" ? <Live /> : <Providers />}
        <Menu />
      </>
    );
  }
  if (!catalog.value) return <Loading />;
  const [from, to] = view.value;
  const lost = status.value?.files.reduce((sum, file) => sum + file.events_lost, 0) ?? 0;
  return (
    <>
      <header class="top">
        <img src="/icon.svg" alt="" width="20" height="20" />
        <b>{status.value?.files.map((file) => file.name.split(/[\\/]/).pop()).join(", ")}</b>
        <span class="quiet" title="Start of the trace, and its length">
          {catalog.value.start}, {duration(length.value * 100)}
        </span>
        {lost > 0 && (
          <span class="lost" title="Events that the session lost, from the headers of the files. Red bands in the timeline show where.">
            {lost.toLocaleString("en-US")} events lost
          </span>
        )}
        <Pages />
        <span class="space" />
        <span class="quiet" title="Visible time, in seconds since the start of the trace">
          {text(from, "time")} – {text(to, "time")} s ({duration((to - from) * 100)})
        </span>
        <Compare />
        <button title="Show the whole trace (0)" disabled={state.value.view === null} onClick={() => zoom(null)}>
          All
        </button>
        <button title="Zoom to the selected time (Z)" disabled={state.value.select === null} onClick={() => state.value.select && zoom(state.value.select)}>
          Zoom
        </button>
        <button title="Undo zoom (Backspace)" onClick={undoZoom}>
          Undo
        </button>
        <button title="Symbols: what is missing, and fetching it" aria-expanded={naming.value} onClick={() => (naming.value = !naming.value)}>
          Symbols
        </button>
        <a class="button" href="/report" target="_blank" rel="noopener" title="The report of the whole trace on one page, as etw report --format html writes it, with links back to here; it reads the trace again">
          Report
        </a>
        <button title="Save what is open and shown as a file, which etw view opens again" onClick={() => void saveSession()}>
          Save
        </button>
        <Theme />
        <button title="Keys (?)" aria-label="Keys" onClick={() => (helping.value = !helping.value)}>
          ?
        </button>
      </header>
      {/* With a key each, neither takes the place of the other, which would begin it anew. */}
      {failure.value && (
        <div key="gone" class="gone" role="alert">
          {failure.value}
        </div>
      )}
      <div key="page" class="page">
        <Explorer />
        <main class="work" style={{ gridTemplateRows: `${split.value}fr 5px ${1 - split.value}fr` }}>
          <Timeline />
          <Splitter />
          <Analysis />
        </main>
      </div>
      <footer class="status" aria-live="polite">
        <span>{notice.value || (state.value.tab === "table" ? summary.value : state.value.tab === "stacks" ? stackSummary.value : "")}</span>
      </footer>
      <SymbolPanel />
      {helping.value && <Help />}
      <Menu />
    </>
  );
}

const host = document.getElementById("app");
if (host) render(<App />, host);
void start();

