import { PostgresProxy } from "../../__tests__/support/postgres/proxy";
import { type Contender, OFFICIAL, OURS } from "../drive/contenders";
import { type Bench, postgresContenders, postgresServer } from "../drive/postgres";
import { Replay } from "../drive/postgres-replay";
import { PAIR, Script } from "../drive/script";
import { checkServer } from "../drive/naive-checks";
import { NaiveSaver, RUNGS } from "../drive/naive-saver";
import { NaiveServer } from "../drive/naive-server";
import { overSlowNetwork } from "../drive/slow-network";
import { Thread } from "../drive/thread";
import { conversation } from "../drive/workloads";
import { inTurn, STEPS_IN_A_ROW, takeTurns, timed, timedWithCpu } from "../measure/clock";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

export const POSTGRES = "postgres";
const ROUND_TRIP_MS = 2;
const AT_ONCE = 32;
/** Connections of a saver. */
const POOL = 10;
/** Threads of ten steps before anything is measured. */
const WARMING_UP = 200;
export const stepAt = (messages: number): string => `${messages.toLocaleString("en")} messages, whole step`;
export const STEP_FAR = `10 messages, whole step, ${ROUND_TRIP_MS} ms to the server and back`;
export const STEP_AT_ONCE = `${AT_ONCE} threads at once, per step`;
const NO_DISK = "without waiting for the disk";
export const getAt = (messages: number): string => `${messages.toLocaleString("en")} messages, getTuple`;
export const listAt = (messages: number): string => `${messages.toLocaleString("en")} messages, list of 20`;
export const ROUND_TRIPS = "round trips per step";

/** No saver: what ours sends, sent again. */
const FLOOR: Contender = {
  id: "floor",
  name: "the same bytes, without a saver",
  role: "ours",
  records: true,
  hasFile: false,
  reopens: false,
  open: async () => Promise.reject(new Error("there is no saver to open")),
  close: async () => undefined,
};

/** Straight code for these threads alone, with the package's tables and the promises of rung 4 of the ladder. */
const NAIVE = "naive";
const NAIVE_NAME = "straight code, the same tables and promises";
const naive = ({ schemaOf }: Bench, url: string): Contender => ({
  ...{ id: NAIVE, name: NAIVE_NAME, role: "ours", records: true, hasFile: false, reopens: false },
  open: async () => new NaiveSaver(await NaiveServer.open(url, schemaOf(NAIVE)), RUNGS.values),
  close: async (saver) => (saver as NaiveSaver).close(),
});

