// A table of any number of rows, of which only the visible ones exist.

import "regular-table";
import type { RegularTableElement } from "regular-table/dist/esm/regular-table";
import { useEffect, useRef } from "preact/hooks";

export interface VirtualColumn {
  title: string;
  summary: string;
  /** CSS classes of the column. */
  className: string;
}

export interface VirtualCell {
  row: number;
  column: number;
}

export interface VirtualProps {
  label: string;
  columns: VirtualColumn[];
  count: number;
  /** Changes whenever the rows do. */
  version: unknown;
  /** The row that has the focus. */
  cursor: number;
  /** Texts of the rows from `from` to `to`. */
  load: (from: number, to: number) => Promise<string[][]>;
  /** Classes and explanation of a cell, and the level and state of its row in a tree. */
  about: (row: number, column: number) => { className?: string; title?: string; toggle?: "open" | "closed" | "none"; depth?: number };
  onCell: (cell: VirtualCell, event: MouseEvent) => void;
  onToggle?: (row: number) => void;
  onOpen?: (cell: VirtualCell) => void;
  onMenu: (cell: VirtualCell, x: number, y: number) => void;
  onHeading: (column: number, event: MouseEvent) => void;
  onKey: (event: KeyboardEvent) => void;
}

export function Virtual(props: VirtualProps) {
  const host = useRef<HTMLDivElement>(null);
  const element = useRef<RegularTableElement | null>(null);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const table = document.createElement("regular-table") as RegularTableElement;
    element.current = table;
    host.current?.append(table);
    table.addStyleListener(() => {
      const now = latest.current;
      for (const cell of table.querySelectorAll<HTMLElement>("thead th")) {
        const meta = table.getMeta(cell);
        const column = meta?.type === "column_header" ? now.columns[meta.x] : undefined;
        cell.className = column?.className ?? "";
        cell.title = column?.summary ?? "";
        cell.setAttribute("role", "columnheader");
      }
      for (const cell of table.querySelectorAll<HTMLElement>("tbody td")) {
        const meta = table.getMeta(cell);
        if (meta?.type !== "body") continue;
        const about = now.about(meta.y, meta.x);
        const isCursor = meta.y === now.cursor;
        const className = `${now.columns[meta.x]?.className ?? ""} ${about.className ?? ""} ${isCursor ? "cursor" : ""}`;
        if (cell.className !== className) cell.className = className;
        cell.title = about.title ?? "";
        const row = cell.parentElement;
        if (row && meta.x === meta.x0) {
          row.setAttribute("role", "row");
          row.setAttribute("aria-rowindex", String(meta.y + 2));
          row.setAttribute("aria-selected", String(isCursor));
        }
        if (about.toggle !== undefined) {
          cell.style.paddingLeft = `${(about.depth ?? 0) * 14 + 4}px`;
          cell.dataset["toggle"] = about.toggle;
          if (about.toggle !== "none") row?.setAttribute("aria-expanded", String(about.toggle === "open"));
        } else {
          cell.style.paddingLeft = "";
          delete cell.dataset["toggle"];
        }
      }
    });
    // The mode "vertical" never ends in regular-table 0.9.2 where columns leave room.
    table.setDataListener(
      async (x0, y0, x1, y1) => {
        const now = latest.current;
        const rows = now.count > 0 ? await now.load(y0, Math.min(y1, now.count)) : [];
        const columns = now.columns.slice(x0, x1);
        return {
          num_rows: now.count,
          num_columns: now.columns.length,
          column_headers: columns.map((column) => [column.title]),
          data: columns.map((_, place) => rows.map((row) => row[x0 + place] ?? "")),
        };
      },
      { virtual_mode: "both" },
    );
    const place = (target: EventTarget | null): VirtualCell | null => {
      const cell = (target as HTMLElement | null)?.closest?.("td");
      const meta = cell ? table.getMeta(cell as HTMLElement) : undefined;
      return meta?.type === "body" ? { row: meta.y, column: meta.x } : null;
    };
    table.addEventListener("mousedown", (event) => {
      const cell = place(event.target);
      if (cell === null || event.button !== 0) return;
      host.current?.focus();
      const box = (event.target as HTMLElement).closest("td");
      if (box?.dataset["toggle"] && box.dataset["toggle"] !== "none") {
        const padding = Number.parseFloat(box.style.paddingLeft) || 0;
        if (event.clientX - box.getBoundingClientRect().left < padding + 16) {
          latest.current.onToggle?.(cell.row);
          return;
        }
      }
      latest.current.onCell(cell, event);
    });
    table.addEventListener("dblclick", (event) => {
      const cell = place(event.target);
      if (cell) latest.current.onOpen?.(cell);
    });
    table.addEventListener("contextmenu", (event) => {
      const cell = place(event.target);
      if (cell === null) return;
      event.preventDefault();
      latest.current.onCell(cell, event);
      latest.current.onMenu(cell, event.clientX, event.clientY);
    });
    table.addEventListener("click", (event) => {
      const heading = (event.target as HTMLElement).closest?.("thead th");
      const meta = heading ? table.getMeta(heading as HTMLElement) : undefined;
      if (meta?.type === "column_header") latest.current.onHeading(meta.x, event);
    });
    const resized = new ResizeObserver(() => void draw(table));
    if (host.current) resized.observe(host.current);
    return () => {
      resized.disconnect();
      table.remove();
    };
  }, []);

  const shape = props.columns.map((column) => column.title).join("\n");
  useEffect(() => {
    element.current?.resetAutoSize?.({ auto: true, override: true, indices: true, row_height: false });
  }, [shape]);
  useEffect(() => {
    const table = element.current;
    if (table) void draw(table);
  }, [props.version, props.count, shape]);
  useEffect(() => {
    const table = element.current;
    if (table) void draw(table).then(() => (props.cursor >= 0 ? reveal(table, props.cursor) : undefined));
  }, [props.cursor]);

  return (
    <div
      class="virtual"
      ref={host}
      tabIndex={0}
      role="treegrid"
      aria-label={props.label}
      aria-rowcount={props.count + 1}
      aria-colcount={props.columns.length}
      onKeyDown={(event) => props.onKey(event)}
    />
  );
}

async function draw(table: RegularTableElement): Promise<void> {
  try {
    await table.draw();
  } catch {
    // A drawing that a later one replaced.
  }
}

/** Scrolls so that a row is visible. */
async function reveal(table: RegularTableElement, row: number): Promise<void> {
  const first = table.querySelector<HTMLElement>("tbody tr td");
  const rows = [...table.querySelectorAll<HTMLElement>("tbody tr")];
  const meta = first ? table.getMeta(first) : undefined;
  if (meta?.type !== "body") return;
  const height = first?.offsetHeight ?? 20;
  const visible = Math.max(1, Math.floor((table.clientHeight - 24) / height) - 1);
  const top = meta.y0;
  if (rows.length === 0 || (row >= top && row < top + visible)) return;
  await table.scrollToCell(0, row < top ? row : Math.max(0, row - visible + 1));
  await draw(table);
}
