import { join } from "node:path";
import { type Contender, MEMORY, OFFICIAL, OURS } from "../drive/contenders";
import { messagesOf } from "../drive/chain-graph";
import { checkRung, silently } from "../drive/naive-checks";
import { NaiveFile } from "../drive/naive-file";
import { NaiveSaver, type Rung, RUNGS } from "../drive/naive-saver";
import { Script } from "../drive/script";
import { Thread } from "../drive/thread";
import { conversation } from "../drive/workloads";
import { inTurn, takeTurns, timedWithCpu } from "../measure/clock";
import { withFolder } from "../measure/file-size";
import { type Frame, type Profile, profiled } from "../measure/profile";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";
import { addShares, handled, type Lane, lanesOf, opened, SUPERSTEPS } from "./superstep-share";

const NAMES: Record<Rung, string> = {
  [RUNGS.boundaries]: "1: naive, one transaction a boundary",
  [RUNGS.tables]: "2: + the package's tables and indexes",
  [RUNGS.checksums]: "3: + checksums, addresses, digests",
  [RUNGS.values]: "4: + codec, comparison with private copies",
  [RUNGS.looks]: "5: + looks at the file and its log",
  [RUNGS.fence]: "6: + lease, look for changes by others",
};
const COLD = "first 200 runs";
const WARM = "after 300 runs";
const idOf = (rung: Rung): string => `rung-${rung}`;

/** What each promise costs: a saver without any gets one after the other, and the package keeps them all. */
export const ladder: Scenario = {
  name: "ladder",
  run: async ({ contenders: all, quick }): Promise<Result> => {
    const ours = all.find(({ id }) => id === OURS)!;
    const references = all.filter(({ id }) => id === OFFICIAL || id === MEMORY);
    const rungs = Object.values(RUNGS);
    const savers = [...references, ...rungs.map(naive), ours];
    const contenders = lanesOf([...references, ...handled(references), ...rungs.map(naive), ours]);
    const samples = new Samples();
    await withFolder(async (folder) => {
      await silently(async () => {
        for (const rung of rungs) await checkRung(rung, folder);
      });
      await shares(contenders, folder, quick, samples);
      await bareSteps(savers, folder, quick, samples);
      await rooms(contenders, folder, quick ? 20 : 200, samples);
    });
    return {
      name: "ladder",
      title: "A ladder of promises: what each of them costs on a short thread",
      contenders,
      samples,
      facts: {},
      notes: [
        "A naive saver gets one promise of the package after the other; row 6 has all that every save needs, and nothing that only some savers, graphs or " +
          "failures need. It runs this graph alone, on new threads, one at a time, in straight code.",
        "Before anything is measured, each rung proves what it says: what is committed when a node's body runs; the rows of the package's tables; their " +
          "checksums; that the package reads the file, verifies it, and finds a message that was changed in place; that a cut file and a cut log are " +
          "refused; that a lost lease and a foreign write are.",
        `Shares are those of the scenario before: a run's time minus the median run without a saver, divided by its ${SUPERSTEPS} supersteps. The ` +
          "savers took turns in one process.",
        "A bare step is Action, `putWrites`, `put` and Thought alone, driven without LangGraph.",
        "The profile shares out processor time by samples. A sample counts for the innermost room on its stack, or for LangGraph if " +
          "LangGraph's or LangChain's own code is further in. The profiler takes time itself.",
      ],
    };
  },
};

function naive(rung: Rung): Contender {
  return {
    id: idOf(rung),
    name: NAMES[rung],
    role: "ours",
    records: true,
    hasFile: true,
    reopens: false,
    open: async (path) => new NaiveSaver(new NaiveFile(path, rung), rung),
    close: async (saver) => (saver as NaiveSaver).close(),
  };
}

async function shares(contenders: readonly Contender[], folder: string, quick: boolean, samples: Samples): Promise<void> {
  const [warming, runs, cold, warm] = quick ? [5, 30, 20, 20] : [20, 450, 200, 300];
  const lanes = await Promise.all(contenders.map((contender) => opened(contender, folder)));
  const times = new Samples();
  const turn = async ({ contender, graph }: Lane, run: string, seed: number) => {
    const messages = messagesOf(seed, SUPERSTEPS);
    return timedWithCpu(() => graph.run(`${contender.id}-${run}`, messages));
  };
  await takeTurns(lanes, warming, async (lane, run) => void (await turn(lane, `warming-${run}`, run)), Infinity);
  await takeTurns(
    lanes,
    runs,
    async (lane, run) => {
      const { clock, cpu } = await turn(lane, `${run}`, warming + run);
      const { id } = lane.contender;
      if (run < cold) times.add(`run, ${COLD}`, id, clock);
      if (run < cold) times.add(`run, processor time, ${COLD}`, id, cpu);
      if (run >= warm) times.add(`run, ${WARM}`, id, clock);
      if (run >= warm) times.add(`run, processor time, ${WARM}`, id, cpu);
    },
    Infinity,
  );
  for (const { contender, graph } of lanes) await graph.checkTurns(`${contender.id}-${runs - 1}`);
  for (const { contender, saver } of lanes) if (saver !== undefined) await contender.close(saver);
  for (const when of [COLD, WARM]) {
    addShares(times, contenders, `run, ${when}`, `share of a superstep, ${when}`, samples);
    addShares(samples, contenders, `run, processor time, ${when}`, `share of a superstep, processor time, ${when}`, samples);
  }
}

