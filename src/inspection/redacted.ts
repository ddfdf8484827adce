import type { BaseTurnSaver } from "../base-saver";
import { internalsOf } from "../internals";
import type { ListedHead } from "../store/store";
import { headsOf, numberOf } from "./place";
import type { CheckpointLine } from "./checkpoint-line";
import { stateAt } from "./states";
import { reportOf, type ThreadReport } from "./status";
import { type Attempt, type EffectLine, effectLine, logOf } from "./turns";

/** What a redacted export says of itself, so that it's known for one. */
export const REDACTED = "langgraph-checkpoint-turns/redacted-thread";

/** A thread for a bug report: what ran when and how it stands, without anything that a user or a model wrote. */
interface RedactedThread {
  kind: typeof REDACTED;
  threadId: string;
  settings: Readonly<Record<string, string>>;
  status: ThreadReport;
  tasks: readonly string[];
  /** Newest first, at most 1,000. */
  attempts: readonly Attempt[];
  checkpoints: readonly (Omit<CheckpointLine, "inside"> & { ns: string; channels: Readonly<Record<string, string>> })[];
  effects: readonly EffectLine[];
  /** The newest state: its keys, and what kinds of values it has. */
  state: unknown;
}

const MOST = 1_000;

/** @throws {TurnsError} THREAD_NOT_FOUND */
export async function redactedThread(saver: BaseTurnSaver, threadId: string): Promise<RedactedThread> {
  const { store } = internalsOf(saver);
  const status = await reportOf(saver, threadId);
  const { attempts } = await logOf(saver, threadId, { limit: MOST });
  const effects = await saver.effects.list(threadId, { limit: MOST });
  const checkpoints: RedactedThread["checkpoints"][number][] = [];
  for await (const head of headsOf(saver, threadId, "")) {
    checkpoints.push(lineOf(head));
    if (checkpoints.length === MOST) break;
  }
  return {
    kind: REDACTED,
    threadId,
    settings: await store.inspect.settings(),
    status: {
      ...status,
      moving: status.moving && { ...status.moving, to: hidden(status.moving.to), command: hidden(status.moving.command) },
      questions: status.questions.map((question) => ({ ...question, value: redacted(question.value) })),
      failures: status.failures.map((failure) => ({ ...failure, error: withoutMessage(failure.error) })),
      did: {
        ...status.did,
        failed: status.did.failed.map((failure) => ({ ...failure, error: withoutMessage(failure.error) })),
      },
      rewindTo: status.rewindTo && {
        ...status.rewindTo,
        refused: status.rewindTo.refused === null ? null : hidden(status.rewindTo.refused),
        effects: status.rewindTo.effects.map((effect) => ({ ...effect, label: labelOf(effect.label) })),
      },
    },
    tasks: (await saver.turns.tasks(threadId)).map(({ taskId }) => taskId),
    attempts,
    checkpoints,
    effects: [...effects].map(effectLine).map((effect) => ({
      ...effect,
      label: labelOf(effect.label),
      undoError: effect.undoError === null ? null : hidden(effect.undoError),
    })),
    state: checkpoints.length === 0 ? null : redacted((await stateAt(saver, threadId)).state),
  };
}

function lineOf({
  checkpointId,
  position,
  step,
  source,
  createdAt,
  ns,
  channels,
}: ListedHead): RedactedThread["checkpoints"][number] {
  const kinds = [...channels].map(([name, { pointer }]) => {
    const kind = pointer === undefined ? "no value" : pointer.kind === "list" ? `list of ${pointer.length}` : "value";
    return [name, kind] as const;
  });
  const at = new Date(createdAt).toISOString();
  return { checkpointId, number: numberOf(position), step, source, at, ns, channels: Object.fromEntries(kinds) };
}

function withoutMessage({ name, message }: { name: string; message: string }): { name: string; message: string } {
  return { name: /^[$\w.]{1,60}$/.test(name) ? name : hidden(name), message: hidden(message) };
}

/** A value's shape: of texts only the length, of numbers and booleans only the kind. Keys that no program would write are hidden. */
function redacted(value: unknown): unknown {
  if (value === null) return null;
  if (typeof value === "string") return hidden(value);
  if (typeof value !== "object") return `(${typeof value})`;
  if (Array.isArray(value)) return value.map(redacted);
  return Object.fromEntries(
    Object.entries(value).map(([key, part], at) => [IDENTIFIER.test(key) ? key : `(key ${at + 1})`, redacted(part)]),
  );
}

/** Names of channels and of fields. */
const IDENTIFIER = /^[A-Za-z_$][\w$:-]{0,60}$/;

function hidden(text: string): string {
  return `(${text.length} ${text.length === 1 ? "character" : "characters"})`;
}

/** `#0` is the effect's position; anything else is an id that a program gave it. */
function labelOf(label: string): string {
  return label.startsWith("#") ? label : hidden(label);
}
