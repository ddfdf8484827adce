import { IMMUTABLE, MEMORY, OFFICIAL, OURS, OURS_FULL } from "../drive/contenders";
import { quantile } from "../measure/samples";
import { SYNCS } from "../scenarios/disk-syncs";
import { IMPORT, LANGGRAPH } from "../scenarios/import-cost";
import { ALONE_EARLY, ALONE_LATE } from "../scenarios/long-thread";
import { OPEN_AND_READ } from "../scenarios/open-and-read";
import { getAt, listAt, POSTGRES, STEP_AT_ONCE, STEP_FAR, stepAt } from "../scenarios/postgres";
import { FIRST_SCREEN, LONG_SCREEN } from "../scenarios/first-screen";
import type { Result } from "../scenarios/scenario";
import { PAGES, STATEMENTS } from "../scenarios/statements";
import { SHARE } from "../scenarios/superstep-share";
import { THOUSAND } from "../scenarios/threads";
import { FILES_OF_PUT, LINES } from "../scenarios/weight";
import { bytesText, countText, digits, ratioText } from "./format";
import { table } from "./table";

/** Something this package promises. `holds` is undefined where this run has not measured it. */
export interface Promised {
  what: string;
  found: string;
  holds: boolean | undefined;
}

export function promisesOf(results: readonly Result[]): Promised[] {
  const of = (name: string): Result | undefined => results.find((result) => result.name === name);
  return [
    ...light(of),
    ...short(of),
    ...thousand(of(THOUSAND)),
    ...flat(of("thread-10000")),
    ...floors(of("finished-tasks")),
    ...onPostgres(of(POSTGRES)),
  ];
}

export function promisesText(promised: readonly Promised[]): string {
  const verdict = (holds: boolean | undefined): string => (holds === undefined ? "not measured" : holds ? "ok" : "MISSED");
  const rows = promised.map(({ what, found, holds }) => [verdict(holds), what, found]);
  return `## What must hold\n\n${table([["", "promise", "measured"], ...rows])}\n`;
}

const atLeast = (what: string, wanted: number, ratio: number | undefined): Promised => ({
  what: `${what} ≥ ${wanted}×`,
  found: ratioText(ratio),
  holds: ratio === undefined ? undefined : ratio >= wanted,
});

const atMost = (what: string, wanted: number, ratio: number | undefined): Promised => ({
  what: `${what} ≤ ${wanted}×`,
  found: ratioText(ratio),
  holds: ratio === undefined ? undefined : ratio <= wanted,
});

const below = (what: string, limit: number, value: number | undefined, text: (value: number) => string): Promised => ({
  what: `${what} < ${text(limit)}`,
  found: value === undefined ? "–" : text(value),
  holds: value === undefined ? undefined : value < limit,
});

const noMoreThan = (what: string, limit: number, count: number | undefined): Promised => ({
  what: `${what} ≤ ${countText(limit)}`,
  found: count === undefined ? "–" : countText(count),
  holds: count === undefined ? undefined : count <= limit,
});

type Find = (name: string) => Result | undefined;

/** What a save costs on any machine: syncs, statements, pages, code. */
function light(of: Find): Promised[] {
  const count = (name: string, measured: string, id = OURS) => of(name)?.samples.median(measured, id);
  return [
    noMoreThan("disk syncs per superstep, attached, fully durable", 1.25, count("disk-syncs", SYNCS, OURS_FULL)),
    noMoreThan("SQL statements per step of a thread of ten messages", 15, count("statements", STATEMENTS)),
    noMoreThan("pages written per step of a thread of ten messages", 15, count("statements", PAGES)),
    noMoreThan("source files that a put runs through", 30, count("weight", FILES_OF_PUT)),
    atMost("importing the root: ours ÷ importing LangGraph", 0.1, of("import-cost")?.samples.ratio(IMPORT, OURS, LANGGRAPH)),
    noMoreThan("lines in src", 27_500, count("weight", LINES)),
    below(
      "`turns web`, first screen of a thread of 1,000 turns",
      300,
      count("first-screen", FIRST_SCREEN, LONG_SCREEN),
      (ms) => `${digits(ms)} ms`,
    ),
  ];
}

/** Threads and states on which the official saver has little to write. */
function short(of: Find): Promised[] {
  const faster = (name: string, measured: string) => of(name)?.samples.ratio(measured, OFFICIAL, OURS);
  return [
    atLeast("share of a superstep, 12 messages: official ÷ ours (the aim is 1×)", 0.6, faster("superstep-share", SHARE)),
    atLeast("open a file and read ten messages: official ÷ ours", 0.8, faster("open-and-read", OPEN_AND_READ)),
    atLeast("100 messages, whole step: official ÷ ours", 3, faster("thread-100", "whole step")),
    atLeast("a state of 200 channels, whole step: official ÷ ours", 1.5, faster("wide-state", "whole step")),
    atLeast("1,000 finished tasks, whole step: official ÷ ours", 3, faster("finished-tasks", "save (whole step)")),
  ];
}

