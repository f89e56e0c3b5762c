// Runs the script of flame graphs (argument 1) over the data of a graph (argument 2) with a document of its own, which
// has what the script uses and no more, and checks what is drawn. Fails by throwing.
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const vm = require('node:vm');

class Element {
  constructor(tag) {
    Object.assign(this, { tag, dataset: {}, attributes: {}, listeners: {}, children: [], value: '', tabIndex: 0 });
    this.classes = new Set();
    this.classList = { add: (name) => this.classes.add(name) };
    this.style = { properties: {}, setProperty: (name, value) => { this.style.properties[name] = value; } };
    this.textContent = '';
    this.clientWidth = 1000;
  }
  set className(names) { names.split(' ').forEach((name) => this.classes.add(name)); }
  set innerHTML(_) { throw new Error('markup'); }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(kind, listener) { this.listeners[kind] = listener; }
  append(...children) { children.forEach((child) => { child.parent = this; this.children.push(child); }); }
  replaceChildren(...children) { this.children = []; this.append(...children); }
  focus() {
    document.activeElement = this;
    if (this.parent.listeners.focusin) this.parent.fire('focusin', this);
  }
  contains(element) { return this.children.includes(element); }
  closest() { return this.dataset.call === undefined ? null : this; }
  fire(kind, target, more) { this.listeners[kind]({ target, preventDefault() {}, stopPropagation() {}, ...more }); }
  /** The first element with a class in this one. */
  find(name) {
    if (this.classes.has(name)) return this;
    return this.children.reduce((found, child) => found ?? child.find(name), undefined);
  }
}

function graph(data) {
  const host = new Element('host');
  Object.assign(host.dataset, { of: 'data', title: 'Graph' });
  global.ResizeObserver = class { observe() {} };
  global.document = {
    createElement: (tag) => new Element(tag),
    getElementById: () => ({ textContent: JSON.stringify(data) }),
    querySelectorAll: () => [host],
  };
  vm.runInThisContext(fs.readFileSync(process.argv[2], 'utf8'));
  const part = (name) => host.find(name.slice(1));
  const box = part('.flame');
  const drawn = () => box.children.map((child) => ({
    name: child.attributes['aria-label'].split(': ')[0],
    left: parseFloat(child.style.left),
    width: parseFloat(child.style.width),
    top: parseFloat(child.style.top),
    child,
  }));
  const named = (name) => drawn().find((one) => one.name === name);
  return { box, part, drawn, named };
}

// p 10 (a 6 (c 6), b 3 (c 1)), q 10
const data = {
  unit: 'count', totals: [20], seconds: [1], names: ['a', 'b', 'c', 'p', 'q'],
  depth: [0, 1, 2, 1, 2, 0], name: [3, 0, 2, 1, 2, 4], weights: [[10, 6, 6, 3, 1, 10]],
};

const check = (one, left, width, top) => {
  assert.deepStrictEqual([one.left, one.width, one.top].map((number) => Math.round(number * 100) / 100), [left, width, top]);
};

