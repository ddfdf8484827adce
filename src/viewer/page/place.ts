import { store } from "./store";

/**
 * What is on the screen. All of it is in the URL, so that a link shows somebody else the same.
 * - `thread`, `turn` (its number), `tab` of the turn, `view` of the thread
 * - `near`: a place on the thread, in place of a turn: the attempt that began last before it is shown
 * - `with`: the turn that a difference starts from
 * - `channel`: whose history is shown
 * - `inside`: the node into whose graph the timeline is zoomed
 * - `task`: the target of a rewind's dry run; `allow`: effects without an undo stay
 * - `find`: what is searched in the content
 * - `search`, `status`, `sort`: of the list of threads
 */
export interface Place {
  thread?: string | undefined;
  view?: string | undefined;
  turn?: string | undefined;
  near?: string | undefined;
  tab?: string | undefined;
  with?: string | undefined;
  channel?: string | undefined;
  inside?: string | undefined;
  task?: string | undefined;
  allow?: string | undefined;
  find?: string | undefined;
  search?: string | undefined;
  status?: string | undefined;
  sort?: string | undefined;
}

const NAMES = [
  ...(["thread", "view", "turn", "near", "tab", "with", "channel", "inside", "task", "allow"] as const),
  ...(["find", "search", "status", "sort"] as const),
];

const read = (): Place => {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(NAMES.flatMap((name) => (given.has(name) ? [[name, given.get(name) ?? ""]] : [])));
};

const places = store<Place>(read());
addEventListener("popstate", () => places.set(read()));

export const usePlace = (): Place => places.use();
export const placeNow = (): Place => places.get();

/** The address of a place. */
export function hrefOf(place: Place): string {
  const given = new URLSearchParams();
  for (const name of NAMES) if (place[name]) given.set(name, place[name]);
  const text = given.toString();
  return text === "" ? "/" : `/?${text}`;
}

/** Goes to a place. @param how `replace`: the browser's Back doesn't stop here */
export function go(changes: Place, how: "push" | "replace" = "push"): void {
  const next = { ...places.get(), ...changes };
  const address = hrefOf(next);
  if (address === hrefOf(places.get())) return;
  if (how === "push") history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  places.set(read());
}

/** Of a thread nothing but its id: another thread has other turns. */
export const toThread = (thread: string | undefined): Place => ({
  thread,
  ...{
    turn: undefined,
    near: undefined,
    with: undefined,
    channel: undefined,
    inside: undefined,
    task: undefined,
    allow: undefined,
    find: undefined,
  },
});
