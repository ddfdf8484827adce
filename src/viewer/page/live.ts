import type { LiveChange, LiveEvent } from "../api";
import { placeNow } from "./place";
import { store } from "./store";

/** How the page hears of changes. `gone`: the database was removed or replaced, and the page can't continue. */
interface Hearing {
  state: "connecting" | "live" | "lost" | "gone";
  /** What is wrong. */
  message: string;
}

export const hearing = store<Hearing>({ state: "connecting", message: "" });

/** They count up when something changed: in the list of threads, and in the thread on the screen. */
export const listTick = store(0);
export const threadTick = store(0);

/** For people who hear the page: what has just happened. */
export const said = store("");

/** Changes come in bursts, and each makes the page ask again. */
const TOGETHER_MS = 200;
const RETRY_MS = 2_000;

let lastId = "";
let isDue = false;
let concernsThread = false;
let words: string[] = [];

function changed(ofThread: boolean): void {
  concernsThread ||= ofThread;
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    listTick.set(listTick.get() + 1);
    if (concernsThread) threadTick.set(threadTick.get() + 1);
    if (words.length > 0) say(words.length > 2 ? `${words.length} changes. Last: ${words.at(-1)}` : words.join(". "));
    [isDue, concernsThread, words] = [false, false, []];
  }, TOGETHER_MS);
}

/** Says something to people who hear the page. */
export function say(text: string): void {
  said.set("");
  setTimeout(() => said.set(text), 30);
}

/** Everything on the screen is asked for again. */
export const refresh = (): void => changed(true);

let source: EventSource | undefined;

// What changed while the tab was hidden is told when it's seen again.
document.addEventListener("visibilitychange", listen);

/** Listens while somebody can see the page: a browser has six connections to a server, for all tabs together. */
export function listen(): void {
  source?.close();
  if (document.hidden || hearing.get().state === "gone") return;
  source = new EventSource(`/api/live${lastId === "" ? "" : `?after=${encodeURIComponent(lastId)}`}`);
  const heard = (event: MessageEvent<string>): LiveEvent => {
    if (event.lastEventId !== "") lastId = event.lastEventId;
    return JSON.parse(event.data) as LiveEvent;
  };
  source.addEventListener("ready", (event: MessageEvent<string>) => {
    heard(event);
    const { state } = hearing.get();
    hearing.set({ state: "live", message: "" });
    if (state === "lost") say("Connected again. Nothing was missed.");
    if (state !== "connecting") refresh();
  });
  source.addEventListener("change", (event: MessageEvent<string>) => {
    const { change } = heard(event) as { change: LiveChange };
    const isHere = change.threadId === placeNow().thread;
    if (isHere) words.push(change.words);
    changed(isHere);
  });
  source.addEventListener("runs", (event: MessageEvent<string>) => {
    heard(event);
    refresh();
  });
  source.addEventListener("problem", (event: MessageEvent<string>) => {
    const problem = heard(event) as { message: string; gone: boolean };
    hearing.set({ state: problem.gone ? "gone" : "lost", message: problem.message });
    say(problem.message);
    if (problem.gone) source?.close();
  });
  source.addEventListener("error", () => {
    if (hearing.get().state !== "lost") {
      hearing.set({ state: "lost", message: "The program turns web doesn't answer. This page tries again by itself." });
      say("The connection is lost.");
    }
    if (source?.readyState === EventSource.CLOSED) setTimeout(listen, RETRY_MS);
  });
}
