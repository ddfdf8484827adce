import { MemorySaver } from "@langchain/langgraph";
import { type BaseCheckpointSaver, type Checkpoint, getCheckpointId } from "@langchain/langgraph-checkpoint";

interface Call {
  kind: "put" | "writes";
  checkpointId: string;
  /** Of a put; '' for none. */
  parentId: string;
  values: Checkpoint["channel_values"];
  to: (memory: MemorySaver) => Promise<unknown>;
}

/**
 * Records what LangGraph hands a saver, and replays it to LangGraph's own `MemorySaver`. On LangGraph 1.4 the order of delta writes
 * depends on task ids, which differ from run to run. So only a mirror of the same run has the same order.
 */
export class MemoryMirror {
  readonly #calls: Call[] = [];

  /** Records from now on. */
  constructor(saver: BaseCheckpointSaver) {
    const [put, putWrites] = [saver.put.bind(saver), saver.putWrites.bind(saver)];
    saver.put = (...args) => {
      const [config, checkpoint, metadata] = args;
      const checkpointId = checkpoint.id;
      const { parentId, values } = this.#whatIsMeant(checkpoint, getCheckpointId(config));
      const { thread_id, checkpoint_ns } = config.configurable ?? {};
      const at = { configurable: { thread_id, checkpoint_ns, checkpoint_id: parentId || undefined } };
      const meant = { ...checkpoint, channel_values: values };
      this.#calls.push({ kind: "put", checkpointId, parentId, values, to: (memory) => memory.put(at, meant, metadata) });
      return put(...args);
    };
    saver.putWrites = (...args) => {
      const [config, writes, taskId] = args;
      const checkpointId = getCheckpointId(config);
      const to = (memory: MemorySaver): Promise<unknown> => memory.putWrites(config, writes, taskId);
      this.#calls.push({ kind: "writes", checkpointId, parentId: "", values: {}, to });
      return putWrites(...args);
    };
  }

  /**
   * With "exit" LangGraph 1.4 can save a checkpoint again, as its own parent and without the snapshots of its delta channels. A MemorySaver
   * would then read without end, or lose the channel.
   */
  #whatIsMeant({ id, channel_values: values }: Checkpoint, given: string): Pick<Call, "parentId" | "values"> {
    if (given !== id) return { parentId: given, values };
    const earlier = this.#calls.findLast((call) => call.kind === "put" && call.checkpointId === id);
    return { parentId: earlier?.parentId ?? "", values: { ...earlier?.values, ...values } };
  }

  /** A MemorySaver that got every call. */
  async whole(): Promise<MemorySaver> {
    return replayed(this.#calls);
  }

  /** A MemorySaver that got one branch only: a checkpoint and its ancestors, each with the writes saved before the next one was. */
  async branch(tip: string): Promise<MemorySaver> {
    const calls: Call[] = [];
    let at = tip;
    let end = this.#calls.length;
    while (at !== "") {
      const saved = this.#calls.findIndex(({ kind, checkpointId }) => kind === "put" && checkpointId === at);
      if (saved === -1) break;
      calls.unshift(...this.#calls.slice(0, end).filter(({ checkpointId }) => checkpointId === at));
      end = saved;
      at = this.#calls[saved]?.parentId ?? "";
    }
    return replayed(calls);
  }
}

async function replayed(calls: readonly Call[]): Promise<MemorySaver> {
  const memory = new MemorySaver();
  for (const { to } of calls) await to(memory);
  return memory;
}
