// Stacks of the rows that are shown: call trees, by name, callers and callees, and as a flame graph.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { arrow, type Batch, type StackInfo } from "./api";
import { exact, type Kind, show } from "./format";
import { copy, type MenuItem, openMenu } from "./menu";
import { request, type StackState, state, table, update } from "./state";
import { Virtual, type VirtualColumn } from "./virtual";

/** Nodes of a tree: each comes before those in it. */
export class Tree {
  readonly count: number;
  readonly info: StackInfo;
  /** For each node, the first one that is not in it. */
  readonly ends: Int32Array;
  readonly parents: Int32Array;
  constructor(readonly batch: Batch<StackInfo>) {
    this.count = batch.rows;
    this.info = batch.info;
    this.ends = new Int32Array(this.count);
    this.parents = new Int32Array(this.count).fill(-1);
    const open: number[] = [];
    for (let node = 0; node < this.count; node += 1) {
      while (open.length > this.depth(node)) this.ends[open.pop() as number] = node;
      this.parents[node] = open[open.length - 1] ?? -1;
      open.push(node);
    }
    for (const node of open) this.ends[node] = this.count;
  }
  number(column: string, node: number): number {
    return Number(this.batch.columns.get(column)?.[node] ?? 0);
  }
  depth(node: number): number {
    return this.number("depth", node);
  }
  name(node: number): string {
    return String(this.batch.columns.get("name")?.[node] ?? "");
  }
}

const VIEWS: [StackState["view"], string, string][] = [
  ["top-down", "Call tree", "From processes to what they call."],
  ["bottom-up", "Bottom-up", "From the functions that did the work to their callers."],
  ["by-name", "By name", "Each function, without callers and callees."],
  ["callers", "Callers", "Who called a function."],
  ["callees", "Callees", "What a function calls."],
];

const COLUMNS: [string, string, Kind | "", string][] = [
  ["name", "Function", "text", "Function, as module!function, or process."],
  ["inclusive", "Inclusive", "", "Weight of stacks through it."],
  ["inclusive_percent", "Inc %", "percent", "Inclusive weight, as part of all stacks."],
  ["exclusive", "Exclusive", "", "Weight of stacks that end in it."],
  ["exclusive_percent", "Exc %", "percent", "Exclusive weight, as part of all stacks."],
  ["inclusive_events", "Count", "count", "Number of samples or events through it."],
];

function set(change: Partial<StackState>): void {
  update({ stack: { ...state.value.stack, ...change } });
}

