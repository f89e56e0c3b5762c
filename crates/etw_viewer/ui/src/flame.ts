// Flame graphs, of the viewer and of reports: each call is a box whose width is its weight. Names are only ever set as text.

import "./flame.css";

/** The calls of a graph in preorder. The first one is the root, around all others. */
export interface Calls {
  readonly names: readonly string[];
  readonly depths: ArrayLike<number>;
  /** The weights; of a comparison those before and after. */
  readonly weights: readonly ArrayLike<number>[];
  /** What the weights are divided by, so that those before and after can be compared. */
  readonly scales: readonly number[];
  /** What is said of a call. */
  label(call: number): string;
}

export interface FlameOptions {
  title: string;
  /** Whether the root is below at first. */
  isInverted?: boolean;
  /** Text to search at first. */
  search?: string;
  onMenu?(call: number, x: number, y: number): void;
}

const ROW = 18;
/** Least part of the width that is drawn. */
const LEAST = 1 / 1400;

export function percent(part: number, whole: number): string {
  return `${(whole > 0 ? (part * 100) / whole : 0).toFixed(2)} %`;
}

/** A colour for each module. Blue and orange hues are those that every kind of colour vision tells apart. */
function colorOf(name: string): { hue: number; tint: number } | null {
  const end = name.indexOf("!");
  if (end <= 0) return null;
  let hash = 7;
  for (const letter of name.slice(0, end)) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) >>> 0;
  return { hue: hash % 2 === 0 ? 195 + (hash % 40) : 25 + (hash % 25), tint: hash % 10 };
}

function make<T extends keyof HTMLElementTagNameMap>(tag: T, name: string, text = ""): HTMLElementTagNameMap[T] {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  return element;
}

function labelled(text: string, control: HTMLElement): HTMLElement {
  const label = make("label", "", text);
  label.append(control);
  return label;
}

export class Flame {
  readonly search = make("input", "flame-search");
  private readonly box = make("div", "flame");
  private readonly detail = make("p", "flame-detail");
  private readonly found = make("output", "flame-found");
  private readonly widths = make("select", "flame-widths");
  private readonly resized: ResizeObserver;
  private readonly parents: number[] = [];
  private isInverted: boolean;
  /** The part of the root's value before each call, and the value of each call. */
  private starts: number[] = [];
  private values: number[] = [];
  private matches = new Set<number>();
  private shown: number[] = [];
  private elements = new Map<number, HTMLElement>();
  private zoomed = 0;
  private focused = 0;
  private room = 0;

  constructor(
    host: HTMLElement,
    private readonly calls: Calls,
    private readonly options: FlameOptions,
  ) {
    const path: number[] = [];
    calls.names.forEach((_, call) => {
      path.length = this.depth(call);
      this.parents.push(path[path.length - 1] ?? -1);
      path.push(call);
    });
    this.isInverted = options.isInverted ?? false;
    this.search.type = "search";
    this.search.autocomplete = "off";
    this.search.spellcheck = false;
    this.search.value = options.search ?? "";
    this.search.addEventListener("input", () => this.find());
    const invert = make("button", "flame-invert", "Flame (root below)");
    invert.type = "button";
    invert.setAttribute("aria-pressed", String(this.isInverted));
    invert.addEventListener("click", () => {
      this.isInverted = !this.isInverted;
      invert.setAttribute("aria-pressed", String(this.isInverted));
      this.draw();
    });
    const reset = make("button", "flame-reset", "Reset");
    reset.type = "button";
    reset.addEventListener("click", () => this.reset());
    const tools = make("div", "flame-tools");
    tools.append(labelled("Search ", this.search), this.found, invert);
    if (this.isDifference) {
      for (const [value, text] of [["both", "before + after"], ["after", "after"], ["before", "before"]] as const) {
        const option = make("option", "", text);
        option.value = value;
        this.widths.append(option);
      }
      this.widths.value = "both";
      this.widths.addEventListener("change", () => this.measure());
      tools.append(labelled("Width ", this.widths));
    }
    tools.append(reset);
    this.detail.setAttribute("role", "status");
    this.box.setAttribute("role", "tree");
    this.box.setAttribute("aria-label", options.title);
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("click", (event) => this.pick(event, (call) => this.zoom(call)));
    this.box.addEventListener("mouseover", (event) => this.pick(event, (call) => this.describe(call)));
    this.box.addEventListener("focusin", (event) => this.pick(event, (call) => this.focus(call)));
    this.box.addEventListener("contextmenu", (event) => {
      if (options.onMenu) this.pick(event, (call) => this.menu(call, event.clientX, event.clientY, event));
    });
    const frame = make("div", "flame-frame");
    frame.append(this.box);
    host.replaceChildren(tools, frame, this.detail);
    this.measure();
    if (this.isInverted) frame.scrollTop = frame.scrollHeight;
    this.resized = new ResizeObserver(() => {
      if (this.box.clientWidth !== this.room) this.draw();
    });
    this.resized.observe(frame);
  }

