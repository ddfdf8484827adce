import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, type GraphRunnerOptions, type TurnSaverOptions } from "../../src/index";
import { tempFile } from "./temp";
import { openSaver } from "./open-saver";

export const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
export type Runner = GraphRunner<ReturnType<typeof lineGraph>>;
export type Body = (state: typeof State.State) => unknown;

/** A file that only nodes append to: what ran, however often it was forgotten. */
export class SideEffects {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  happen(what: string): void {
    appendFileSync(this.path, `${what}\n`);
  }

  get all(): string[] {
    return existsSync(this.path) ? readFileSync(this.path, "utf8").trim().split("\n").filter(Boolean) : [];
  }

  count(what: string): number {
    return this.all.filter((line) => line === what).length;
  }
}

/** A database file, a saver on it, what it warned of, and the ledger of its nodes. */
export function world(path = tempFile(), options: TurnSaverOptions = {}) {
  const warnings: string[] = [];
  const logger = { debug() {}, info() {}, warn: (_: object, message?: string) => void warnings.push(message ?? ""), error() {} };
  const saver = openSaver(path, { logger, synchronous: "normal", ...options });
  return { path, saver, warnings, ledger: new SideEffects(`${path}.ledger`) };
}

export type World = ReturnType<typeof world>;

/** One node behind the other; each notes that it ran, and adds its name to the log or does what `bodies` says. */
export function lineGraph(
  { saver, ledger }: Pick<World, "saver" | "ledger">,
  names: string[],
  bodies: Record<string, Body> = {},
) {
  const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
  names.forEach((name, index) => {
    builder.addNode(name, async (state) => {
      ledger.happen(name);
      return ((await bodies[name]?.(state)) ?? { log: [name] }) as typeof State.Update;
    });
    builder.addEdge(index === 0 ? START : (names[index - 1] ?? START), name);
  });
  return builder.compile({ checkpointer: saver });
}

/** A runner of {@link lineGraph}, each node and the state with a version label, so that source does not count: `a@2` is node a of version 2. */
export function line(
  at: Pick<World, "saver" | "ledger">,
  labelled: string[],
  bodies: Record<string, Body> = {},
  options: GraphRunnerOptions = {},
): Runner {
  const nodes = labelled.map((one) => one.split("@") as [string, string | undefined]);
  const graph = lineGraph(
    at,
    nodes.map(([name]) => name),
    bodies,
  );
  const versions = Object.fromEntries(nodes.map(([name, version = "1"]) => [name, { version, ...options.nodes?.[name] }]));
  return new GraphRunner(graph, { stateVersion: "1", ...options, nodes: { ...options.nodes, ...versions } });
}

export const breaks: Body = () => {
  throw new Error("it is broken");
};

export const paths = (outcomes: readonly { path: string }[]): string[] => outcomes.map(({ path }) => path);
