// Stacks of the rows that are shown: call trees, by name, callers and callees, and as a flame graph.

import { computed, signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { arrow, type Batch, type StackInfo, type StackRequest } from "./api";
import { type Calls, Flame } from "./flame";
import { duration, exact, type Kind, show, time } from "./format";
import { copy, type MenuItem, openMenu } from "./menu";
import { catalog, isComparing, length, request, type StackState, state, table, update } from "./state";
import { Source, sourceOf } from "./source";
import { naming } from "./symbols";
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
  has(column: string): boolean {
    return this.batch.columns.has(column);
  }
  /** What a node weighs more than in the time before. */
  change(node: number): number {
    return this.number("inclusive", node) - this.number("before", node);
  }
  /** The weight of a node over time, as bars. */
  when(node: number): string {
    const digits = String(this.batch.columns.get("when")?.[node] ?? "");
    return [...digits].map((digit) => BLOCKS[Math.ceil((Number.parseInt(digit, 36) / 35) * 8)]).join("");
  }
}

const VIEWS: [StackState["view"], string, string][] = [
  ["top-down", "Call tree", "From processes to what they call."],
  ["bottom-up", "Bottom-up", "From the functions that did the work to their callers."],
  ["by-name", "By name", "Each function, without callers and callees."],
  ["callers", "Callers", "Who called a function."],
  ["callees", "Callees", "What a function calls."],
  ["sandwich", "Sandwich", "Who called a function, above what it calls."],
  ["tags", "By tag", "Stacks by the tag that each has, from the files of --stack-tags."],
];

/** Number of parts of the time of which each line shows the weight. */
const PERIODS = 32;
const BLOCKS = " ▁▂▃▄▅▆▇█";

/** A column of a tree: name of its values, title, kind (that of the weight if empty) and meaning. */
type TreeColumn = [string, string, Kind | "", string];

const NAME: TreeColumn = ["name", "Function", "text", "Function, as module!function, or process."];
const COLUMNS: TreeColumn[] = [
  NAME,
  ["inclusive", "Inclusive", "", "Weight of stacks through it."],
  ["inclusive_percent", "Inc %", "percent", "Inclusive weight, as part of all stacks."],
  ["exclusive", "Exclusive", "", "Weight of stacks that end in it."],
  ["exclusive_percent", "Exc %", "percent", "Exclusive weight, as part of all stacks."],
  ["inclusive_events", "Count", "count", "Number of samples or events through it."],
  ["when", "When", "text", `Inclusive weight in ${PERIODS} equal parts of the time, the greatest as the highest bar.`],
];
const CHANGES: TreeColumn[] = [
  NAME,
  ["before", "Before", "", "Inclusive weight in the time that is compared with."],
  ["inclusive", "After", "", "Inclusive weight in the selected time."],
  ["change", "Change", "", "Inclusive weight after, less that before."],
  ["before_percent", "Before %", "percent", "Inclusive weight before, as part of all stacks before."],
  ["inclusive_percent", "After %", "percent", "Inclusive weight after, as part of all stacks after."],
  ["exclusive_before", "Exc before", "", "Weight before of stacks that end in it."],
  ["exclusive", "Exc after", "", "Weight after of stacks that end in it."],
];

function set(change: Partial<StackState>): void {
  update({ stack: { ...state.value.stack, ...change } });
}

/** The tree that came last, for what is said of its names. */
const latest = signal<Tree | null>(null);

/** What the stacks are, for the status line. */
export const stackSummary = computed(() => {
  const tree = latest.value;
  if (!tree) return "";
  const { kind, total, unselected, before } = tree.info;
  const events = `${total.events.toLocaleString("en-US")} events`;
  const parts = [kind === "count" ? `Stacks of ${events}` : `Stacks of ${show(total.weight, kind)}, ${events}`];
  if (before) parts.push(`before: ${kind === "count" ? before.events.toLocaleString("en-US") : show(before.weight, kind)}`);
  if (unselected.events > 0) parts.push(`${unselected.events.toLocaleString("en-US")} events without stacks or not selected`);
  return parts.join(" · ");
});

/** Asks for a tree whenever the question changes. */
function useTree(question: StackRequest): { tree: Tree | null; error: string; busy: boolean } {
  const key = JSON.stringify(question);
  // What is shown is of an earlier question from the moment on at which another one is asked.
  const [answer, setAnswer] = useState({ key: "", tree: null as Tree | null, error: "" });
  useEffect(() => {
    const stop = new AbortController();
    arrow<StackInfo>("/api/stacks", question, stop.signal).then(
      (batch) => {
        const tree = new Tree(batch);
        latest.value = tree;
        setAnswer({ key, tree, error: "" });
      },
      (problem: Error) => {
        if (!stop.signal.aborted) setAnswer((before) => ({ ...before, key, error: problem.message }));
      },
    );
    return () => stop.abort();
  }, [key]);
  return { tree: answer.tree, error: answer.error, busy: answer.key !== key };
}

