// The menu at a cell, a lane or a node.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export interface MenuItem {
  label: string;
  run: () => void;
}

const open = signal<{ x: number; y: number; items: MenuItem[]; back: Element | null } | null>(null);
/** A short message, such as what was copied. */
export const notice = signal("");

export function openMenu(x: number, y: number, items: MenuItem[]): void {
  open.value = { x, y, items, back: document.activeElement };
}

let timer = 0;
export function say(text: string): void {
  notice.value = text;
  window.clearTimeout(timer);
  timer = window.setTimeout(() => {
    notice.value = "";
  }, 4000);
}

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without the right to the clipboard: by a selection.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(`Copied ${what}.`);
}

/** Saves a text as a file of the browser. */
export function download(text: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function close(): void {
  const back = open.value?.back;
  open.value = null;
  if (back instanceof HTMLElement) back.focus();
}

export function Menu() {
  const menu = open.value;
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!menu || !list.current) return;
    const box = list.current.getBoundingClientRect();
    list.current.style.left = `${Math.max(0, Math.min(menu.x, window.innerWidth - box.width - 4))}px`;
    list.current.style.top = `${Math.max(0, Math.min(menu.y, window.innerHeight - box.height - 4))}px`;
    list.current.querySelector("button")?.focus();
  }, [menu]);
  if (!menu) return null;
  const move = (event: KeyboardEvent) => {
    const items = [...(list.current?.querySelectorAll("button") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLButtonElement);
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") items[(at + 1) % items.length]?.focus();
    else if (event.key === "ArrowUp") items[(at + items.length - 1) % items.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="veil" onMouseDown={close} onContextMenu={(event) => event.preventDefault()}>
      <div class="menu" role="menu" ref={list} onMouseDown={(event) => event.stopPropagation()} onKeyDown={move}>
        {menu.items.map((item) => (
          <button
            role="menuitem"
            key={item.label}
            onClick={() => {
              close();
              item.run();
            }}
          >
            {item.label}
          </button>
        ))}
      </div>
    </div>
  );
}
