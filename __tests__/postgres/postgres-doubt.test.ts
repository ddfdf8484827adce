import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { effect, TurnsError } from "langgraph-checkpoint-turns";
import { PostgresTurnSaver, type PostgresTurnSaverOptions } from "langgraph-checkpoint-turns/postgres";
import { attached, line, thread } from "../support/eff-world";
import { schemaAt } from "../support/open-saver";
import { isCommit, isCommitAnswer, type Message } from "../support/postgres/messages";
import { type Fate, PostgresProxy } from "../support/postgres/proxy";
import { quiet } from "../support/s1-tools";

/** A commit whose answer was lost: what the database has is found out, no matter what the commit was about and who else writes meanwhile. */
const direct = process.env["TURNS_PG_DIRECT_URL"]!;
const schema = schemaAt("doubt");
const savers: PostgresTurnSaver[] = [];
let proxy: PostgresProxy;
beforeAll(async () => {
  proxy = await PostgresProxy.inFrontOf(direct);
});
afterEach(async () => {
  proxy.fate = () => "pass";
  proxy.incoming = "serve";
  await Promise.all(savers.splice(0).map((saver) => saver.close()));
});
afterAll(() => proxy.close());

function opened(options: PostgresTurnSaverOptions = {}, url = proxy.url): PostgresTurnSaver {
  const saver = PostgresTurnSaver.fromConnString(url, { schema, logger: quiet, busyTimeoutMs: 5_000, ...options });
  savers.push(saver);
  return saver;
}

/** Does something to the first commit from now on that comes with a statement; resolves when it's done. */
function strike(fate: Fate, isIt: (message: Message) => boolean, then: () => unknown = () => undefined): Promise<void> {
  return new Promise((done, failed) => {
    let isDone = false;
    proxy.fate = (message) => {
      if (isDone || !isIt(message)) return "pass";
      isDone = true;
      proxy.incoming = "refuse";
      void Promise.resolve(then())
        .then(() => done(), failed)
        .finally(() => (proxy.incoming = "serve"));
      return fate;
    };
  });
}

/** The COMMIT, or its answer, of the n-th transaction that runs such a statement. */
function commitOf(statement: RegExp, isIt: typeof isCommit, number = 1): (message: Message) => boolean {
  let seen = 0;
  let connection: number | undefined;
  return (message) => {
    if (message.type === "B" && statement.test(message.text) && (seen += 1) === number) connection = message.connection;
    return message.connection === connection && isIt(message);
  };
}