function question(view: string): StackRequest {
  const stack = state.value.stack;
  const scope = request.value;
  return {
    table: scope.table,
    from: scope.from ?? null,
    to: scope.to ?? null,
    filters: scope.filters,
    weight: stack.weight || table.value?.weights[0]?.name || "rows",
    view,
    function: stack.function,
    include: stack.include,
    exclude: stack.exclude,
    fold: stack.fold,
    group: stack.group,
    fold_percent: stack.percent,
    min_percent: stack.graph ? 0.02 : 0.01,
    just_my_code: stack.mine,
    tagged: stack.tagged,
    periods: stack.graph || stack.base || isComparing.value ? 0 : PERIODS,
    base: stack.base,
    with_trace: isComparing.value,
  };
}

/** The view that is asked for: a flame graph has no list, and a difference has no callers. */
function viewOf(stack: StackState): StackState["view"] {
  if (stack.view === "tags") return catalog.value?.has_tags ? "tags" : "top-down";
  if (stack.base || isComparing.value) return stack.view === "by-name" && !stack.graph ? "by-name" : "top-down";
  const around = stack.view === "callers" || stack.view === "callees" || stack.view === "sandwich";
  if (around && !stack.function) return "top-down";
  return stack.graph && !around ? "top-down" : stack.view;
}

export function Stacks() {
  const stack = state.value.stack;
  const view = viewOf(stack);
  const time = state.value.select;
  const isNamed = Boolean(stack.function);
  return (
    <div class="stacks">
      <div class="tools" role="toolbar" aria-label="Stacks">
        <label title="What the stacks weigh">
          Weight{" "}
          <select value={stack.weight || table.value?.weights[0]?.name} onChange={(event) => set({ weight: event.currentTarget.value })}>
            {table.value?.weights.map((one) => (
              <option key={one.name} value={one.name} title={one.summary}>
                {one.title}
              </option>
            ))}
          </select>
        </label>
        <span class="tabs" role="group" aria-label="View">
          {VIEWS.map(([name, title, about]) => {
            if (name === "tags" && !catalog.value?.has_tags) return null;
            const isAround = name === "callers" || name === "callees" || name === "sandwich";
            const lacks = stack.base || isComparing.value ? isAround || name === "bottom-up" : isAround && !isNamed;
            // These views have a flame graph of their own.
            const hasGraph = isAround || name === "tags";
            return (
              <button
                key={name}
                aria-pressed={view === name && (!stack.graph || hasGraph)}
                title={isAround && !isNamed ? `${about} Choose the function in the menu of a line.` : about}
                disabled={lacks}
                onClick={() => set({ view: name, graph: stack.graph && hasGraph })}
              >
                {title}
              </button>
            );
          })}
          <button aria-pressed={stack.graph} title="Stacks as boxes: the width is the weight, callees are below callers." onClick={() => set({ graph: !stack.graph })}>
            Flame graph
          </button>
        </span>
        {isNamed && (
          <span class="quiet">
            of {stack.function}
            <button class="close" aria-label="Show all functions" onClick={() => set({ function: "", view: "top-down" })}>
              ×
            </button>
          </span>
        )}
        <span class="space" />
        {stack.base ? (
          <span class="filter" title="The tree shows this time as before, and the selected time as after.">
            compared with {text(stack.base)}
            <button class="close" aria-label="End the comparison" onClick={() => set({ base: null })}>
              ×
            </button>
          </span>
        ) : (
          <button
            disabled={!time}
            title="Compare the selected time with another one: press it, then select the other time."
            onClick={() => time && set({ base: time })}
          >
            Compare
          </button>
        )}
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
        <label title="Functions of the system and of .NET become one for each module.">
          <input type="checkbox" checked={stack.mine} onChange={(event) => set({ mine: event.currentTarget.checked })} /> Just my code
        </label>
        {catalog.value?.has_tags && (
          <label title="Functions that a stack tag names have its name, as in the files of --stack-tags.">
            <input type="checkbox" checked={stack.tagged} onChange={(event) => set({ tagged: event.currentTarget.checked })} /> Stack tags
          </label>
        )}
        {latest.value && <Symbols tree={latest.value} />}
      </div>
      {view === "sandwich" ? (
        <>
          <Shown key="callers" view="callers" upwards />
          <div class="between">{stack.function}</div>
          <Shown key="callees" view="callees" />
        </>
      ) : (
        <Shown key="all" view={view} />
      )}
      <Source />
    </div>
  );
}

function text(range: [number, number]): string {
  return `${time(range[0])} – ${time(range[1])} s`;
}

/** One tree, as lines or as a flame graph; `upwards` if its outermost functions are at the bottom. */
function Shown({ view, upwards }: { view: string; upwards?: boolean }) {
  const { tree, error, busy } = useTree(question(view));
  const { graph } = state.value.stack;
  if (error) {
    return (
      <div class="message" role="alert">
        {error}
      </div>
    );
  }
  if (!tree) return <div class="message">{state.value.stack.weight.startsWith("trace:") ? "Reading the trace …" : "Counting …"}</div>;
  return (
    <div class={`shown ${busy ? "busy" : ""}`}>
      {tree.count === 0 ? (
        <div class="message">{tree.info.unselected.events > 0 ? "No stack is selected." : "These rows have no stacks."}</div>
      ) : graph ? (
        <FlameGraph tree={tree} upwards={upwards ?? false} />
      ) : (
        <CallTree tree={tree} />
      )}
    </div>
  );
}