  close(): void {
    this.resized.disconnect();
  }

  private get isDifference(): boolean {
    return this.calls.weights.length === 2;
  }

  private depth(call: number): number {
    return this.calls.depths[call] ?? 0;
  }

  private name(call: number): string {
    return this.calls.names[call] ?? "";
  }

  private parent(call: number): number {
    return this.parents[call] ?? -1;
  }

  /** Weight of a call on the common scale, before (0) or after (1). */
  private rate(call: number, side: number): number {
    return (this.calls.weights[side]?.[call] ?? 0) / (this.calls.scales[side] || 1);
  }

  private change(call: number): number {
    return this.isDifference ? this.rate(call, 1) - this.rate(call, 0) : 0;
  }

  /** What the width of a call stands for. */
  private value(call: number): number {
    if (!this.isDifference || this.widths.value === "before") return this.rate(call, 0);
    return this.widths.value === "after" ? this.rate(call, 1) : this.rate(call, 0) + this.rate(call, 1);
  }

  private width(call: number): number {
    return this.values[call] ?? 0;
  }

  /** Places calls beside each other, from 0 to the value of the root. */
  private measure(): void {
    const next = [0];
    this.values = this.calls.names.map((_, call) => this.value(call));
    this.starts = this.values.map((value, call) => {
      const depth = this.depth(call);
      const start = next[depth] ?? 0;
      next[depth] = start + value;
      next[depth + 1] = start;
      return start;
    });
    this.find();
  }

  private draw(): void {
    const [from, span] = [this.starts[this.zoomed] ?? 0, this.width(this.zoomed) || 1];
    const outer = new Set<number>();
    for (let call = this.parent(this.zoomed); call >= 0; call = this.parent(call)) outer.add(call);
    const place = (call: number): [number, number] => (outer.has(call) ? [0, 1] : [((this.starts[call] ?? 0) - from) / span, this.width(call) / span]);
    this.shown = [];
    let rows = 1;
    this.calls.names.forEach((_, call) => {
      const [start, width] = place(call);
      const isInside = this.depth(call) >= this.depth(this.zoomed) && start > -1e-9 && start + width < 1 + 1e-9;
      if (!outer.has(call) && (!isInside || width < LEAST)) return;
      this.shown.push(call);
      rows = Math.max(rows, this.depth(call) + 1);
    });
    if (!this.shown.includes(this.focused)) this.focused = this.zoomed;
    this.elements = new Map();
    this.room = this.box.clientWidth;
    for (const call of this.shown) {
      const [start, width] = place(call);
      const element = make("div", "");
      element.style.left = `${start * 100}%`;
      element.style.width = `${width * 100}%`;
      element.style.top = `${(this.isInverted ? rows - 1 - this.depth(call) : this.depth(call)) * ROW}px`;
      element.dataset["call"] = String(call);
      element.tabIndex = call === this.focused ? 0 : -1;
      element.setAttribute("role", "treeitem");
      element.setAttribute("aria-level", String(this.depth(call) + 1));
      element.title = this.calls.label(call);
      element.setAttribute("aria-label", element.title);
      this.paint(element, call);
      if (outer.has(call)) element.classList.add("outer");
      if (this.matches.has(call)) element.classList.add("hit");
      if (width * (this.room || 1000) > 28) element.textContent = this.mark(call) + this.name(call);
      this.elements.set(call, element);
    }
    const hasFocus = this.box.contains(document.activeElement);
    this.box.style.height = `${rows * ROW}px`;
    this.box.replaceChildren(...this.elements.values());
    if (hasFocus) this.elements.get(this.focused)?.focus();
  }

