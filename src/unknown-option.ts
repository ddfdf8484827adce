import { describe } from "./errors";

/** How many unknown option names are listed: an object passed by mistake may have thousands. */
const LISTED = 5;

/** The two halves of a message: what is wrong, and what to do. */
interface UnknownOption {
  problem: string;
  remedy: string;
}

/**
 * A message about options that don't exist: their names, the nearest existing one, and all valid ones. It never shows a value,
 * which may be a key under a misspelt option.
 *
 * @param unknown names beside each other, at `path`
 * @param valid the names that exist there
 */
export function unknownOption(
  unknown: readonly string[],
  valid: readonly string[],
  path: readonly PropertyKey[] = [],
): UnknownOption {
  const at = (name: string): string => describe([...path, name].map(String).join("."));
  const names = unknown.slice(0, LISTED).map(at).join(", ");
  const more = unknown.length > LISTED ? ` and ${unknown.length - LISTED} more` : "";
  const [nearest] = unknown.map((name) => nearestName(name, valid)).filter((name) => name !== undefined);
  const question = nearest === undefined ? "" : `Did you mean ${at(nearest)}? `;
  const where = path.length === 0 ? "" : ` of ${describe(path.map(String).join("."))}`;
  return {
    problem: `Unknown ${unknown.length === 1 ? "option" : "options"} ${names}${more}.`,
    remedy: `${question}Valid options${where}: ${[...valid].sort().join(", ")}.`,
  };
}

/**
 * The name that was probably meant. Upper and lower case count as equal.
 *
 * @param limit how many characters may differ: by default every third
 */
export function nearestName(
  given: string,
  names: readonly string[],
  limit = Math.max(1, Math.floor(given.length / 3)),
): string | undefined {
  const lengthIsNear = names.filter((name) => Math.abs(name.length - given.length) <= limit);
  const [nearest] = lengthIsNear
    .map((name) => ({ name, distance: editDistance(given.toLowerCase(), name.toLowerCase()) }))
    .filter(({ distance }) => distance <= limit)
    .sort((a, b) => a.distance - b.distance);
  return nearest?.name;
}

/** How many characters have to be inserted, removed, replaced or swapped with their neighbour to turn one text into the other. */
function editDistance(from: string, to: string): number {
  let twoAbove: readonly number[] = [];
  let above: readonly number[] = Array.from({ length: to.length + 1 }, (_, j) => j);
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const cost = from[i - 1] === to[j - 1] ? 0 : 1;
      const isSwapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const swapped = isSwapped ? numberAt(twoAbove, j - 2) + 1 : Infinity;
      row.push(Math.min(numberAt(above, j) + 1, numberAt(row, j - 1) + 1, numberAt(above, j - 1) + cost, swapped));
    }
    [twoAbove, above] = [above, row];
  }
  return numberAt(above, to.length);
}

const numberAt = (row: readonly number[], at: number): number => row[at] ?? Infinity;
