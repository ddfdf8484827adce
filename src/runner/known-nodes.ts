import { TurnsError } from "../errors";
import { fingerprintOf } from "../guards/fingerprint";

/** Names in an error are at most this many. */
const NAMES_MAX = 30;

/**
 * Refuses names of nodes that the graph can't have. What it doesn't show may exist all the same: tasks of a functional entrypoint, and
 * nodes of a graph that a node calls by itself. The latter are named by their path, which begins with that node (`tools|search`).
 *
 * @param names by name or path, as the option `nodes` takes them
 * @throws {TurnsError} INVALID_OPTION with the nearest name and those that there are
 */
export function refuseUnknownNodes(graph: object, names: readonly string[]): void {
  if (names.length === 0 || !("builder" in graph)) return;
  const paths = Object.keys(fingerprintOf(graph).nodes).filter((path) => !/(^|\|)__start__$/.test(path));
  const shown = new Set(paths.flatMap((path) => [path, path.slice(path.lastIndexOf("|") + 1)]));
  const isKnown = (name: string): boolean => {
    if (shown.has(name)) return true;
    const caller = paths.findLast(
      (path) => name.startsWith(`${path}|`) && !paths.some((other) => name.startsWith(`${other}|`) && other.length > path.length),
    );
    return caller !== undefined && !paths.some((path) => path.startsWith(`${caller}|`));
  };
  const unknown = names.find((name) => !isKnown(name));
  if (unknown === undefined) return;
  const nearest = nearestOf(unknown, [...shown]);
  const listed = paths.slice(0, NAMES_MAX).join(", ");
  const more = paths.length > NAMES_MAX ? ` and ${paths.length - NAMES_MAX} more` : "";
  throw new TurnsError("INVALID_OPTION", {
    problem: `Option "nodes" names ${JSON.stringify(unknown)}, but the graph has no such node.`,
    remedy:
      `${nearest === undefined ? "" : `Did you mean ${JSON.stringify(nearest)}? `}Its nodes: ${listed}${more}. ` +
      "Name a node of a graph that a node calls by itself by its path, e.g. " +
      `nodes: { ${JSON.stringify(`${paths[0] ?? "caller"}|${unknown}`)}: … }.`,
    data: { option: `nodes.${unknown}`, nearest, nodes: paths },
  });
}

/** The most similar of the names, if it is similar at all. */
function nearestOf(name: string, known: readonly string[]): string | undefined {
  const near = known
    .map((each) => ({ each, edits: editsBetween(name.toLowerCase(), each.toLowerCase()) }))
    .filter(({ each, edits }) => edits <= Math.max(1, Math.floor(Math.max(name.length, each.length) / 3)))
    .sort((left, right) => left.edits - right.edits);
  return near[0]?.each;
}

/** How many letters have to be put in, taken out or replaced (Levenshtein). */
function editsBetween(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, at) => at);
  for (let at = 1; at <= left.length; at += 1) {
    const next = [at];
    for (let to = 1; to <= right.length; to += 1) {
      const replaced = (row[to - 1] as number) + (left[at - 1] === right[to - 1] ? 0 : 1);
      next.push(Math.min((row[to] as number) + 1, (next[to - 1] as number) + 1, replaced));
    }
    row = next;
  }
  return row[right.length] as number;
}
