import { z } from "zod";
import { type GateDefaults, gateDefaultFields, type Validator, validatorSchema } from "../guards/gate-options";
import type { GatesOptions } from "../guards/gates";
import { checkedOptions } from "../options";
import { ID_RULE, isId } from "../ids";
import type { AttachOptions } from "../turns/attach";
import { undosSchema, type Undos } from "../rewind/undos";

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
   * it first, and refuses if it then waits for a person; `"abandon"` lets the new input replace it, as LangGraph does by itself.
   */
  onUnfinished?: "refuse" | "finish" | "abandon";
  nodes?: Readonly<Record<string, NodeOptions>>;
  /** Version label of the state: with one, a reducer counts as changed when the label does, and not when its source does. */
  stateVersion?: string;
  /** What goes for the gates of all nodes that have one and do not say otherwise. */
  gates?: GateDefaults;
  /** How the effects of this graph are undone in a rewind, by the name that `effect()` gives; see docs/rewind.md. */
  undos?: Undos;
  /**
   * What a resume does when nodes that had ended, or the state, changed since (S4.2, S4.3). `"restart"` (default): it warns, says what
   * changed, and begins the run anew from its input, as a new branch of the thread's history. `"refuse"`: GRAPH_CHANGED.
   * `"ignore"`: it goes on with what was done.
   */
  drift?: "restart" | "refuse" | "ignore";
  /** What a resume does when the thread's newest checkpoint cannot be read: as `drift`. Default `"restart"`. */
  onCorrupted?: "restart" | "refuse";
  /** The graph's id; a thread that another graph ran on is refused with WRONG_GRAPH. Default: the thread's id. */
  graphId?: string;
  /** Keeps a CHECKPOINT.md up to date while a run works: its path, or what makes one of the thread's id. */
  checkpointFile?: string | ((threadId: string) => string);
}

const isFunction = (value: unknown): boolean => typeof value === "function";

const schema = z.strictObject({
  onUnfinished: z.enum(["refuse", "finish", "abandon"]).default("refuse"),
  nodes: z
    .record(
      z.string(),
      z
        .strictObject({
          ...gateDefaultFields,
          idempotent: z.boolean().optional(),
          version: z.string().optional(),
          validate: validatorSchema.optional(),
        })
        // Otherwise a gate that was meant would let everything through.
        .refine(
          (node) => node.validate !== undefined || Object.keys(gateDefaultFields).every((key) => !Object.hasOwn(node, key)),
          {
            path: ["validate"],
            error: "must be a function, as the node has settings of a gate",
          },
        ),
    )
    .default({}),
  stateVersion: z.string().optional(),
  // Checked where the gates are made, which names what is wrong.
  gates: z.custom<GateDefaults>(() => true).optional(),
  undos: undosSchema.default({}),
  drift: z.enum(["restart", "refuse", "ignore"]).default("restart"),
  onCorrupted: z.enum(["restart", "refuse"]).default("restart"),
  graphId: z.custom<string>(isId, ID_RULE).optional(),
  checkpointFile: z
    .custom<GraphRunnerOptions["checkpointFile"]>(
      (value) => isFunction(value) || (typeof value === "string" && value !== ""),
      "must be a path, or a function that makes one of a thread's id",
    )
    .optional(),
});

export type CheckedRunnerOptions = z.output<typeof schema>;

/** @throws {TurnsError} INVALID_OPTION */
export function checkedRunnerOptions(options: GraphRunnerOptions): CheckedRunnerOptions {
  return checkedOptions(schema, options);
}

/** What the saver has to know of the graph's nodes. */
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
