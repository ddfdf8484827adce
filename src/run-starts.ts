import type { RunnableConfig } from "@langchain/core/runnables";
import { namespaceKey, type Place, runAround } from "./run-config";
import type { Lease, SawDeletion, SawEpoch } from "./store/store";
import type { TurnRecorder } from "./turns/recorder";

/** What a run found when it started. */
export interface RunStart {
  readonly sawDeletion: SawDeletion;
  /** How often the thread had been rewound. */
  readonly sawEpoch: SawEpoch;
  /** The run's lease on its thread. */
  readonly lease: Lease | undefined;
}

const UNKNOWN: RunStart = { sawDeletion: undefined, sawEpoch: undefined, lease: undefined };

/**
 * Remembers which deletion of its thread each run found when it started, that is, when it first read the thread. A run that
 * started before a deletion is late, no matter what it saves and when. The same holds for rewinds and leases: a later run's
 * aren't its own.
 *
 * LangGraph passes one `metadata` object through all calls of a graph's run, and one `control` to nested graphs too; nested
 * graphs also get the outer namespaces. A call without these (a save by hand, `updateState`) isn't known here.
 */
export class RunStarts {
  readonly #recorder: Pick<TurnRecorder, "leaseOf">;
  readonly #found = new WeakMap<object, Map<string, RunStart>>();

  constructor(recorder: Pick<TurnRecorder, "leaseOf">) {
    this.#recorder = recorder;
  }

  /** Whether this read starts a run. A nested graph started with the graph around it, unless it has a thread of its own. */
  isStart(config: RunnableConfig, at: Place): boolean {
    return isObject(config.metadata) && this.#around(config, at) === undefined;
  }

  /** A run starts, and has found this. */
  add(config: RunnableConfig, at: Place, start: RunStart): void {
    for (const run of [config.metadata, controlOf(config)]) {
      if (!isObject(run)) continue;
      const found = this.#found.get(run) ?? new Map<string, RunStart>();
      this.#found.set(run, found.set(namespaceKey(at), start));
    }
  }

  /**
   * The start of the run that makes a save. A graph that a node calls on another thread belongs to the outer run.
   *
   * @returns members that are undefined where nothing is known
   */
  of(config: RunnableConfig, at: Place): RunStart {
    const found = this.#around(config, at) ?? this.#of(config.metadata, at) ?? UNKNOWN;
    if (found.lease !== undefined) return found;
    const lease = this.#recorder.leaseOf(runAround(config.callbacks));
    return lease === undefined ? found : { sawDeletion: found.sawDeletion, sawEpoch: found.sawEpoch, lease };
  }

  #around(config: RunnableConfig, at: Place): RunStart | undefined {
    const { __pregel_read: insideNode, checkpoint_map: around } = (config.configurable ?? {}) as Record<string, unknown>;
    if (insideNode === undefined || !isObject(around)) return undefined;
    // The root of another thread, called within a run, starts a run of its own. The metadata name the outer thread.
    const isRootElsewhere = at.ns === "" && config.metadata?.["thread_id"] !== at.threadId;
    const above = isRootElsewhere ? [] : Object.keys(around);
    const found = above.map((ns) => this.#of(controlOf(config), { threadId: at.threadId, ns }));
    return found.find((start) => start !== undefined);
  }

  #of(run: unknown, at: Place): RunStart | undefined {
    return isObject(run) ? this.#found.get(run)?.get(namespaceKey(at)) : undefined;
  }
}

function controlOf(config: RunnableConfig): unknown {
  return (config as { control?: unknown }).control;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
