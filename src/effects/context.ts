import { AsyncLocalStorageProviderSingleton } from "@langchain/core/singletons";
import { TurnsError } from "../errors";
import { JOURNAL } from "../turns/recorder";

/** Where a call of `effect()` stands, by what LangGraph's config says (internals, section 4). */
export interface EffectPlace {
  threadId: string;
  nodeNs: string;
  nodeTaskId: string;
  /** The newest checkpoint of the outermost graph. */
  rootCheckpointId: string | undefined;
  /** Those of the graphs inside it that the node is in, by their namespaces. */
  innerCheckpointIds: Readonly<Record<string, string>>;
  /** The run that the caller is, a node's or a tool's. */
  runId: string | undefined;
}

interface NodeConfig {
  configurable?: Record<string, unknown>;
  callbacks?: { handlers?: unknown[]; getParentRunId?: () => string | undefined } | unknown[];
}

/**
 * Finds the journal and the place of a call.
 *
 * @throws {TurnsError} EFFECT_OUTSIDE_NODE where there is no node, or one of a graph that no saver is attached to
 */
export function contextOf<J>(name: string, given: object | undefined): { journal: J; place: EffectPlace } {
  const config = (given ?? AsyncLocalStorageProviderSingleton.getRunnableConfig()) as NodeConfig | undefined;
  const configurable = config?.configurable ?? {};
  const { thread_id: threadId, checkpoint_ns: nodeNs, checkpoint_map: map } = configurable;
  const nodeTaskId = configurable["__pregel_task_id"];
  if (typeof threadId !== "string" || typeof nodeNs !== "string" || typeof nodeTaskId !== "string") {
    throw outside(name, config === undefined ? "no config of LangGraph's" : "a config that no node was called with");
  }
  const callbacks = Array.isArray(config?.callbacks) ? undefined : config?.callbacks;
  const journal = journalOf(Array.isArray(config?.callbacks) ? config.callbacks : (callbacks?.handlers ?? []));
  if (journal === undefined) throw outside(name, "a graph that no TurnSaver is attached to");
  const { "": root, ...inner } = (map ?? {}) as Record<string, string | undefined>;
  return {
    journal: journal as J,
    place: {
      threadId,
      nodeNs,
      nodeTaskId,
      rootCheckpointId: typeof root === "string" ? root : undefined,
      innerCheckpointIds: inner as Record<string, string>,
      runId: callbacks?.getParentRunId?.(),
    },
  };
}

/** The journal of the saver that keeps the run; of a graph inside another one that another saver is attached to, the innermost. */
function journalOf(handlers: readonly unknown[]): unknown {
  const faces = handlers.filter((handler) => (handler as { [JOURNAL]?: unknown } | null)?.[JOURNAL] !== undefined) as {
    [JOURNAL]: unknown;
    isElsewhere?: boolean;
  }[];
  return (faces.findLast(({ isElsewhere }) => isElsewhere !== true) ?? faces.at(-1))?.[JOURNAL];
}

function outside(name: string, found: string): TurnsError {
  return new TurnsError("EFFECT_OUTSIDE_NODE", {
    what: `effect ${JSON.stringify(name)}`,
    expected: "a call from within a node, a tool or a task of a graph that a TurnSaver is attached to",
    found,
    remedy:
      "Run the graph with a GraphRunner, or call saver.attach(graph); pass the node's config as the option `config` where there is no async context, and await the effect before the node returns. Nothing was done.",
    data: { name },
  });
}
