// Live sessions: started and stopped here, with filters as in Process Monitor that the server applies.

import { useEffect, useRef, useState } from "preact/hooks";
import { json, type LiveLine, type LiveLines, type LiveState } from "./api";
import { Tables, viewOf, VIEWS } from "./livetables";
import { copy, openMenu, say } from "./menu";
import { readText } from "./presets";
import { type Rule, state, update } from "./state";
import { Virtual } from "./virtual";

const COLUMNS: [string, string, string][] = [
  ["Time", "Time of day in UTC.", "left"],
  ["Process", "Image name of the process.", "left key"],
  ["PID", "Process id.", "right"],
  ["TID", "Thread id.", "right"],
  ["Operation", "Name of the event.", "left"],
  ["Detail", "Path, message or fields.", "left wide"],
  ["Result", "Result of the operation that the event starts.", "left"],
  ["Duration", "Duration of that operation.", "right"],
];
const RULED = ["process", "pid", "tid", "operation", "path", "detail", "result"];
const RELATIONS = ["is", "is not", "contains", "lacks", "begins with", "ends with", "less than", "more than"];
const ACTIONS = ["include", "exclude", "highlight"] as const;
/** Lines that are kept around the visible ones. */
const WINDOW = 400;

/** A recording profile that can be started. */
interface Profile {
  name: string;
  description: string;
}
/** The profiles of a file, or the built-in ones. */
interface Profiles {
  /** Name of the file; empty for the built-in ones. */
  file: string;
  text: string | null;
  all: Profile[];
}

