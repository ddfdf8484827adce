/** How many threads the list shows at first. */
export const FIRST_THREADS = 100;
/** How many attempts the timeline shows at first, and how many as soon as the first screen is there. */
export const FIRST_ATTEMPTS = 60;
export const NEXT_ATTEMPTS = 200;

const queried = (path: string, given: Readonly<Record<string, string | number | undefined>>): string => {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, String(value));
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
};

/**
 * A text as a part of a path. Browsers and URLs take `.` and `..` for steps, encoded or not, so these get a `~` in front; so do
 * texts that would be taken for one that has it.
 */
export const inPath = (text: string): string => encodeURIComponent(text.replace(/^~*\.{1,2}$/, "~$&"));

/** What {@link inPath} was given. @throws {URIError} */
export const fromPath = (part: string): string => decodeURIComponent(part).replace(/^~(?=~*\.{1,2}$)/, "");

/** The address of something about a thread. */
export const ofThread = (thread: string, what = "", given: Record<string, string | number | undefined> = {}): string =>
  queried(`/api/threads/${inPath(thread)}${what === "" ? "" : `/${what}`}`, given);

/** The address of a turn, by its number or id. */
export const ofTurn = (thread: string, turn: string): string => ofThread(thread, `turns/${inPath(turn)}`);

/** The address of the list of threads. */
export const listAddress = (
  { search, status, sort }: { search?: string | undefined; status?: string | undefined; sort?: string | undefined },
  limit: number,
): string =>
  queried("/api/threads", { limit, search: search || undefined, status: status || undefined, sort: sort || undefined });

/**
 * What the page asks for first. The server names it together with the page, so that the answers are on their way while
 * the page's script is read. Nothing but what the page surely asks for at once: a browser keeps an answer until it's asked for.
 *
 * @param place the query of the page's address
 */
export function firstAddresses(place: URLSearchParams): string[] {
  const given = (name: string): string | undefined => place.get(name) ?? undefined;
  const [search, status, sort] = [given("search"), given("status"), given("sort")];
  const [thread, turn] = [given("thread"), given("turn")];
  const ofIt = thread === undefined ? [] : [ofThread(thread), ofThread(thread, "timeline", { limit: FIRST_ATTEMPTS })];
  const ofItsTurn = thread === undefined || turn === undefined ? [] : [ofTurn(thread, turn)];
  return ["/api/server", listAddress({ search, status, sort }, FIRST_THREADS), ...ofIt, ...ofItsTurn];
}
