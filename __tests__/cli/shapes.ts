import { z } from "zod";
import {
  type AttemptDetails,
  type BlameList,
  type Branches,
  type Checkup,
  type EffectLine,
  type Match,
  type OpenQuestion,
  type Overview,
  type RecoveryPlanLine,
  type ResumePlan,
  type RewindLine,
  type RunReport,
  type Sizes,
  type StateAt,
  type StuckLine,
  type TakeBack,
  type StateDifference,
  THREAD_STATES,
  type ThreadChannels,
  type ThreadList,
  type ThreadReport,
  type TokenTotals,
  type TurnLogPage,
} from "../../src/testing-internal";

/*
 * The JSON documents of `turns`, by command. `etc/command-line.schema.json` is written from them:
 * `npx tsx __tests__/cli/write-schema.ts`. Fields are only added to a format.
 */

/** Holds a shape against the type of what the command finds. */
const of =
  <T>() =>
  <S extends z.ZodType<T>>(shape: S): S =>
    shape;

const object = z.strictObject;
const text = z.string();
const maybe = text.nullable();
const time = z.iso.datetime();
const count = z.number().int().min(0);
const json = z.unknown();
const list = z.array;

const state = z.enum(THREAD_STATES as [string, ...string[]]) as z.ZodType<(typeof THREAD_STATES)[number]>;
const tokens = object({ input: count, output: count, cached: count, reasoning: count });
const moving = object({ id: text, to: text, since: time, command: text }).nullable();
const threadLine = object({
  ...{ threadId: text, state, createdAt: time, lastAt: time, checkpoints: count, turns: count, effects: count },
  ...{ inFlight: list(text), failed: list(text), waiting: count, inDoubt: count, moving },
});
const question = object({ threadId: text, id: maybe, value: json, node: text, nodeTaskId: text, askedAt: time.nullable() });
const settler = z.enum(["probe", "key", "rewind", "maybe-probe", "person"]);
const inDoubt = object({
  ...{ id: text, threadId: text, name: text, node: text, key: text, tries: count, startedAt: time },
  ...{ idempotent: z.boolean(), doubt: z.enum(["outcome", "undo", "undo-failed"]), settler },
});
const error = object({ name: text, message: text });
const done = object({ node: text, status: text, at: time, attempt: count });
const removed = object({ checkpoints: count, writes: count, turns: count, values: count, tasks: count, effects: count });
const effectStatus = z.enum(["done", "failed", "failed-for-good", "running", "in-doubt"]);
const verdict = z.enum([
  ...(["undo", "done-already", "none-needed", "failed", "inherited", "missing", "ambiguous"] as const),
  ...(["unregistered", "in-doubt", "undo-in-doubt", "running"] as const),
]);
const preview = object({
  ...{ toTask: text, tasks: list(text), removed: removed.nullable(), refused: maybe, refusedCode: maybe },
  effects: list(object({ id: text, name: text, label: text, nodeName: text, status: effectStatus, verdict })),
});
const attempt = {
  ...{
    number: count,
    node: text,
    taskId: text,
    attempt: count,
    startedAt: time,
    endedAt: time.nullable(),
    step: z.number().int(),
  },
  status: z.enum(["ok", "error", "interrupted", "handoff", "running"]),
  ...{ nodeTaskId: text, tokens, thoughtId: maybe, actionId: maybe, durable: z.boolean() },
};
const effect = of<EffectLine & { title: string }>()(
  object({
    ...{ id: text, threadId: text, number: count, title: text, name: text, label: text, node: text, taskId: text },
    status: effectStatus,
    ...{ undo: maybe, undoStatus: z.enum(["begun", "done", "failed"]).nullable(), undoError: maybe, key: text, tries: count },
    ...{ idempotent: z.boolean(), startedAt: time, endedAt: time.nullable(), settledBy: maybe },
  }),
);
const checkpoint = object({ checkpointId: text, number: count, step: z.number().int(), source: text, at: time, inside: maybe });
const difference = object({
  ...{ path: text, change: z.enum(["added", "removed", "changed"]) },
  ...{ before: json.optional(), after: json.optional() },
});
const tokenLine = object({ of: text, ...tokens.shape, total: count, cost: z.number().optional() });
const format = { format: z.literal(1) };
const refused = object({ code: text, message: text }).nullable();
const change = (plan: z.ZodType, report: z.ZodType) =>
  object({ ...format, done: z.boolean(), plan, report: report.nullable(), refused });
const counts = z.record(text, count);

