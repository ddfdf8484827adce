import { nearestName } from "../unknown-option";
import { z } from "zod";
import { TurnsError } from "../errors";
import { fingerprintOf } from "../guards/fingerprint";
import { gateDefaultFields, type GateDefaults, type GatesOptions, type Validator, validatorSchema } from "../guards/gates";
import { checkedOptions, idSchema, isFunction } from "../options";
import { checkedUndos, type Undos } from "../rewind/undos";
import type { AttachOptions } from "../turns/attach";

/**
 * What a {@link GraphRunner} is told of a node, by its name or its path (`sub|a`). A node of a graph that a node calls by itself goes by its
 * path, since the graph doesn't show it.
 */
export interface NodeOptions extends GateDefaults {
  /** It may run again after a crash without a warning (S2.9). */
  idempotent?: boolean | undefined;
  /** With a version label the node's code counts as changed when the label does, and not when its source does; see docs/drift.md. */
  version?: string | undefined;
  /** The node's confidence gate (S3.4); see docs/drift.md. */
  validate?: Validator | undefined;
}

export interface GraphRunnerOptions {
  /**
   * What happens to new input on a thread whose last run is unfinished. `"refuse"` (default) with UNFINISHED_WORK; `"finish"` resumes
   * it first, and refuses if it then waits for a person: right for most chats; `"abandon"` lets the new input replace it, as LangGraph does
   * by itself. See docs/runner.md.
   */
  onUnfinished?: "refuse" | "finish" | "abandon";
  nodes?: Readonly<Record<string, NodeOptions>>;
  /** Version label of the state: with one, a reducer counts as changed when the label does, and not when its source does. */
  stateVersion?: string;
  /** What goes for the gates of all nodes that have one and do not say otherwise. */
  gates?: GateDefaults;
  /**
   * Defined effects whose own undos and probes rewinds of this runner use. All others are found by their names, so this is needed only for
   * effects that a function makes, e.g. for each tenant; see docs/rewind.md.
   */
  undos?: Undos;
  /**
   * What a resume does when completed nodes, or the state, changed since (S4.2, S4.3). By default a run that did effects is refused with
   * GRAPH_CHANGED, and one that did none restarts (S8.4).
   * - `"restart"`: warns and starts the run again from its input, as a new branch of the thread's history. Its effects happen again.
   * - `"refuse"`: GRAPH_CHANGED.
   * - `"continue"`: warns and builds on what the completed nodes did.
   * - `{ accept: ["fetch"] }`: accepts what these completed nodes did, by name or path; any other change follows the default.
   */
  drift?: "restart" | "refuse" | "continue" | { accept: readonly string[] };
  /** What a resume does when the thread's newest checkpoint can't be read. Default: as for `drift`, by what the run did. */
  onCorrupted?: "restart" | "refuse";
  /** The graph's id; a thread that another graph ran on is refused with WRONG_GRAPH. Default: the thread's id. */
  graphId?: string;
  /** Keeps a CHECKPOINT.md up to date while a run works: its path, or what makes one of the thread's id. */
  checkpointFile?: string | ((threadId: string) => string);
}

/** What a call of the runner may say too. */
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
          // Otherwise a gate that was meant would let everything through.
          .refine(
            (node) => node.validate !== undefined || Object.keys(gateDefaultFields()).every((key) => !Object.hasOwn(node, key)),
            { path: ["validate"], error: "must be a function, as the node has settings of a gate" },
          ),
      )
      .default({}),
    stateVersion: z.string().optional(),
    // Checked where the gates are made, which names what is wrong.
    gates: z.custom<GateDefaults>(() => true).optional(),
    // Checked by `checkedUndos`, which names what is wrong.
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
  return checked;
}

export function attachOptionsOf({ nodes, stateVersion, gates }: CheckedRunnerOptions): AttachOptions {
  const versions: Record<string, string> = {};
  const gated: NonNullable<GatesOptions["nodes"]> = {};
  for (const [name, { idempotent: _, version, validate, ...gate }] of Object.entries(nodes)) {
    if (version !== undefined) versions[name] = version;
    if (validate !== undefined) (gated as Record<string, unknown>)[name] = { ...gate, validate };
  }
  // What is not said leaves alone what another runner of the same graph has said.
  return {
    versions: Object.keys(versions).length === 0 ? undefined : versions,
    stateVersion,
    gates: Object.keys(gated).length === 0 && gates === undefined ? undefined : { nodes: gated, defaults: gates },
  };
}

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
  const nearest = nearestName(unknown, [...shown]);
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