export function Live() {
  const [live, setLive] = useState<LiveState | null>(null);
  const [error, setError] = useState("");
  const [follow, setFollow] = useState(true);
  const [until, setUntil] = useState<number | null>(null);
  const [count, setCount] = useState(0);
  const [version, setVersion] = useState(0);
  const [cursor, setCursor] = useState(-1);
  const [event, setEvent] = useState<{ number: number; lines: string[] } | null>(null);
  const [profiles, setProfiles] = useState<Profiles>({ file: "", text: null, all: [] });
  const [profile, setProfile] = useState("");
  const lines = useRef(new Map<number, LiveLine>());
  /** Whether the session is being stopped: questions that are on their way then find none. */
  const isStopping = useRef(false);
  const isRunning = Boolean(live?.session);
  const failed = (problem: unknown) => setError((problem as Error).message);

  useEffect(() => {
    json<LiveState>("/api/live/rules", { rules: state.value.rules }).then(setLive, failed);
    json<Profile[]>("/api/live/profiles", {}).then((all) => setProfiles({ file: "", text: null, all }), failed);
  }, []);
  useEffect(() => {
    if (!isRunning) return;
    let isOver = false;
    const poll = async () => {
      while (!isOver) {
        try {
          setLive(await json<LiveState>("/api/live"));
          if (until === null) {
            const found = await json<LiveLines>("/api/live/lines", { limit: follow ? WINDOW : 0 });
            lines.current.clear();
            found.lines.forEach((line, at) => lines.current.set(found.from + at, line));
            setCount(found.count);
            setVersion((now) => now + 1);
            if (follow) setCursor(found.count - 1);
          }
        } catch (problem) {
          if (!isOver && !isStopping.current) failed(problem);
        }
        await new Promise((done) => setTimeout(done, 200));
      }
    };
    void poll();
    return () => {
      isOver = true;
    };
  }, [isRunning, follow, until]);

  const load = async (from: number, to: number): Promise<string[][]> => {
    let isKnown = true;
    for (let row = from; row < to; row += 1) isKnown &&= lines.current.has(row);
    if (!isKnown) {
      const found = await json<LiveLines>("/api/live/lines", { from: Math.max(0, from - 50), limit: WINDOW, until });
      found.lines.forEach((line, at) => lines.current.set(found.from + at, line));
    }
    const texts: string[][] = [];
    for (let row = from; row < to; row += 1) texts.push(lines.current.get(row)?.cells ?? []);
    return texts;
  };
  const setRules = async (rules: Rule[]) => {
    try {
      const now = await json<LiveState>("/api/live/rules", { rules });
      update({ rules });
      setLive(now);
      setError("");
      lines.current.clear();
      if (now.session) {
        const found = await json<LiveLines>("/api/live/lines", { limit: 0, until });
        setCount(found.count);
      }
      setVersion((one) => one + 1);
    } catch (problem) {
      failed(problem);
    }
  };
  const start = async (form: HTMLFormElement) => {
    const data = new FormData(form);
    const providers = String(data.get("providers") ?? "").split(/[\s;]+/).filter(Boolean);
    try {
      setLive(await json<LiveState>("/api/live/start", { kernel: String(data.get("kernel") ?? ""), providers, stacks: data.get("stacks") !== null, profile: profile ? { name: profile, text: profiles.text } : null }));
      isStopping.current = false;
      lines.current.clear();
      setUntil(null);
      setEvent(null);
      setError("");
    } catch (problem) {
      failed(problem);
    }
  };
  const openProfiles = async (file: File | undefined) => {
    if (!file) return;
    try {
      const text = await readText(file);
      const all = await json<Profile[]>("/api/live/profiles", { text });
      setProfiles({ file: file.name, text, all });
      setProfile(all[0]?.name ?? "");
      setError(all.length === 0 ? `${file.name} has no profiles.` : "");
    } catch (problem) {
      failed(problem);
    }
  };
  const stop = async () => {
    isStopping.current = true;
    try {
      setLive(await json<LiveState>("/api/live/stop", {}));
      setError("");
      lines.current.clear();
      setCount(0);
    } catch (problem) {
      isStopping.current = false;
      failed(problem);
    }
  };
  const open = async (row: number) => {
    try {
      await load(row, row + 1);
      const line = lines.current.get(row);
      if (!line) return;
      const found = await json<{ lines: string[] }>(`/api/live/event/${line.number}`);
      setEvent({ number: line.number, lines: found.lines });
    } catch (problem) {
      failed(problem);
    }
  };
  const pause = () => {
    setUntil(until === null ? (live?.session?.next ?? 0) : null);
    setFollow(until !== null);
  };
  const menu = (row: number, column: number, x: number, y: number) => {
    const line = lines.current.get(row);
    const name = ["", "process", "pid", "tid", "operation", "detail", "result", ""][column];
    const value = line?.cells[column] ?? "";
    const rule = (action: Rule["action"]) => ({
      label: `${action[0]?.toUpperCase()}${action.slice(1)} '${value.slice(0, 60)}'`,
      run: () => void setRules([...state.value.rules, { column: name ?? "", relation: "is", value, action }]),
    });
    openMenu(x, y, [
      ...(name ? ACTIONS.map(rule) : []),
      { label: "Details and stack", run: () => void open(row) },
      { label: "Copy the line", run: () => void copy((line?.cells ?? []).join("\t"), "the line") },
    ]);
  };
  const session = live?.session;
  const view = viewOf();
  const number = (value: number) => Math.round(value).toLocaleString("en-US");
  return (
    <main class="live" aria-label="Live">
      <form
        class="tools"
        onSubmit={(one) => {
          one.preventDefault();
          void (isRunning ? stop() : start(one.currentTarget));
        }}
      >
        <label title="Kernel flags, joined by +, as of etw record -k; they need the rights of root.">
          Kernel flags <input name="kernel" size={20} disabled={isRunning} placeholder={live?.kernel ?? ""} list="kernelflags" />
        </label>
        <datalist id="kernelflags">{live && <option value={live.kernel} />}</datalist>
        <label title="Providers, as of etw watch -p: Name or {GUID}, with :Level:EventIDs:Keyword; several with spaces between them.">
          Providers <input name="providers" size={20} disabled={isRunning} placeholder="Name or {GUID}" />
        </label>
        <label title="A recording profile, as of etw record --profile: what it names of the kernel and of providers is recorded besides.">
          Profile{" "}
          <select name="profile" disabled={isRunning} value={profile} onChange={(one) => setProfile(one.currentTarget.value)}>
            <option value="">none</option>
            {profiles.all.map((one) => (
              <option key={one.name} value={one.name} title={one.description}>
                {one.name}
              </option>
            ))}
          </select>
        </label>
        <label class="file" title={`A file of recording profiles (.wprp)${profiles.file ? `; ${profiles.file} is open` : ""}`}>
          {profiles.file || "Open a file …"}
          <input
            type="file"
            accept=".wprp,.xml"
            disabled={isRunning}
            onChange={(one) => {
              const input = one.currentTarget;
              void openProfiles(input.files?.[0]).then(() => (input.value = ""));
            }}
          />
        </label>
        <label title="Add the call stack to each event of the providers.">
          <input type="checkbox" name="stacks" disabled={isRunning} /> Stacks
        </label>
        <button type="submit" class="start">
          {isRunning ? "Stop" : "Start"}
        </button>
        <button type="button" disabled={!isRunning} aria-pressed={until !== null} title="Events are still received; the list stays as it is." onClick={pause}>
          Pause
        </button>
        <button type="button" disabled={!isRunning || until !== null} aria-pressed={follow} title="Show the newest event." onClick={() => setFollow(!follow)}>
          Follow
        </button>
        <span class="space" />
        {isRunning && (
          <>
            <a class="button" href="/api/live/trace/all.etl" download title="The events in memory as a trace file">
              Save all
            </a>
            <a class="button" href="/api/live/trace/shown.etl" download title="Of these, the events that the filters show, with their stacks">
              Save shown
            </a>
          </>
        )}
      </form>
      <div key="views" class="tools">
        <span class="tabs" role="tablist" aria-label="Views">
          {VIEWS.map(([name, title, about]) => (
            <button key={name} role="tab" aria-selected={view === name} title={about} onClick={() => update({ live: name })}>
              {title}
            </button>
          ))}
        </span>
        {view === "" && <Rules rules={state.value.rules} set={(rules) => void setRules(rules)} />}
      </div>
      {(error || live?.problem || session?.trouble || session?.ended) && (
        <div key="gone" class="gone" role="alert">
          {error || live?.problem || session?.ended || session?.trouble}
        </div>
      )}
      {session && session.left_out.length > 0 && (
        <div key="leftout" class="message" title={session.left_out.join("\n")}>
          This system does not record {session.left_out.length === 1 ? "a part" : `${session.left_out.length} parts`} of the profile: {session.left_out.slice(0, 3).join("; ")}
          {session.left_out.length > 3 && " …"}
        </div>
      )}
      {session && view !== "" ? (
        <Tables view={view} isPaused={until !== null} filter={(rule) => void setRules([...state.value.rules, rule])} />
      ) : session ? (
        <div key="events" class="body">
          <Virtual
            label={`Events: ${count}`}
            columns={COLUMNS.map(([title, summary, className]) => ({ title, summary, className }))}
            count={count}
            version={version}
            cursor={cursor}
            load={load}
            about={(row) => {
              const line = lines.current.get(row);
              return { title: line?.cells[5] ?? "", className: line?.is_lit ? "highlit" : line && line.level > 0 && line.level <= 2 ? "more" : "" };
            }}
            onCell={(cell) => {
              setFollow(false);
              setCursor(cell.row);
            }}
            onOpen={(cell) => void open(cell.row)}
            onMenu={(cell, x, y) => menu(cell.row, cell.column, x, y)}
            onHeading={() => undefined}
            onKey={(one) => {
              const step: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -count, End: count };
              if (one.key in step) {
                setFollow(one.key === "End");
                setCursor(Math.max(0, Math.min(count - 1, cursor + (step[one.key] ?? 0))));
              } else if (one.key === "Enter") void open(cursor);
              else if (one.key === "Escape") setEvent(null);
              else return;
              one.preventDefault();
              one.stopPropagation();
            }}
          />
          {event && (
            <aside class="panel details" aria-label="Details of the event">
              <header>
                <h2>Event {event.number.toLocaleString("en-US")}</h2>
                <button onClick={() => void copy(event.lines.join("\n"), "the details").then(() => say("Copied the details."))}>Copy</button>
                <button aria-label="Close" onClick={() => setEvent(null)}>
                  ×
                </button>
              </header>
              <pre class="scroll hex">{event.lines.join("\n")}</pre>
            </aside>
          )}
        </div>
      ) : (
        <div key="none" class="message">No session is running. Name kernel flags or providers, or choose a profile, and press Start.</div>
      )}
      <footer class="status" aria-live="off">
        {session
          ? `${session.title}: ${number(session.events)} events, ${number(session.rate)}/s; ${number(session.shown)} shown; ${number(session.lost)} lost, ${number(session.not_kept)} too many to keep${until !== null ? "; paused" : ""}`
          : ""}
      </footer>
    </main>
  );
}