export function Stacks() {
  const [tree, setTree] = useState<Tree | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const stack = state.value.stack;
  const scope = request.value;
  const weight = stack.weight || table.value?.weights[0]?.name || "rows";
  const view = stack.graph ? (stack.view === "callers" || stack.view === "callees" ? stack.view : "top-down") : stack.view;
  const question = {
    table: scope.table,
    from: scope.from,
    to: scope.to,
    filters: scope.filters,
    weight,
    view,
    function: stack.function,
    include: stack.include,
    exclude: stack.exclude,
    fold: stack.fold,
    group: stack.group,
    fold_percent: stack.percent,
    min_percent: stack.graph ? 0.02 : 0.01,
  };
  const key = JSON.stringify(question);
  useEffect(() => {
    const stop = new AbortController();
    setBusy(true);
    arrow<StackInfo>("/api/stacks", question, stop.signal).then(
      (batch) => {
        setTree(new Tree(batch));
        setError("");
        setBusy(false);
      },
      (problem: Error) => {
        if (stop.signal.aborted) return;
        setError(problem.message);
        setBusy(false);
      },
    );
    return () => stop.abort();
  }, [key]);

  return (
    <div class={`stacks ${busy ? "busy" : ""}`}>
      <div class="tools" role="toolbar" aria-label="Stacks">
        <label title="What the stacks weigh">
          Weight{" "}
          <select value={weight} onChange={(event) => set({ weight: event.currentTarget.value })}>
            {table.value?.weights.map((one) => (
              <option key={one.name} value={one.name} title={one.summary}>
                {one.name}
              </option>
            ))}
          </select>
        </label>
        <span class="tabs" role="group" aria-label="View">
          {VIEWS.map(([name, title, about]) => (
            <button
              key={name}
              aria-pressed={!stack.graph && stack.view === name}
              title={about}
              disabled={(name === "callers" || name === "callees") && !stack.function}
              onClick={() => set({ view: name, graph: false })}
            >
              {title}
            </button>
          ))}
          <button aria-pressed={stack.graph} title="Stacks as boxes: the width is the weight, callees are below callers." onClick={() => set({ graph: true })}>
            Flame graph
          </button>
        </span>
        {stack.function && <span class="quiet">of {stack.function}</span>}
      </div>
      <div class="tools patterns">
        <Pattern name="include" label="Include" title="Only stacks with a matching frame (IncPats). * is any text; separate patterns by ;" />
        <Pattern name="exclude" label="Exclude" title="Without stacks that have a matching frame (ExcPats)." />
        <Pattern name="fold" label="Fold" title="Matching functions become a part of their callers (FoldPats)." />
        <Pattern name="group" label="Group" title="Functions of matching modules become one for each module (GroupPats)." />
        <label title="Functions with less than this part of all become a part of their callers.">
          Fold %{" "}
          <input
            class="number"
            inputMode="decimal"
            value={stack.percent || ""}
            onChange={(event) => set({ percent: Number.parseFloat(event.currentTarget.value) || 0 })}
          />
        </label>
        {tree && <Symbols tree={tree} />}
      </div>
      {error ? (
        <div class="message" role="alert">
          {error}
        </div>
      ) : !tree ? (
        <div class="message">Counting …</div>
      ) : tree.count === 0 ? (
        <div class="message">{tree.info.unselected.events > 0 ? "No stack is selected." : "These rows have no stacks."}</div>
      ) : stack.graph ? (
        <Flame tree={tree} />
      ) : (
        <CallTree tree={tree} />
      )}
    </div>
  );
}

function Pattern(props: { name: "include" | "exclude" | "fold" | "group"; label: string; title: string }) {
  const now = state.value.stack[props.name];
  return (
    <label title={props.title}>
      {props.label}{" "}
      <input
        value={now.join("; ")}
        placeholder="module!function"
        onChange={(event) => {
          const texts = event.currentTarget.value.split(";").map((text) => text.trim());
          set({ [props.name]: texts.filter(Boolean) });
        }}
      />
    </label>
  );
}

function Symbols({ tree }: { tree: Tree }) {
  const { named_percent, missing, modules } = tree.info.symbols;
  const kind = tree.info.kind;
  const worst = missing.slice(0, 12).map((one) => `${one.module}: ${show(one.weight, kind)}, ${one.percent.toFixed(1)} %`);
  const title =
    modules === 0
      ? "Every function that did work has a name."
      : `Without names (exclusive weight):\n${worst.join("\n")}\n\nTo get symbols: etw symbols fetch TRACE, then open the trace again.`;
  return (
    <span class={`symbols ${modules > 0 ? "lack" : ""}`} title={title}>
      {named_percent.toFixed(1)} % named{modules > 0 ? `; ${modules} ${modules === 1 ? "module" : "modules"} without symbols` : ""}
    </span>
  );
}

function nodeMenu(tree: Tree, node: number, x: number, y: number): void {
  const name = tree.name(node);
  const stack = state.value.stack;
  const module = name.includes("!") ? name.slice(0, name.indexOf("!")) : "";
  const items: MenuItem[] = [
    { label: `Include ${name}`, run: () => set({ include: [...stack.include, name] }) },
    { label: `Exclude ${name}`, run: () => set({ exclude: [...stack.exclude, name] }) },
  ];
  if (name.includes("!")) {
    items.push(
      { label: "Fold it into its callers", run: () => set({ fold: [...stack.fold, name] }) },
      { label: `Group module ${module}`, run: () => set({ group: [...stack.group, module] }) },
      { label: "Callers", run: () => set({ view: "callers", function: name, graph: false }) },
      { label: "Callees", run: () => set({ view: "callees", function: name, graph: false }) },
    );
  }
  items.push({ label: "Copy name", run: () => void copy(name, "the name") });
  openMenu(x, y, items);
}

