import { release } from "node:os";
import type { BaseTurnSaver } from "../base-saver";
import { TurnsError } from "../errors";
import { internalsOf } from "../internals";
import { effectInFull, type EffectInFull } from "./effects";
import { graphOf } from "./graph";
import { SHORT, shownOf } from "./shown";
import { stateAt } from "./states";
import { reportOf, type ThreadReport } from "./status";
import { timelineOf } from "./timeline";
import { channelSizes } from "./totals";
import { type AttemptDetails, showTurn } from "./turns";

/** How much of a long thread goes into a bundle. */
const ATTEMPTS = 1_000;
const EFFECTS = 500;
const FAILURES = 20;

/** What a bundle begins with. */
interface BundleHead {
  kind: "turns-bundle";
  /** Without the content of the thread: texts are told by their length. */
  redacted: boolean;
  version: string;
  node: string;
  platform: string;
  settings: Readonly<Record<string, string>>;
}

interface Bundle extends BundleHead {
  thread: object;
  timeline: object;
  failures: object[];
  effects: object[];
  graph: object;
  channels: object[];
}

/**
 * All that somebody needs who looks for an error in a thread, as one document.
 *
 * Redacted, it has no content: of texts only their length, of numbers nothing, of keys those that look like names in a program.
 * Thread and tasks get numbers in place of their ids. Names of nodes, channels and effects stay, and the frames of stacks, without
 * folders.
 *
 * @throws {TurnsError} THREAD_NOT_FOUND
 */
export async function bundleOf(saver: BaseTurnSaver, threadId: string, redacted: boolean, version: string): Promise<Bundle> {
  const { store } = internalsOf(saver);
  const report = await reportOf(saver, threadId);
  const timeline = await timelineOf(saver, threadId, { limit: ATTEMPTS });
  const tasks = new Map((await store.listTasks(threadId)).map(({ taskId }) => [taskId, ""]));
  [...tasks.keys()].forEach((taskId, at) => tasks.set(taskId, `task-${at + 1}`));
  const words: Words = redacted
    ? { id: (taskId) => tasks.get(taskId) ?? "task", value: shapeOf, error: bareError }
    : { id: (taskId) => taskId, value: (value) => shownOf(value, "", SHORT).value, error: (error) => error };
  const failed = timeline.tasks
    .flatMap(({ lanes }) => lanes.flatMap(({ bars }) => bars))
    .filter(({ status }) => status === "error")
    .slice(-FAILURES);
  const failures: object[] = [];
  for (const { number } of failed) failures.push(failureOf(await showTurn(saver, threadId, String(number)), words));
  const effects: object[] = [];
  for (const { id } of await saver.effects.list(threadId, { limit: EFFECTS }))
    effects.push(effectOf(await effectInFull(saver, id), words));
  return {
    ...{ kind: "turns-bundle", redacted, version, node: process.version },
    platform: `${process.platform} ${process.arch} ${release()}`,
    settings: await store.inspect.settings(),
    thread: { threadId: redacted ? "thread" : threadId, ...threadOf(report, words) },
    timeline: {
      tasks: timeline.tasks.map(({ taskId, graphId, deaths, lanes, ...task }) => ({
        ...task,
        taskId: words.id(taskId),
        ...(redacted ? {} : { graphId }),
        deaths: deaths.map(({ at, nodes }) => ({ at, nodes })),
        lanes: lanes.map((lane) => ({
          ...lane,
          bars: lane.bars.map(({ error, effects: _, ...bar }) => (redacted ? bar : { ...bar, error })),
        })),
      })),
      hasEarlier: timeline.before !== null,
    },
    failures,
    effects,
    graph: await graphOf(saver, threadId),
    channels: await channelsOf(saver, threadId, words),
  };
}

/** How a bundle tells what comes from a thread. */
interface Words {
  id: (taskId: string) => string;
  value: (value: unknown) => unknown;
  error: (error: TracedError) => object;
}

interface TracedError {
  name: string;
  message: string;
  stack?: string | null;
}