/** A thread of 1,000 messages beside the official savers. */
function thousand(result: Result | undefined): Promised[] {
  const faster = (measured: string, than: string) => result?.samples.ratio(measured, than, OURS);
  const STEP = "whole step";
  const TUPLE = "getTuple (warm)";
  const LIST = "list, limit 20";
  const FILE = "file after close";
  const file = result?.samples.median(FILE, OURS);
  const unique = result?.facts["unique bytes"];
  return [
    atLeast("1,000 messages, put + putWrites with turns: official ÷ ours", 12, faster(STEP, OFFICIAL)),
    atLeast("1,000 messages, getTuple: official ÷ ours (the aim is 15×)", 12, faster(TUPLE, OFFICIAL)),
    atLeast("1,000 messages, list of 20: official ÷ ours", 12, faster(LIST, OFFICIAL)),
    atLeast("1,000 messages, resume: official ÷ ours (the aim is 10×)", 5, faster("resume: open + getTuple + Thought", OFFICIAL)),
    atLeast("1,000 messages, file: official ÷ ours", 171, faster(FILE, OFFICIAL)),
    atMost(
      "1,000 messages, file: ours ÷ unique bytes",
      3,
      file === undefined || unique === undefined ? undefined : file / unique,
    ),
    atLeast("1,000 messages, put + putWrites with turns: memory ÷ ours", 1, faster(STEP, MEMORY)),
    atLeast("1,000 messages, getTuple: memory ÷ ours", 1, faster(TUPLE, MEMORY)),
    atLeast("1,000 messages, list of 20: memory ÷ ours", 1, faster(LIST, MEMORY)),
  ];
}

/** What may grow with the thread, and what may not. */
function flat(result: Result | undefined): Promised[] {
  const steeper = (id: string): number | undefined => {
    const late = result?.samples.median(ALONE_LATE, id);
    const early = result?.samples.median(ALONE_EARLY, id);
    return late === undefined || early === undefined ? undefined : late / early;
  };
  const growth = (when: string): number | undefined => result?.facts[`growth, ${when}`];
  const stopped = growth("500–1,000");
  const [early, late] = stopped === undefined ? [growth("around 1,000"), growth("9,000–10,000")] : [growth("first 500"), stopped];
  const grown = early === undefined || late === undefined ? undefined : late / early;
  const compared = stopped === undefined ? "9,000–10,000 ÷ around 1,000" : "500–1,000 ÷ first 500 (building was stopped there)";
  return [
    atMost("a step at message 10,000 ÷ one at 100", 15, steeper(OURS)),
    atMost("the same, immutable", 2, steeper(IMMUTABLE)),
    // Pages fill unevenly and indexes become deeper: what must not be there is a growth with the number of messages, 10×.
    atMost(`file growth per step, ${compared}`, 1.5, grown),
  ];
}

/** The floors of requirement S2.2. */
function floors(result: Result | undefined): Promised[] {
  const samples = (measured: string): readonly number[] => result?.samples.of(measured, OURS) ?? [];
  const p95 = (measured: string): number | undefined => {
    const values = samples(measured);
    return values.length === 0 ? undefined : quantile(values, 0.95);
  };
  const ms = (value: number): string => `${digits(value)} ms`;
  return [
    below("1,000 finished tasks, save, p95", 50, p95("save (whole step)"), ms),
    below("1,000 finished tasks, resume, p95", 100, p95("resume: open + getTuple + Thought"), ms),
    below("1,000 finished tasks, serialising the state, p95", 10, p95("serialising the whole state"), ms),
    below(
      "1,000 finished tasks, a checkpoint in the file",
      100_000,
      result?.samples.median("file growth per step", OURS),
      bytesText,
    ),
    below("1,000 finished tasks, prune, p95", 50, p95("prune to 5"), ms),
  ];
}

/** Beside the official saver on the same server. */
function onPostgres(result: Result | undefined): Promised[] {
  const faster = (measured: string): number | undefined => result?.samples.ratio(measured, OFFICIAL, OURS);
  return [
    atLeast("PostgreSQL, 10 messages, whole step: official ÷ ours", 2.5, faster(stepAt(10))),
    atLeast("PostgreSQL, 100 messages, whole step: official ÷ ours", 5, faster(stepAt(100))),
    atLeast("PostgreSQL, 1,000 messages, whole step: official ÷ ours", 10, faster(stepAt(1_000))),
    atLeast("PostgreSQL, 10 messages, 2 ms to the server, whole step: official ÷ ours", 5, faster(STEP_FAR)),
    atLeast("PostgreSQL, 32 threads at once: official ÷ ours", 3, faster(STEP_AT_ONCE)),
    atLeast("PostgreSQL, 1,000 messages, getTuple: official ÷ ours", 8, faster(getAt(1_000))),
    atLeast("PostgreSQL, 1,000 messages, list of 20: official ÷ ours", 8, faster(listAt(1_000))),
  ];
}