{
  const { box, part, drawn, named } = graph(data);
  assert.strictEqual(part('.flame-widths'), undefined);
  assert.strictEqual(drawn().length, 7);
  check(named('all'), 0, 100, 0);
  check(named('p'), 0, 50, 18);
  check(named('q'), 50, 50, 18);
  check(named('a'), 0, 30, 36);
  check(named('b'), 30, 15, 36);
  assert.strictEqual(named('p').child.title, 'p: 10, 50.00 %');
  assert.strictEqual(drawn().filter((one) => one.child.tabIndex === 0).length, 1);
  // Search: calls inside a match do not count again.
  part('.flame-search').value = 'C';
  part('.flame-search').fire('input');
  assert.strictEqual(part('.flame-found').textContent, '35.00 % matched');
  assert.strictEqual(drawn().filter((one) => one.child.classes.has('hit')).length, 2);
  part('.flame-search').value = 'p';
  part('.flame-search').fire('input');
  assert.strictEqual(part('.flame-found').textContent, '50.00 % matched');
  // Zoom, and back.
  box.fire('click', named('a').child);
  assert.deepStrictEqual(drawn().map((one) => one.name), ['all', 'p', 'a', 'c']);
  check(named('a'), 0, 100, 36);
  check(named('c'), 0, 100, 54);
  box.fire('click', named('a').child);
  assert.strictEqual(drawn().length, 7);
  box.fire('click', named('a').child);
  box.fire('keydown', null, { key: 'Escape' });
  assert.strictEqual(drawn().length, 7);
  assert.strictEqual(part('.flame-found').textContent, '');
  // The other way up.
  part('.flame-invert').fire('click');
  assert.strictEqual(part('.flame-invert').attributes['aria-pressed'], 'true');
  check(named('all'), 0, 100, 54);
  check(named('p'), 0, 50, 36);
  part('.flame-invert').fire('click');
  // Keys.
  const press = (key) => box.fire('keydown', null, { key });
  const focused = () => document.activeElement.attributes['aria-label'].split(': ')[0];
  press('Home');
  press('ArrowDown');
  assert.strictEqual(focused(), 'p');
  press('ArrowRight');
  assert.strictEqual(focused(), 'q');
  press('ArrowLeft');
  press('ArrowDown');
  assert.strictEqual(focused(), 'a');
  assert.strictEqual(part('.flame-detail').textContent, 'a: 6, 30.00 %');
  press('Enter');
  check(named('a'), 0, 100, 36);
  press('ArrowUp');
  assert.strictEqual(focused(), 'p');
  press('Home');
  assert.strictEqual(focused(), 'all');
}
{
  // Twice as long after: p has the same rate, q has half, and r is new.
  const difference = {
    unit: 'time', totals: [2e7, 4e7], seconds: [1, 2], names: ['p', 'q', 'r'],
    depth: [0, 0, 0], name: [0, 1, 2], weights: [[1e7, 1e7, 0], [2e7, 1e7, 1e7]],
  };
  const { part, named } = graph(difference);
  check(named('p'), 0, 50, 18);
  check(named('r'), 87.5, 12.5, 18);
  assert(named('p').child.classes.has('same'));
  assert(named('q').child.classes.has('shrank') && named('q').child.textContent.startsWith('− '));
  assert(named('r').child.classes.has('grew') && named('r').child.textContent.startsWith('+ '));
  assert.strictEqual(named('q').child.title,
    'q: before 1.00 s/s, 50.00 %; after 500.00 ms/s, 25.00 %; change −500.00 ms/s (−50.00 %)');
  assert(named('r').child.title.endsWith('change +500.00 ms/s (new)'));
  part('.flame-widths').value = 'before';
  part('.flame-widths').fire('change');
  check(named('q'), 50, 50, 18);
  assert.strictEqual(named('r'), undefined);
}
{
  // Modules have colours of their own; what has none is grey.
  const { named } = graph({ ...data, names: ['a', 'm!b', 'c', 'p', 'n!q'] });
  const hue = (name) => named(name).child.style.properties['--hue'];
  assert(hue('m!b') !== undefined && hue('n!q') !== undefined && hue('m!b') !== hue('n!q'));
  assert(named('p').child.classes.has('same') && hue('p') === undefined);
}
{
  // Names are only ever texts.
  const hostile = '<img src=x onerror=alert(1)>';
  const { named } = graph({ ...data, names: [hostile, 'b', 'c', 'p', 'q'] });
  assert.strictEqual(named(hostile).child.textContent, hostile);
}
if (process.argv[3]) {
  // The data of a real page.
  const { drawn, part } = graph(JSON.parse(fs.readFileSync(process.argv[3], 'utf8')));
  assert(drawn().length > 1);
  assert(drawn().every((one) => one.left >= -1e-6 && one.left + one.width < 100 + 1e-6));
  part('.flame-search').value = 'dll';
  part('.flame-search').fire('input');
  assert(parseFloat(part('.flame-found').textContent) <= 100);
}
console.log('ok');