export const SHAPES = {
  overview: object({
    ...format,
    ...of<Overview>()(
      object({
        ...{ database: text, bytes: count, freeBytes: count, threads: count, turns: count, effects: count },
        states: z.partialRecord(state as z.ZodType<(typeof THREAD_STATES)[number]> & z.core.$ZodRecordKey, count),
        ...{ examined: count, running: list(text), inDoubt: count, unfinishedRewinds: count, newest: list(threadLine) },
      }),
    ).shape,
  }),
  threads: object({ ...format, ...of<ThreadList>()(object({ threads: list(threadLine), total: count, cursor: maybe })).shape }),
  status: object({
    ...format,
    ...of<ThreadReport>()(
      object({
        ...{ threadId: text, state, graphId: maybe, taskId: maybe, needsPerson: z.boolean(), next: list(text), tokens },
        runs: list(object({ pid: count, host: text, since: time })),
        inFlight: list(object({ node: text, attempt: count, since: time, number: count, taskId: text })),
        ...{
          questions: list(question),
          failures: list(object({ node: text, error })),
          inDoubt: list(inDoubt),
          undoFailed: list(inDoubt),
          finished: z.boolean(),
        },
        lost: z.boolean(),
        rewind: object({ id: text, toTask: text, since: time, rescued: maybe }).nullable(),
        moving,
        did: object({
          tasks: count,
          completed: list(done),
          failed: list(object({ ...done.shape, error })),
          last: done.nullable(),
        }),
        resume: object({ can: z.enum(["yes", "person", "no"]), why: text, kept: list(text), runs: list(text) }),
        rewindTo: preview.nullable(),
      }),
    ).shape,
  }),
  log: object({
    ...format,
    ...of<TurnLogPage>()(object({ threadId: text, attempts: list(object(attempt)), cursor: count.nullable() })).shape,
  }),
  show: object({
    ...format,
    ...of<AttemptDetails>()(
      object({
        ...attempt,
        ...{
          threadId: text,
          graphId: text,
          fingerprint: maybe,
          checkpointId: maybe,
          checkpointNs: text,
          input: json,
          output: json,
        },
        error: object({ ...error.shape, stack: maybe }).nullable(),
        ...{ validation: json, notKept: list(text), effects: list(effect) },
      }),
    ).shape,
  }),
  state: object({ ...format, ...of<StateAt>()(object({ threadId: text, checkpoint, state: z.record(text, json) })).shape }),
  diff: object({
    ...format,
    ...of<StateDifference>()(
      object({
        ...{ threadId: text, from: checkpoint, to: checkpoint },
        channels: list(
          object({
            ...{ channel: text, change: z.enum(["added", "removed", "changed", "appended"]) },
            ...{ appended: count.optional(), differences: list(difference) },
          }),
        ),
      }),
    ).shape,
  }),
  blame: object({
    ...format,
    ...of<BlameList>()(
      object({
        ...{ threadId: text, channel: text, more: z.boolean(), cursor: text.nullable() },
        changes: list(
          object({
            ...{ number: count, checkpointId: text, step: z.number().int(), at: time, source: text },
            nodes: list(object({ node: text, number: count.nullable(), attempt: count.nullable() })),
            change: z.enum(["first", "earlier", "appended", "changed", "removed"]),
            elements: z.tuple([count, count]).optional(),
          }),
        ),
      }),
    ).shape,
  }),
  grep: object({
    ...format,
    matches: list(
      of<Match>()(
        object({
          ...{ threadId: text, kind: z.enum(["value", "turn", "effect", "write"]), number: count, near: text, excerpt: text },
        }),
      ),
    ),
  }),
  effects: object({ ...format, effects: list(effect), cursor: count.nullable() }),
  inbox: object({ ...format, questions: list(of<OpenQuestion>()(question)) }),
  rewinds: object({
    ...format,
    rewinds: list(
      of<RewindLine & TakeBack>()(
        object({
          ...{ id: text, threadId: text, number: count, toTask: text, at: time, takenBackAt: time.nullable() },
          ...{ undone: count, refused },
          ...{ archived: z.boolean(), reason: maybe, status: z.enum(["undoing", "done", "abandoned", "taken-back"]) },
        }),
      ),
    ),
  }),
  size: z.union([
    object({
      ...format,
      ...of<Sizes>()(
        object({
          ...{ database: text, bytes: count, freeBytes: count },
          tables: list(object({ table: text, called: text, rows: count, bytes: count })),
          threads: list(object({ threadId: text, rows: count, bytes: count })),
        }),
      ).shape,
    }),
    object({
      ...format,
      ...of<ThreadChannels>()(
        object({
          ...{ threadId: text, checkpointId: text },
          channels: list(object({ channel: text, bytes: count, elements: count.nullable() })),
        }),
      ).shape,
    }),
  ]),
  tokens: object({
    ...format,
    ...of<TokenTotals>()(
      object({
        by: z.enum(["thread", "node", "task", "day"]),
        ...{ lines: list(tokenLine), total: tokenLine, rewound: tokenLine.optional() },
        damaged: list(object({ threadId: text, code: text, message: text })),
      }),
    ).shape,
  }),
  verify: object({
    ...format,
    ...{ ok: z.boolean(), done: z.boolean(), databaseOk: z.boolean().optional(), threads: count, checked: counts },
    ...{ problems: list(json), problemCount: count, remarks: list(json) },
  }),
  doctor: object({
    ...format,
    ...of<Checkup>()(
      object({
        ...{ database: text, node: text, settings: z.record(text, text), bytes: count, freeBytes: count, logBytes: count },
        findings: list(object({ kind: z.enum(["problem", "advice"]), what: text, remedy: text })),
      }),
    ).shape,
  }),
  backup: object({ ...format, path: text, bytes: count, pages: count, verified: z.boolean().nullable() }),
  "effect resolve": change(object({ effect, resolution: z.record(text, json) }), effect),
  rewind: change(
    preview,
    z.looseObject({ rewindId: text.optional(), threadId: text, toTask: text, archived: z.boolean(), tasks: list(text), removed }),
  ),
  "rewind --abandon": change(
    object({ threadId: text, rewindId: text, toTask: text, since: time }),
    object({ threadId: text, rewindId: text }),
  ),
  "take-back": change(
    object({ rewindId: text, threadId: text, toTask: text, undone: count }),
    object({ rewindId: text, restored: removed }),
  ),
  name: change(
    z.union([
      object({ threadId: text, name: text, checkpointId: text, movesFrom: maybe }),
      object({ threadId: text, name: text, remove: z.literal(true), checkpointId: maybe }),
    ]),
    z.looseObject({ threadId: text, name: text }),
  ),
  delete: change(
    object({
      ...{ threadId: text, final: z.boolean(), checkpoints: count, turns: count, tasks: count },
      running: object({ pid: count, host: text }).nullable(),
    }),
    object({ threadId: text, final: z.boolean() }),
  ),
  copy: change(object({ threadId: text, target: text }), object({ threadId: text, target: text })),
  prune: change(
    z.looseObject({ checkpoints: count, turns: count, threads: count, waiting: count }),
    z.looseObject({ checkpoints: count, turns: count, threads: count }),
  ),
  vacuum: change(
    object({ bytes: count, freeBytes: count, full: z.boolean(), deadRows: count }),
    z.looseObject({ bytesBefore: count, bytesAfter: count }),
  ),
};