function signed(value: number, kind: Kind): string {
  return value > 0 ? `+${show(value, kind)}` : show(value, kind);
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
      : `Without names (exclusive weight):\n${worst.join("\n")}\n\nClick for what is missing, and to fetch it.`;
  return (
    <button class={`symbols ${modules > 0 ? "lack" : ""}`} title={title} onClick={() => (naming.value = !naming.value)}>
      {named_percent.toFixed(1)} % named{modules > 0 ? `; ${modules} ${modules === 1 ? "module" : "modules"} without symbols` : ""}
    </button>
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
      { label: "Source lines", run: () => (sourceOf.value = name) },
      { label: "Callers", run: () => set({ view: "callers", function: name, graph: false }) },
      { label: "Callees", run: () => set({ view: "callees", function: name, graph: false }) },
      { label: "Sandwich: callers and callees", run: () => set({ view: "sandwich", function: name, base: null }) },
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
  const all = tree.info.before ? CHANGES : COLUMNS.filter(([name]) => name !== "when" || tree.has("when"));
  const columns: VirtualColumn[] = all.map(([name, title, kind, about]) => ({
    title,
    summary: about,
    className: name === "when" ? "left when" : kind === "text" ? "left key wide" : "right",
  }));
  const [from, to] = state.value.select ?? [0, length.value];
  const cell = (row: number, at: number): string => {
    const node = rows[row];
    const column = all[at];
    if (node === undefined || !column) return "";
    if (column[0] === "when") return tree.when(node);
    if (column[0] === "change") return signed(tree.change(node), kindOf(column[2]));
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
      const lines = [all.map(([, title]) => title), ...rows.slice(0, 10000).map((_, row) => all.map((__, at) => (at === 0 ? " ".repeat(tree.depth(rows[row] ?? 0)) : "") + cell(row, at)))];
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
        for (let row = from; row < to; row += 1) texts.push(all.map((_, at) => cell(row, at)));
        return texts;
      }}
      about={(row, at) => {
        const node = rows[row] ?? 0;
        const column = all[at];
        if (at === 0) {
          const leaf = tree.ends[node] === node + 1;
          const rest = tree.number("left_out", node);
          return {
            title: `${tree.name(node)}${rest > 0 ? `\n${rest} callees with less than ${tree.info.min_percent} % are not listed.` : ""}`,
            toggle: leaf ? "none" : open.has(node) ? "open" : "closed",
            depth: tree.depth(node),
          };
        }
        if (column?.[0] === "when") {
          return { title: `Each bar is ${duration(((to - from) * 100) / PERIODS)}; the highest is ${show(tree.number("when_most", node), tree.info.kind)}.` };
        }
        if (column?.[0] === "change") {
          const change = tree.change(node);
          return { title: `${exact(change, tree.info.kind)}\n${column[3]}`, className: change > 0 ? "more" : change < 0 ? "less" : "" };
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

/** The calls of a tree below a root that is around all stacks. */
function callsOf(tree: Tree): Calls {
  const { kind, total, before } = tree.info;
  const nodes = Array.from({ length: tree.count }, (_, node) => node);
  const column = total.weight > 0 ? "inclusive" : "inclusive_events";
  const of = (column: string, total: number) => [total, ...nodes.map((node) => tree.number(column, node))];
  const all = column === "inclusive" ? total.weight : total.events;
  const label = (call: number): string => {
    const node = call - 1;
    if (node < 0) return `all: ${stackSummary.value}`;
    const was = before ? `${signed(tree.change(node), kind)} against ${show(tree.number("before", node), kind)} before. ` : "";
    const part = tree.number("inclusive_percent", node).toFixed(2);
    const events = tree.number("inclusive_events", node).toLocaleString("en-US");
    return `${was}${tree.name(node)}: ${show(tree.number("inclusive", node), kind)} inclusive (${part} %), ${show(tree.number("exclusive", node), kind)} exclusive, ${events} events`;
  };
  return {
    names: ["all", ...nodes.map((node) => tree.name(node))],
    depths: [0, ...nodes.map((node) => tree.depth(node) + 1)],
    weights: before ? [of("before", before.weight), of("inclusive", total.weight)] : [of(column, all)],
    // Times of other lengths are compared as parts of all.
    scales: before ? [before.weight, total.weight] : [1],
    label,
  };
}

function FlameGraph({ tree, upwards }: { tree: Tree; upwards: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const searched = useRef("");
  useEffect(() => {
    if (!host.current) return;
    const flame = new Flame(host.current, callsOf(tree), {
      title: "Flame graph; arrows move, Enter zooms",
      // Callers grow upwards from the function, which is at the bottom.
      isInverted: upwards,
      search: searched.current,
      onMenu: (call, x, y) => nodeMenu(tree, call - 1, x, y),
    });
    return () => {
      searched.current = flame.search.value;
      flame.close();
    };
  }, [tree, upwards]);
  return <div class="flame-graph" ref={host} />;
}
