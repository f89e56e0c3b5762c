// Presets: how a table is shown, saved as files and shared; and those of profiles of Windows Performance Analyzer.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Condition, json, type Sort, text } from "./api";
import { download, say } from "./menu";
import { catalog, selected, state, table, update } from "./state";

export const presetting = signal(false);

interface Preset {
  name: string;
  table: string;
  keys: string[];
  values: string[];
  columns: string[];
  flat: boolean;
  sort: Sort | null;
  filters: Condition[];
}

interface Missing {
  what: string;
  why: string;
}

interface Opened {
  name: string;
  presets: (Preset & { view: string; missing: Missing[] })[];
  missing: Missing[];
}

interface Listed {
  directory: string | null;
  saved: (Preset & { file: string })[];
  named: Opened[];
  problems: Missing[];
}

const listed = signal<Listed | null>(null);
/** Files that were opened in the page. */
const opened = signal<Opened[]>([]);
const problem = signal("");

async function look(): Promise<void> {
  listed.value = await json<Listed>("/api/presets");
}

/** Does something and shows what went wrong. */
async function attempt(action: () => Promise<void>): Promise<void> {
  try {
    problem.value = "";
    await action();
  } catch (error) {
    problem.value = error instanceof Error ? error.message : String(error);
  }
}

/** A tab of a profile: its presets, of which one is shown. */
export const profileTab = signal<{ title: string; presets: Preset[]; chosen: Preset } | null>(null);

/** The presets of the tab of a profile, above the table: a click shows another one. */
export function ProfileTab() {
  const tab = profileTab.value;
  if (!tab) return null;
  return (
    <div class="tools profiletab">
      <b title="Tab of the profile of Windows Performance Analyzer">{tab.title}</b>
      <span class="tabs" role="tablist" aria-label={`Presets of ${tab.title}`}>
        {tab.presets.map((preset, at) => (
          <button key={at} role="tab" aria-selected={preset === tab.chosen} title={about(preset)} onClick={() => apply(preset, tab)}>
            {preset.name}
          </button>
        ))}
      </span>
      <button class="close" aria-label="Close the tab of the profile" onClick={() => (profileTab.value = null)}>
        ×
      </button>
    </div>
  );
}

/** Shows a table as a preset says, with the other presets of its tab if it is of a profile. */
function apply(preset: Preset, tab?: { title: string; presets: Preset[] }): void {
  const info = catalog.value?.tables.find((one) => one.name === preset.table);
  if (!info) {
    problem.value = `There is no table ${preset.table}.`;
    return;
  }
  profileTab.value = tab ? { ...tab, chosen: preset } : null;
  selected.value = { path: [], time: null };
  update({
    table: preset.table,
    keys: preset.keys,
    values: preset.values,
    columns: preset.columns.length > 0 ? preset.columns : info.columns,
    flat: preset.flat,
    sort: preset.sort,
    filters: preset.filters,
    open: [],
    event: null,
    tab: "table",
    stack: { ...state.value.stack, weight: info.weights[0]?.name ?? "" },
  });
  say(info.rows === 0 ? `The trace has no rows for ${info.title}.` : `Applied ${preset.name}.`);
}

function current(name: string): Preset {
  const { keys, values, columns, flat, sort, filters } = state.value;
  return { name, table: state.value.table, keys, values, columns, flat, sort, filters };
}

async function save(presets: Preset[]): Promise<void> {
  const { left_out } = await json<{ left_out: number }>("/api/presets/save", presets);
  await look();
  const filters = left_out === 1 ? "a filter" : `${left_out} filters`;
  say(left_out > 0 ? `Saved without ${filters} that only this trace has.` : `Saved ${presets.length === 1 ? presets[0]?.name : `${presets.length} presets`}.`);
}

async function share(presets: Preset[], name: string): Promise<void> {
  download(await text("/api/presets/file", presets), `${name.replace(/[^\w-]+/g, "-")}.etwpresets`);
}

/** The text of a file: UTF-16 with a mark, or UTF-8. */
export async function readText(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const [a, b] = bytes;
  const encoding = a === 0xff && b === 0xfe ? "utf-16le" : a === 0xfe && b === 0xff ? "utf-16be" : "utf-8";
  return new TextDecoder(encoding).decode(bytes);
}

async function open(files: FileList | null): Promise<void> {
  for (const file of files ?? []) {
    const found = await json<Opened>("/api/presets/open", { name: file.name, text: await readText(file) });
    opened.value = [found, ...opened.value.filter((other) => other.name !== found.name)];
  }
}

function titleOf(name: string): string {
  return catalog.value?.tables.find((one) => one.name === name)?.title ?? name;
}

/** What a preset shows, on hover. */
function about(preset: Preset): string {
  const parts = preset.flat ? [`Columns: ${preset.columns.join(", ")}`] : [`By ${preset.keys.join(", ")}`, `Counts ${preset.values.join(", ")}`];
  for (const filter of preset.filters) parts.push(`Where ${filter.column} ${filter.op === "rows" || filter.op === "where" ? "" : filter.op} ${filter.label ?? filter.value}`);
  return parts.join("\n");
}

