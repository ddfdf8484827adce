import { field, isPlain, isProxy } from "./fields";

/** What is told when a value is refused, and functions of Zod's own. */
const NOT_COUNTED: ReadonlySet<string> = new Set(["error", "errorMap", "message", "when"]);

/** Zod 4 keeps what a schema is in `_zod.def`, Zod 3 in `_def`. */
function definitionOf(value: unknown): unknown {
  return field(field(value, "_zod"), "def") ?? field(value, "_def");
}

export function isSchema(value: object): boolean {
  return definitionOf(value) !== undefined;
}

/**
 * The structure of a Zod schema: what it is made of, and the source of its refinements and transforms. Defaults that a function gives
 * are not asked for, and the getters of recursive types are not called.
 *
 * @param of describes what is no schema, or a nested one
 */
export function schemaShape(schema: object, of: (value: unknown) => unknown): unknown {
  const definition = definitionOf(schema);
  if (typeof definition !== "object" || definition === null || isProxy(definition)) return { schema: true };
  const shape: Record<string, unknown> = {};
  for (const key of Object.keys(definition)) {
    const value = key === "shape" ? fieldsOf(definition as { shape: unknown }) : field(definition, key);
    if (value !== undefined && !NOT_COUNTED.has(key)) shape[`.${key}`] = of(value);
  }
  return { schema: shape };
}

/** Of an object type; Zod makes it by an accessor (4) or a function (3) of its own, once it is needed. */
function fieldsOf(definition: { shape: unknown }): unknown {
  const shape = definition.shape;
  const made: unknown = typeof shape === "function" ? (shape as () => unknown)() : shape;
  return typeof made === "object" && made !== null && !isProxy(made) && isPlain(made) ? made : undefined;
}
