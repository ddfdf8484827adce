import Database from "better-sqlite3";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { chain } from "../support/s1-graph";
import { quiet } from "../support/s1-tools";
import { openSaver } from "../support/open-saver";
import { testOfFiles } from "../support/test-of-files";

const thread = { configurable: { thread_id: "t" } };

async function attemptsOf(saver: TurnSaver): Promise<[string, string, number | undefined][]> {
  const turns = await saver.turns.list("t");
  return turns.map(({ nodeName, turnType, attempt }) => [nodeName, turnType, attempt]);
}

testOfFiles("the first Thought of a checkpoint that was just saved is committed without a look at earlier turns", async () => {
  const statements: string[] = [];
  const db = new Database(":memory:", { verbose: (text) => statements.push(String(text)) });
  const saver = new TurnSaver(db, { logger: quiet });
  const graph = chain(saver, (node) => void statements.push(`body ${node}`));
  await saver.attach(graph).invoke({ log: [] }, thread);
  const boundary = statements.slice(statements.indexOf("body b"), statements.indexOf("body c"));
  expect(boundary.filter((text) => text.startsWith("INSERT INTO langgraph_checkpoints"))).toHaveLength(2);
  expect(boundary.filter((text) => /^SELECT (?!total_changes)/.test(text))).toEqual([]);
});

test.each(["async", "sync", "exit"] as const)(
  "attempts are counted on where a run was stopped and resumed: %s",
  async (durability) => {
    const saver = openSaver(":memory:", { logger: quiet });
    const stopped = new AbortController();
    let stops = false;
    const graph = saver.attach(
      chain(saver, async (node) => {
        if (node !== "c" || !stops) return;
        stops = false;
        stopped.abort();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }),
    );
    await graph.invoke({ log: ["in"] }, { ...thread, durability });
    stops = true;
    await expect(graph.invoke({ log: ["on"] }, { ...thread, durability, signal: stopped.signal })).rejects.toThrow();
    await graph.invoke(null, { ...thread, durability });
    const thoughts = (await attemptsOf(saver)).filter(([node, type]) => node === "c" && type === "Thought");
    expect(thoughts.map(([, , attempt]) => attempt)).toEqual([1, 1, 2]);
  },
);
