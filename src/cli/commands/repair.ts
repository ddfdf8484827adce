import { existsSync } from "node:fs";
import { TurnsError } from "../../errors";
import type { BaseTurnSaver } from "../../base-saver";
import { movingOf, statusThere } from "../../inspection/moving";
import { internalsOf } from "../../internals";
import type { SalvageReport } from "../../maintenance";
import type { EncryptionOption } from "../../sealing";
import { command, ownCommand, type OwnCommandSpec } from "../command";
import { closed, fileOf, keysOf, located, openAt, openThere, type PlaceOptions, placeOf } from "../database";
import { DONE, FOUND, INTERRUPTED, tablesText, UsageError } from "../exit";
import { interruptible } from "../interrupt";
import { type Look, table } from "../look";
import { foreignTables, isUrl, PROGRAM, startOn, toCopy } from "../place";
import { withProgress } from "../progress";
import { count, oneLine, plural, word } from "../text";
import { CHANGE, type ChangeOptions, planned } from "./changes";

export const SALVAGE = ownCommand<{ ignoreWal?: boolean }>({
  name: "salvage",
  args: "<out>",
  summary: "rescue the intact rows of a damaged SQLite file into a new one; exits with 3 if something is lost",
  examples: [
    "turns agent.db salvage rescued.db",
    "turns agent.db salvage rescued.db --json",
    "turns agent.db salvage rescued.db --ignore-wal",
  ],
  options: [["--ignore-wal", "leave the write-ahead log out: it belongs to another file, or to an older state of this one"]],
  runAlone: async ([out = ""], { ignoreWal = false, ...options }) => {
    const place = options.db ?? process.env["TURNS_DB"] ?? "";
    if (place === "") throw new UsageError("Which file is damaged?", `Name it: turns agent.db salvage ${word(out)}`);
    if (isUrl(place))
      throw filesOnly("salvage", "Use the tools of the server: pg_amcheck finds damage, and a backup replaces it.");
    const { encryption } = placeOf(options);
    const { salvage } = await import("../../maintenance");
    const wal = ignoreWal ? "ignore" : "use";
    const { rescued, ...rest } = await salvage(fileOf(place), fileOf(out), {
      wal,
      ...(encryption !== undefined && { encryption }),
    });
    const data = { ...rest, rescued: { ...rescued } };
    return { data, text: (look) => salvagedText(data, look), exit: data.ok ? DONE : FOUND };
  },
});

const SHOWN = 20;

function salvagedText({ ok, target, rescued, lost, damaged }: SalvageReport, look: Look): string {
  const found = (command: string): string => `${startOn({ db: target })} ${command}`;
  const counts = Object.entries(rescued).filter(([, rows]) => rows > 0);
  const items = lost.slice(0, SHOWN).map((item) => `  ${oneLine(JSON.stringify(item))}`);
  const columns = [{ title: "WAITS FOR YOU", value: ({ threadId }: SalvageReport["damaged"][number]) => threadId, shrinks: 12 }];
  return [
    ok ? look.paint("green", "Everything was rescued.") : look.paint("red", `${plural(lost.length, "item")} lost.`),
    `${oneLine(target)}: ${counts.map(([name, rows]) => `${count(rows)} ${name}`).join(", ")}`,
    ...items,
    ...(lost.length > SHOWN ? [`  and ${count(lost.length - SHOWN)} more: --json`] : []),
    ...(damaged.length === 0
      ? []
      : [
          "",
          table(damaged, columns, look),
          `These may have lost completed work. Look with ${found("status THREAD")}; ${found("rewind THREAD --abandon --yes")} lets it run again.`,
        ]),
    "",
    `Check it: ${found("verify")}`,
    "The damaged file is unchanged.",
  ].join("\n");
}

/** @throws always */
function filesOnly(name: string, remedy: string): TurnsError {
  return new TurnsError("UNSUPPORTED", {
    problem: `turns ${name} works on SQLite files, and this is a PostgreSQL database.`,
    remedy,
  });
}

