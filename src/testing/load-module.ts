import type { ChildAnswer } from "./child-protocol";
import { toldError } from "./child-protocol";
import type { GraphModule } from "./graph-module";

type Invalid = Extract<ChildAnswer, { kind: "invalid" }>;

/** Loads a graph's module, ESM or CommonJS, and looks whether it exports what it must. */
export async function loadedModule(url: string): Promise<{ module: GraphModule } | Invalid> {
  let namespace: Record<string, unknown>;
  try {
    namespace = (await import(url)) as Record<string, unknown>;
  } catch (error) {
    return { kind: "invalid", expected: "a module that can be loaded", found: String(error), error: toldError(error) };
  }
  // Exports of CommonJS that are assigned in a loop, say, are only seen on the default one.
  const fallback = namespace["default"];
  const exported = (
    typeof namespace["graph"] !== "function" && typeof fallback === "object" && fallback !== null ? fallback : namespace
  ) as Record<string, unknown>;
  const wrong = wrongIn(exported);
  if (wrong !== undefined) return { kind: "invalid", ...wrong, error: undefined };
  return { module: exported as unknown as GraphModule };
}

function wrongIn(exported: Record<string, unknown>): { expected: string; found: string } | undefined {
  const { graph, input, steps, settle, normalise } = exported;
  if (typeof graph !== "function") {
    const names = Object.keys(exported).join(", ");
    return { expected: "an export `graph` that is a function", found: names === "" ? "no exports" : `the exports ${names}` };
  }
  if ((input === undefined) === (steps === undefined)) {
    return { expected: "either an export `input` or an export `steps`", found: input === undefined ? "neither" : "both" };
  }
  for (const [name, value] of Object.entries({ settle, normalise })) {
    if (value !== undefined && typeof value !== "function") {
      return { expected: `an export \`${name}\` that is a function`, found: `a ${typeof value}` };
    }
  }
  return undefined;
}
