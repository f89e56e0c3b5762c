// The grid: groups level by level, or single rows.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { arrow, type Batch, type Condition, Gone, type GridRequest, type Heading, type Info, json, text } from "./api";
import { editing } from "./bar";
import { exact, type Kind, show } from "./format";
import { copy, type MenuItem, openMenu, say } from "./menu";
import { addFilter, comparison, failure, request, selected, state, table, update } from "./state";
import { Virtual, type VirtualCell, type VirtualColumn } from "./virtual";

const PAGE = 200;

export const finding = signal(false);
/** Rows, groups and sums of the view, for the status bar. */
export const summary = signal("");

/** The pages of a view. */
class Pages {
  readonly pages = new Map<number, Promise<Batch<Info>>>();
  readonly loaded = new Map<number, Batch<Info>>();
  constructor(
    readonly view: GridRequest,
    readonly stop: AbortController,
    readonly comparison: { base: [number, number] | null; is_same_trace: boolean } | null,
  ) {}

  /** Asks for something of the view. */
  question(what: "rows" | "find" | "csv"): [string, object] {
    return this.comparison ? [`/api/compare/${what}`, { view: this.view, ...this.comparison }] : [`/api/${what}`, what === "csv" ? this.view : { view: this.view }];
  }

  page(row: number): Promise<Batch<Info>> {
    const number = Math.floor(row / PAGE);
    let page = this.pages.get(number);
    if (!page) {
      const [path, question] = this.question("rows");
      page = arrow<Info>(path, { ...question, offset: number * PAGE, limit: PAGE }, this.stop.signal).then((batch) => {
        this.loaded.set(number, batch);
        return batch;
      });
      this.pages.set(number, page);
    }
    return page;
  }

  cell(row: number, column: string): unknown {
    return this.loaded.get(Math.floor(row / PAGE))?.columns.get(column)?.[row % PAGE];
  }

  path(row: number): string[] {
    const text = this.cell(row, "path");
    return typeof text === "string" ? (JSON.parse(text) as string[]) : [];
  }
}

interface Shown {
  pages: Pages;
  info: Info;
}

