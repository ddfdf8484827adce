import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner, TurnsError } from "langgraph-checkpoint-turns";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { LONG, points } from "../support/lane";
import { schemaAt } from "../support/open-saver";
import { isCommit, isCommitAnswer, type Message } from "../support/postgres/messages";
import { type Fate, nth, PostgresProxy } from "../support/postgres/proxy";
import { quiet } from "../support/s1-tools";

/**
 * A connection is lost at each message of a run with effects: closed before the message or behind it, slow, closed for the client while
 * the server still gets it, or silent for ever. In the long lane at every message, in the short one at every COMMIT and at some of the others.
 */
const FATES: readonly Fate[] = ["cut", "cut-after", { delay: 40 }, { lateBy: 60 }];
const SOME = Number(process.env["TURNS_CUTS"] ?? 16);
/** The saver waits 45 seconds for an answer, so these run side by side. `TURNS_FROZEN=10000`: at every message. */
const FROZEN = Number(process.env["TURNS_FROZEN"] ?? (LONG ? 120 : 25));
/** How many savers wait at the same time. */
const SIDE_BY_SIDE = 30;
const NAMES = ["a", "a-0", "b", "c", "c-0", "c-1", "d"];
const TURNS = 8;
const schema = schemaAt("cuts");
const lanes: Lane[] = [];

/** A saver with a network of its own. */
interface Lane {
  proxy: PostgresProxy;
  saver: PostgresTurnSaver;
}

async function newLane(busyTimeoutMs = 5_000): Promise<Lane> {
  const proxy = await PostgresProxy.inFrontOf(process.env["TURNS_PG_DIRECT_URL"]!);
  const saver = PostgresTurnSaver.fromConnString(proxy.url, { schema, logger: quiet, busyTimeoutMs });
  lanes.push({ proxy, saver });
  await saver.setup();
  return { proxy, saver };
}

afterAll(async () => {
  for (const { saver, proxy } of lanes) {
    await saver.close();
    await proxy.close();
  }
});

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** What really happens on a thread goes to the ledger: only bodies write to it. */
function graphOf(saver: PostgresTurnSaver, ledger: string[]) {
  const body = (name: string, effects: number) => async () => {
    ledger.push(name);
    for (let at = 0; at < effects; at += 1) await effect(`${name}-${at}`, () => ledger.push(`${name}-${at}`));
    return { log: [name] };
  };
  return new StateGraph(State)
    .addNode("a", body("a", 1))
    .addNode("b", body("b", 0))
    .addNode("c", body("c", 2))
    .addNode("d", body("d", 0))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("a", "c")
    .addEdge(["b", "c"], "d")
    .compile({ checkpointer: saver });
}

type Matches = (message: Message) => boolean;
const anyMessage: Matches = () => true;
const aboutCommit: Matches = (message) => isCommit(message) || isCommitAnswer(message);

/** @returns what is wrong after a run during which the n-th message that matches met its fate; how often it had to be resumed */
async function trial({ proxy, saver }: Lane, number: number, fate: Fate, attached: boolean, matches = anyMessage) {
  const threadId = `${matches.name} ${number} ${JSON.stringify(fate)} ${attached}`;
  const ledger: string[] = [];
  const graph = graphOf(saver, ledger);
  const runner = new GraphRunner(graph);
  const config = { configurable: { thread_id: threadId } };
  let struck = "";
  const strike = nth(number, matches, fate);
  proxy.fate = (message) => {
    const itsFate = strike(message);
    if (itsFate !== "pass") struck = `${message.from} ${message.type} ${message.text.slice(0, 80)}`;
    return itsFate;
  };
  const wrong: string[] = [];
  const first = attached ? saver.attach(graph).invoke({ log: ["in"] }, config) : runner.invoke({ log: ["in"] }, { threadId });
  const failure: unknown = await first.then(
    () => undefined,
    (error: unknown) => error,
  );
  proxy.fate = () => "pass";
  if (failure !== undefined) {
    if (!TurnsError.is(failure)) wrong.push(`uncoded: ${String((failure as Error).message)}`);
    const isSaved = (await saver.getTuple(config)) !== undefined;
    await (isSaved ? runner.resume({ threadId }) : runner.invoke({ log: ["in"] }, { threadId }));
  }
  const times = NAMES.filter((name) => ledger.filter((line) => line === name).length !== 1);
  if (times.length > 0) wrong.push(`not once: ${times.join(" ")}`);
  const { log } = (await graph.getState(config)).values as { log: string[] };
  if (log.join(" ") !== "in a b c d") wrong.push(`state: ${log.join(" ")}`);
  const turns = (await saver.turns.list(threadId)).length;
  if (turns !== TURNS) wrong.push(`${turns} turns`);
  const effects = await saver.effects.list(threadId);
  if (effects.length !== 3 || effects.some(({ status, tries }) => status !== "done" || tries !== 1)) wrong.push("effects");
  return { wrong: wrong.map((what) => `${threadId} (${struck}): ${what}`), resumed: failure === undefined ? 0 : 1 };
}

