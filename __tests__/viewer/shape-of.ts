/** The shape of JSON: for each field the types that it has, so that documents with other values compare as equal. */
export type Shape = string | { [field: string]: Shape } | Shape[];

/** Fields with content of threads, or of the database's own settings: any JSON. */
const CONTENT = new Set(["value", "before", "after", "settings", "states", "stored"]);

export function shapeOf(value: unknown): Shape {
  if (value === null) return "null";
  if (Array.isArray(value)) return value.length === 0 ? [] : [value.map(shapeOf).reduce(merged)];
  if (typeof value !== "object") return typeof value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, CONTENT.has(key) ? "any" : shapeOf((value as Record<string, unknown>)[key])]),
  );
}

/** Both shapes in one. A field that only one has gets a question mark. */
export function merged(one: Shape, other: Shape): Shape {
  if (JSON.stringify(one) === JSON.stringify(other)) return one;
  if (one === "any" || other === "any") return "any";
  if (Array.isArray(one) && Array.isArray(other)) {
    const parts = [...one, ...other];
    return parts.length === 0 ? [] : [parts.reduce(merged)];
  }
  if (isFields(one) && isFields(other)) return mergedFields(one, other);
  return [...new Set([...namesOf(one), ...namesOf(other)])].sort().join(" | ");
}

function mergedFields(one: Record<string, Shape>, other: Record<string, Shape>): Shape {
  const bare = (shape: Record<string, Shape>): Map<string, Shape> =>
    new Map(Object.entries(shape).map(([key, part]) => [key.replace(/\?$/, ""), part]));
  const [left, right] = [bare(one), bare(other)];
  const fields = [...new Set([...left.keys(), ...right.keys()])].sort().map((key): [string, Shape] => {
    const [was, is] = [left.get(key), right.get(key)];
    const isOptional = was === undefined || is === undefined || `${key}?` in one || `${key}?` in other;
    return [isOptional ? `${key}?` : key, was === undefined ? is! : is === undefined ? was : merged(was, is)];
  });
  return Object.fromEntries(fields);
}

function isFields(shape: Shape): shape is Record<string, Shape> {
  return typeof shape === "object" && !Array.isArray(shape);
}

/** Of unions, as texts: an object or a list beside something else is written as it is. */
function namesOf(shape: Shape): string[] {
  return typeof shape === "string" ? shape.split(" | ") : [JSON.stringify(shape)];
}
