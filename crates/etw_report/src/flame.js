// Flame graphs. Each `.flame` has its data in the script element that `data-of` names: names, and for each call, in
// preorder, its depth, the number of its name and its weight; of comparisons the weights before and after.
// Texts of traces are only ever set as text.
'use strict';

const ROW = 18;
const LEAST = 1 / 1400;

function text(value, unit) {
  const scaled = (value, steps, least) => {
    let index = 0;
    while (index + 1 < steps.length && value >= steps[index + 1][0]) index += 1;
    const [size, name] = steps[index];
    return (value / size).toFixed(size === least ? 0 : 2) + name;
  };
  if (unit === 'time') {
    return scaled(value, [[10, ' µs'], [1e4, ' ms'], [1e7, ' s']], 0);
  }
  if (unit === 'bytes') {
    return scaled(value, [[1, ' bytes'], [1024, ' KiB'], [2 ** 20, ' MiB'], [2 ** 30, ' GiB']], 1);
  }
  return Number.isInteger(value) ? value.toLocaleString('en') : value.toFixed(2);
}

function percent(part, whole) {
  return (whole > 0 ? part * 100 / whole : 0).toFixed(2) + ' %';
}

function hue(name) {
  const end = name.indexOf('!');
  let hash = 7;
  for (const character of end < 0 ? name : name.slice(0, end)) {
    hash = (hash * 31 + character.codePointAt(0)) % 9973;
  }
  return hash % 360;
}

class Flame {
  constructor(box) {
    this.box = box;
    const section = box.closest('section');
    const data = JSON.parse(document.getElementById(box.dataset.of).textContent);
    this.unit = data.unit;
    // The root is a call of its own, around all others.
    this.names = ['all', ...data.names];
    this.lower = this.names.map((name) => name.toLowerCase());
    this.name = [0, ...data.name.map((index) => index + 1)];
    this.depth = [0, ...data.depth.map((depth) => depth + 1)];
    this.totals = data.totals;
    this.weights = data.weights.map((weights, side) => [data.totals[side], ...weights]);
    this.seconds = data.seconds;
    this.isDifference = this.weights.length === 2;
    this.parent = [];
    const path = [];
    this.depth.forEach((depth, index) => {
      path.length = depth;
      this.parent.push(depth > 0 ? path[depth - 1] : -1);
      path.push(index);
    });
    this.zoomed = 0;
    this.focused = 0;
    this.isInverted = false;
    this.matches = new Set();
    this.detail = section.querySelector('.flame-detail');
    this.found = section.querySelector('.flame-found');
    this.search = section.querySelector('.flame-search');
    this.search.addEventListener('input', () => this.find());
    const invert = section.querySelector('.flame-invert');
    invert.addEventListener('click', () => {
      this.isInverted = !this.isInverted;
      invert.setAttribute('aria-pressed', String(this.isInverted));
      this.draw();
    });
    section.querySelector('.flame-reset').addEventListener('click', () => this.reset());
    this.widths = section.querySelector('.flame-widths');
    if (this.widths) this.widths.addEventListener('change', () => this.measure());
    box.addEventListener('keydown', (event) => this.key(event));
    box.addEventListener('click', (event) => this.pick(event, (index) => this.zoom(index)));
    box.addEventListener('mouseover', (event) => this.pick(event, (index) => this.describe(index)));
    box.addEventListener('focusin', (event) => this.pick(event, (index) => this.focus(index)));
    this.measure();
  }

  // Weight of a call per second, before (0) or after (1).
  rate(index, side) {
    return this.weights[side][index] / this.seconds[side];
  }

  // What the width of a call stands for.
  value(index) {
    if (!this.isDifference) return this.weights[0][index];
    const mode = this.widths.value;
    if (mode === 'before') return this.rate(index, 0);
    if (mode === 'after') return this.rate(index, 1);
    return this.rate(index, 0) + this.rate(index, 1);
  }

  // Places calls beside each other, from 0 to the value of the root.
  measure() {
    const next = [0];
    this.width = [];
    this.start = this.depth.map((depth, index) => {
      const start = next[depth];
      const width = this.value(index);
      this.width.push(width);
      next[depth] = start + width;
      next[depth + 1] = start;
      return start;
    });
    this.find();
  }

  label(index) {
    const name = this.names[this.name[index]];
    if (!this.isDifference) {
      const weight = this.weights[0][index];
      return `${name}: ${text(weight, this.unit)}, ${percent(weight, this.totals[0])}`;
    }
    const [before, after] = [this.rate(index, 0), this.rate(index, 1)];
    const share = (side) => percent(this.weights[side][index], this.totals[side]);
    const change = after - before;
    const sign = change > 0 ? '+' : change < 0 ? '−' : '';
    const relative = before > 0 ? ` (${sign}${percent(Math.abs(change), before)})` : change > 0 ? ' (new)' : '';
    return `${name}: before ${text(before, this.unit)}/s, ${share(0)}; after ${text(after, this.unit)}/s, ` +
      `${share(1)}; change ${sign}${text(Math.abs(change), this.unit)}/s${relative}`;
  }

