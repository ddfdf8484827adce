import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { copyThreadTo, moveThread, salvage, vacuum } from "langgraph-checkpoint-turns/maintenance";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

async function lived(path: string): Promise<TurnSaver> {
  const saver = TurnSaver.fromPath(path, { logger: quiet });
  const graph = new StateGraph(State)
    .addNode("a", () => ({ log: ["a".repeat(10_000)] }))
    .addNode("b", () => ({ log: ["b"] }))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("b", END)
    .compile({ checkpointer: saver });
  for (const thread of ["t", "u"])
    for (const task of ["1", "2", "3"])
      await graph.invoke({ log: [task] }, { configurable: { thread_id: thread, task_id: task } });
  return saver;
}

test("S7.2 fake timers stop no long work on a database: each lets others have their turn with Node's own timers", async () => {
  const [path, second] = [tempFile(), tempFile()];
  const [saver, other] = [await lived(path), TurnSaver.fromPath(second, { logger: quiet })];
  jest.useFakeTimers();
  try {
    expect(await saver.verify()).toMatchObject({ ok: true });
    let listed = 0;
    for await (const _ of saver.list({ configurable: { thread_id: "t" } })) listed += 1;
    expect(listed).toBeGreaterThan(5);
    await saver.copyThread("t", "copy");
    await copyThreadTo(saver, other, "t");
    expect(await moveThread(saver, other, "u")).toMatchObject({ outcome: "moved" });
    expect(await saver.prune({ threadId: "t", keepTasks: 1 })).toMatchObject({ deletedThreads: [] });
    await saver.deleteThread("copy");
    await vacuum(saver);
    expect(await salvage(path, tempFile())).toMatchObject({ lost: [] });
    expect(await saver.drain()).toBeDefined();
  } finally {
    jest.useRealTimers();
  }
  expect((await other.listThreads()).map(({ threadId }) => threadId)).toEqual(["t", "u"]);
  saver.close();
  other.close();
});

test("S7.2 a backup under fake timers needs a real setImmediate, with which better-sqlite3 steps through it", async () => {
  const [saver, copy] = [await lived(tempFile()), tempFile()];
  jest.useFakeTimers({ doNotFake: ["setImmediate"] });
  try {
    expect(await saver.backup(copy)).toMatchObject({ path: copy });
  } finally {
    jest.useRealTimers();
  }
  saver.close();
});
