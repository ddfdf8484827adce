import { HumanMessage } from "@langchain/core/messages";
import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { type EffectOptions, TurnSaver, type TurnSaverOptions } from "../../src/index";
import { internalsOf } from "../../src/testing-internal";
import { quiet } from "../support/s1-tools";
import { effectUndoneBy } from "../support/undo-world";

/** Of the encrypted fixture; it protects nothing. */
export const FIXTURE_KEY = Buffer.from(Array.from({ length: 32 }, (_, index) => (index * 37 + 11) % 256)).toString("base64");
export const FIXTURES: Readonly<Record<string, TurnSaverOptions>> = {
  "": {},
  "-encrypted": { encryption: { key: FIXTURE_KEY } },
};

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  said: Annotation<unknown[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  facts: Annotation<Record<string, unknown>>(),
});

/** Called in a node whose source may not change, see below. */
const effect = <T>(
  name: string,
  fn: (key: string) => T,
  { undo, ...options }: Omit<EffectOptions<T>, "undo"> & { undo: string },
): Promise<T> => effectUndoneBy(undo, name, fn, options);

/** plan → pay, a side effect → ask, an interrupt → end. Later versions of the package resume what this left: it may not change. */
export function fixtureGraph(saver: TurnSaver, paid: string[]): any {
  const graph = new StateGraph(State)
    .addNode("plan", (state) => ({
      log: [`plan ${state.log.length}`],
      said: [new HumanMessage({ content: "hello ".repeat(60), id: `message ${state.said.length}` })],
      facts: {
        when: new Date(0),
        big: 12n ** 20n,
        bytes: new Uint8Array([1, 2, 255]),
        many: new Map([["a", new Set([1])]]),
        none: undefined,
      },
    }))
    .addNode("pay", async (state) => {
      const receipt = await effect("charge", (key) => (paid.push(key), `receipt ${paid.length}`), {
        input: { amount: state.log.length },
        undo: "refund",
      });
      return { log: [receipt] };
    })
    .addNode("ask", () => ({ log: [`answer ${String(interrupt("what now?"))}`] }))
    .addEdge(START, "plan")
    .addEdge("plan", "pay")
    .addEdge("pay", "ask")
    .addEdge("ask", END);
  return saver.attach(graph.compile({ checkpointer: saver })) as any;
}

export const on = (threadId: string, taskId?: string) => ({
  configurable: { thread_id: threadId, ...(taskId === undefined ? {} : { task_id: taskId }) },
});
export const goOn = new Command({ resume: "go on" });

/** Threads that ended, wait for an answer, and were rewound, with what goes with them in every table. */
export async function writeFixture(path: string, options: TurnSaverOptions): Promise<void> {
  const saver = TurnSaver.fromPath(path, { logger: quiet, ...options });
  const graph = fixtureGraph(saver, []);
  for (const threadId of ["ended", "rewound"]) {
    await graph.invoke({ log: ["in"] }, on(threadId, "one"));
    await graph.invoke(goOn, on(threadId, "one"));
  }
  await graph.invoke({ log: ["in"] }, on("waiting", "one"));
  await saver.names.set({ threadId: "ended" }, "good");
  await graph.updateState(on("rewound", "two"), { log: ["changed"] }, "ask");
  await saver.rewind({ threadId: "rewound", toTask: "one" });
  await saver.copyThread("ended", "copy");
  await saver.deleteThread("gone");
  const failure = JSON.stringify({ error: { name: "Error", message: "no answer" } });
  const tried = { tries: 5, progress: "1", waitMs: 1_000, failure, givenUp: true };
  await internalsOf(saver).store.saveRecovery("waiting", tried, undefined, 1);
  saver.close();
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** All that a saver tells of a file, as JSON with the types of values in it. */
export async function toldOf(path: string, options: TurnSaverOptions): Promise<unknown> {
  const saver = TurnSaver.fromPath(path, { logger: quiet, ...options });
  const threads = await saver.listThreads();
  const told: Record<string, unknown> = { threads };
  for (const { threadId } of threads) {
    const turns = await saver.turns.list(threadId);
    told[threadId] = {
      tuples: await all(saver.list(on(threadId))),
      tasks: await saver.turns.tasks(threadId),
      turns,
      states: await Promise.all(turns.map((turn) => saver.turns.state(turn))),
      effects: await saver.effects.list(threadId),
      names: await saver.names.list(threadId),
      rewinds: await saver.rewinds.list(threadId),
      tokens: await saver.turns.tokenUsage(threadId),
    };
  }
  saver.close();
  return JSON.parse(JSON.stringify(told, exact)) as unknown;
}

function exact(this: Record<string, unknown>, key: string, json: unknown): unknown {
  const value = this[key];
  if (value instanceof Date) return { date: value.toISOString() };
  if (typeof value === "bigint") return { bigint: String(value) };
  if (value instanceof Uint8Array) return { bytes: [...value] };
  if (value instanceof Map) return { map: [...value] };
  if (value instanceof Set) return { set: [...value] };
  return value === undefined ? { undefined: true } : json;
}

/** What goes on with the fixture: the answer that is waited for, a rewind that is taken back, a new task. */
export async function goneOnWith(path: string, options: TurnSaverOptions): Promise<unknown> {
  const paid: string[] = [];
  const saver = TurnSaver.fromPath(path, { logger: quiet, ...options });
  const graph = fixtureGraph(saver, paid);
  const { log: answered } = await graph.invoke(goOn, on("waiting"));
  const paidOfWaiting = paid.length;
  const [rewind] = await saver.rewinds.list("rewound");
  await saver.rewinds.takeBack(rewind!.id);
  const { log: takenBack } = (await graph.getState(on("rewound"))).values;
  await graph.invoke({ log: ["in"] }, on("copy", "two"));
  const { log: copied } = await graph.invoke(goOn, on("copy"));
  const { problems } = await saver.verify();
  saver.close();
  return { answered, paidOfWaiting, takenBack, copied, paid: paid.length, problems };
}
