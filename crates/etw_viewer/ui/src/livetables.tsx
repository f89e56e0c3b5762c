// What the events of a live session tell of the machine: processes as a tree, threads, images, files, connections, disks.

import { useEffect, useRef, useState } from "preact/hooks";
import { json, type LiveTable, type LiveTables } from "./api";
import { copy, type MenuItem, openMenu } from "./menu";
import { type Rule, state, update } from "./state";
import { Virtual } from "./virtual";

export const VIEWS: [string, string, string][] = [
  ["", "Events", "Events as they come."],
  ["processes", "Processes", "Processes, each below the one that started it, with what they did in the last second."],
  ["threads", "Threads", "Threads with their processor time."],
  ["images", "Images", "Programs and libraries of processes."],
  ["files", "Files", "Files that were read, written or used otherwise."],
  ["network", "Network", "Pairs of endpoints with what was sent and received."],
  ["machine", "Disks, CPUs", "Disks and processors."],
];

/** What the columns mean. */
const MEANINGS: Record<string, string> = {
  PID: "Process id.",
  TID: "Thread id.",
  Process: "Image name of the process.",
  User: "User who runs it.",
  "CPU %": "Processor time in the last second, in percent of one processor.",
  "CPU time": "Processor time since the session started.",
  "Read/s": "Reads in the last second.",
  "Write/s": "Writes in the last second.",
  "Send/s": "Sends in the last second.",
  "Recv/s": "Receives in the last second.",
  "B/s": "Bytes in the last second, of the operations in the column before.",
  Bytes: "Bytes since the session started, of the operations in the column before.",
  Thr: "Number of threads, as far as events told.",
  "Events/s": "Events of the process in the last second.",
  Started: "When it started, in UTC.",
  Parent: "Process id of the one that started it.",
  Path: "Path of the file.",
  Base: "Lowest address in memory.",
  Size: "Bytes from its lowest to its highest address.",
  Loaded: "When it was loaded, in UTC; nothing if that was before the session.",
  Reads: "Reads since the session started.",
  Writes: "Writes since the session started.",
  Other: "Operations other than reads and writes.",
  Mean: "Mean duration of an operation.",
  Longest: "Longest duration of an operation.",
  Local: "Address and port on this machine.",
  Remote: "Address and port of the other end.",
  State: "State of the connection, from the events.",
  Sends: "Sends since the session started.",
  Recvs: "Receives since the session started.",
  Again: "Segments that were sent again.",
  Disk: "Name of the disk, or its number.",
  "Reads/s": "Reads in the last second.",
  "Writes/s": "Writes in the last second.",
  "Flushes/s": "Flushes in the last second.",
  "In flight": "Mean number of requests at once.",
  CPU: "Number of the processor.",
  "Busy %": "Part of the last second in which it ran a thread.",
  "DPC %": "Part of the last second in deferred calls (softirqs).",
  "ISR %": "Part of the last second in interrupts.",
  "Switches/s": "Switches of threads in the last second.",
  "DPCs/s": "Deferred calls in the last second.",
  "ISRs/s": "Interrupts in the last second.",
};

/** The tables of a view. */
export function Tables({ view, isPaused, filter }: { view: string; isPaused: boolean; filter: (rule: Rule) => void }) {
  const [found, setFound] = useState<LiveTables | null>(null);
  const [error, setError] = useState("");
  const [sort, setSort] = useState<{ column: number; descending: boolean } | null>(null);
  const [text, setText] = useState("");
  useEffect(() => {
    setFound(null);
    setSort(null);
  }, [view]);
  useEffect(() => {
    let isOver = false;
    const stop = new AbortController();
    const poll = async () => {
      while (!isOver) {
        try {
          const question = { view, text, sort: sort?.column ?? null, descending: sort?.descending ?? false };
          const tables = await json<LiveTables>("/api/live/tables", question, stop.signal);
          if (!isOver) setFound(tables);
          setError("");
        } catch (problem) {
          if (!isOver) setError((problem as Error).message);
        }
        if (isPaused) return;
        await new Promise((done) => setTimeout(done, 1000));
      }
    };
    void poll();
    return () => {
      isOver = true;
      stop.abort();
    };
  }, [view, text, sort, isPaused]);
  const rows = found?.tables.reduce((sum, table) => sum + table.count, 0) ?? 0;
  return (
    <div class="livetables">
      <div class="tools">
        <input type="search" placeholder="rows with this text" aria-label="Text of rows" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        {view === "processes" && (
          <button aria-pressed={sort === null} title="Each process below the one that started it" onClick={() => setSort(null)}>
            Tree
          </button>
        )}
        <span class="quiet">
          {rows.toLocaleString("en-US")} rows
          {found && found.tables.some((table) => table.forgotten > 0) && `, ${found.tables.reduce((sum, table) => sum + table.forgotten, 0).toLocaleString("en-US")} older ones dropped`}
          {found?.note && `; ${found.note}`}
        </span>
      </div>
      {error && (
        <div class="message" role="alert">
          {error}
        </div>
      )}
      {found?.tables.map((table, at) => (
        <One key={`${view} ${at}`} table={table} hasTree={view === "processes" && sort === null} setSort={setSort} filter={filter} />
      ))}
    </div>
  );
}