const moved = { threads: count, checkpoints: count, turns: count, effects: count };
const stays = { threadId: text, code: text };

/** Of the commands that take threads from one database to another, and of those that repair. */
export const MOVING_SHAPES = {
  move: change(
    object({ from: text, to: text, isNew: z.boolean(), ...moved, refused: list(object(stays)), published: list(text) }),
    object({ threads: count, rows: count, refused: list(object({ ...stays, message: text })), done: z.boolean() }),
  ),
  export: object({ ...format, threadId: text, path: text, redacted: z.boolean(), rows: count.nullable() }),
  import: change(
    object({ threadId: text, from: text, to: text, isNew: z.boolean(), ...moved }),
    object({ threadId: text, rows: count }),
  ),
  "import-official": change(
    object({ from: text, to: text, threads: count, numericThreadIds: list(text) }),
    object({
      done: z.boolean(),
      threads: list(
        object({
          ...{ threadId: text, targetId: text, outcome: z.enum(["imported", "completed", "present", "skipped"]) },
          ...{ checkpoints: count, skipped: count, verified: z.boolean() },
        }),
      ),
    }),
  ),
  salvage: object({
    ...format,
    ...{
      source: text,
      target: text,
      ok: z.boolean(),
      rescued: counts,
      lost: list(json),
      damaged: list(json),
      pagesFromLog: count,
    },
  }),
  migrate: change(
    object({ database: text, found: count, newest: count, steps: count, otherTables: list(text) }),
    object({ database: text, version: count }),
  ),
  "keys rotate": change(
    object({ database: text, inUse: list(text), current: text }),
    object({ keyId: text, resealed: counts, retired: count, done: z.boolean() }),
  ),
  reuse: change(
    object({
      ...{ threadId: text, found: z.boolean(), movedAway: z.boolean(), leaving: z.boolean(), final: z.boolean() },
      movedTo: object({ to: text, since: time }).nullable(),
    }),
    object({ threadId: text, reused: z.boolean() }),
  ),
};