const MIGRATE = ownCommand<ChangeOptions & { printSql?: boolean }>({
  name: "migrate",
  summary: "create the tables, or bring them up to date",
  examples: [
    "turns migrate --db postgresql://localhost/app",
    "turns migrate --db postgresql://localhost/app --yes",
    "turns migrate --db postgresql://localhost/app --print-sql | psql -v ON_ERROR_STOP=1 -1 postgresql://admin@localhost/app",
  ],
  options: [...CHANGE, ["--print-sql", "only print the statements, for a role that may create tables"]],
  runAlone: async (_, { printSql = false, ...options }) => {
    const place = await located(options);
    const own = placeOf(options);
    if (printSql) {
      process.stdout.write(`${await sqlFor(place, own)}\n`);
      return { data: {}, text: () => "", isWritten: true };
    }
    const { found, newest, database } = await versionAt(place, own);
    const isFile = !isUrl(place);
    const others = found === 0 && isFile ? foreignTables(database) : undefined;
    const plan = { database, found, newest, steps: newest - found, otherTables: others ?? [] };
    const copy = isFile && found > 0 && found < newest ? [`Copy the file first: ${toCopy("turns backup OUT")}`] : [];
    if (found === newest) {
      return {
        data: { done: false, plan, report: null, refused: null },
        text: () => `${oneLine(database)} has version ${found}, the newest. Nothing to do.`,
      };
    }
    const planText = (): string =>
      [
        ...(others === undefined ? [] : [`${oneLine(database)} belongs to another program${tablesText(others)}.`]),
        `${oneLine(database)} ${found === 0 ? "has no tables of this package" : `has version ${found} of the tables`}. Version ${newest} would be made.`,
        ...copy,
      ].join("\n");
    return planned(options, {
      plan,
      planText,
      act: async () => {
        await closed(await openAt(place, own, {}));
        const report = { database, version: newest };
        return { report, text: () => `${oneLine(database)} has version ${newest} of the tables now.` };
      },
    });
  },
});

async function sqlFor(place: string, { schema }: PlaceOptions): Promise<string> {
  return isUrl(place) ? (await import("../../postgres")).migrationSql(schema ?? "turns") : (await newFile()).sql;
}

/** What a new file gets. */
async function newFile(): Promise<{ newest: number; sql: string }> {
  const saver = await openAt(":memory:", {}, {});
  const migrations = await internalsOf(saver).store.inspect.migrations();
  await closed(saver);
  return migrations;
}

/** The version of a database's tables; 0 if there are none. Nothing is created. */
async function versionAt(place: string, options: PlaceOptions): Promise<{ found: number; newest: number; database: string }> {
  if (!isUrl(place) && !existsSync(fileOf(place))) return { found: 0, newest: (await newFile()).newest, database: fileOf(place) };
  try {
    const saver = await openAt(place, options, { readOnly: true });
    const { store } = internalsOf(saver);
    const settings = await store.inspect.settings();
    const { newest } = await store.inspect.migrations();
    await closed(saver);
    return { found: Number(settings["schema version"]), newest, database: store.name };
  } catch (error) {
    // Tables of the newest version that lack something: only a person can repair them.
    if (!TurnsError.is(error, "SCHEMA_OUTDATED") || typeof error.data["found"] !== "number") throw error;
    const { found, newest, file, database } = error.data;
    return { found, newest: Number(newest), database: String(file ?? database) };
  }
}

const KEYS_ROTATE = ownCommand<ChangeOptions & { newKeyFile?: string }>({
  name: "keys rotate",
  summary: "seal everything again under another key",
  examples: [
    "TURNS_NEW_KEY_ID=2026-07 turns keys rotate          with TURNS_KEY and TURNS_NEW_KEY in the environment",
    "turns keys rotate --key-file keys.json --yes        the file has { keys, current }, with the new key as current",
    "turns keys rotate --key-file old.json --new-key-file new.key --yes",
  ],
  options: [
    ...CHANGE,
    ["--new-key-file <file>", "the new key; - reads stdin (default: TURNS_NEW_KEY, with its id in TURNS_NEW_KEY_ID)"],
  ],
  runAlone: async (_, { newKeyFile, ...options }) => {
    const isWriting = options.yes === true && options.dryRun !== true;
    const place = await located(options);
    const { schema, encryption: old } = placeOf(options);
    const encryption = rotatedTo(old, keysOf(newKeyFile, "TURNS_NEW_KEY", "--new-key-file"));
    const saver = await openThere(place, { schema, encryption }, { readOnly: !isWriting });
    try {
      const { store } = internalsOf(saver);
      const inUse = await store.inspect.keyIds();
      const plan = { database: store.name, inUse, current: encryption.current };
      const others = inUse.filter((id) => id !== encryption.current);
      return await planned(options, {
        plan,
        planText: () =>
          [
            `Everything in ${oneLine(store.name)} would be sealed under key ${oneLine(encryption.current)}.`,
            others.length === 0 ? "No other key is in use." : `No longer needed then: ${others.map(oneLine).join(", ")}.`,
            "Give the new key to every process first: docs/encryption.md has the steps.",
          ].join("\n"),
        act: async () => {
          const { rotateKeys } = await import("../../maintenance");
          const report = await interruptible((signal) =>
            withProgress((progress) =>
              rotateKeys(saver, { signal, onProgress: ({ resealed }) => progress(`${count(resealed)} rows sealed again`) }),
            ),
          );
          const rows = Object.values<number>({ ...report.resealed }).reduce((sum, one) => sum + one, 0);
          const verdict = report.done
            ? `Key ${oneLine(report.keyId)} opens everything. ${plural(report.retired, "other key")} no longer needed. Where the key is given alone, TURNS_KEY_ID has to be its id. To go back, rotate to the old key.`
            : "It was interrupted, and needs all its keys. The same command continues.";
          return {
            report: { ...report, resealed: { ...report.resealed } },
            exit: report.done ? DONE : INTERRUPTED,
            text: () => `${plural(rows, "row")} sealed again. ${verdict}`,
          };
        },
      });
    } finally {
      await closed(saver);
    }
  },
});