/** The savers on PostgreSQL, by turns on one server. */
export const postgres: Scenario = {
  name: POSTGRES,
  run: async ({ quick }): Promise<Result> => {
    const samples = new Samples();
    const bench = await postgresServer();
    const absent: string[] = [];
    const title = "On PostgreSQL, beside the official PostgresSaver";
    if (typeof bench === "string")
      return { name: POSTGRES, title, contenders: [], samples, facts: {}, notes: [], absent: [bench] };
    try {
      const contenders = [...postgresContenders(bench, bench.url), naive(bench, bench.url), FLOOR];
      await checkServer(bench.url, bench.schemaOf(NAIVE));
      await countTrips(bench, samples);
      // New code is slow: these threads are for warming up. V8 compiles for about 2,000 steps.
      await conversations(bench, bench.url, { messages: 10, measured: 5, threads: quick ? 5 : WARMING_UP }, new Samples());
      await conversations(bench, bench.url, { messages: 100, measured: 20, threads: quick ? 0 : 1 }, new Samples());
      await conversations(bench, bench.url, { messages: 10, measured: 5, threads: quick ? 8 : 40 }, samples);
      await conversations(bench, bench.url, { messages: 100, measured: 20, threads: quick ? 1 : 9, reads: 3 }, samples);
      const far = await overSlowNetwork(bench.url, ROUND_TRIP_MS);
      try {
        await conversations(bench, far.url, { messages: 10, measured: 5, threads: quick ? 2 : 10 }, samples, STEP_FAR);
        const replay = await Replay.of(bench, { messages: 10, measured: 5, threads: quick ? 2 : 10, lanes: 1 });
        for (const { clock } of await replay.inOrder(far.url)) samples.add(STEP_FAR, FLOOR.id, clock);
      } finally {
        far.end();
      }
      for (let round = 0; round < (quick ? 1 : 3); round += 1) await atOnce(bench, quick ? 5 : 15, samples);
      await floors(bench, quick, samples);
      if (!quick) {
        const before = await sizes(bench);
        await conversations(bench, bench.url, { messages: 1_000, measured: 30, threads: 1 }, samples);
        const after = await sizes(bench);
        for (const [id, bytes] of after)
          samples.add("tables of a thread of 1,000 messages", id, bytes - (before.get(id) ?? 0), "bytes");
      }
      absent.push(...(await withoutDisk(quick, samples)));
      const notes = [
        `${bench.which}. Each saver has a schema and a pool of ten connections of its own. Their tables grow from one measurement to the next.`,
        `Before, each saver has saved ${WARMING_UP} threads of 10 messages: an agent's process runs for hours, and new code is slow.`,
        "Each thread is saved by one saver, then by the other, whole: a process has one saver. Steps by turns would be measured in caches that the other one has left.",
        "An agent and its tools: two nodes by turns. As in LangGraph, a step's put and putWrites are under way at the same time.",
        `A commit waits for the disk (synchronous_commit on), except where it says "${NO_DISK}": there, the server has fsync off.`,
        `A server ${ROUND_TRIP_MS} ms away is the same one behind a proxy that delays both directions.`,
        `${AT_ONCE} threads at once: all in one process with one saver. Per step means the whole time divided by all steps.`,
        `"${NAIVE_NAME}": new threads only, one at a time, without reads. It packs, compares, hashes and guards what every save must, and sends the same ` +
          "rows in one piece. Before anything is measured, PostgresTurnSaver reads and verifies a thread of it, and a thread that somebody else has changed is refused.",
        `"${FLOOR.name}": what PostgresTurnSaver sends for such steps, recorded and sent again to new tables of the same form. No saver with this layout can be faster.`,
        "Round trips are counted by a proxy: how often the saver waits for the server. Those of calls that overlap count each.",
      ];
      return { name: POSTGRES, title, contenders, samples, facts: {}, notes, absent };
    } finally {
      await bench.end();
    }
  },
};

/** What is sent for the same steps, sent again. */
async function floors(bench: Bench, quick: boolean, samples: Samples): Promise<void> {
  for (const [messages, measured, threads] of quick
    ? [[10, 5, 8] as const, [100, 20, 1] as const]
    : [[10, 5, 40] as const, [100, 20, 9] as const]) {
    const replay = await Replay.of(bench, { messages, measured, threads, lanes: 1 });
    for (const { clock, cpu } of await replay.inOrder(bench.url)) {
      samples.add(stepAt(messages), FLOOR.id, clock);
      samples.add(`${stepAt(messages)}, processor time of the client`, FLOOR.id, cpu);
    }
  }
  const steps = quick ? 5 : 15;
  const together = await Replay.of(bench, { messages: steps, measured: steps, threads: AT_ONCE, lanes: POOL });
  for (let round = 0; round < (quick ? 1 : 3); round += 1) samples.add(STEP_AT_ONCE, FLOOR.id, await together.atOnce(bench.url));
}

async function opened(contenders: readonly Contender[]) {
  return Promise.all(contenders.map(async (contender) => ({ contender, path: "", saver: await contender.open("") })));
}