  draw() {
    const [from, span] = [this.start[this.zoomed], this.width[this.zoomed] || 1];
    const outer = new Set();
    for (let at = this.parent[this.zoomed]; at >= 0; at = this.parent[at]) outer.add(at);
    this.shown = [];
    let rows = 1;
    this.depth.forEach((depth, index) => {
      const width = this.width[index] / span;
      const start = (this.start[index] - from) / span;
      const isInside = depth >= this.depth[this.zoomed] && start > -1e-9 && start + width < 1 + 1e-9;
      if (!outer.has(index) && (!isInside || width < LEAST)) return;
      this.shown.push(index);
      rows = Math.max(rows, depth + 1);
    });
    if (!this.shown.includes(this.focused)) this.focused = this.zoomed;
    this.elements = new Map();
    const room = this.box.clientWidth || 1000;
    for (const index of this.shown) {
      const element = document.createElement('div');
      const isOuter = outer.has(index);
      const start = isOuter ? 0 : (this.start[index] - from) / span;
      const width = isOuter ? 1 : this.width[index] / span;
      const row = this.isInverted ? rows - 1 - this.depth[index] : this.depth[index];
      element.style.left = `${start * 100}%`;
      element.style.width = `${width * 100}%`;
      element.style.top = `${row * ROW}px`;
      element.dataset.call = String(index);
      element.tabIndex = index === this.focused ? 0 : -1;
      element.setAttribute('role', 'treeitem');
      element.setAttribute('aria-level', String(this.depth[index] + 1));
      const label = this.label(index);
      element.title = label;
      element.setAttribute('aria-label', label);
      this.paint(element, index);
      if (isOuter) element.classList.add('outer');
      if (this.matches.has(index)) element.classList.add('hit');
      if (width * room > 28) element.textContent = this.mark(index) + this.names[this.name[index]];
      this.elements.set(index, element);
    }
    this.box.style.height = `${rows * ROW}px`;
    this.box.replaceChildren(...this.elements.values());
  }

  // A sign of the change besides the colour.
  mark(index) {
    if (!this.isDifference || index === 0) return '';
    const change = this.rate(index, 1) - this.rate(index, 0);
    return change > 0 ? '+ ' : change < 0 ? '− ' : '';
  }

  paint(element, index) {
    if (index === 0) return element.classList.add('root');
    if (!this.isDifference) {
      return element.style.setProperty('--hue', String(hue(this.names[this.name[index]])));
    }
    const change = this.rate(index, 1) - this.rate(index, 0);
    const most = Math.max(this.rate(index, 0), this.rate(index, 1));
    if (change === 0 || most === 0) return element.classList.add('same');
    element.classList.add(change > 0 ? 'grew' : 'shrank');
    element.style.setProperty('--part', `${Math.round(15 + 85 * Math.abs(change) / most)}%`);
  }

  find() {
    const wanted = this.search.value.trim().toLowerCase();
    this.matches = new Set();
    let [found, inside] = [0, -1];
    this.depth.forEach((depth, index) => {
      if (inside >= 0 && depth <= this.depth[inside]) inside = -1;
      if (!wanted || index === 0 || !this.lower[this.name[index]].includes(wanted)) return;
      this.matches.add(index);
      // A call inside a match is counted with it.
      if (inside < 0) {
        inside = index;
        found += this.width[index];
      }
    });
    this.found.textContent = wanted ? `${percent(found, this.width[0])} matched` : '';
    this.draw();
  }

  describe(index) {
    this.detail.textContent = this.label(index);
  }

  focus(index) {
    const before = this.elements.get(this.focused);
    if (before) before.tabIndex = -1;
    this.focused = index;
    this.elements.get(index).tabIndex = 0;
    this.describe(index);
  }

  zoom(index) {
    this.zoomed = index;
    this.focused = index;
    this.draw();
    this.elements.get(index).focus();
  }

  reset() {
    this.search.value = '';
    this.zoomed = 0;
    this.find();
  }

  pick(event, then) {
    const element = event.target.closest('[data-call]');
    if (element) then(Number(element.dataset.call));
  }

  key(event) {
    const index = this.focused;
    const beside = (step) => {
      const row = this.shown.filter((other) => this.depth[other] === this.depth[index]);
      return row[row.indexOf(index) + step];
    };
    const inner = () => this.shown.find((other) => this.parent[other] === index);
    const outer = () => this.parent[index];
    const steps = {
      ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1),
      ArrowUp: this.isInverted ? inner : outer,
      ArrowDown: this.isInverted ? outer : inner,
      Home: () => 0,
    };
    if (steps[event.key]) {
      const element = this.elements.get(steps[event.key]());
      if (element) element.focus();
    } else if (event.key === 'Enter' || event.key === ' ') {
      this.zoom(index);
    } else if (event.key === 'Escape') {
      this.reset();
      this.elements.get(this.focused).focus();
    } else if (event.key === '/') {
      this.search.focus();
    } else {
      return;
    }
    event.preventDefault();
  }
}

document.querySelectorAll('.flame').forEach((box) => new Flame(box));