  /** A sign of the change besides the colour. */
  private mark(call: number): string {
    const change = call === 0 ? 0 : this.change(call);
    return change > 0 ? "+ " : change < 0 ? "− " : "";
  }

  private paint(element: HTMLElement, call: number): void {
    if (call === 0) return element.classList.add("root");
    if (!this.isDifference) {
      const color = colorOf(this.name(call));
      if (!color) return element.classList.add("same");
      element.style.setProperty("--hue", String(color.hue));
      return element.style.setProperty("--tint", `${color.tint}%`);
    }
    const change = this.change(call);
    if (change === 0) return element.classList.add("same");
    element.classList.add(change > 0 ? "grew" : "shrank");
    const most = Math.max(this.rate(call, 0), this.rate(call, 1));
    element.style.setProperty("--part", `${Math.round(15 + (85 * Math.abs(change)) / most)}%`);
  }

  private find(): void {
    const wanted = this.search.value.trim().toLowerCase();
    this.matches = new Set();
    let [found, inside] = [0, -1];
    this.calls.names.forEach((name, call) => {
      if (inside >= 0 && this.depth(call) <= this.depth(inside)) inside = -1;
      if (!wanted || call === 0 || !name.toLowerCase().includes(wanted)) return;
      this.matches.add(call);
      // A call inside a match is counted with it.
      if (inside < 0) {
        inside = call;
        found += this.width(call);
      }
    });
    this.found.textContent = wanted ? `${percent(found, this.width(0))} matched` : "";
    this.draw();
  }

  private describe(call: number): void {
    this.detail.textContent = this.calls.label(call);
  }

  private focus(call: number): void {
    const before = this.elements.get(this.focused);
    if (before) before.tabIndex = -1;
    this.focused = call;
    const element = this.elements.get(call);
    if (element) element.tabIndex = 0;
    this.describe(call);
  }

  /** Zooms into a call, or out of it again. */
  private zoom(call: number): void {
    this.zoomed = call === this.zoomed ? 0 : call;
    this.focused = call;
    this.draw();
    this.elements.get(call)?.focus();
  }

  private reset(): void {
    this.search.value = "";
    this.zoomed = 0;
    this.find();
  }

  private menu(call: number, x: number, y: number, event: Event): void {
    if (call === 0 || !this.options.onMenu) return;
    event.preventDefault();
    this.options.onMenu(call, x, y);
  }

  private pick(event: Event, then: (call: number) => void): void {
    const element = (event.target as HTMLElement).closest<HTMLElement>("[data-call]");
    if (element) then(Number(element.dataset["call"]));
  }

  private key(event: KeyboardEvent): void {
    const call = this.focused;
    const beside = (step: number) => {
      const row = this.shown.filter((other) => this.depth(other) === this.depth(call));
      return row[row.indexOf(call) + step];
    };
    const inner = () => this.shown.find((other) => this.parent(other) === call);
    const outer = () => this.parent(call);
    const steps: Record<string, () => number | undefined> = {
      ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1),
      ArrowUp: this.isInverted ? inner : outer,
      ArrowDown: this.isInverted ? outer : inner,
      Home: () => 0,
    };
    const step = steps[event.key];
    if (step) {
      this.elements.get(step() ?? -1)?.focus();
    } else if (event.key === "Enter" || event.key === " ") {
      this.zoom(call);
    } else if (event.key === "Escape" || event.key === "Backspace") {
      this.reset();
    } else if (event.key === "/") {
      this.search.focus();
    } else if (this.options.onMenu && (event.key === "ContextMenu" || (event.shiftKey && event.key === "F10"))) {
      const box = this.elements.get(call)?.getBoundingClientRect();
      this.menu(call, (box?.left ?? 200) + 40, (box?.bottom ?? 200) + 2, event);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