export function Grid() {
  const [shown, setShown] = useState<Shown | null>(null);
  const [error, setError] = useState("");
  // -1 if no row is selected.
  const [cursor, setCursor] = useState(-1);
  const [anchor, setAnchor] = useState(-1);
  const [column, setColumn] = useState(0);
  // What is shown is of an earlier question from the moment on at which another one is asked.
  const [answered, setAnswered] = useState("");
  const view = request.value;
  const compared = comparison.value;
  const key = JSON.stringify([view, compared]);
  const busy = view.table !== "" && answered !== key;
  const last = useRef<AbortController | null>(null);
  const before = useRef<GridRequest | null>(null);

  useEffect(() => {
    if (!view.table) return;
    last.current?.abort();
    const stop = new AbortController();
    last.current = stop;
    const pages = new Pages(view, stop, compared);
    const isOther =
      before.current?.table !== view.table ||
      JSON.stringify([before.current.keys, before.current.filters, before.current.sort]) !==
        JSON.stringify([view.keys, view.filters, view.sort]);
    before.current = view;
    pages.page(0).then(
      (batch) => {
        if (stop.signal.aborted) return;
        setError("");
        setShown({ pages, info: batch.info });
        setAnswered(key);
        if (isOther) {
          // The event of a link, whose row has its number.
          const isWhole = view.table === "events" && view.keys.length === 0 && !view.sort && view.filters.length === 0 && view.from === null;
          const first = isWhole ? (state.value.event ?? -1) : -1;
          setCursor(first);
          setAnchor(first);
        }
      },
      (problem: Error) => {
        if (stop.signal.aborted) return;
        // Without a server, what is shown stays.
        if (problem instanceof Gone) failure.value = problem.message;
        else setError(problem.message);
        setAnswered(key);
      },
    );
  }, [key]);

  useEffect(() => {
    if (!shown) return;
    const { info } = shown;
    const totals = info.values.map((value, at) =>
      info.totals[at] === undefined || value.kind === "percent" ? "" : `${value.title} ${show(info.totals[at], value.kind)}`,
    );
    const groups = info.keys.length > 0 ? `${info.count.toLocaleString("en-US")} ${info.count === 1 ? "line" : "lines"}, ` : "";
    summary.value = [`${groups}${info.rows.toLocaleString("en-US")} rows`, ...totals.filter(Boolean)].join(" · ");
  }, [shown]);

  // What the selected row stands for, for the timeline.
  useEffect(() => {
    if (!shown) return;
    const { pages, info } = shown;
    if (cursor < 0) {
      if (selected.value.path.length > 0 || selected.value.time !== null) selected.value = { path: [], time: null };
    } else if (info.keys.length > 0) {
      const path = pages.path(cursor);
      if (JSON.stringify(path) !== JSON.stringify(selected.value.path)) selected.value = { path, time: null, keys: info.keys.map((one) => one.name) };
    } else {
      const time = pages.cell(cursor, "time");
      selected.value = { path: [], time: typeof time === "number" ? time : null };
      if (pages.view.table === "events" && state.value.event !== null) {
        const row = pages.cell(cursor, "row");
        if (typeof row === "number" && row !== state.value.event) update({ event: row });
      }
    }
  }, [shown, cursor]);

  if (error) {
    return (
      <div class="message" role="alert">
        {error}
      </div>
    );
  }
  if (!shown) return <div class="message">{busy ? "Counting …" : ""}</div>;

  const { pages, info } = shown;
  const grouped = info.keys.length > 0;
  const headings: (Heading & { isKey: boolean })[] = [
    ...info.keys.map((heading) => ({ ...heading, isKey: true })),
    ...info.values.map((heading) => ({ ...heading, isKey: false })),
  ];
  const sort = pages.view.sort;
  const columns: VirtualColumn[] = headings.map((heading, at) => {
    const name = heading.isKey ? "label" : heading.name;
    const first = grouped ? info.values[0]?.name : undefined;
    const isSorted = sort ? sort.by === name && (!heading.isKey || at === 0) : grouped && !pages.comparison && heading.name === first && !heading.isKey;
    const arrowText = isSorted ? ((sort?.descending ?? true) ? " ▾" : " ▴") : "";
    return {
      title: heading.title + arrowText,
      summary: `${heading.summary}\nClick to sort.`,
      className: [
        heading.isKey || heading.kind === "text" ? "left" : "right",
        grouped && at === info.keys.length - 1 ? "golden" : "",
        heading.isKey ? "key" : "",
      ].join(" "),
    };
  });

  const textOf = (row: number, at: number): string => {
    const heading = headings[at];
    if (!heading) return "";
    if (heading.isKey) return pages.cell(row, "depth") === at ? String(pages.cell(row, "label") ?? "") : "";
    const value = pages.cell(row, heading.name);
    const shown = show(value, heading.kind as Kind);
    return isChange(heading.name) && Number(value) > 0 ? `+${shown}` : shown;
  };
  const load = async (from: number, to: number): Promise<string[][]> => {
    const needed = new Set<number>();
    for (let row = from; row < to; row += 1) needed.add(Math.floor(row / PAGE));
    await Promise.all([...needed].map((page) => pages.page(page * PAGE)));
    const rows: string[][] = [];
    for (let row = from; row < to; row += 1) rows.push(headings.map((_, at) => textOf(row, at)));
    return rows;
  };
  const about = (row: number, at: number) => {
    const heading = headings[at];
    const className = row >= Math.min(anchor, cursor) && row <= Math.max(anchor, cursor) ? "chosen" : "";
    if (!heading) return { className };
    if (heading.isKey) {
      const depth = Number(pages.cell(row, "depth") ?? 0);
      if (depth !== at) return { className };
      const now = pages.cell(row, "state");
      return {
        className,
        title: `${heading.title}: ${String(pages.cell(row, "label") ?? "")}\n${heading.summary}`,
        toggle: now === 2 ? ("open" as const) : now === 1 ? ("closed" as const) : ("none" as const),
        depth: 0,
      };
    }
    const value = pages.cell(row, heading.name);
    if (pages.comparison && isChange(heading.name) && value) {
      return { className: `${className} ${Number(value) > 0 ? "more" : "less"}`, title: `${exact(value, heading.kind as Kind)}\n${heading.title}: ${heading.summary}` };
    }
    return { className, title: `${exact(value, heading.kind as Kind)}\n${heading.title}: ${heading.summary}` };
  };

  const toggle = (row: number, wanted?: boolean) => {
    const now = pages.cell(row, "state");
    if (now !== 1 && now !== 2) return;
    const path = pages.path(row);
    const name = JSON.stringify(path);
    // The rows that are shown may be those from before the last change.
    const isOpen = state.value.open.some((other) => JSON.stringify(other) === name);
    if (wanted === isOpen) return;
    const inside = (other: string[]) => JSON.stringify(other.slice(0, path.length)) === name;
    update({
      open: isOpen ? state.value.open.filter((other) => !inside(other)) : [...state.value.open, path],
    });
  };
  const go = (row: number, extend = false) => {
    const to = Math.max(0, Math.min(info.count - 1, row));
    void pages.page(to).then(() => {
      setCursor(to);
      if (!extend) setAnchor(to);
    });
  };
  /** The condition of a cell. */
  const condition = (row: number, at: number): Condition[] => {
    const heading = headings[at];
    if (!heading) return [];
    if (grouped) {
      const path = pages.path(row);
      const labels = labelsOf(pages, row, path.length);
      return path.map((value, place) => ({
        column: info.keys[place]?.name ?? "",
        op: "is",
        value,
        label: labels[place] ?? value,
      }));
    }
    const value = pages.cell(row, `key:${heading.name}`);
    return typeof value === "string" ? [{ column: heading.name, op: "is", value, label: textOf(row, at) }] : [];
  };
  const chosen = () => {
    const first = Math.max(0, Math.min(anchor, cursor));
    return [first, Math.min(Math.max(0, anchor, cursor), first + 9999)] as const;
  };
  const copyRows = async () => {
    const [from, to] = chosen();
    const rows = await load(from, to + 1);
    const lines = [headings.map((heading) => heading.title), ...rows].map((row) => row.join("\t"));
    await copy(lines.join("\n"), `${rows.length} ${rows.length === 1 ? "row" : "rows"}`);
  };
  const rowsOf = (row: number) => {
    const filters = [...state.value.filters, ...condition(row, 0)];
    selected.value = { path: [], time: null };
    update({ filters, flat: true, sort: null });
  };
  const details = (row: number) => {
    const number = pages.cell(row, "row");
    if (pages.view.table === "events" && typeof number === "number") update({ event: number });
  };
  const menu = (cell: VirtualCell, x: number, y: number) => {
    const found = condition(cell.row, cell.column);
    const deepest = found[found.length - 1];
    const items: MenuItem[] = [];
    if (deepest) {
      const name = (deepest.label ?? deepest.value).slice(0, 60);
      items.push(
        { label: `Filter to ${name}`, run: () => found.forEach(addFilter) },
        { label: `Filter out ${name}`, run: () => addFilter({ ...deepest, op: "not" }) },
      );
    }
    if (grouped) {
      items.push({ label: "Show its rows", run: () => rowsOf(cell.row) });
      if ((table.value?.weights.length ?? 0) > 0) {
        items.push({
          label: "Show its stacks",
          run: () => {
            const filters = [...state.value.filters, ...found];
            update({ filters, tab: "stacks" });
          },
        });
      }
    } else if (pages.view.table === "events") {
      items.push({ label: "Details of this event", run: () => details(cell.row) });
    }
    items.push(
      { label: "Copy cell", run: () => void copy(textOf(cell.row, cell.column), "the cell") },
      { label: "Copy rows", run: () => void copyRows() },
      { label: "Copy all as CSV", run: () => void text(...pages.question("csv")).then((csv) => copy(csv, "all rows as CSV")) },
      { label: "Columns …", run: () => (editing.value = true) },
    );
    openMenu(x, y, items);
  };
  const keys = (event: KeyboardEvent) => {
    const here = Math.max(0, cursor);
    const step = event.key === "PageDown" ? 20 : event.key === "PageUp" ? -20 : event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.altKey) return;
    if (step !== 0) go(cursor + step, event.shiftKey);
    else if (event.key === "Home") go(0, event.shiftKey);
    else if (event.key === "End") go(info.count - 1, event.shiftKey);
    else if (event.key === "ArrowRight" && grouped) {
      if (pages.cell(here, "state") === 1) toggle(here, true);
      else go(here + 1);
    } else if (event.key === "ArrowLeft" && grouped) {
      if (pages.cell(here, "state") === 2) toggle(here, false);
      else {
        const depth = Number(pages.cell(here, "depth") ?? 0);
        let row = here;
        while (row > 0 && Number(pages.cell(row, "depth") ?? 0) >= depth) row -= 1;
        go(row);
      }
    } else if (event.key === "ArrowRight") setColumn(Math.min(headings.length - 1, column + 1));
    else if (event.key === "ArrowLeft") setColumn(Math.max(0, column - 1));
    else if (event.key === "Enter") {
      if (cursor < 0) go(here);
      if (!grouped) details(here);
      else if (pages.cell(here, "state") === 0) rowsOf(here);
      else toggle(here);
    }
    else if ((event.ctrlKey || event.metaKey) && event.key === "c") void copyRows();
    else if (event.key === "ContextMenu" || (event.shiftKey && event.key === "F10")) {
      const box = (event.currentTarget as HTMLElement).querySelector("td.cursor")?.getBoundingClientRect();
      menu({ row: here, column }, (box?.left ?? 200) + 20, (box?.bottom ?? 200) + 2);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const heading = (at: number) => {
    const one = headings[at];
    if (!one) return;
    const by = one.isKey ? "label" : one.name;
    const now = state.value.sort;
    const implicit = now === null && grouped && !pages.comparison && one.name === info.values[0]?.name && !one.isKey;
    const descending = now?.by === by ? !now.descending : implicit ? false : !one.isKey && one.kind !== "text" && one.kind !== "time";
    update({ sort: { by, descending } });
  };
  return (
    <div class={`grid ${busy ? "busy" : ""}`}>
      {finding.value && <Find pages={pages} cursor={cursor} go={go} />}
      <Virtual
        label={`${table.value?.title ?? ""}: ${info.count} lines`}
        columns={columns}
        count={info.count}
        version={pages}
        cursor={cursor}
        load={load}
        about={about}
        onCell={(cell, event) => {
          setColumn(cell.column);
          if (event.button === 2 && cell.row >= Math.min(anchor, cursor) && cell.row <= Math.max(anchor, cursor)) return;
          go(cell.row, event.shiftKey);
        }}
        onToggle={(row) => toggle(row)}
        onOpen={(cell) => (grouped ? (pages.cell(cell.row, "state") === 0 ? rowsOf(cell.row) : toggle(cell.row)) : details(cell.row))}
        onMenu={menu}
        onHeading={heading}
        onKey={keys}
      />
      <div class="sr" aria-live="polite">
        {headings.map((_, at) => textOf(cursor, at)).filter(Boolean).join(", ")}
      </div>
    </div>
  );
}

/** Whether a column has the change of a value. */
function isChange(name: string): boolean {
  return name.startsWith("change:");
}

/** The labels of a group and those around it. */
function labelsOf(pages: Pages, row: number, depth: number): string[] {
  const labels: string[] = [];
  let level = depth;
  for (let at = row; at >= 0 && level > 0; at -= 1) {
    const own = pages.cell(at, "depth");
    if (own === undefined) break;
    if (Number(own) === level - 1 && (at === row || level < depth)) {
      labels[level - 1] = String(pages.cell(at, "label") ?? "");
      level -= 1;
    }
  }
  return labels;
}

function Find(props: { pages: Pages; cursor: number; go: (row: number) => void }) {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.focus(), []);
  const search = async () => {
    const wanted = box.current?.value ?? "";
    if (!wanted) return;
    const [path, question] = props.pages.question("find");
    const from = props.cursor + 1;
    const { place } = await json<{ place: number | null }>(path, { ...question, text: wanted, from, offset: from });
    if (place === null) say(`“${wanted}” is not in the table.`);
    else props.go(place);
  };
  return (
    <div class="find" role="search">
      <input
        ref={box}
        type="search"
        placeholder="Find"
        aria-label="Find in the table"
        onKeyDown={(event) => {
          if (event.key === "Enter") void search();
          if (event.key === "Escape") finding.value = false;
          event.stopPropagation();
        }}
      />
      <button onClick={() => void search()}>Next</button>
      <button aria-label="Close" onClick={() => (finding.value = false)}>
        ×
      </button>
    </div>
  );
}
