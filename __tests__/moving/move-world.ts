import { START, StateGraph } from "@langchain/langgraph";
import { effect, type TurnSaver, type TurnSaverOptions } from "langgraph-checkpoint-turns";
import { TurnSaver as SqliteSaver } from "../../src/index";
import { answer, at, input, secretGraph } from "../support/enc-graph";
import { Deeds, Log } from "../support/eff-world";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { undosOf } from "../support/undo-world";

/** A database that threads can be in. */
export interface Place {
  kind: "file" | "schema";
  path: string;
}

/** From where to where threads move in these suites. */
export const WAYS: readonly (readonly [Place["kind"], Place["kind"]])[] = ON_POSTGRES
  ? [
      ["file", "schema"],
      ["schema", "file"],
      ["schema", "schema"],
    ]
  : [["file", "file"]];

export function newPlace(kind: Place["kind"]): Place {
  return { kind, path: tempFile() };
}

export function openAt({ kind, path }: Place, options: TurnSaverOptions = {}): TurnSaver {
  const given = { logger: quiet, synchronous: "normal", ...options } as const;
  return kind === "file" ? SqliteSaver.fromPath(path, given) : openSaver(path, given);
}

/** Everything that a saver tells about a thread, without the numbers that its rows have in this database. */
export async function toldOf(saver: TurnSaver, threadId: string): Promise<unknown> {
  const tuples: unknown[] = [];
  for await (const tuple of saver.list({ configurable: { thread_id: threadId } })) {
    const { checkpoint_ns, checkpoint_id } = tuple.config.configurable!;
    tuples.push([tuple, await saver.getTuple({ configurable: { thread_id: threadId, checkpoint_ns, checkpoint_id } })]);
  }
  const turns = await saver.turns.list(threadId);
  const states: unknown[] = [];
  for (const turn of turns) states.push(await saver.turns.state(turn).catch((error: { code: string }) => error.code));
  const effects = await saver.effects.list(threadId);
  const usage = await saver.turns.tokenUsage(threadId);
  return withoutNumbers({
    ...{ tuples, turns, states, effects, usage },
    newest: await saver.getTuple({ configurable: { thread_id: threadId } }),
    tasks: await saver.turns.tasks(threadId),
    inFlight: await saver.turns.inFlight(threadId),
    rewinds: await saver.rewinds.list(threadId),
    names: await saver.names.list(threadId),
    thread: (await saver.listThreads()).find((thread) => thread.threadId === threadId),
  });
}

const SPAN = 67_108_864;

/** A seq counts from the start of its thread, whose number differs from one database to the next. */
function withoutNumbers(value: unknown): unknown {
  if (typeof value === "number") return value >= SPAN ? value % SPAN : value;
  if (Array.isArray(value)) return value.map(withoutNumbers);
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withoutNumbers(one)]));
}

/** What verify finds wrong. */
export async function problemsIn(saver: TurnSaver): Promise<unknown> {
  return (await saver.verify()).problems;
}

/** Tasks with effects, a person's answers, rewinds that keep archives, names, and checkpoints that were pruned. */
export async function lived(saver: TurnSaver): Promise<void> {
  const graph = secretGraph(saver);
  for (const mode of ["go", "ask"] as const) await graph.invoke(input(mode, "first"), at("t"));
  await graph.invoke(answer, at("t"));
  await saver.names.set({ threadId: "t" }, "good");
  const tasks = (await saver.turns.tasks("t")).map(({ taskId }) => taskId);
  await graph.invoke(input("go", "rewound"), at("t"));
  await graph.invoke(input("go", "rewound too"), at("t"));
  const undos = undosOf(new Deeds());
  const last = (await saver.turns.tasks("t")).map(({ taskId }) => taskId).at(-2)!;
  await saver.rewind({ threadId: "t", toTask: last }, undos);
  await saver.rewind({ threadId: "t", toTask: tasks.at(-1)! }, undos);
  await graph.invoke(input("ask", "after"), at("t"));
}

/** first → second, which has an effect and then may crash → third */
export function agentOn(saver: TurnSaver, ledger: Deeds, crash: () => unknown = () => undefined) {
  const node =
    (name: string, work: () => Promise<void> = async () => undefined) =>
    async () => {
      ledger.do(`node ${name}`);
      await work();
      return { log: [name] };
    };
  const second = async (): Promise<void> => {
    await effect("charge", async () => ledger.do("charge"), { undo: false });
    await crash();
  };
  const graph = new StateGraph(Log)
    .addNode("first", node("first"))
    .addNode("second", node("second", second))
    .addNode("third", node("third"))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .addEdge("second", "third")
    .compile({ checkpointer: saver });
  return saver.attach(graph);
}