/** @param course `reads`: so many threads are read, too; the official saver's list takes seconds */
async function conversations(
  bench: Bench,
  url: string,
  { messages, measured, threads, reads = threads }: { messages: number; measured: number; threads: number; reads?: number },
  samples: Samples,
  named?: string,
): Promise<void> {
  const stores = await opened([...postgresContenders(bench, url), naive(bench, url)]);
  // Short threads come several in a row.
  const atATime = Math.ceil(STEPS_IN_A_ROW / messages);
  for (let first = 0; first < threads; first += atATime) {
    const seeds = Array.from({ length: Math.min(atATime, threads - first) }, (_, at) => first + at);
    const groups = stores.map((store) =>
      seeds.map((seed) => new Thread({ ...store, script: new Script(conversation(seed), PAIR) })),
    );
    for (const thread of inTurn(groups, first / atATime).flat()) {
      await thread.begin();
      for (let count = measured; count < messages; count += 1) await thread.step();
      const { id } = thread.contender;
      await takeTurns([thread], measured, async () => {
        let took = 0;
        // Making the messages is no saver's work.
        const step = thread.script.next();
        const { cpu } = await timedWithCpu(async () => (took = (await thread.save(step)).step));
        samples.add(named ?? stepAt(messages), id, took);
        if (named === undefined) samples.add(`${stepAt(messages)}, processor time of the client`, id, cpu);
      });
    }
    const all = groups.flat();
    // The straight code only saves.
    const read = all.filter(({ contender }) => contender.id !== NAIVE);
    const isRead = named === undefined && first < reads;
    if (isRead) {
      await takeTurns(read, 5, async (thread) => {
        samples.add(getAt(messages), thread.contender.id, await timed(() => thread.getTuple()));
      });
    }
    for (const thread of all) await thread.end();
    if (isRead) {
      await takeTurns(read, 3, async (thread) => {
        samples.add(listAt(messages), thread.contender.id, await timed(() => thread.list(20)));
      });
    }
  }
  for (const { contender, saver } of stores) await contender.close(saver);
}

/** A disk says much about itself and little about savers. @returns why it's not measured, if it isn't */
async function withoutDisk(quick: boolean, samples: Samples): Promise<string[]> {
  const bench = await postgresServer(false);
  if (typeof bench === "string") return [bench];
  try {
    const threads = { messages: 10, measured: 5, threads: quick ? 8 : 40 };
    await conversations(bench, bench.url, threads, samples, `${stepAt(10)}, ${NO_DISK}`);
    for (let round = 0; round < (quick ? 1 : 3); round += 1)
      await atOnce(bench, quick ? 5 : 15, samples, `${STEP_AT_ONCE}, ${NO_DISK}`);
    return [];
  } finally {
    await bench.end();
  }
}

async function atOnce(bench: Bench, steps: number, samples: Samples, named = STEP_AT_ONCE): Promise<void> {
  for (const store of await opened(postgresContenders(bench, bench.url))) {
    const all = Array.from(
      { length: AT_ONCE },
      (_, seed) => new Thread({ ...store, script: new Script(conversation(seed), PAIR) }),
    );
    await Promise.all(all.map((thread) => thread.begin()));
    // Making the messages is no saver's work.
    const scripts = all.map((thread) => ({ thread, steps: Array.from({ length: steps }, () => thread.script.next()) }));
    const took = await timed(() =>
      Promise.all(
        scripts.map(async ({ thread, steps: own }) => {
          for (const step of own) await thread.save(step);
        }),
      ),
    );
    samples.add(named, store.contender.id, took / (AT_ONCE * steps));
    for (const thread of all) await thread.end();
    await store.contender.close(store.saver);
  }
}

async function countTrips(bench: Bench, samples: Samples): Promise<void> {
  const proxy = await PostgresProxy.inFrontOf(bench.url);
  // Else a client that sends several statements together could seem to have waited between them.
  proxy.delay = { toServer: 3, toClient: 3 };
  try {
    for (const store of await opened([...postgresContenders(bench, proxy.url), naive(bench, proxy.url)])) {
      const { id } = store.contender;
      const before = proxy.connections;
      const thread = new Thread({ ...store, script: new Script(conversation(0), PAIR) });
      await thread.begin();
      for (let count = 0; count < 3; count += 1) await thread.step();
      for (let count = 0; count < 10; count += 1) {
        proxy.reset();
        await thread.step();
        samples.add(ROUND_TRIPS, id, proxy.roundTrips, "count");
      }
      await thread.end();
      samples.add("connections of one thread", id, proxy.connections - before + 1, "count");
      await store.contender.close(store.saver);
    }
  } finally {
    await proxy.close();
  }
}

async function sizes({ bytesOf }: Bench): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  for (const id of [OFFICIAL, OURS]) sizes.set(id, await bytesOf(id));
  return sizes;
}