function threadOf(report: ThreadReport, { id, value, error }: Words): object {
  const { state, taskId, runs, inFlight, questions, failures, inDoubt, next, rewind, did, resume, tokens } = report;
  return {
    ...{ state, next, tokens },
    task: taskId === null ? null : id(taskId),
    runs: runs.map(({ since }) => ({ since })),
    inFlight: inFlight.map((node) => ({ ...node, taskId: id(node.taskId) })),
    questions: questions.map(({ node, value: asked, askedAt }) => ({ node, value: value(asked), askedAt })),
    failures: failures.map((failure) => ({ node: failure.node, error: error(failure.error) })),
    inDoubt: inDoubt.map(({ name, node, tries, startedAt, idempotent, doubt }) => ({
      ...{ name, node, tries, startedAt, idempotent, doubt },
    })),
    rewind: rewind === null ? null : { toTask: id(rewind.toTask), since: rewind.since },
    did: { tasks: did.tasks, completed: did.completed },
    resume: { can: resume.can, kept: resume.kept, runs: resume.runs },
  };
}

function failureOf({ number, node, attempt, step, taskId, input, error, notKept }: AttemptDetails, words: Words): object {
  return {
    ...{ number, node, attempt, step, taskId: words.id(taskId) },
    input: words.value(input),
    error: error === null ? null : words.error(error),
    notKept: notKept.length,
  };
}

function effectOf(effect: EffectInFull, words: Words): object {
  const { number, name, label, node, taskId, status, undo, undoStatus, tries, idempotent, startedAt, endedAt, settledBy } =
    effect;
  return {
    ...{ number, name, node, status, undo, undoStatus, tries, idempotent, startedAt, endedAt, settledBy },
    label: /^#\d+$/.test(label) ? label : words.value(label),
    taskId: words.id(taskId),
    input: words.value(effect.input ?? null),
    result: words.value(effect.result ?? null),
    error: effect.error === null ? null : words.error(effect.error),
  };
}

async function channelsOf(saver: BaseTurnSaver, threadId: string, words: Words): Promise<object[]> {
  try {
    const { channels } = await channelSizes(saver, threadId);
    const { state } = await stateAt(saver, threadId);
    return channels.map(({ channel, bytes, elements }) => {
      const isState = Object.hasOwn(state, channel);
      return { channel, bytes, elements, ...(isState && { value: words.value(state[channel]) }) };
    });
  } catch (error) {
    // A bundle is most useful if something is wrong.
    if (!TurnsError.is(error)) throw error;
    return [{ error: error.code }];
  }
}

const PARTS = 20;
const DEEPEST = 8;

/** What a value is, without what it says. */
function shapeOf(value: unknown): unknown {
  return shaped(value, 0);
}

function shaped(value: unknown, depth: number): unknown {
  if (value === null || value === undefined || typeof value === "boolean") return value ?? null;
  if (typeof value === "string") return `text of ${value.length} characters`;
  if (typeof value !== "object") return typeof value;
  if (depth >= DEEPEST) return "deeper";
  if (Array.isArray(value)) return { list: value.length, first: value.slice(0, PARTS).map((item) => shaped(item, depth + 1)) };
  const entries = Object.entries(value).slice(0, PARTS);
  return Object.fromEntries(entries.map(([key, part], at) => [keyOf(key, at), shaped(part, depth + 1)]));
}

/** Names in a program stay. Other keys may be content: an address, a person. */
function keyOf(key: string, at: number): string {
  return /^[$_a-zA-Z][$\w]{0,39}$/.test(key) ? key : `key ${at + 1}, of ${key.length} characters`;
}

/** An error without its message, and a stack without folders. A stack begins with the message, whose lines may look like frames. */
function bareError({ name, message, stack }: TracedError): object {
  const text = stack ?? "";
  const begin = text.indexOf(message);
  const lines = text.slice(begin === -1 ? 0 : begin + message.length).split("\n");
  return {
    name: /^[$\w.]{1,60}$/.test(name) ? name : `text of ${name.length} characters`,
    message: `text of ${message.length} characters`,
    frames: lines.map(frameOf).filter((frame) => frame !== undefined),
  };
}

/** `at Agent.run (/home/me/agent.ts:3:7)`: a function as V8 writes it, if there is one, and a place that ends in a line. */
const FRAME = /^\s+at (?:([\w$.#<>[\] ]+) \()?(?:[^()]*[/\\])?([\w$.@<>:-]+:\d+)\)?$/;

/** A frame of a stack without folders; undefined if the line is none. */
function frameOf(line: string): string | undefined {
  const [, name, place] = FRAME.exec(line) ?? [];
  return place === undefined ? undefined : name === undefined ? place : `${name} (${place})`;
}