/** The nodes that are open at first: the heaviest path. */
function hot(tree: Tree): Set<number> {
  const open = new Set<number>();
  let node = 0;
  while (node < tree.count && open.size < 60) {
    if (tree.ends[node] === node + 1) break;
    open.add(node);
    const child = node + 1;
    if (tree.number("inclusive", child) * 2 < tree.number("inclusive", node) && tree.number("inclusive_events", child) * 2 < tree.number("inclusive_events", node)) break;
    node = child;
  }
  return open;
}

function CallTree({ tree }: { tree: Tree }) {
  const [open, setOpen] = useState<Set<number>>(new Set());
  const [cursor, setCursor] = useState(0);
  useEffect(() => {
    setOpen(hot(tree));
    setCursor(0);
  }, [tree]);
  const rows = useMemo(() => {
    const rows: number[] = [];
    for (let node = 0; node < tree.count; ) {
      rows.push(node);
      node = open.has(node) ? node + 1 : (tree.ends[node] ?? tree.count);
    }
    return rows;
  }, [tree, open]);
  const kindOf = (kind: Kind | ""): Kind => kind || tree.info.kind;
  const columns: VirtualColumn[] = COLUMNS.map(([, title, kind, about]) => ({
    title,
    summary: about,
    className: kind === "text" ? "left key wide" : "right",
  }));
  const cell = (row: number, at: number): string => {
    const node = rows[row];
    const column = COLUMNS[at];
    if (node === undefined || !column) return "";
    return at === 0 ? tree.name(node) : show(tree.number(column[0], node), kindOf(column[2]));
  };
  const toggle = (row: number, wanted?: boolean) => {
    const node = rows[row];
    if (node === undefined || tree.ends[node] === node + 1) return;
    const next = new Set(open);
    if (wanted ?? !open.has(node)) next.add(node);
    else next.delete(node);
    setOpen(next);
  };
  const go = (row: number) => setCursor(Math.max(0, Math.min(rows.length - 1, row)));
  const keys = (event: KeyboardEvent) => {
    const node = rows[cursor] ?? 0;
    if (event.key === "ArrowDown") go(cursor + 1);
    else if (event.key === "ArrowUp") go(cursor - 1);
    else if (event.key === "PageDown") go(cursor + 20);
    else if (event.key === "PageUp") go(cursor - 20);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(rows.length - 1);
    else if (event.key === "ArrowRight") open.has(node) ? go(cursor + 1) : toggle(cursor, true);
    else if (event.key === "ArrowLeft") open.has(node) ? toggle(cursor, false) : go(Math.max(0, rows.indexOf(tree.parents[node] ?? -1)));
    else if (event.key === "Enter") toggle(cursor);
    else if (event.key === "ContextMenu" || (event.shiftKey && event.key === "F10")) {
      const box = (event.currentTarget as HTMLElement).querySelector("td.cursor")?.getBoundingClientRect();
      nodeMenu(tree, node, (box?.left ?? 200) + 40, (box?.bottom ?? 200) + 2);
    } else if ((event.ctrlKey || event.metaKey) && event.key === "c") {
      const lines = [COLUMNS.map(([, title]) => title), ...rows.slice(0, 10000).map((_, row) => COLUMNS.map((__, at) => (at === 0 ? " ".repeat(tree.depth(rows[row] ?? 0)) : "") + cell(row, at)))];
      void copy(lines.map((line) => line.join("\t")).join("\n"), "the tree");
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <Virtual
      label={`Stacks: ${rows.length} lines`}
      columns={columns}
      count={rows.length}
      version={rows}
      cursor={cursor}
      load={async (from, to) => {
        const texts: string[][] = [];
        for (let row = from; row < to; row += 1) texts.push(COLUMNS.map((_, at) => cell(row, at)));
        return texts;
      }}
      about={(row, at) => {
        const node = rows[row] ?? 0;
        const column = COLUMNS[at];
        if (at === 0) {
          const leaf = tree.ends[node] === node + 1;
          const rest = tree.number("left_out", node);
          return {
            title: `${tree.name(node)}${rest > 0 ? `\n${rest} callees with less than ${tree.info.min_percent} % are not listed.` : ""}`,
            toggle: leaf ? "none" : open.has(node) ? "open" : "closed",
            depth: tree.depth(node),
          };
        }
        return column ? { title: `${exact(tree.number(column[0], node), kindOf(column[2]))}\n${column[3]}` } : {};
      }}
      onCell={(place) => go(place.row)}
      onToggle={(row) => toggle(row)}
      onOpen={(place) => toggle(place.row)}
      onMenu={(place, x, y) => nodeMenu(tree, rows[place.row] ?? 0, x, y)}
      onHeading={() => undefined}
      onKey={keys}
    />
  );
}

const ROW = 18;

/** A colour for each module, of nearly one brightness, so that text on it can be read. */
function colorOf(name: string, dark: boolean): string {
  const module = name.includes("!") ? name.slice(0, name.indexOf("!")) : "";
  let hash = 7;
  for (const letter of module) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  if (!module) return dark ? "#3c4656" : "#d5dbe4";
  // Blue and orange hues, which every kind of colour vision tells apart.
  const hue = hash % 2 === 0 ? 195 + (hash % 40) : 25 + (hash % 25);
  return dark ? `hsl(${hue} 45% ${30 + (hash % 9)}%)` : `hsl(${hue} 70% ${76 + (hash % 10)}%)`;
}

function Flame({ tree }: { tree: Tree }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const host = useRef<HTMLDivElement>(null);
  const [root, setRoot] = useState(-1);
  const [focus, setFocus] = useState(0);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<{ x: number; y: number; node: number } | null>(null);
  useEffect(() => {
    setRoot(-1);
    setFocus(0);
  }, [tree]);
  useEffect(() => {
    if (!host.current) return;
    const observer = new ResizeObserver(() => setWidth(host.current?.clientWidth ?? 0));
    observer.observe(host.current);
    return () => observer.disconnect();
  }, []);
  const column = tree.info.total.weight > 0 ? "inclusive" : "inclusive_events";
  const { boxes, height } = useMemo(() => {
    const boxes: { node: number; x: number; width: number; y: number }[] = [];
    const starts = new Float64Array(tree.count);
    const used = new Float64Array(tree.count);
    let used_of_all = 0;
    const first = root < 0 ? 0 : root;
    const end = root < 0 ? tree.count : (tree.ends[root] ?? tree.count);
    const total = root < 0 ? (column === "inclusive" ? tree.info.total.weight : tree.info.total.events) : tree.number(column, root);
    const base = root < 0 ? 0 : tree.depth(root);
    let deepest = 0;
    for (let node = first; node < end; node += 1) {
      const weight = tree.number(column, node);
      const parent = tree.parents[node] ?? -1;
      let start: number;
      if (node === root) start = 0;
      else if (parent < 0) {
        start = used_of_all;
        used_of_all += weight;
      } else {
        start = (starts[parent] ?? 0) + (used[parent] ?? 0);
        used[parent] = (used[parent] ?? 0) + weight;
      }
      starts[node] = start;
      const size = (weight / Math.max(1, total)) * width;
      if (size < 0.4) continue;
      const depth = tree.depth(node) - base;
      deepest = Math.max(deepest, depth);
      boxes.push({ node, x: (start / Math.max(1, total)) * width, width: size, y: depth * ROW });
    }
    return { boxes, height: (deepest + 1) * ROW };
  }, [tree, root, width]);
  useEffect(() => {
    const front = canvas.current;
    if (!front) return;
    const ratio = window.devicePixelRatio || 1;
    front.width = Math.round(width * ratio);
    front.height = Math.round(height * ratio);
    const context = front.getContext("2d");
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const dark = style.getPropertyValue("--is-dark").trim() === "1";
    const text = style.getPropertyValue("--text").trim();
    const accent = style.getPropertyValue("--accent").trim();
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const box of boxes) {
      context.fillStyle = colorOf(tree.name(box.node), dark);
      context.fillRect(box.x, box.y, Math.max(0.4, box.width - 0.6), ROW - 1);
      if (box.node === focus) {
        context.strokeStyle = accent;
        context.lineWidth = 2;
        context.strokeRect(box.x + 1, box.y + 1, Math.max(1, box.width - 2.6), ROW - 3);
      }
      if (box.width > 30) {
        const letters = Math.floor((box.width - 8) / 5.9);
        const name = tree.name(box.node);
        context.fillStyle = text;
        context.fillText(name.length > letters ? `${name.slice(0, Math.max(1, letters - 1))}…` : name, box.x + 4, box.y + ROW / 2);
      }
    }
  }, [boxes, focus, state.value.theme]);
  const at = (event: MouseEvent): number => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return -1;
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return boxes.find((one) => one.x <= x && x < one.x + one.width && one.y <= y && y < one.y + ROW)?.node ?? -1;
  };
  const keys = (event: KeyboardEvent) => {
    const shown = boxes.map((box) => box.node);
    const siblings = shown.filter((node) => tree.parents[node] === tree.parents[focus] && tree.depth(node) === tree.depth(focus));
    const place = siblings.indexOf(focus);
    if (event.key === "ArrowDown") {
      if (shown.includes(focus + 1) && tree.parents[focus + 1] === focus) setFocus(focus + 1);
    } else if (event.key === "ArrowUp") {
      const parent = tree.parents[focus] ?? -1;
      if (shown.includes(parent)) setFocus(parent);
    } else if (event.key === "ArrowRight") setFocus(siblings[place + 1] ?? focus);
    else if (event.key === "ArrowLeft") setFocus(siblings[place - 1] ?? focus);
    else if (event.key === "Enter") setRoot(root === focus ? -1 : focus);
    else if (event.key === "Escape" || event.key === "Backspace") setRoot(-1);
    else if (event.key === "ContextMenu") nodeMenu(tree, focus, 300, 300);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const about = (node: number) =>
    `${tree.name(node)}: ${show(tree.number("inclusive", node), tree.info.kind)} inclusive (${tree.number("inclusive_percent", node).toFixed(2)} %), ${show(tree.number("exclusive", node), tree.info.kind)} exclusive, ${tree.number("inclusive_events", node).toLocaleString("en-US")} events`;
  return (
    <div class="flame" ref={host} tabIndex={0} role="tree" aria-label="Flame graph; arrows move, Enter zooms" onKeyDown={keys}>
      <canvas
        ref={canvas}
        style={{ height: `${height}px` }}
        onClick={(event) => {
          const node = at(event);
          if (node >= 0) {
            setFocus(node);
            setRoot(node === root ? -1 : node);
          }
        }}
        onPointerMove={(event) => {
          const node = at(event);
          setHover(node < 0 ? null : { x: event.clientX, y: event.clientY, node });
        }}
        onPointerLeave={() => setHover(null)}
        onContextMenu={(event) => {
          event.preventDefault();
          const node = at(event);
          if (node >= 0) nodeMenu(tree, node, event.clientX, event.clientY);
        }}
      />
      {root >= 0 && (
        <button class="back" onClick={() => setRoot(-1)}>
          Show all stacks
        </button>
      )}
      {hover && (
        <div class="tip" role="tooltip" style={{ left: `${Math.min(hover.x + 14, window.innerWidth - 330)}px`, top: `${Math.min(hover.y + 16, window.innerHeight - 80)}px` }}>
          {about(hover.node)}
        </div>
      )}
      <div class="sr" aria-live="polite">
        {focus < tree.count ? about(focus) : ""}
      </div>
    </div>
  );
}
