import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  type PendingWrite,
  uuid6,
} from "@langchain/langgraph-checkpoint";
import { pullTaskId } from "../../src/testing-internal";
import type { Values, Workload } from "./workloads";

export const NODE = "a";
/** Two nodes that lead to each other, like an agent and its tools. */
export const PAIR = [NODE, "b"] as const;

function branchTo(node: string): string {
  return `branch:to:${node}`;
}

/** What LangGraph tells a saver about one superstep: a checkpoint, the task that starts from it, and what the task wrote. */
export interface Step {
  parentId: string | undefined;
  checkpoint: Checkpoint;
  metadata: CheckpointMetadata;
  newVersions: ChannelVersions;
  task: { id: string; name: string; step: number; trigger: string };
  /** The state the node is called with, and what it returns. */
  input: Values;
  update: Values;
  writes: PendingWrite[];
}

/**
 * The steps of a thread, made as LangGraph makes them for a graph whose nodes lead to each other in
 * turn, or of one that leads to itself: integer versions, one higher with
 * every step; `newVersions` with the changed channels only, which a branch is when it's taken and when it's consumed; task ids that derive from the checkpoint. Each saver gets a script of its
 * own, made from the same seed: what one of them remembers about a message must not help another.
 */
export class Script {
  readonly #workload: Workload;
  readonly #nodes: readonly string[];
  #values: Values;
  #versions: ChannelVersions = { __start__: 1 };
  #changed: string[];
  #version = 2;
  #index = 0;
  #headId: string | undefined;

  constructor(workload: Workload, nodes: readonly string[] = [NODE]) {
    this.#workload = workload;
    this.#nodes = nodes;
    this.#values = workload.start();
    this.#changed = Object.keys(this.#values);
  }

  get values(): Values {
    return this.#values;
  }

  /** The checkpoint of the input, with the hidden task that hands it on. Comes first. */
  begin(): Step {
    const checkpoint = this.#checkpoint({ __start__: this.#values }, { __start__: 1 }, { __input__: {} }, -1);
    const writes: PendingWrite[] = [...Object.entries(this.#values), [branchTo(this.#node(0)), null]];
    this.#versions = { __start__: 2 };
    const task = { id: taskId("__start__", 0, "__start__", checkpoint.id), name: "__start__", step: 0, trigger: "__start__" };
    const metadata: CheckpointMetadata = { source: "input", step: -1, parents: {} };
    return this.#made({ checkpoint, metadata, newVersions: { __start__: 1 }, task, input: this.#values, update: {}, writes });
  }

  /** The checkpoint of the state as it stands, and a task that changes it. */
  next(): Step {
    const index = this.#index;
    const node = this.#node(index);
    const branch = branchTo(node);
    const consumed = index === 0 ? [] : [branchTo(this.#node(index - 1))];
    const newVersions = Object.fromEntries([...this.#changed, ...consumed, branch].map((channel) => [channel, this.#version]));
    this.#versions = { ...this.#versions, ...newVersions };
    const seen: Checkpoint["versions_seen"] = { __input__: {}, __start__: { __start__: 1 } };
    for (let back = Math.min(index, this.#nodes.length); back > 0; back -= 1) {
      const ran = this.#node(index - back);
      seen[ran] = { [branchTo(ran)]: this.#version - back };
    }
    const values = { ...this.#values, __pregel_tasks: [], [branch]: null };
    const checkpoint = this.#checkpoint(values, this.#versions, seen, index);
    const { update, values: after } = this.#workload.step(this.#values, index);
    const input = this.#values;
    this.#values = after;
    this.#changed = Object.keys(update);
    this.#version += 1;
    this.#index += 1;
    const task = { id: taskId(node, index + 1, branch, checkpoint.id), name: node, step: index + 1, trigger: branch };
    const metadata: CheckpointMetadata = { source: "loop", step: index, parents: {} };
    return this.#made({
      checkpoint,
      metadata,
      newVersions,
      task,
      input,
      update,
      writes: [...Object.entries(update), [branchTo(this.#node(index + 1)), null]],
    });
  }

  /**
   * Moves to a state `steps` further on. Without the id of a head, as a thread whose earlier checkpoints were pruned: the next one
   * brings all values. With it, as a process that resumes there.
   */
  skip(steps: number, headId?: string): void {
    for (let count = 0; count < steps; count += 1) this.next();
    if (headId === undefined) this.#changed = Object.keys(this.#values);
    this.#headId = headId;
  }

  get headId(): string | undefined {
    return this.#headId;
  }

  #node(index: number): string {
    return this.#nodes[index % this.#nodes.length] as string;
  }

  #checkpoint(values: Values, versions: ChannelVersions, seen: Checkpoint["versions_seen"], step: number): Checkpoint {
    const ts = new Date().toISOString();
    return { v: 4, id: uuid6(step), ts, channel_values: values, channel_versions: versions, versions_seen: seen };
  }

  #made(step: Omit<Step, "parentId">): Step {
    const parentId = this.#headId;
    this.#headId = step.checkpoint.id;
    return { parentId, ...step };
  }
}

export function taskId(name: string, step: number, trigger: string, checkpointId: string): string {
  return pullTaskId(name, step, name, [trigger], checkpointId);
}