test("S9.3 PostgreSQL: the commit of a change that isn't in a thread's row is read back", async () => {
  const saver = opened();
  await saver.put(thread("d"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
  await saver.deleteThread("d");
  const struck = strike("cut", commitOf(/DELETE FROM .*tombstones/, isCommitAnswer));
  expect(await saver.retention.reuseThread("d")).toBe(true);
  await struck;
});

test("S9.3 PostgreSQL: a commit is found, though somebody else has written to its thread since", async () => {
  const [saver, other] = [opened(), opened({}, direct)];
  await other.setup();
  let bodies = 0;
  const graph = attached(
    saver,
    line({ a: () => effect("charge", () => ((bodies += 1), { log: ["a"] })), b: () => ({ log: ["b"] }) }),
  );
  const commits: readonly (readonly [RegExp, number])[] = [
    [/INSERT INTO .*_effects/, 1],
    [/INSERT INTO .*_effects/, 2],
    [/INSERT INTO .*_checkpoints/, 1],
    [/INSERT INTO .*_checkpoints/, 2],
    [/INSERT INTO .*_snapshots/, 2],
  ];
  for (const [at, [statement, number]] of commits.entries()) {
    bodies = 0;
    const id = `t${at}`;
    const struck = strike("cut", commitOf(statement, isCommitAnswer, number), async () => {
      const tuple = await other.getTuple(thread(id));
      await other.putWrites(tuple!.config, [["log", ["by hand"]]], "somebody");
    });
    await graph.invoke({ log: ["in"] }, thread(id));
    await struck;
    expect(bodies).toBe(1);
    expect((await saver.turns.list(id)).map(({ nodeName, turnType }) => `${turnType} ${nodeName}`)).toEqual([
      "Thought a",
      "Action a",
      "Thought b",
      "Action b",
    ]);
  }
  expect(await saver.verify()).toMatchObject({ ok: true });
});

test("S9.3 PostgreSQL: as long as a COMMIT may still arrive, nobody says that it won't", async () => {
  const saver = opened({ busyTimeoutMs: 200 });
  const graphOf = (on: PostgresTurnSaver) => attached(on, line({ a: () => ({ log: ["a"] }) }));
  // Nothing of this depends on how fast the machine is.
  await graphOf(opened()).invoke({ log: ["in"] }, thread("late"));
  const graph = graphOf(saver);
  const struck = strike({ lateBy: 900 }, commitOf(/INSERT INTO .*_checkpoints/, isCommit));
  const failure: unknown = await graph.invoke({ log: ["in"] }, thread("late")).catch((error: unknown) => error);
  await struck;
  await new Promise((done) => setTimeout(done, 1_000));
  const turns = (await saver.turns.list("late")).map(({ nodeName, turnType }) => `${turnType} ${nodeName}`);
  if (TurnsError.is(failure)) expect(failure.message).not.toContain("Nothing was saved");
  else expect(turns).toHaveLength(4);
  expect(await saver.verify()).toMatchObject({ ok: true });
});

test("S9.3 PostgreSQL: if what became of a commit can't be found out, the error says so", async () => {
  const saver = opened({ busyTimeoutMs: 300 });
  await saver.setup();
  proxy.fate = (message) => {
    if (!isCommitAnswer(message)) return "pass";
    proxy.incoming = "refuse";
    return "cut";
  };
  const failure = await saver
    .put(thread("unknown"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {})
    .catch((error: unknown) => error as TurnsError);
  expect(failure).toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect((failure as TurnsError).message).toMatch(/can't find out whether that commit succeeded/);
  expect((failure as TurnsError).message).not.toContain("Nothing was saved");
});

test("S9.3 PostgreSQL: the commit that stores an encrypted database's secret may be in doubt too", async () => {
  const encrypted = {
    schema: schemaAt("doubt, encrypted"),
    encryption: { key: "6f".repeat(8) + "3a9c".repeat(12) },
  } as PostgresTurnSaverOptions;
  const struck = strike("cut", commitOf(/INSERT INTO .*_settings/, isCommitAnswer));
  const saver = opened(encrypted);
  await saver.setup();
  await struck;
  await saver.put(thread("e"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
  expect(await opened(encrypted, direct).getTuple(thread("e"))).toBeDefined();
});

/** A save whose COMMIT is swallowed with all that follows on its connection; neither side is told. The server waits for the rest, and keeps the locks. */
async function silenced(id: string, options: PostgresTurnSaverOptions) {
  const [silent, other] = [opened(options), opened({ busyTimeoutMs: 500 }, process.env["TURNS_PG_URL"])];
  const config = await other.put(thread(id), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
  await silent.setup();
  let saved!: Promise<unknown>;
  const isIts = commitOf(/INSERT INTO .*_writes/, isCommit);
  await new Promise<void>((done) => {
    proxy.fate = (message) => {
      if (!isIts(message)) return "pass";
      proxy.fate = () => "pass";
      done();
      return "freeze";
    };
    saved = silent.putWrites(config, [["log", "by the silent one"]], "a").catch((error: unknown) => error);
  });
  const taskIds = async () => (await other.getTuple(config))!.pendingWrites!.map(([taskId]) => taskId).sort();
  const writes = (saver: PostgresTurnSaver) => saver.putWrites(config, [["log", "by another"]], "b");
  return { saved, taskIds, write: () => writes(other), writeInTime: () => writes(opened({}, process.env["TURNS_PG_URL"])) };
}

test("S9.3 PostgreSQL: while the server waits for the rest of a save, others get STORE_BUSY; when it notices that nobody is there, all is saved", async () => {
  const { saved, taskIds, write, writeInTime } = await silenced("partition", { busyTimeoutMs: 30_000 });
  await expect(write()).rejects.toMatchObject({ code: "STORE_BUSY", data: { sqlstate: "55P03" } });
  expect(await taskIds()).toEqual([]);
  proxy.cutAll();
  await writeInTime();
  expect(await saved).toBeUndefined();
  expect(await taskIds()).toEqual(["a", "b"]);
}, 300_000);

test("S9.3 PostgreSQL: a save whose connection fell silent doesn't keep its locks: who waits for them ends it, and nothing is lost", async () => {
  const { saved, taskIds, write } = await silenced("silent", { busyTimeoutMs: 500 });
  for (let isSaved = false; !isSaved;) {
    const failure: unknown = await write().catch((error: unknown) => error);
    isSaved = failure === undefined;
    if (!isSaved) expect(failure).toMatchObject({ code: "STORE_BUSY", data: { sqlstate: "55P03" } });
  }
  expect(await saved).toBeUndefined();
  expect(await taskIds()).toEqual(["a", "b"]);
}, 300_000);