function One({
  table,
  hasTree,
  setSort,
  filter,
}: {
  table: LiveTable;
  hasTree: boolean;
  setSort: (sort: { column: number; descending: boolean }) => void;
  filter: (rule: Rule) => void;
}) {
  const [cursor, setCursor] = useState(0);
  const latest = useRef(table);
  latest.current = table;
  // Without rows nothing says which columns are numbers.
  const isNumber = (column: number) => table.is_number[column] ?? false;
  /** The column that shows the tree: the names. */
  const tree = hasTree ? table.columns.indexOf("Process") : -1;
  const menu = (row: number, column: number, x: number, y: number) => {
    const cells = latest.current.rows[row]?.cells ?? [];
    const of = (name: string) => cells[latest.current.columns.indexOf(name)] ?? "";
    const items: MenuItem[] = [];
    const add = (name: string, value: string) => {
      if (!value) return;
      for (const action of ["include", "exclude"] as const) {
        items.push({
          label: `Events: ${action} ${name} ${value.slice(0, 60)}`,
          run: () => {
            filter({ column: name, relation: "is", value, action });
            update({ live: "" });
          },
        });
      }
    };
    add("pid", of("PID"));
    add("tid", of("TID"));
    add("path", of("Path"));
    items.push({ label: "Copy the cell", run: () => void copy(cells[column] ?? "", "the cell") });
    items.push({ label: "Copy the line", run: () => void copy(cells.join("\t"), "the line") });
    openMenu(x, y, items);
  };
  const move = (to: number) => setCursor(Math.max(0, Math.min(table.rows.length - 1, to)));
  return (
    <Virtual
      label={`Rows: ${table.count}`}
      columns={table.columns.map((name, column) => ({
        title: `${name === "" ? "Protocol" : name}${table.sorted?.[0] === column ? (table.sorted[1] ? " ▾" : " ▴") : ""}`,
        summary: `${MEANINGS[name] ?? (name === "" ? "TCP or UDP." : name)}\nClick to sort.`,
        className: isNumber(column) ? "right" : name === "Path" ? "left wide" : "left key",
      }))}
      count={table.rows.length}
      version={table}
      cursor={cursor}
      load={async (from, to) => latest.current.rows.slice(from, to).map((row) => row.cells)}
      about={(row, column) => {
        const shown = latest.current.rows[row];
        const title = `${shown?.cells[column] ?? ""}\n${MEANINGS[latest.current.columns[column] ?? ""] ?? ""}`;
        return column === tree ? { title, toggle: "none", depth: shown?.depth ?? 0 } : { title };
      }}
      onCell={(cell) => setCursor(cell.row)}
      onMenu={(cell, x, y) => menu(cell.row, cell.column, x, y)}
      onHeading={(column) => setSort({ column, descending: table.sorted?.[0] === column ? !table.sorted[1] : isNumber(column) })}
      onKey={(event) => {
        const step: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -table.rows.length, End: table.rows.length };
        if (event.key in step) move(cursor + (step[event.key] ?? 0));
        else if (event.key === "ContextMenu" || (event.shiftKey && event.key === "F10")) menu(cursor, 0, 300, 300);
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    />
  );
}

/** The view that is shown; one that there is not is that of the events. */
export function viewOf(): string {
  return VIEWS.some(([name]) => name === state.value.live) ? state.value.live : "";
}
