import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Dialog, isOpen, open } from "./dialogs";
import { store } from "./store";

/** Whether single letters do something: people who dictate turn them off. */
export const lettersOn = store(localStorage.getItem("turns.keys") !== "off");

const setLetters = (on: boolean): void => {
  lettersOn.set(on);
  localStorage.setItem("turns.keys", on ? "on" : "off");
};

export type Keys = Readonly<Record<string, () => void>>;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest("input, textarea, select, dialog") !== null;

/** Keys for the whole page. A letter does nothing while somebody types. */
export function useKeys(keys: Keys): void {
  const newest = useRef(keys);
  newest.current = keys;
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || isOpen()) return;
      if (event.key !== "Escape" && isTyping(event.target)) return;
      if (event.key.length === 1 && !lettersOn.get()) return;
      const act = newest.current[event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

const FOCUS_MS = 2_000;

/** Focuses an element as soon as it is there, unless somebody has pressed a key or a button since: the focus is theirs then. */
export function focusSoon(selector: string): void {
  const end = Date.now() + FOCUS_MS;
  const stop = new AbortController();
  const look = (): void => {
    if (stop.signal.aborted) return;
    const found = document.querySelector<HTMLElement>(selector);
    if (found === null && Date.now() < end) return void requestAnimationFrame(look);
    stop.abort();
    found?.focus();
  };
  for (const act of ["keydown", "pointerdown"]) addEventListener(act, () => stop.abort(), { capture: true, signal: stop.signal });
  requestAnimationFrame(look);
}

const HELP: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  [
    "Walk",
    [
      ["j k", "next, previous turn; ↓ ↑ too"],
      ["t T", "next, previous task"],
      ["n p", "next, previous thread"],
      ["1 … 7", "tabs of the turn"],
      ["Alt ←", "back: the address names what is on screen"],
    ],
  ],
  [
    "Look",
    [
      ["d", "diff with another turn"],
      ["l g r s", "timeline, graph, rewind, size"],
      ["z", "one scale for all tasks, or one each"],
      ["o", "out of a nested graph"],
      ["/", "search threads, nodes, content"],
    ],
  ],
  [
    "Set",
    [
      ["u", "times in UTC, or here"],
      ["c", "dark, light, as the system"],
      ["?", "all keys"],
      ["Esc", "close, or leave a field"],
    ],
  ],
];

export const showHelp = (): void => open(() => <Help />);

function Help(): VNode {
  const on = lettersOn.use();
  return (
    <Dialog title="Keys and signs" wide>
      <div class="help">
        {HELP.map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {keys.map(([key, meaning]) => (
                <div key={key}>
                  <dt>
                    {key.split(" ").map((one) => (
                      <kbd key={one}>{one}</kbd>
                    ))}
                  </dt>
                  <dd>{meaning}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <section>
          <h3>The timeline</h3>
          <dl class="signs">
            {(
              [
                ["bar ok", "an attempt: its Thought at the left edge, its Action at the right one"],
                ["bar fly", "in flight: it has no Action, and its process is gone"],
                ["bar lost", "it was running when its process died, and something else came after it"],
                ["bar run", "running now"],
                ["bar err", "failed"],
                ["bar wait", "asked a question"],
                ["fx done", "an effect that is done"],
                ["fx in-doubt", "an effect in doubt, or one whose undo is"],
                ["fx undone", "an effect that a rewind undid"],
                ["kill", "the moment a process died"],
              ] as const
            ).map(([sign, meaning]) => (
              <div key={sign}>
                <dt>
                  <i class={sign} />
                </dt>
                <dd>{meaning}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
      <p class="field">
        <label class="choice">
          <input type="checkbox" checked={on} onChange={(event) => setLetters(event.currentTarget.checked)} />
          <span>Single letters are keys</span>
        </label>
      </p>
    </Dialog>
  );
}