function Missings({ missing }: { missing: Missing[] }) {
  if (missing.length === 0) return null;
  return (
    <details class="missing">
      <summary>{missing.length} without a counterpart</summary>
      <ul>
        {missing.map((one, at) => (
          <li key={at}>
            <b>{one.what}</b>: {one.why}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Row({ preset, tab, children }: { preset: Preset; tab?: { title: string; presets: Preset[] }; children?: preact.ComponentChildren }) {
  const rows = catalog.value?.tables.find((one) => one.name === preset.table)?.rows ?? 0;
  return (
    <li>
      <button class="apply" title={about(preset)} onClick={() => apply(preset, tab)}>
        {preset.name}
      </button>
      <span class="quiet">
        {titleOf(preset.table)}
        {rows === 0 && ", no rows"}
      </span>
      {children}
    </li>
  );
}

/** The tabs of a file, in its order, each with its presets. */
function tabsOf(file: Opened): { title: string; presets: Opened["presets"] }[] {
  const tabs: { title: string; presets: Opened["presets"] }[] = [];
  for (const preset of file.presets) {
    const last = tabs[tabs.length - 1];
    if (last && last.title === preset.view) last.presets.push(preset);
    else tabs.push({ title: preset.view, presets: [preset] });
  }
  return tabs;
}

function FromFile({ file }: { file: Opened }) {
  return (
    <section>
      <h3>
        {file.name}{" "}
        <button disabled={file.presets.length === 0} onClick={() => void attempt(() => save(file.presets))}>
          Save all
        </button>
      </h3>
      {file.presets.length === 0 && <p class="quiet">No preset in it has a counterpart.</p>}
      {tabsOf(file).map((tab, at) => (
        <div key={at}>
          {tab.title && <h4 title="Tab of the profile; its presets are shown together">{tab.title}</h4>}
          <ul>
            {tab.presets.map((preset, at) => (
              <Row key={at} preset={preset} {...(tab.title ? { tab } : {})}>
                <Missings missing={preset.missing} />
              </Row>
            ))}
          </ul>
        </div>
      ))}
      <Missings missing={file.missing} />
    </section>
  );
}

/** The panel of presets. */
export function Presets() {
  const name = useRef<HTMLInputElement>(null);
  const isOpen = presetting.value;
  useEffect(() => {
    if (isOpen) {
      void attempt(look);
      name.current?.focus();
    }
  }, [isOpen]);
  if (!isOpen) return null;
  const now = listed.value;
  const own = now ? [...now.saved].sort((a, b) => Number(b.table === state.value.table) - Number(a.table === state.value.table)) : [];
  return (
    <div class="panel presets" role="dialog" aria-label="Presets" onKeyDown={(event) => event.key === "Escape" && (presetting.value = false)}>
      <header>
        <h2>Presets</h2>
        <button aria-label="Close" onClick={() => (presetting.value = false)}>
          ×
        </button>
      </header>
      <div class="scroll">
        {problem.value && (
          <p class="problem" role="alert">
            {problem.value}
          </p>
        )}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const wanted = name.current?.value.trim() ?? "";
            if (wanted) void attempt(() => save([current(wanted)]));
          }}
        >
          <input ref={name} aria-label="Name of the preset" placeholder={`Name for ${table.value?.title ?? "this table"} as it is shown`} maxLength={200} />
          <button disabled={now?.directory === null} title={now?.directory ? `Into ${now.directory}` : "There is no directory for settings"}>
            Save
          </button>
          <label class="file" title="A file of presets (.etwpresets), or a profile of Windows Performance Analyzer (.wpaProfile)">
            Open a file …
            <input
              type="file"
              multiple
              accept=".etwpresets,.wpaProfile,.json"
              onChange={(event) => {
                const input = event.currentTarget;
                void attempt(() => open(input.files)).then(() => (input.value = ""));
              }}
            />
          </label>
        </form>
        {opened.value.map((file) => (
          <FromFile key={file.name} file={file} />
        ))}
        {now?.named.map((file) => <FromFile key={file.name} file={file} />)}
        <section>
          <h3>
            Saved{" "}
            <button disabled={own.length === 0} title="A file with all of them, to share" onClick={() => void attempt(() => share(own, "presets"))}>
              Download all
            </button>
          </h3>
          {own.length === 0 && <p class="quiet">None yet.</p>}
          <ul>
            {own.map((preset) => (
              <Row key={`${preset.file} ${preset.name}`} preset={preset}>
                <button aria-label={`Download ${preset.name}`} title="A file to share" onClick={() => void attempt(() => share([preset], preset.name))}>
                  File
                </button>
                <button
                  aria-label={`Delete ${preset.name}`}
                  onClick={() =>
                    void attempt(async () => {
                      await json("/api/presets/delete", { file: preset.file, name: preset.name });
                      await look();
                    })
                  }
                >
                  Delete
                </button>
              </Row>
            ))}
          </ul>
          {now?.problems.map((one) => (
            <p class="quiet" key={one.what}>
              {one.what}: {one.why}
            </p>
          ))}
        </section>
      </div>
    </div>
  );
}