/** The last steps of threads of ten and of a hundred messages. */
async function bareSteps(contenders: readonly Contender[], folder: string, quick: boolean, samples: Samples): Promise<void> {
  for (const [steps, threads, measured] of quick
    ? [[10, 6, 3] as const, [100, 2, 10] as const]
    : [[10, 150, 3] as const, [100, 25, 20] as const]) {
    const stores = await Promise.all(
      contenders.map(async (contender) => {
        const path = join(folder, `${contender.id}-${steps}.db`);
        return { contender, path, saver: await contender.open(path) };
      }),
    );
    for (let seed = 0; seed < threads; seed += 1) {
      const all = stores.map((store) => new Thread({ ...store, script: new Script(conversation(seed)) }));
      for (const thread of inTurn(all, seed)) {
        await thread.begin();
        for (let step = 0; step < steps - measured; step += 1) await thread.step();
        await takeTurns([thread], measured, async () => {
          const step = thread.script.next();
          const { clock, cpu } = await timedWithCpu(() => thread.save(step));
          // The first third of the threads runs code that V8 hasn't compiled yet.
          if (seed < threads / 3) return;
          samples.add(`bare step, ${steps} messages`, thread.contender.id, clock);
          samples.add(`bare step, ${steps} messages, processor time`, thread.contender.id, cpu);
        });
      }
      for (const thread of all) await thread.end();
    }
    for (const { contender, saver } of stores) await contender.close(saver);
  }
}

/** What runs where, by the files of the package and of the naive saver. The first rule that fits counts. */
const ROOMS: readonly (readonly [room: string, file: RegExp, name?: RegExp])[] = [
  ["looks at the file and its log", /sqlite\/(opened-file|log-chain)\.ts$|naive-looks/],
  ["checksums", /^src\/sealing\//],
  ["handing in: values, codec, comparison", /^src\/(values|codec)\/|naive-list/],
  ["handing in: put, putWrites", /^src\/(saving\/|base-saver|saver|run-|serde|system|options|failpoints)|^src\/[a-z-]*\.ts$/],
  ["callbacks: recorder, runs", /^src\/(turns|guards|effects|runner)\//],
  ["queue", /commit-queue\.ts$/],
  ["engine: transactions, calls of statements", /^src\/store\/sqlite\//],
  ["deciding what to write", /^src\/store\/|naive-tables/],
  ["callbacks: recorder, runs", /naive-saver/, /^(handleChain|node(Starts|Ends)|runStarts)/],
  ["queue", /naive-saver/, /^#?(commitAll|boundary|schedule|refuseOthers|later)/],
  ["handing in: put, putWrites", /naive-saver/],
];
const SQL = "SQLite";
const OUTSIDE = "LangGraph, LangChain, Node";
const GARBAGE = "collecting garbage";
const LANGCHAIN = /\/node_modules\/(@langchain|langsmith)\//;
/** Of better-sqlite3, which is native code. */
const STATEMENT = /^(run|get|all|exec|iterate|pragma)$/;

async function rooms(contenders: readonly Contender[], folder: string, runs: number, samples: Samples): Promise<void> {
  const shown = ["none", idOf(RUNGS.fence), OURS];
  for (const contender of contenders.filter(({ id }) => shown.includes(id))) {
    const lane = await opened({ ...contender, open: (path) => contender.open(`${path}-profiled`) }, folder);
    const work = async (from: number, to: number): Promise<void> => {
      for (let run = from; run < to; run += 1) await lane.graph.run(`profiled-${run}`, messagesOf(run, SUPERSTEPS));
    };
    await work(0, runs);
    const profile = await profiled(() => work(runs, 2 * runs));
    if (lane.saver !== undefined) await contender.close(lane.saver);
    for (const [room, ms] of roomsOf(profile))
      samples.add(`profile of a superstep: ${room}`, contender.id, ms / runs / SUPERSTEPS);
  }
}

function roomsOf(profile: Profile): [string, number][] {
  const spent = new Map<string, number>(
    [...new Set([...ROOMS.map(([room]) => room), SQL, GARBAGE, OUTSIDE])].map((room) => [room, 0]),
  );
  for (const { stack, ms } of profile) {
    const room = roomOf(stack);
    spent.set(room, (spent.get(room) ?? 0) + ms);
  }
  return [...spent];
}

function roomOf(stack: readonly Frame[]): string {
  const [{ name, file } = { name: "", file: "" }] = stack;
  if (name === "(garbage collector)") return GARBAGE;
  for (const frame of stack) {
    // The package also wraps what LangChain calls.
    if (LANGCHAIN.test(frame.file)) return OUTSIDE;
    const rule = ROOMS.find(([, of, named]) => of.test(frame.file) && (named === undefined || named.test(frame.name)));
    if (rule === undefined) continue;
    return file === "" && STATEMENT.test(name) ? SQL : rule[0];
  }
  return OUTSIDE;
}
