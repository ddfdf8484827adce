import { resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { nearestName } from "../unknown-option";
import { z } from "zod";
import { TurnsError } from "../errors";
import { nodePathsOf } from "../guards/graph-nodes";
import { gateDefaultFields, type GateDefaults, type GatesOptions, type Validator, validatorSchema } from "../guards/gates";
import { checkedOptions, idSchema, isFunction } from "../options";
import { checkedUndos, type Undos } from "../rewind/undos";
import type { AttachOptions } from "../turns/attach";

/**
 * Settings of one node of a {@link GraphRunner}, by the node's name or path (`sub|a`). A node of a graph that another node calls
 * by itself needs its path, since the graph doesn't show it.
 */
export interface NodeOptions extends GateDefaults {
  /** The node may run again after a crash without a warning (S2.9). */
  idempotent?: boolean | undefined;
  /**
   * A version label. With one, the node's code counts as changed when the label changes, not when its source does; see
   * docs/drift.md.
   */
  version?: string | undefined;
  /** The node's confidence gate (S3.4); see docs/drift.md. */
  validate?: Validator | undefined;
}

/** Options of a {@link GraphRunner}. All are optional. */
export interface GraphRunnerOptions {
  /**
   * What happens to new input while the thread's last run is unfinished. See docs/runner.md.
   * - `"refuse"` (default): UNFINISHED_WORK.
   * - `"finish"`: resumes the last run first, and refuses if it then waits for a person. Right for most chats.
   * - `"abandon"`: the new input replaces the unfinished work, as in LangGraph by itself.
   */
  onUnfinished?: "refuse" | "finish" | "abandon";
  /** Settings of single nodes, by name or path. */
  nodes?: Readonly<Record<string, NodeOptions>>;
  /** Version label of the state. With one, a reducer counts as changed when the label changes, not when its source does. */
  stateVersion?: string;
  /** Defaults for the gates of all nodes that have one. */
  gates?: GateDefaults;
  /**
   * Defined effects whose own undos and probes this runner's rewinds use. All others are found by name. So you need this only for
   * effects that a function creates, e.g. one for each tenant; see docs/rewind.md.
   */
  undos?: Undos;
  /**
   * What a resume does when completed nodes, or the state, have changed (S4.2, S4.3). Default: a run that did effects is refused
   * with GRAPH_CHANGED, and one that did none restarts (S8.4).
   * - `"restart"`: warns and starts the run again from its input, as a new branch of the thread's history. Its effects happen
   *   again.
   * - `"refuse"`: GRAPH_CHANGED.
   * - `"continue"`: warns and builds on what the completed nodes did.
   * - `{ accept: ["fetch"] }`: accepts what these completed nodes did, by name or path; any other change follows the default.
   *   A name that no node has is refused with INVALID_OPTION.
   */
  drift?: "restart" | "refuse" | "continue" | { accept: readonly string[] };
  /**
   * What a resume does when the thread's newest checkpoint can't be read. Default: like `drift`, it depends on whether the run
   * did effects.
   */
  onCorrupted?: "restart" | "refuse";
  /** The graph's id. A thread that another graph ran on is refused with WRONG_GRAPH. Default: the thread's id. */
  graphId?: string | undefined;
  /** Keeps a CHECKPOINT.md up to date during runs: its path, or a function from the thread's id to the path. */
  checkpointFile?: string | ((threadId: string) => string) | undefined;
}

/** Also an option of single calls. */
export const onUnfinished = () => z.enum(["refuse", "finish", "abandon"]);
export const drift = () =>
  z.union([z.enum(["restart", "refuse", "continue"]), z.strictObject({ accept: z.array(z.string()) })], {
    error: 'must be "restart", "refuse", "continue", or { accept: [names of nodes] }',
  });
const schema = () =>
  z.strictObject({
    onUnfinished: onUnfinished().default("refuse"),
    nodes: z
      .record(
        z.string(),
        z
          .strictObject({
            ...gateDefaultFields(),
            idempotent: z.boolean().optional(),
            version: z.string().optional(),
            validate: validatorSchema().optional(),
          })
          // Gate settings without a validator would let everything through.
          .refine(
            (node) => node.validate !== undefined || Object.keys(gateDefaultFields()).every((key) => !Object.hasOwn(node, key)),
            { path: ["validate"], error: "must be a function, as the node has settings of a gate" },
          ),
      )
      .default({}),
    stateVersion: z.string().optional(),
    // Checked where the gates are made, which names the invalid setting.
    gates: z.custom<GateDefaults>(() => true).optional(),
    // Checked by `checkedUndos`, which names the invalid value.
    undos: z.custom<Undos>(() => true).optional(),
    drift: drift().optional(),
    onCorrupted: z.enum(["restart", "refuse"]).optional(),
    graphId: idSchema.optional(),
    checkpointFile: z
      .custom<GraphRunnerOptions["checkpointFile"]>(
        (value) => isFunction(value) || (typeof value === "string" && value !== ""),
        "must be a path, or a function that makes one of a thread's id",
      )
      .optional(),
  });

export type CheckedRunnerOptions = z.output<ReturnType<typeof schema>>;

/** @throws {TurnsError} INVALID_OPTION */
export function checkedRunnerOptions(options: GraphRunnerOptions): CheckedRunnerOptions {
  const checked = checkedOptions(schema, options);
  checkedUndos(checked.undos);
  const { checkpointFile: file } = checked;
  // As for a database: a later change of the working directory doesn't move it.
  return typeof file === "string" ? { ...checked, checkpointFile: resolve(file) } : checked;
}

export function attachOptionsOf({ nodes, stateVersion, gates }: CheckedRunnerOptions): AttachOptions {
  const versions: Record<string, string> = {};
  const gated: NonNullable<GatesOptions["nodes"]> = {};
  for (const [name, { idempotent: _, version, validate, ...gate }] of Object.entries(nodes)) {
    if (version !== undefined) versions[name] = version;
    if (validate !== undefined) (gated as Record<string, unknown>)[name] = { ...gate, validate };
  }
  // Options that aren't given leave the settings that the graph has alone.
  return {
    versions: Object.keys(versions).length === 0 ? undefined : versions,
    stateVersion,
    gates: Object.keys(gated).length === 0 && gates === undefined ? undefined : { nodes: gated, defaults: gates },
  };
}

/** What these settings are called in an error. */
const SETTINGS = { versions: "version labels of nodes", stateVersion: "stateVersion", gates: "gates" } as const;
/** The settings of the first runner of each graph. */
const settingsOf = new WeakMap<object, AttachOptions>();

/**
 * Attaches a graph for a runner. Gates and labels belong to the graph, so a later runner mustn't change them under an earlier one.
 *
 * @throws {TurnsError} INVALID_OPTION if a runner of this graph has other gates or labels; and what attaching throws
 */
export function attachShared<G>(graph: object, settings: AttachOptions, attach: (settings: AttachOptions) => G): G {
  const first = settingsOf.get(graph);
  if (first !== undefined) refuseOthers(settings, first);
  const attached = attach(settings);
  if (first === undefined) settingsOf.set(graph, settings);
  return attached;
}

function refuseOthers(settings: AttachOptions, first: AttachOptions): void {
  for (const name of Object.keys(SETTINGS) as (keyof typeof SETTINGS)[]) {
    if (settings[name] === undefined || isDeepStrictEqual(settings[name], first[name])) continue;
    throw new TurnsError("INVALID_OPTION", {
      problem: `This graph has a GraphRunner with other ${SETTINGS[name]}, and all runners of a graph share them.`,
      remedy:
        "Use that runner, give both the same, or compile the graph once more for this one: builder.compile({ checkpointer: saver }). " +
        "Functions are the same only if they are one object.",
      data: { option: name },
    });
  }
}

const NAMES_MAX = 30;

/**
 * Refuses node names that the graph can't have. Some nodes aren't visible but may exist: tasks of a functional entrypoint, and
 * nodes of a graph that a node calls by itself. The latter are named by their path, which begins with that node (`tools|search`).
 *
 * @param names by name or path, as the option `nodes` takes them
 * @throws {TurnsError} INVALID_OPTION with the nearest name and the valid ones
 */
export function refuseUnknownNodes(graph: object, names: readonly string[]): void {
  const found = unknownNode(graph, names);
  if (found === undefined) return;
  const { unknown, nearest, paths, remedy } = found;
  throw new TurnsError("INVALID_OPTION", {
    problem: `Option "nodes" names ${JSON.stringify(unknown)}, but the graph has no such node.`,
    remedy:
      `${remedy} Name a node of a graph that a node calls by itself by its path, e.g. ` +
      `nodes: { ${JSON.stringify(`${paths[0] ?? "caller"}|${unknown}`)}: … }.`,
    data: { option: `nodes.${unknown}`, nearest, nodes: paths },
  });
}

/**
 * The error for a name in `drift.accept` that no node has, in the graph or in what the thread ran with.
 *
 * @param gone paths of nodes that the thread ran with and the graph no longer has
 */
export function unknownAccepted(graph: object, accept: readonly string[], gone: readonly string[]): TurnsError | undefined {
  const found = unknownNode(graph, accept, gone);
  if (found === undefined) return undefined;
  const { unknown, nearest, paths, remedy } = found;
  return new TurnsError("INVALID_OPTION", {
    problem: `Option "drift.accept" names ${JSON.stringify(unknown)}, but neither the graph nor what the thread ran with has such a node.`,
    remedy: `${remedy} Nothing was changed.`,
    data: { option: "drift.accept", nearest, nodes: paths },
  });
}

interface UnknownNode {
  unknown: string;
  nearest: string | undefined;
  /** Of the nodes that there are. */
  paths: readonly string[];
  /** The nearest name as a question, and the names that there are. */
  remedy: string;
}

/** The first of these names that no node can have. */
function unknownNode(graph: object, names: readonly string[], gone: readonly string[] = []): UnknownNode | undefined {
  if (names.length === 0 || !("builder" in graph)) return undefined;
  const paths = [...nodePathsOf(graph), ...gone].sort();
  const shown = new Set(paths.flatMap((path) => [path, path.slice(path.lastIndexOf("|") + 1)]));
  const isKnown = (name: string): boolean => {
    if (shown.has(name)) return true;
    const caller = paths.findLast(
      (path) => name.startsWith(`${path}|`) && !paths.some((other) => name.startsWith(`${other}|`) && other.length > path.length),
    );
    return caller !== undefined && !paths.some((path) => path.startsWith(`${caller}|`));
  };
  const unknown = names.find((name) => !isKnown(name));
  if (unknown === undefined) return undefined;
  const nearest = nearestName(unknown, [...shown]);
  const more = paths.length > NAMES_MAX ? ` and ${paths.length - NAMES_MAX} more` : "";
  const question = nearest === undefined ? "" : `Did you mean ${JSON.stringify(nearest)}? `;
  return { unknown, nearest, paths, remedy: `${question}Its nodes: ${paths.slice(0, NAMES_MAX).join(", ")}${more}.` };
}