const maybeTime = time.nullable();
const failures = list(object({ node: text, error }));
const runReport = of<RunReport>()(
  object({
    ...{ threadId: text, state, questions: list(question), failures },
    ran: list(object({ number: count, node: text, attempt: count, status: object(attempt).shape.status })),
  }),
);
const stuckLine = of<StuckLine>()(
  object({
    ...{ threadId: text, taskId: maybe, node: maybe, tries: count, at: time },
    error: object({ name: text, code: maybe, message: maybe }),
  }),
);
const ofThread = { threadId: text, taskId: maybe };
const reason = object({ code: text, message: text });
const recovered = object({
  resumed: list(object(ofThread)),
  skipped: list(object({ ...ofThread, reason })),
  failed: list(object({ ...stuckLine.shape, retryAt: time })),
  givenUp: list(stuckLine),
});
const changed = { ...format, threadId: text, number: count };

/** What commands say that run a graph, or follow it. */
export const RUNNING_SHAPES = {
  resume: change(
    of<ResumePlan>()(
      object({
        ...{ ...ofThread, reason: reason.nullable(), kept: list(text), runs: list(text), questions: list(text) },
        does: z.enum(["continue", "restart", "return", "refuse"]),
        inDoubt: list(
          object({
            ...{ id: text, name: text, label: text, title: text, node: text },
            settledBy: settler,
          }),
        ),
      }),
    ),
    runReport,
  ),
  "inbox answer": change(object({ question, answer: json }), runReport),
  recover: change(
    object({
      threads: list(of<RecoveryPlanLine>()(object({ threadId: text, does: z.enum(["continue", "restart", "skip"]), why: text }))),
    }),
    recovered,
  ),
  "recover --watch": object({ ...format, ...recovered.shape }),
  stuck: object({ ...format, stuck: list(stuckLine), cursor: maybe }),
  "log --graph": object({
    ...format,
    ...of<Branches>()(
      object({
        threadId: text,
        checkpoints: list(
          object({
            ...checkpoint.omit({ inside: true }).shape,
            ...{ parentId: maybe, parentGone: z.boolean() },
            taskId: maybe,
            nodes: list(text),
            names: list(text),
          }),
        ),
        rewinds: list(object({ number: count, id: text, toTask: text, at: time, takenBack: z.boolean() })),
        cursor: count.nullable(),
      }),
    ).shape,
  }),
  /** One line. */
  tail: z.discriminatedUnion("kind", [
    object({
      ...{ ...changed, kind: z.literal("turn"), id: text, turnType: z.enum(["Thought", "Action"]), nodeName: text, taskId: text },
      ...{ createdAt: time, checkpointNs: text, checkpointId: maybe, nodeNs: text, nodeTaskId: text, step: z.number().int() },
      ...{ attempt: count, status: z.enum(["ok", "error", "interrupted", "handoff"]).nullable(), durable: z.boolean() },
      cursor: text.optional(),
    }),
    object({
      ...{ ...changed, kind: z.literal("checkpoint"), checkpointNs: text, checkpointId: text, parentId: maybe, source: text },
      ...{ step: z.number().int(), createdAt: time, cursor: text.optional() },
    }),
    object({
      ...{
        ...changed,
        kind: z.literal("effect"),
        id: text,
        name: text,
        label: text,
        key: text,
        nodeName: text,
        nodeTaskId: text,
      },
      what: z.enum(["begun", "done", "failed", "resolved", "undone", "undo-failed"]),
      ...{ taskId: text, tries: count, startedAt: time, endedAt: maybeTime, cursor: text.optional() },
    }),
    object({
      ...{ ...changed, kind: z.literal("rewind"), rewindId: text, targetTaskId: text, targetSeq: count, createdAt: time },
      what: z.enum(["undoing", "done", "abandoned", "taken-back"]),
      ...{ takenBackAt: maybeTime, cursor: text.optional() },
    }),
    object({ ...changed, kind: z.literal("pruned"), prunedSeq: count, cursor: text.optional() }),
    object({ ...changed, kind: z.literal("deleted"), deletedAt: maybeTime, cursor: text.optional() }),
  ]),
};

/** The JSON schema of all documents. A reader of an older one must expect more fields. */
export function schemaText(): string {
  const commands = Object.entries({ ...SHAPES, ...MOVING_SHAPES, ...RUNNING_SHAPES }).map(([name, shape]) => {
    const schema = z.toJSONSchema(shape, {
      io: "output",
      reused: "ref",
      override: ({ jsonSchema }) => {
        if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
      },
    });
    delete (schema as { $schema?: string }).$schema;
    return [name, schema];
  });
  const all = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "The JSON documents of the program turns, by command",
    $defs: Object.fromEntries(commands) as object,
  };
  return `${JSON.stringify(all, undefined, 1)}\n`;
}