type Keys = Extract<EncryptionOption, { keys: unknown }>;

/** All keys, with the new one as current. @throws {UsageError} */
function rotatedTo(old: EncryptionOption | undefined, given: EncryptionOption | undefined): Keys {
  if (old === undefined)
    throw new UsageError("The key that the database has now is missing.", "Set TURNS_KEY, or give --key-file FILE.");
  if (given === undefined) {
    if ("keys" in old && Object.keys(old.keys).length > 1) return old;
    throw new UsageError(
      "The new key is missing.",
      'Set TURNS_NEW_KEY and TURNS_NEW_KEY_ID, give --new-key-file FILE, or give both keys with --key-file: { "keys": { … }, "current": "new id" }.',
    );
  }
  const [before, after] = [asKeys(old, "default"), asKeys(given, process.env["TURNS_NEW_KEY_ID"])];
  if (Object.hasOwn(before.keys, after.current) && before.keys[after.current] !== after.keys[after.current])
    throw new UsageError(`The new key has the id ${after.current} of the old one.`, "Give it another id: TURNS_NEW_KEY_ID.");
  return { keys: { ...before.keys, ...after.keys }, current: after.current };
}

/** @throws {UsageError} for a key without an id */
function asKeys(option: EncryptionOption, keyId: string | undefined): Keys {
  if ("keys" in option) return option;
  if (!("key" in option)) throw new UsageError("Key providers are functions.", "Give keys.");
  const id = option.keyId ?? keyId;
  if (id === undefined || id === "")
    throw new UsageError("The new key has no id.", "Set TURNS_NEW_KEY_ID, for instance to 2026-07.");
  return { keys: { [id]: option.key }, current: id };
}

export const REUSE = command<ChangeOptions>({
  name: "reuse",
  args: "<thread>",
  summary: "allow the id of a thread again that was deleted, or moved away",
  examples: ["turns reuse order-17", "turns reuse order-17 --yes", "turns reuse order-17 --dry-run --json"],
  options: CHANGE,
  run: async (saver, [threadId = ""], options) => {
    const { store } = internalsOf(saver);
    const { thread, deletion, isFinal } = await store.destination(threadId);
    const movedAway = thread?.gone === true;
    const moving = thread?.gone === false ? await movingOf(saver, threadId) : null;
    const moved = movedAway ? await movedOf(saver, threadId) : moving;
    const leaving = moving !== null;
    const movedTo = moved && { to: moved.to, since: moved.since };
    const plan = { threadId, found: deletion > 0 || movedAway || leaving, movedAway, leaving, final: isFinal, movedTo };
    const check = moved === null ? "" : statusThere(moved.to, threadId, PROGRAM);
    const what = !plan.found
      ? `The id ${oneLine(threadId)} isn't refused: no thread of it was deleted or moved away.`
      : leaving
        ? `The move of thread ${oneLine(threadId)} to ${oneLine(moving.to)}, which began at ${moving.since}, would be given up: saves are accepted here again. Make sure first that the target doesn't have it: ${check}`
        : movedAway
          ? `The note that thread ${oneLine(threadId)} was moved to ${oneLine(moved?.to ?? "another database")}${moved === null ? "" : ` at ${moved.since}`} would be removed. A run with this id would begin a new thread here.${check === "" ? "" : ` The thread is there: ${check}`}`
          : `The note that thread ${oneLine(threadId)} was deleted would be removed. Even late saves of its old runs would begin a new thread.`;
    const after =
      moved === null
        ? ""
        : leaving
          ? ` Its move to ${oneLine(moved.to)} is given up. If that has it too, delete one of them. Look: ${check}`
          : ` The moved thread is still in ${oneLine(moved.to)}: ${check}`;
    return planned(options, {
      plan,
      isIdle: !plan.found,
      planText: () => what,
      act: async () => {
        const reused = await saver.retention.reuseThread(threadId);
        return {
          report: { threadId, reused },
          text: () => (reused ? `Thread ${oneLine(threadId)} can be used again.${after}` : `Nothing was changed. ${what}`),
        };
      },
    });
  },
});

/** Where a thread has gone that isn't here any more. */
async function movedOf(saver: BaseTurnSaver, threadId: string): Promise<{ to: string; since: string } | null> {
  try {
    await internalsOf(saver).store.departure(threadId);
    return null;
  } catch (error) {
    if (!TurnsError.is(error, "THREAD_MOVED")) throw error;
    return { to: String(error.data["to"]), since: String(error.data["at"]) };
  }
}

/** Those that open their databases themselves. */
export const REPAIRING: readonly OwnCommandSpec[] = [MIGRATE, KEYS_ROTATE];
