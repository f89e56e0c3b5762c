// The provider explorer: search through all names, details by release of Windows, and what records a choice of events.

import { useEffect, useState } from "preact/hooks";
import { type Choice, type FoundThing, json, type ProviderInfo, type ProviderShown } from "./api";
import { copy } from "./menu";
import { state, update } from "./state";

const KINDS = ["provider", "event", "field", "keyword", "map"];

export function Providers() {
  const { text, kinds, name } = state.value.explorer;
  const [found, setFound] = useState<{ count: number; found: FoundThing[] } | null>(null);
  const [error, setError] = useState("");
  const set = (change: Partial<typeof state.value.explorer>) => update({ explorer: { ...state.value.explorer, ...change } });
  useEffect(() => {
    if (!text) return;
    const stop = new AbortController();
    const timer = window.setTimeout(() => {
      json<{ count: number; found: FoundThing[] }>("/api/providers/search", { text, kinds }, stop.signal).then(
        (answer) => {
          setFound(answer);
          setError("");
        },
        (problem: Error) => {
          if (!stop.signal.aborted) setError(problem.message);
        },
      );
    }, 250);
    return () => {
      window.clearTimeout(timer);
      stop.abort();
    };
  }, [text, kinds.join()]);
  return (
    <main class="providers">
      <section class="results" aria-label="Search">
        <div class="tools">
          <input
            type="search"
            aria-label="Search providers, events, fields, keywords and maps"
            placeholder="part of a name, several words"
            value={text}
            onInput={(event) => set({ text: event.currentTarget.value.trim() })}
          />
          {KINDS.map((kind) => (
            <label key={kind}>
              <input
                type="checkbox"
                checked={kinds.includes(kind)}
                onChange={() => set({ kinds: kinds.includes(kind) ? kinds.filter((one) => one !== kind) : [...kinds, kind] })}
              />{" "}
              {kind}
            </label>
          ))}
        </div>
        <p class="quiet" aria-live="polite">
          {error || (text && found ? `${found.count.toLocaleString("en-US")} found${found.count > found.found.length ? `, the first ${found.found.length} are listed` : ""}` : "")}
        </p>
        <div class="scroll">
          {text &&
            found?.found.map((one, at) => (
              <button key={at} aria-current={one.Guid === name ? "true" : undefined} onClick={() => set({ name: one.Guid, events: one.EventID === undefined ? [] : [one.EventID], release: "" })}>
                <span class="quiet">{one.Kind}</span> <b>{one.Field ?? one.Keyword ?? (one.Text ? `${one.Map}: ${one.Text}` : one.Map) ?? one.Event ?? one.Provider}</b>
                {one.Kind !== "provider" && <span class="quiet"> {one.Provider}</span>}
                {one.Event !== undefined && (
                  <span class="quiet">
                    {" "}
                    {one.EventID === undefined ? `type ${one.Opcode}` : `event ${one.EventID}`} {one.Kind === "event" ? "" : one.Event}
                  </span>
                )}
                {(one.Type ?? one.Mask ?? one.Value) !== undefined && <span class="quiet"> {one.Type ?? one.Mask ?? one.Value}</span>}
              </button>
            ))}
        </div>
      </section>
      {name ? <Shown key={name} name={name} /> : <div class="message">Search for a provider, an event, a field, a keyword or a text of a map.</div>}
    </main>
  );
}