/** How many messages that match a run takes on connections that are there. */
async function messagesOf(lane: Lane, matches = anyMessage): Promise<number> {
  let seen = 0;
  await trial(lane, 0, "pass", true, matches);
  lane.proxy.fate = (message) => ((seen += matches(message) ? 1 : 0), "pass");
  await lane.saver
    .attach(graphOf(lane.saver, []))
    .invoke({ log: ["in"] }, { configurable: { thread_id: `counted ${lanes.length}` } });
  return seen;
}

test("S9.3 PostgreSQL: a connection that is lost at any message of a run: nothing is lost, and nothing is done twice", async () => {
  const lane = await newLane();
  const numbers = Array.from({ length: await messagesOf(lane) }, (_, at) => at + 1);
  const wrong: string[] = [];
  let [runs, resumed] = [0, 0];
  for (const [at, fate] of FATES.entries()) {
    for (const number of points(numbers.slice(at * 5), SOME)) {
      const ended = await trial(lane, number, fate, (runs += 1) % 2 === 0);
      wrong.push(...ended.wrong);
      resumed += ended.resumed;
    }
  }
  expect(wrong).toEqual([]);
  expect(await lane.saver.verify()).toMatchObject({ ok: true });
  console.log(`${numbers.length} messages, ${runs} runs, ${resumed} resumed`);
}, 3_600_000);

test("S9.3 PostgreSQL: a connection that is lost at any COMMIT, or at its answer: nothing is lost, and nothing is done twice", async () => {
  const lane = await newLane();
  const numbers = Array.from({ length: await messagesOf(lane, aboutCommit) }, (_, at) => at + 1);
  const wrong: string[] = [];
  let [runs, resumed] = [0, 0];
  for (const fate of FATES) {
    for (const number of numbers) {
      const ended = await trial(lane, number, fate, (runs += 1) % 2 === 0, aboutCommit);
      wrong.push(...ended.wrong);
      resumed += ended.resumed;
    }
  }
  expect(wrong).toEqual([]);
  expect(await lane.saver.verify()).toMatchObject({ ok: true });
  console.log(`${numbers.length} messages, ${runs} runs, ${resumed} resumed`);
}, 3_600_000);

/** Each of these messages of a run, or so many of them, is swallowed with all that follows on its connection. */
async function silenced(matches: Matches): Promise<void> {
  const numbers = Array.from({ length: await messagesOf(await newLane(), matches) }, (_, at) => at + 1);
  const gap = Math.ceil(numbers.length / FROZEN);
  const wrong: string[] = [];
  const some = numbers.filter((number) => number % gap === 0);
  const runs = some.length;
  let resumed = 0;
  while (some.length > 0) {
    const trials: (() => ReturnType<typeof trial>)[] = [];
    for (const [at, number] of some.splice(0, SIDE_BY_SIDE).entries()) {
      const lane = await newLane(15_000);
      trials.push(() => trial(lane, number, "freeze", at % 2 === 0, matches));
    }
    const ended = await Promise.all(trials.map((start) => start()));
    wrong.push(...ended.flatMap((one) => one.wrong));
    resumed += ended.reduce((sum, one) => sum + one.resumed, 0);
    await Promise.all(lanes.splice(1).map(async ({ saver, proxy }) => (await saver.close(), proxy.close())));
  }
  expect(wrong).toEqual([]);
  expect(await lanes[0]!.saver.verify()).toMatchObject({ ok: true });
  console.log(`${numbers.length} messages, ${runs} runs frozen, ${resumed} resumed`);
}

test("S9.3 PostgreSQL: a connection that falls silent at any message of a run: nothing is lost, and nothing is done twice", async () => {
  await silenced(anyMessage);
}, 3_600_000);

if (LONG) {
  test("S9.3 PostgreSQL: a connection that falls silent at any COMMIT, or at its answer: nothing is lost, and nothing is done twice", async () => {
    await silenced(aboutCommit);
  }, 3_600_000);
}
