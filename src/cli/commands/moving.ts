import { randomUUID } from "node:crypto";
import { existsSync, renameSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import type { BaseTurnSaver } from "../../base-saver";
import { TurnsError, type TurnsErrorCode } from "../../errors";
import { internalsOf } from "../../internals";
import type { ImportedThread, ImportOptions as OfficialImportOptions } from "../../import";
import { movingOf } from "../../inspection/moving";
import { paged, threadNamed } from "../../inspection/place";
import { REDACTED, redactedThread } from "../../inspection/redacted";
import type { MovedThread, MoveProgress } from "../../maintenance";
import type { ThreadActivity } from "../../store/inspection";
import { failureOf, refuseTarget, removed } from "../../store/backup-target";
import { isAlive } from "../../turns/process-identity";
import { command, ownCommand, type OwnCommandSpec } from "../command";
import { closed, fileOf, keysOf, located, openAt, openTarget, openThere, type PlaceOptions, placeOf } from "../database";
import { DONE, INTERRUPTED, NEEDS_DECISION, UsageError } from "../exit";
import { interruptible } from "../interrupt";
import { type Look, pairs, table } from "../look";
import { beginOf, type DatabaseOptions, isUrl, PROGRAM, startOn, toCopy, withoutPassword } from "../place";
import { type Progress, withProgress } from "../progress";
import { startedAs, turns } from "../../inspection/words";
import { count, oneLine, plural, word } from "../text";
import { CHANGE, type ChangeOptions, planned } from "./changes";

/*
 * Threads go from one database to another. `move` takes them out of the first one; `export` and `import` copy a thread, to a file
 * and from any database. The file of an export is a SQLite database with one thread (decision 30).
 */

interface ToOptions {
  toKeyFile?: string;
  toSchema?: string;
  allowPlaintext?: boolean;
}

const TO_KEYS = ["--to-key-file <file>", "the keys of the target; - reads stdin (default: TURNS_TO_KEY)"] as const;
const TO_SCHEMA = ["--to-schema <name>", "the target's schema, on PostgreSQL (default: turns)"] as const;
const FROM_SCHEMA = "--from-schema <name>";
const PLAINTEXT = ["--allow-plaintext", "from an encrypted database to one that isn't"] as const;

const OWN = ["--own-effects", "a rewind of the copy undoes its effects: only if the source is gone, or will be"] as const;

function targetOf({ toKeyFile, toSchema }: ToOptions): PlaceOptions {
  return { schema: toSchema, encryption: keysOf(toKeyFile, "TURNS_TO_KEY", "--to-key-file") };
}

/** What a database has of some threads. */
interface Counts {
  threads: number;
  checkpoints: number;
  turns: number;
  effects: number;
}

function countsText({ threads, checkpoints, turns, effects }: Counts): string {
  return `${plural(threads, "thread")} with ${plural(checkpoints, "checkpoint")}, ${plural(turns, "turn")} and ${plural(effects, "effect")}`;
}

const PAGE = 500;

function threadsOf(saver: BaseTurnSaver): AsyncGenerator<ThreadActivity> {
  const { store } = internalsOf(saver);
  return paged((last: ThreadActivity | undefined) => store.inspect.activity({ after: last?.threadId, limit: PAGE }), PAGE);
}

async function countsOf(saver: BaseTurnSaver, isCounted: (threadId: string) => boolean = () => true): Promise<Counts> {
  const sum: Counts = { threads: 0, checkpoints: 0, turns: 0, effects: 0 };
  const add = ({ checkpoints, turns, effects }: Omit<Counts, "threads">): void => {
    sum.threads += 1;
    sum.checkpoints += checkpoints;
    sum.turns += turns;
    sum.effects += effects;
  };
  for await (const thread of threadsOf(saver)) if (isCounted(thread.threadId)) add(thread);
  return sum;
}

interface Refused {
  threadId: string;
  code: TurnsErrorCode;
}

/** What would surely be refused now: threads that run, are being rewound, or are in the target, unless this move put them there. */
async function refusedNow(
  from: BaseTurnSaver,
  to: BaseTurnSaver | undefined,
  threadId: string | undefined,
): Promise<{ refused: Refused[]; published: string[] }> {
  const { inspect } = internalsOf(from).store;
  const refused = new Map<string, TurnsErrorCode>();
  const published: string[] = [];
  for (const run of await inspect.runs()) if (isAlive(run)) refused.set(run.threadId, "THREAD_RUNNING");
  for (const rewind of await inspect.unfinishedRewinds()) refused.set(rewind.threadId, "REWIND_UNFINISHED");
  if (to !== undefined) {
    const { store } = internalsOf(to);
    for await (const { threadId: id } of threadsOf(from)) {
      if (threadId !== undefined && id !== threadId) continue;
      const { thread, isFinal } = await store.destination(id);
      if (thread?.gone === false) {
        if (thread.arrived === undefined || (await movingOf(from, id))?.id !== thread.arrived) refused.set(id, "THREAD_EXISTS");
        else published.push(id);
      } else if (isFinal) refused.set(id, "THREAD_DELETED");
    }
  }
  const wanted = [...refused].filter(([id]) => threadId === undefined || id === threadId);
  return { refused: wanted.map(([id, code]) => ({ threadId: id, code })), published };
}

function refusedText(refused: readonly (Refused & { message?: string })[], look: Look): string {
  const columns = [
    { title: "STAYS", value: (row: Refused) => row.threadId, shrinks: 12 },
    { title: "WHY", value: (row: Refused & { message?: string }) => row.message ?? row.code, shrinks: 20 },
  ];
  return table(refused, columns, look);
}

/** {@link withoutPassword}, in a command to paste. */
function shownPlace(place: string): string {
  return word(withoutPassword(place));
}

/** An option for a command to paste. */
const optional = (flag: string, value: string | false | undefined): readonly [string, string] | false =>
  value !== undefined && value !== false && value !== "-" && [flag, value];

/** The command that deletes a thread again. */
function deleteCommand(threadId: string, place: string, { schema, keyFile }: DatabaseOptions): string {
  const start = startOn({
    db: place,
    ...(isUrl(place) && schema !== undefined && { schema }),
    ...(keyFile !== undefined && { keyFile }),
  });
  return startedAs(start, turns("delete", [threadId], "--yes"));
}

function rowsCopied(progress: Progress): (news: MoveProgress) => void {
  return ({ threadId, phase, rows }) => {
    progress(`${oneLine(threadId)}: ${count(rows)} rows ${phase === "copying" ? "copied" : "compared"}`);
  };
}

const MOVE = ownCommand<ChangeOptions & ToOptions>({
  name: "move",
  args: "<src> <dst> [thread]",
  summary: "move a thread, or all, to another database",
  examples: [
    "turns move agent.db postgresql://localhost/app",
    "turns move agent.db postgresql://localhost/app --yes",
    "turns move postgresql://localhost/app one.db order-17 --yes",
  ],
  options: [...CHANGE, TO_SCHEMA, TO_KEYS, PLAINTEXT],
  runAlone: async ([src = "", dst = "", thread], { allowPlaintext = false, ...options }) => {
    const isWriting = options.yes === true && options.dryRun !== true;
    const own = placeOf(options);
    const from = await openThere(src, own, { readOnly: !isWriting });
    let to: BaseTurnSaver | undefined;
    try {
      const threadId = thread === undefined ? undefined : await threadToMove(from, thread);
      const target = targetOf(options);
      const { saver, isNew } = await openTarget(dst, target, isWriting);
      to = saver;
      const isPlain =
        internalsOf(from).encrypted && (to === undefined ? target.encryption === undefined : !internalsOf(to).encrypted);
      if (isPlain && !allowPlaintext) throw plaintext(shownPlace(dst));
      const { refused, published } = await refusedNow(from, to, threadId);
      const staying = new Set(refused.map((one) => one.threadId));
      const counts = await countsOf(from, (id) => (threadId === undefined || id === threadId) && !staying.has(id));
      const [first] = refused;
      const plan = {
        from: internalsOf(from).store.name,
        to: to === undefined ? withoutPassword(dst) : internalsOf(to).store.name,
        isNew,
        ...counts,
        refused,
        published,
      };
      // Other threads of the target aren't taken along.
      const isAlone = to === undefined || (await countsOf(to)).threads === 0;
      const which = threadId !== undefined ? [threadId] : isAlone ? [] : ["THREAD"];
      const command = turns(
        "move",
        [withoutPassword(dst), withoutPassword(src), ...which],
        optional("--schema", isUrl(dst) && target.schema),
        optional("--to-schema", isUrl(src) && own.schema),
        optional("--key-file", options.toKeyFile),
        optional("--to-key-file", options.keyFile),
        "--yes",
      );
      const back = startedAs(PROGRAM, command) + (threadId === undefined && !isAlone ? ", for each thread" : "");
      return await planned(options, {
        plan,
        isIdle: counts.threads === 0,
        refused: first !== undefined && counts.threads === 0 ? { code: first.code, message: "No thread can move." } : null,
        planText: (look) =>
          [
            `${countsText(counts)} would move from ${oneLine(plan.from)} to ${oneLine(plan.to)}${newText(plan)}.`,
            ...published.map(
              (id) => `The move of thread ${oneLine(id)} only has to be finished: its rows are in ${oneLine(plan.to)} already.`,
            ),
            ...(refused.length === 0 ? [] : [refusedText(refused, look)]),
          ].join("\n\n"),
        act: async () => {
          const report = await moved(from, to as BaseTurnSaver, threadId, { allowPlaintext, total: counts.threads });
          const { threads, rows, refused: stayed, done } = report;
          const rest = done ? [] : ["It was interrupted. The same command continues."];
          return {
            report,
            exit: !done ? INTERRUPTED : stayed.length > 0 ? NEEDS_DECISION : DONE,
            text: (look) =>
              [
                threads === 0 && stayed.length === 0
                  ? `Nothing to move: ${oneLine(plan.from)} has no threads.`
                  : `Moved: ${plural(threads, "thread")} (${plural(rows, "row")}, each compared).`,
                ...rest,
                ...(stayed.length === 0 ? [] : [refusedText(stayed, look)]),
                ...(threads === 0 ? [] : [`Take it back: ${back}`]),
              ].join("\n"),
          };
        },
      });
    } finally {
      if (to !== undefined) await closed(to);
      await closed(from);
    }
  },
});

/** On a server the database is there, and only its tables are made. */
function newText({ to, isNew }: { to: string; isNew: boolean }): string {
  return !isNew ? "" : isUrl(to) ? ", where the tables would be created" : ", which would be created";
}

/** A thread that an interrupted move has published already is still one to finish. */
async function threadToMove(from: BaseTurnSaver, thread: string): Promise<string> {
  try {
    return await threadNamed(from, thread);
  } catch (error) {
    const known = TurnsError.is(error, "THREAD_MOVED")
      ? true
      : (await internalsOf(from).store.destination(thread)).thread !== undefined;
    if (known) return thread;
    throw error;
  }
}

interface Moved {
  threads: number;
  rows: number;
  refused: (Refused & { message: string })[];
  done: boolean;
}

async function moved(
  from: BaseTurnSaver,
  to: BaseTurnSaver,
  threadId: string | undefined,
  { allowPlaintext, total }: { allowPlaintext: boolean; total: number },
): Promise<Moved> {
  const { moveAllThreads, moveThread } = await import("../../maintenance");
  return withProgress(async (progress) => {
    if (threadId !== undefined) {
      const { rows } = await moveThread(from, to, threadId, { allowPlaintext, onProgress: rowsCopied(progress) });
      return { threads: 1, rows, refused: [], done: true };
    }
    const sum = { threads: 0, rows: 0 };
    const onThread = ({ rows }: MovedThread): void => {
      sum.threads += 1;
      sum.rows += rows;
      progress(`${count(sum.threads)} of ${plural(total, "thread")} moved`, sum.threads / total);
    };
    const { refused, done } = await interruptible((signal) => moveAllThreads(from, to, { allowPlaintext, onThread, signal }));
    return { ...sum, refused: refused.map((one) => ({ ...one })), done };
  });
}

const plaintext = (target: string): TurnsError =>
  new TurnsError("ENCRYPTED", {
    problem: `The source is encrypted and ${target} isn't, so everything would be stored in plain text there.`,
    remedy: "Nothing was written. Add --allow-plaintext if that is what you want.",
    data: { option: "allowPlaintext" },
  });

interface ExportOptions extends ToOptions {
  redact?: boolean;
  overwrite?: boolean;
  ownEffects?: boolean;
}

export const EXPORT = command<ExportOptions>({
  name: "export",
  args: "<thread> <out>",
  summary: "copy a thread to a file of its own, or with --redact describe it without its content",
  examples: [
    "turns export order-17 order-17.db",
    "turns export order-17 report.json --redact",
    "turns order-17.db status order-17",
  ],
  options: [
    ["--redact", "JSON for a bug report: what ran when, without texts, numbers or messages; it can't be imported"],
    ["--overwrite", "replace an existing file"],
    OWN,
    TO_KEYS,
    PLAINTEXT,
  ],
  run: async (saver, [thread = "", given = ""], { redact = false, overwrite = false, allowPlaintext = false, ...options }) => {
    const threadId = await threadNamed(saver, thread);
    if (isUrl(given))
      throw new UsageError("An export goes to a file.", "To copy a thread to a database: turns import SRC THREAD --db URL.");
    const out = fileOf(given);
    refuseOut(saver, out, overwrite);
    const partial = `${out}.partial-${randomUUID()}`;
    try {
      // A redacted export has no rows.
      const rows = redact ? null : await copyToFile(saver, threadId, partial, { ...options, allowPlaintext });
      if (redact) await writeRedacted(saver, threadId, partial);
      refuseOut(saver, out, overwrite);
      renameSync(partial, out);
      const data = { threadId, path: out, redacted: redact, rows };
      const next = redact
        ? "It has no content, so it can't be imported."
        : `Import it: ${startedAs(PROGRAM, turns("import", [out], ["--db", "DATABASE"], "--yes"))}`;
      return {
        data,
        text: (look) =>
          pairs(
            [
              ["thread", oneLine(threadId)],
              ["file", oneLine(out)],
              ...(rows === null ? [] : [["rows", `${count(rows)}, each compared`] as const]),
            ],
            look,
          ) + `\n\n${next}`,
      };
    } catch (error) {
      throw failureOf(error, out);
    } finally {
      removed(partial);
    }
  },
});

/** @throws {TurnsError} for a file that may not be replaced, above all the one that is read; what {@link refuseTarget} throws */
function refuseOut(saver: BaseTurnSaver, out: string, overwrite: boolean): void {
  if (existsSync(out) && !overwrite) {
    throw new TurnsError("BACKUP_TARGET_EXISTS", {
      problem: `There is a file ${out} already.`,
      remedy: "Nothing was written. Give another path, or --overwrite.",
      data: { path: out },
    });
  }
  const { name } = internalsOf(saver).store;
  refuseTarget(existsSync(name) ? name : undefined, resolve(out), true);
}

async function copyToFile(saver: BaseTurnSaver, threadId: string, file: string, options: ExportOptions): Promise<number> {
  const { encryption } = targetOf(options);
  const { allowPlaintext = false, ownEffects = false } = options;
  if (internalsOf(saver).encrypted && encryption === undefined && !allowPlaintext) throw plaintext("the file");
  const target = await openAt(file, { encryption }, {});
  try {
    const { copyThreadTo, vacuum } = await import("../../maintenance");
    const rows = await withProgress((progress) =>
      copyThreadTo(saver, target, threadId, { allowPlaintext, ownEffects, onProgress: rowsCopied(progress) }),
    );
    // Moves the log into the file. Closing does that too, but says nothing if the disk has no room for it.
    await vacuum(target);
    return rows;
  } finally {
    await closed(target);
  }
}

async function writeRedacted(saver: BaseTurnSaver, threadId: string, file: string): Promise<void> {
  const { kind, ...rest } = await redactedThread(saver, threadId);
  writeFileSync(file, `${JSON.stringify({ kind, format: 1, ...rest }, undefined, 1)}\n`);
}

interface ImportOptions extends ChangeOptions, DatabaseOptions {
  fromKeyFile?: string;
  fromSchema?: string;
  allowPlaintext?: boolean;
  ownEffects?: boolean;
}

const ONLY_SOURCE = "\nOnly a rewind of the source would undo its effects. If the source is gone, add --own-effects.";

const IMPORT = ownCommand<ImportOptions>({
  name: "import",
  args: "<src> [thread]",
  summary: "copy a thread from an export, a backup or another database",
  examples: [
    "turns import order-17.db --db agent.db",
    "turns import order-17.db --db agent.db --yes",
    "turns import backup.db order-17 --db postgresql://localhost/app --yes",
  ],
  options: [
    ...CHANGE,
    [FROM_SCHEMA, "the source's schema, on PostgreSQL (default: turns)"],
    ["--from-key-file <file>", "the keys of the source; - reads stdin (default: TURNS_FROM_KEY)"],
    OWN,
    PLAINTEXT,
  ],
  runAlone: async ([src = "", thread], { fromKeyFile, fromSchema, allowPlaintext = false, ownEffects = false, ...options }) => {
    refuseRedacted(src);
    const isWriting = options.yes === true && options.dryRun !== true;
    const place = await located(options);
    const own = placeOf(options);
    const keys = keysOf(fromKeyFile, "TURNS_FROM_KEY", "--from-key-file");
    const from = await openAt(src, { schema: fromSchema, encryption: keys }, { readOnly: true });
    let to: BaseTurnSaver | undefined;
    try {
      const threadId = thread === undefined ? await onlyThread(from, src) : await threadNamed(from, thread);
      const { saver, isNew } = await openTarget(place, own, isWriting);
      to = saver;
      const isPlain = keys !== undefined && (to === undefined ? own.encryption === undefined : !internalsOf(to).encrypted);
      if (isPlain && !allowPlaintext) throw plaintext(shownPlace(place));
      if (to !== undefined && (await internalsOf(to).store.destination(threadId)).thread?.gone === false)
        throw exists(threadId, place, options);
      const counts = await countsOf(from, (id) => id === threadId);
      const plan = {
        threadId,
        from: internalsOf(from).store.name,
        to: to === undefined ? withoutPassword(place) : internalsOf(to).store.name,
        isNew,
        ...counts,
      };
      return await planned(options, {
        plan,
        planText: () =>
          `Thread ${oneLine(threadId)} (${countsText(counts)}) would be copied to ${oneLine(plan.to)}${newText(plan)}.${ownEffects || counts.effects === 0 ? "" : ONLY_SOURCE}`,
        act: async () => {
          const { copyThreadTo } = await import("../../maintenance");
          const rows = await withProgress((progress) =>
            copyThreadTo(from, to as BaseTurnSaver, threadId, { allowPlaintext, ownEffects, onProgress: rowsCopied(progress) }),
          );
          return {
            report: { threadId, rows },
            text: () =>
              `Imported: ${plural(rows, "row")}, each compared.\nTake it back: ${deleteCommand(threadId, place, options)}`,
          };
        },
      });
    } finally {
      if (to !== undefined) await closed(to);
      await closed(from);
    }
  },
});

/** @throws {UsageError} unless there is exactly one */
async function onlyThread(saver: BaseTurnSaver, src: string): Promise<string> {
  const ids: string[] = [];
  for await (const { threadId } of threadsOf(saver)) {
    ids.push(threadId);
    if (ids.length > 1) break;
  }
  const [only, ...others] = ids;
  if (only !== undefined && others.length === 0) return only;
  throw new UsageError(
    only === undefined ? `${shownPlace(src)} has no thread.` : `${shownPlace(src)} has several threads.`,
    only === undefined
      ? "Give another file."
      : `Name one: turns import ${shownPlace(src)} THREAD. turns ${shownPlace(src)} threads lists them.`,
  );
}

const exists = (threadId: string, place: string, own: DatabaseOptions): TurnsError =>
  new TurnsError("THREAD_EXISTS", {
    problem: `${shownPlace(place)} has a thread ${JSON.stringify(threadId)} already.`,
    remedy: `Nothing was imported. Delete it first: ${deleteCommand(threadId, place, own)}. Or import into another database.`,
    data: { threadId },
  });

const START_BYTES = 200;

/** @throws {TurnsError} UNSUPPORTED for a redacted export */
function refuseRedacted(src: string): void {
  if (isUrl(src)) return;
  const file = fileOf(src);
  if (!beginOf(file, START_BYTES).toString("latin1").includes(REDACTED)) return;
  throw new TurnsError("UNSUPPORTED", {
    problem: `${file} is a redacted export: it tells what a thread did, without its content.`,
    remedy: "It can't be imported. Export the thread without --redact.",
    data: { file },
  });
}

interface OfficialOptions extends ChangeOptions, DatabaseOptions {
  fromSchema?: string;
  skipExisting?: boolean;
  skipUnreadable?: boolean;
  verify?: boolean;
  wholeNumbers?: boolean;
}

const IMPORT_OFFICIAL = ownCommand<OfficialOptions>({
  name: "import-official",
  args: "<src> [thread...]",
  summary: "import what LangGraph's own SqliteSaver or PostgresSaver stored",
  examples: [
    "turns import-official checkpoints.db --db agent.db",
    "turns import-official checkpoints.db --db agent.db --yes",
    "turns import-official postgresql://localhost/old order-17 --db postgresql://localhost/app --yes",
  ],
  options: [
    ...CHANGE,
    [FROM_SCHEMA, "the schema of PostgresSaver's tables (default: public)"],
    ["--skip-existing", "leave threads out that the target has with other checkpoints"],
    ["--skip-unreadable", "leave checkpoints out that can't be read, and list them"],
    ["--whole-numbers", 'import the thread "7.0" as "7": that is what the official saver makes of the number 7'],
    ["--no-verify", "don't read every checkpoint back and compare it"],
  ],
  runAlone: async ([src = "", ...threads], options) => {
    const { fromSchema = "public", skipExisting = false, skipUnreadable = false, verify = true, wholeNumbers = false } = options;
    const place = await located(options);
    if (!isUrl(place)) fileOf(place);
    const { officialThreads, wholeNumberId } = await import("../../import/import-official");
    const found = await officialThreads(isUrl(src) ? { url: src, schema: fromSchema } : fileOf(src), threads);
    const plan = { from: withoutPassword(src), ...found, to: withoutPassword(place) };
    return planned(options, {
      plan,
      planText: () =>
        [
          `${plural(plan.threads, "thread")} of ${oneLine(plan.from)} would be imported into ${oneLine(plan.to)}. The source is only read.`,
          ...(plan.numericThreadIds.length > 0 && !wholeNumbers
            ? [
                `Ids like ${plan.numericThreadIds[0]} were numbers: --whole-numbers imports it as ${wholeNumberId(plan.numericThreadIds[0] ?? "")}.`,
              ]
            : []),
        ].join("\n"),
      act: async () => {
        const saver = await openAt(place, placeOf(options), {});
        try {
          const report = await importedFrom(saver, src, fromSchema, plan.threads, {
            ...(threads.length > 0 && { threads }),
            verify,
            existing: skipExisting ? "skip" : "refuse",
            onUnreadable: skipUnreadable ? "skip" : "stop",
            ...(wholeNumbers && { mapThreadId: wholeNumberId }),
          });
          return { report, exit: report.done ? DONE : INTERRUPTED, text: (look) => importedText(report, look) };
        } finally {
          await closed(saver);
        }
      },
    });
  },
});

interface Imported {
  threads: {
    threadId: string;
    targetId: string;
    outcome: ImportedThread["outcome"];
    checkpoints: number;
    skipped: number;
    verified: boolean;
  }[];
  done: boolean;
}

async function importedFrom(
  saver: BaseTurnSaver,
  src: string,
  schema: string,
  total: number,
  options: OfficialImportOptions,
): Promise<Imported> {
  const { importOfficial, importOfficialPostgres } = await import("../../import");
  const threads: Imported["threads"] = [];
  return withProgress((progress) =>
    interruptible(async (signal) => {
      const onThread = ({ threadId, targetId, outcome, checkpoints, skipped, verified }: ImportedThread): void => {
        threads.push({ threadId, targetId, outcome, checkpoints, skipped: skipped.length, verified });
        progress(`${count(threads.length)} of ${plural(total, "thread")} imported`, threads.length / total);
      };
      try {
        if (isUrl(src)) await importOfficialPostgres(saver, src, { ...options, schema, onThread, signal });
        else await importOfficial(saver, fileOf(src), { ...options, onThread, signal });
        return { threads, done: true };
      } catch (error) {
        if (!signal.aborted || !TurnsError.is(error, "IMPORT_ABORTED")) throw error;
        return { threads, done: false };
      }
    }),
  );
}

const SHOWN = 20;

function importedText({ threads, done }: Imported, look: Look): string {
  const columns = [
    { title: "THREAD", value: ({ targetId }: Imported["threads"][number]) => targetId, shrinks: 12 },
    { title: "OUTCOME", value: ({ outcome }: Imported["threads"][number]) => outcome },
    {
      title: "CHECKPOINTS",
      value: ({ checkpoints }: Imported["threads"][number]) => count(checkpoints),
      align: "right" as const,
    },
    {
      title: "LEFT OUT",
      value: ({ skipped }: Imported["threads"][number]) => (skipped === 0 ? "" : count(skipped)),
      align: "right" as const,
    },
  ];
  const rest = threads.length > SHOWN ? `\nand ${count(threads.length - SHOWN)} more: --json` : "";
  const verdict = done ? `Imported: ${plural(threads.length, "thread")}.` : "It was interrupted. The same command continues.";
  return `${table(threads.slice(0, SHOWN), columns, look)}${rest}\n\n${verdict} Take a thread back: ${toCopy("turns delete THREAD --yes")}`;
}

/** All of them open their databases themselves. */
export const MOVING: readonly OwnCommandSpec[] = [MOVE, IMPORT, IMPORT_OFFICIAL];
