import { join } from "node:path";
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { ChainGraph, messagesOf } from "../drive/chain-graph";
import { type Contender, MEMORY, OFFICIAL } from "../drive/contenders";
import { takeTurns, timedWithCpu } from "../measure/clock";
import { withFolder } from "../measure/file-size";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

export const SUPERSTEPS = 12;
const NO_SAVER = "none";
const RUN = `one run of ${SUPERSTEPS} supersteps`;
const RUN_CPU = `${RUN}, processor time`;
export const SHARE = "share of a superstep";

/** Does nothing, and is waited for like the one that records turns: LangChain makes its callback manager, and that costs by itself. */
class EmptyHandler extends BaseCallbackHandler {
  name = "empty";
  override readonly awaitHandlers = true;
  override readonly raiseError = true;
  override async handleChainStart(): Promise<void> {}
  override async handleChainEnd(): Promise<void> {}
}

/** One way to run the graph: without a saver, with one, with an empty handler beside it. */
export interface Lane {
  contender: Contender;
  saver: BaseCheckpointSaver | undefined;
  graph: ChainGraph;
}

/** What a saver adds to each superstep of a real graph on short threads. */
export const superstepShare: Scenario = {
  name: "superstep-share",
  run: async ({ contenders: all, quick }): Promise<Result> => {
    const [warming, runs] = quick ? [5, 30] : [20, 200];
    const contenders = lanesOf([...all, ...handled(all)]);
    const samples = new Samples();
    await withFolder(async (folder) => {
      const lanes = await Promise.all(contenders.map((contender) => opened(contender, folder)));
      const turn = async ({ contender, graph }: Lane, run: string, seed: number) => {
        const messages = messagesOf(seed, SUPERSTEPS);
        return timedWithCpu(() => graph.run(`${contender.id}-${run}`, messages));
      };
      await takeTurns(lanes, warming, async (lane, run) => void (await turn(lane, `warming-${run}`, run)), Infinity);
      for (const { contender, graph } of lanes) await graph.checkTurns(`${contender.id}-warming-${warming - 1}`);
      await takeTurns(
        lanes,
        runs,
        async (lane, run) => {
          const { clock, cpu } = await turn(lane, `${run}`, warming + run);
          samples.add(RUN, lane.contender.id, clock);
          samples.add(RUN_CPU, lane.contender.id, cpu);
        },
        Infinity,
      );
      for (const { contender, saver } of lanes) if (saver !== undefined) await contender.close(saver);
    });
    addShares(samples, contenders, RUN, SHARE);
    addShares(samples, contenders, RUN_CPU, `${SHARE}, processor time`);
    return {
      name: "superstep-share",
      title: `A saver's share of a superstep: a real graph on new threads, ${SUPERSTEPS} messages each`,
      contenders,
      samples,
      facts: {},
      notes: [
        `${runs} runs of one compiled graph per saver, each on a new thread: a chain of one node that adds a message of 1 KB per superstep.`,
        "A share is a run's time minus the median run of the same graph without a saver, divided by its supersteps. It includes all that comes with " +
          "the saver: LangGraph's own calls and copies, and LangChain's callback manager if turns are recorded.",
        "The rows \"empty handler\" have a callback handler that does nothing. Their difference to the saver's own row is what LangChain's callback manager " +
          "costs. Every saver that records turns by callbacks pays that.",
        "Processor time is that of the whole process, with V8's own threads. Other work on the machine hardly changes it. Waiting for the disk doesn't count.",
      ],
    };
  },
};

/** The share of a superstep from the time of a run and that of one without a saver. */
export function addShares(
  samples: Samples,
  contenders: readonly Contender[],
  run: string,
  share: string,
  shares = samples,
): void {
  const alone = samples.median(run, NO_SAVER)!;
  for (const { id } of contenders) {
    if (id === NO_SAVER) continue;
    for (const took of samples.of(run, id)) shares.add(share, id, (took - alone) / SUPERSTEPS);
  }
}

/** Those who take part, the graph without a saver before them. */
export function lanesOf(contenders: readonly Contender[]): Contender[] {
  const none: Contender = {
    id: NO_SAVER,
    name: "no saver",
    role: "memory",
    records: false,
    hasFile: false,
    reopens: false,
    open: async () => Promise.reject(new Error("there is no saver to open")),
    close: async () => undefined,
  };
  return [none, ...contenders];
}

/** The official ones once more, with an empty handler. */
export function handled(contenders: readonly Contender[]): Contender[] {
  return contenders
    .filter(({ id }) => id === OFFICIAL || id === MEMORY)
    .map((contender) => ({ ...contender, id: `${contender.id}-handler`, name: `${contender.name}, empty handler` }));
}

export async function opened(contender: Contender, folder: string): Promise<Lane> {
  const { id, records } = contender;
  const saver = id === NO_SAVER ? undefined : await contender.open(join(folder, `${id}.db`));
  const handler = id.endsWith("-handler") ? { handler: new EmptyHandler() } : {};
  return { contender, saver, graph: new ChainGraph({ saver, records, ...handler }) };
}