function Rules({ rules, set }: { rules: Rule[]; set: (rules: Rule[]) => void }) {
  return (
    <div class="filters" role="group" aria-label="Filters">
      {rules.map((rule, at) => (
        <span class={`filter ${rule.action}`} key={JSON.stringify(rule)}>
          {rule.action}: {rule.column} {rule.relation} {rule.value.slice(0, 60)}
          <button class="close" aria-label={`Remove the filter on ${rule.column}`} onClick={() => set(rules.filter((_, other) => other !== at))}>
            ×
          </button>
        </span>
      ))}
      <form
        class="newfilter"
        title="An event is shown if no filter excludes it and, of each column with filters that include, one does."
        onSubmit={(event) => {
          event.preventDefault();
          const data = new FormData(event.currentTarget);
          const get = (name: string) => String(data.get(name) ?? "");
          if (get("value")) set([...rules, { column: get("column"), relation: get("relation"), value: get("value"), action: get("action") as Rule["action"] }]);
          event.currentTarget.reset();
        }}
      >
        <select name="column" aria-label="Column">
          {RULED.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        <select name="relation" aria-label="Relation">
          {RELATIONS.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        <input name="value" aria-label="Value" />
        <select name="action" aria-label="Action">
          {ACTIONS.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        <button>Add</button>
      </form>
    </div>
  );
}
