/** UUIDs, and the hashes that interrupts are named by. */
const IDS = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b/g;
/** Times, and what a run's config carries beside data. */
const LEFT_OUT = new Set(["ts", "timestamp", "created_at", "createdAt", "signal", "store", "writer"]);
const INTERNAL = /^__pregel_(?!tasks$|pu)/;

/** Plain data of anything a graph shows: ids by the order in which they first appear, times and callbacks left out, classes named. */
export function normalised(value: unknown): unknown {
  const ids = new Map<string, string>();
  const idOf = (id: string): string => {
    if (!ids.has(id)) ids.set(id, `#${ids.size}`);
    return ids.get(id) ?? "";
  };
  const ancestors: object[] = [];

  function walk(part: unknown): unknown {
    if (typeof part === "string") return part.replace(IDS, idOf);
    if (typeof part === "function") return `function ${part.name}`;
    if (typeof part === "bigint" || typeof part === "symbol") return String(part);
    if (typeof part !== "object" || part === null) return part;
    if (ancestors.includes(part)) return "a cycle";
    ancestors.push(part);
    const plain = walkObject(part);
    ancestors.pop();
    return plain;
  }

  function walkObject(part: object): unknown {
    if (Array.isArray(part)) return part.map(walk);
    if (part instanceof Error) return { "@": "Error", name: part.name, message: walk(part.message) };
    if (part instanceof Date) return { "@": "Date", at: part.toISOString() };
    if (part instanceof Map) return { "@": "Map", entries: [...part].map(walk) };
    if (part instanceof Set) return { "@": "Set", values: [...part].map(walk) };
    const type: unknown = (part as { lc_serializable?: unknown }).lc_serializable === true ? part.constructor.name : undefined;
    const data = typeof type === "string" ? (part as { toJSON(): object }).toJSON() : part;
    const record = data as Record<string, unknown>;
    const keys = Object.keys(record)
      .filter((key) => !LEFT_OUT.has(key) && !INTERNAL.test(key) && record[key] !== undefined)
      // MemorySaver gives a Send back as a plain object.
      .filter((key) => !(key === "lg_name" && record[key] === "Send"))
      .sort();
    const entries = keys.map((key) => [key.replace(IDS, idOf), walk(record[key])]);
    return Object.fromEntries(typeof type === "string" ? [["@", type], ...entries] : entries);
  }

  return walk(value);
}

/** A text by which values can be sorted that differ in ids from run to run. */
export function sortKey(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => (typeof part === "string" ? part.replace(IDS, "#") : part)) ?? "";
}
