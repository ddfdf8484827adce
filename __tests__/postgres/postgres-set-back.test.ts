import { Client } from "pg";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, TurnsError, TurnSaver } from "langgraph-checkpoint-turns";
import { moveThread } from "langgraph-checkpoint-turns/maintenance";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { LONG, points } from "../support/lane";
import { type PostgresServer, startServer } from "../support/postgres/server";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

/**
 * A server that loses its last commits while a run goes on: it was killed before they were on its disk (`synchronous_commit = off`), or a
 * standby that didn't have them took over. What a saver remembers is ahead of the database then.
 */
const NODES = ["a", "b", "c", "d", "e", "f"] as const;
const DURABILITIES = ["sync", "async", "exit"] as const;
const BEFORE = -1;
/** A list of such texts grows by pieces. A piece that is gone is missed. */
const LONG_TEXT = "-".repeat(500);

let server: PostgresServer;
let admin: Client;
let threads = 0;
const savers: PostgresTurnSaver[] = [];
beforeAll(async () => {
  server = await startServer();
  admin = new Client(server.adminUrl);
  await admin.connect();
  const saver = opened();
  await saver.setup();
  await keeps("CREATE SCHEMA was", ({ name }) => `CREATE TABLE was.${name} (LIKE turns.${name})`);
});
afterEach(async () => {
  for (const saver of savers.splice(0)) await saver.close();
});
afterAll(async () => {
  await admin.end();
  await server.stop();
});

function opened(): PostgresTurnSaver {
  const saver = PostgresTurnSaver.fromConnString(server.url, { logger: quiet });
  savers.push(saver);
  return saver;
}

async function keeps(first: string, each: (table: { name: string }) => string): Promise<void> {
  const { rows } = await admin.query("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'turns'");
  await admin.query([first, ...rows.map(each)].join(";"));
}

/** What the database has now is what it comes back with. */
const snapshot = (): Promise<void> =>
  keeps("SELECT 1", ({ name }) => `DELETE FROM was.${name}; INSERT INTO was.${name} TABLE turns.${name}`);
const setBack = (): Promise<void> =>
  keeps(
    "SELECT 1",
    ({ name }) => `DELETE FROM turns.${name}; INSERT INTO turns.${name} OVERRIDING SYSTEM VALUE TABLE was.${name}`,
  );

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (one, other) => one.concat(other), default: () => [] }),
});

/** A chain of nodes, each of which does something before it ends. */
function chain(saver: TurnSaver, within: (node: number) => Promise<void> = async () => undefined) {
  const builder = new StateGraph(State);
  for (const [at, name] of NODES.entries()) {
    builder.addNode(name, async ({ log }) => {
      await within(at);
      return { log: [`${name}${log.length}${LONG_TEXT}`] };
    });
  }
  const linked = builder as StateGraph<any, any, any, string>;
  linked.addEdge(START, "a").addEdge("f", END);
  for (let at = 1; at < NODES.length; at += 1) linked.addEdge(NODES[at - 1] as string, NODES[at] as string);
  return linked.compile({ checkpointer: saver });
}

/** What somebody reads who remembers nothing. */
async function readAnew(threadId: string): Promise<unknown> {
  const saver = opened();
  expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });
  return (await chain(saver).getState({ configurable: { thread_id: threadId } })).values;
}

const pairs = [BEFORE, ...NODES.keys()].flatMap((taken) =>
  [...NODES.keys()].filter((lost) => lost > taken).map((lost): [number, number] => [taken, lost]),
);

describe.each(["runner", "attached"] as const)("S9.3 commits that the server loses during a run: %s", (way) => {
  test.each(DURABILITIES)(
    "S9.3 nothing is saved on what is gone, and the thread continues from what is there: durability %s",
    async (durability) => {
      for (const [at, [taken, lost]] of points(pairs, 5).entries()) {
        for (const isKnown of LONG ? [true, false] : [at % 2 === 0]) {
          threads += 1;
          const [threadId, place] = [`t${threads}`, { taken, lost, isKnown }];
          const saver = opened();
          let isLosing = true;
          const graph = chain(saver, async (node) => {
            if (isLosing && node === taken) await snapshot();
            if (isLosing && node === lost) await setBack();
          });
          if (way === "attached") saver.attach(graph);
          const runner = new GraphRunner(graph);
          const invoke = async (text: string): Promise<any> =>
            way === "runner"
              ? runner.invoke({ log: [text] }, {
                  threadId,
                  taskId: text,
                  onUnfinished: "abandon",
                  durability,
                } as never)
              : graph.invoke({ log: [text] }, { configurable: { thread_id: threadId }, durability } as never);

          isLosing = false;
          if (isKnown) await invoke("first");
          isLosing = true;
          if (taken === BEFORE) await snapshot();
          const end = await invoke("second").catch((error: unknown) => error);
          isLosing = false;
          if (end instanceof Error && !TurnsError.is(end)) throw end;
          const code = TurnsError.is(end) ? end.code : "none";
          const left = (await readAnew(threadId)) as { log?: string[] };
          if (code === "none") expect({ place, ...left }).toEqual({ place, ...end });
          else expect(["CHECKPOINT_NOT_FOUND", "LEASE_LOST"]).toContain(code);
          expect({ place, ...(await graph.getState({ configurable: { thread_id: threadId } })).values }).toEqual({
            place,
            ...left,
          });

          const after = await invoke("third");
          expect({ place, log: after.log }).toEqual({ place, log: expect.arrayContaining(["third"]) });
          expect({ place, ...((await readAnew(threadId)) as object) }).toEqual({ place, ...after });
          await saver.deleteThread(threadId);
          for (const one of savers.splice(0)) await one.close();
        }
      }
    },
  );
});

test("S9.7 PostgreSQL: a sequence that is behind its threads, as after logical replication, gives none of their numbers again", async () => {
  const saver = opened();
  const file = TurnSaver.fromPath(tempFile(), { logger: quiet });
  const invoked = async (on: TurnSaver, thread_id: string): Promise<unknown> =>
    chain(on).invoke({ log: [thread_id] }, { configurable: { thread_id } });
  for (const threadId of ["old", "pruned", "newest"]) await invoked(saver, threadId);
  await saver.prune({ threadId: "pruned", keepLast: 1 });
  const states = (): Promise<unknown[]> => Promise.all(["old", "pruned", "newest"].map(readAnew));
  const before = await states();
  const isBehind = async (): Promise<void> => {
    await admin.query(
      "SELECT setval('turns.langgraph_thread_numbers', (SELECT thread FROM turns.langgraph_threads WHERE thread_id = 'pruned'), false)",
    );
  };

  await isBehind();
  await invoked(saver, "new");
  await isBehind();
  await saver.copyThread("old", "copied");
  await isBehind();
  await invoked(file, "moved");
  await moveThread(file, saver, "moved");
  file.close();
  expect(await states()).toEqual(before);
  expect(await saver.turns.list("moved")).toHaveLength(2 * NODES.length);

  // A number is taken only for a new thread.
  const given = async (): Promise<unknown> => (await admin.query("SELECT last_value FROM turns.langgraph_thread_numbers")).rows;
  const last = await given();
  await invoked(saver, "old");
  expect(await given()).toEqual(last);
});