function Shown({ name }: { name: string }) {
  const [shown, setShown] = useState<ProviderShown | null>(null);
  const [error, setError] = useState("");
  const { release } = state.value.explorer;
  useEffect(() => {
    const stop = new AbortController();
    json<ProviderShown>("/api/providers/show", { name, release }, stop.signal).then(
      (answer) => {
        setShown(answer);
        setError("");
      },
      (problem: Error) => {
        if (!stop.signal.aborted) setError(problem.message);
      },
    );
    return () => stop.abort();
  }, [name, release]);
  const set = (change: Partial<typeof state.value.explorer>) => update({ explorer: { ...state.value.explorer, ...change } });
  const provider = shown?.providers[0];
  return (
    <section class="shownprovider" aria-label="Provider">
      <div class="tools">
        <h1>{provider?.Name ?? name}</h1>
        <span class="quiet">
          {provider?.Guid} {provider?.Origin}
        </span>
        <span class="space" />
        <label title="Layouts of this release of Windows only">
          Release{" "}
          <select value={release} onChange={(event) => set({ release: event.currentTarget.value })}>
            <option value="">all</option>
            {shown?.releases.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      </div>
      {error && (
        <div class="message" role="alert">
          {error}
        </div>
      )}
      {shown && !error && (
        <div class="scroll">
          {shown.providers.map((one) => (
            <Events key={`${one.Name} ${one.Origin}`} provider={one} />
          ))}
        </div>
      )}
      {provider && <Chosen provider={provider} />}
    </section>
  );
}

function Events({ provider }: { provider: ProviderInfo }) {
  const { events } = state.value.explorer;
  const set = (change: Partial<typeof state.value.explorer>) => update({ explorer: { ...state.value.explorer, ...change } });
  const toggle = (id: number) => set({ events: events.includes(id) ? events.filter((one) => one !== id) : [...events, id].sort((a, b) => a - b) });
  return (
    <table>
      <thead>
        <tr>
          <th>Event</th>
          <th>Name</th>
          <th>Fields</th>
          <th>Releases</th>
        </tr>
      </thead>
      <tbody>
        {provider.Events?.map((event) => (
          <tr key={`${event.EventID} ${event.Version} ${event.Opcode} ${event.Releases?.join()}`} class={events.includes(event.EventID) ? "chosen" : ""}>
            <td>
              <label>
                <input type="checkbox" aria-label={`Choose event ${event.EventID}`} checked={events.includes(event.EventID)} onChange={() => toggle(event.EventID)} /> {event.EventID} v{event.Version}
              </label>
            </td>
            <td title={event.Message}>{event.Name ?? [event.TaskName, event.OpcodeName].filter(Boolean).join("/")}</td>
            <td>
              {event.Fields?.map((field) => (
                <span class="field" key={field.Name} title={field.Map ? `Values of the map ${field.Map}` : undefined}>
                  {field.Name}: <span class="quiet">{field.Type}</span>
                </span>
              ))}
            </td>
            <td class="quiet">{event.Releases?.join(", ")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Chosen({ provider }: { provider: ProviderInfo }) {
  const { events, keywords, level, stacks } = state.value.explorer;
  const [made, setMade] = useState<Choice | null>(null);
  const [tab, setTab] = useState<keyof Choice>("record");
  const set = (change: Partial<typeof state.value.explorer>) => update({ explorer: { ...state.value.explorer, ...change } });
  const mask = keywords.reduce((sum, one) => sum + Number(one), 0);
  useEffect(() => {
    const stop = new AbortController();
    const question = { name: provider.Name, guid: provider.Guid, events, keywords: mask, level, stacks };
    json<Choice>("/api/providers/choice", question, stop.signal).then(setMade, () => undefined);
    return () => stop.abort();
  }, [provider.Guid, events.join(), mask, level, stacks]);
  const tabs: [keyof Choice, string][] = [
    ["record", "Record"],
    ["watch", "Watch"],
    ["dump", "Dump"],
    ["logman", "logman"],
    ["wprp", ".wprp"],
    ["code", "Rust"],
  ];
  return (
    <div class="choice" role="group" aria-label="What records the choice">
      <div class="tools">
        <b>{events.length === 0 ? "All events" : `Events ${events.join(", ")}`}</b>
        {provider.Keywords && (
          <select
            multiple
            size={3}
            aria-label="Keywords"
            onChange={(event) => set({ keywords: [...event.currentTarget.selectedOptions].map((one) => one.value) })}
          >
            {provider.Keywords.filter((one) => Number(one.Value) <= Number.MAX_SAFE_INTEGER).map((one) => (
              <option key={one.Value} value={one.Value} selected={keywords.includes(one.Value)}>
                {one.Name} ({one.Value})
              </option>
            ))}
          </select>
        )}
        <label>
          Level{" "}
          <select value={level} onChange={(event) => set({ level: Number(event.currentTarget.value) })}>
            {["all", "critical", "error", "warning", "information", "verbose"].map((one, at) => (
              <option key={one} value={at}>
                {one}
              </option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={stacks} onChange={(event) => set({ stacks: event.currentTarget.checked })} /> Stacks
        </label>
        <span class="tabs" role="group" aria-label="Form">
          {tabs.map(([one, title]) => (
            <button key={one} aria-pressed={tab === one} onClick={() => setTab(one)}>
              {title}
            </button>
          ))}
        </span>
        <button onClick={() => made && void copy(made[tab], "it")}>Copy</button>
      </div>
      <pre class="scroll">{made?.[tab] ?? ""}</pre>
    </div>
  );
}
